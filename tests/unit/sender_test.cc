// SPDX-License-Identifier: Apache-2.0
// Memory that lacks in the midst of a frame: nothing follows on what has left of it. And what
// follows a put that is canceled when some of it has left.
#include "transport/stream/sender.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <vector>

#include "recording_sink.h"

using namespace xfer;
using namespace xfer::stream;

namespace {

int allocations_left = -1;  // then one fails; negative: none does

}  // namespace

[[gnu::noinline]] void *operator new(size_t size) {
    if (allocations_left < 0 || allocations_left-- > 0)
        if (void *memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}

namespace {

// Takes as many bytes as there is room for.
struct Narrow final : ByteStream {
    size_t room = 0;
    std::vector<uint8_t> taken;

    Scope scope() const override { return Scope::host; }
    bool direct() const override { return true; }
    ssize_t write(std::span<const iovec> from) override {
        if (room == 0) {
            errno = EAGAIN;
            return -1;
        }
        const size_t before = taken.size();
        for (const iovec &vector : from) {
            const auto *at = static_cast<const uint8_t *>(vector.iov_base);
            const size_t some = std::min(room, vector.iov_len);
            taken.insert(taken.end(), at, at + some);
            room -= some;
        }
        return static_cast<ssize_t>(taken.size() - before);
    }
    ssize_t read(std::span<const iovec>) override {
        errno = EAGAIN;
        return -1;
    }
    void want(uint32_t) override {}
    void end() override {}
    Fd release() override { return Fd(); }
};

}  // namespace

TEST_CASE("what lacks memory in the midst of a frame is followed by nothing") {
    constexpr size_t kBody = 100, kPart = Frame::kSize + 80;
    const std::vector<uint8_t> body(kBody, 7);
    Frame frame;
    frame.type = FrameType::message;
    frame.length = kBody;
    uint8_t head[Frame::kSize];
    encode(frame, head);
    for (const bool direct : {true, false}) {
        for (int allowed = 0; allowed < 3; ++allowed) {
            CAPTURE(direct);
            CAPTURE(allowed);
            Buffers buffers;
            StreamState state(buffers);
            state.stage = Stage::frames;
            Sender sender(state);
            Narrow carrier;
            carrier.taken.reserve(4096);
            carrier.room = direct ? kPart : 0;
            // An answer waits, which leaves when the channel ends.
            state.responses.start(8);
            REQUIRE(state.responses.admit(1));
            state.responses.acknowledge(1, 10, false);

            allocations_left = allowed;
            if (direct)
                CHECK(sender.control_now(carrier, head, body));
            else
                CHECK(sender.control(head, body));
            const bool lacked = allocations_left < 0;
            allocations_left = -1;

            CHECK(sender.failed() == lacked);
            carrier.room = 4096;
            state.stage = Stage::closing;
            state.responses.hurry();
            sender.send(carrier);
            // All of it, and the answer behind it; or no more than had left.
            const size_t whole = Frame::kSize + kBody + Frame::kSize;
            CHECK(carrier.taken.size() == (!lacked ? whole : direct ? kPart : 0));
        }
    }
}

TEST_CASE("an error of a write of control frames alone is kept") {
    Buffers buffers;
    StreamState state(buffers);
    state.stage = Stage::frames;
    Sender sender(state);
    struct Broken final : ByteStream {
        int writes = 0;
        Scope scope() const override { return Scope::network; }
        ssize_t write(std::span<const iovec>) override {
            errno = writes++ == 0 ? ECONNRESET : EPIPE;
            return -1;
        }
        ssize_t read(std::span<const iovec>) override { return 0; }
        void want(uint32_t) override {}
        void end() override {}
        Fd release() override { return Fd(); }
    } carrier;
    sender.append(std::vector<uint8_t>(Frame::kSize));
    CHECK(sender.send(carrier) == Sender::Sent::failed);
    CHECK(sender.error() == ECONNRESET);
    CHECK(carrier.writes == 1);
}

namespace {

// A channel's way out, of which so many bytes of an operation have left.
struct Half {
    Buffers buffers;
    StreamState state{buffers};
    Sender sender{state};
    Narrow carrier;

    Half(Op &op, size_t some) {
        state.stage = Stage::frames;
        state.send_queue.start(8);
        state.send_queue.post(op);
        carrier.room = some;
        sender.send(carrier);
    }
    void send_rest() {
        carrier.room = 4096;
        sender.send(carrier);
    }
};

}  // namespace

// The owner counts what it applies, and the zeros that stand in for canceled bytes are applied,
// too.
TEST_CASE("a notify behind a put counts until all of both has left") {
    const std::vector<uint8_t> bytes(100, 7), words(5, 'w');
    constexpr size_t kHead = Frame::kSize + access_length(1, kNotified);
    const size_t whole = kHead + 100 + Frame::kSize + 5 + kCountBytes;
    for (size_t some = 0; some <= whole; ++some) {
        CAPTURE(some);
        test::TestOp put(Dir::put, 1, {{test::address(bytes.data()), 0, 100}});
        put.remote.notification = 3, put.remote.notification_key = 4;
        put.notifies = true, put.notify_data = words;
        Half half(put, some);
        CHECK(put.left == (some == whole));
        REQUIRE_FALSE(half.state.send_queue.withdraw(put));
        half.sender.blank(put);
        CHECK(put.notifies == (some == whole));
        half.send_rest();
        REQUIRE(half.carrier.taken.size() == whole);
        CHECK(put.left);
        const auto notify = decode_frame(half.carrier.taken.data() + kHead + 100);
        REQUIRE(notify);
        CHECK(notify->type == FrameType::notify);
        CHECK(notify->flags == kCounted);
        CHECK(notify->seq == 3);
        CHECK(notify->region == 4);
        const uint64_t awaited = load<uint64_t>(half.carrier.taken.data() + whole - kCountBytes);
        if (some == whole)
            CHECK(awaited == 100);
        else
            CHECK(awaited > 1'000'000);
        test::RecordingSink nobody;
        half.state.send_queue.fail_all(XFER_EPEERLOST, nobody);
    }
}

// The owner answers a put before it has all of what follows.
TEST_CASE("a put is answered when it has left, though its notify has not") {
    const std::vector<uint8_t> bytes(100, 7);
    constexpr size_t kPut = Frame::kSize + access_length(1, kNotified) + 100;
    constexpr size_t kWhole = kPut + Frame::kSize + kCountBytes;
    for (size_t some = 0; some <= kWhole; ++some) {
        CAPTURE(some);
        test::RecordingSink sink;
        auto put = std::make_unique<test::TestOp>(
            Dir::put, 1, std::vector<Piece>{{test::address(bytes.data()), 0, 100}});
        put->remote.notification = 3;
        put->notifies = true;
        Half half(*put, some);
        REQUIRE(half.state.send_queue.acknowledged(1, sink) == (some >= kPut));
        if (some < kPut) half.state.send_queue.fail_all(XFER_EPEERLOST, sink);
        if (some < kPut) continue;
        REQUIRE(sink.done.size() == 1);
        put.reset();
        half.send_rest();
        CHECK(half.carrier.taken.size() == kWhole);
        CHECK(load<uint64_t>(half.carrier.taken.data() + kWhole - kCountBytes) == 100);
    }
}
