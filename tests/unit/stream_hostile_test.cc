// SPDX-License-Identifier: Apache-2.0
// Channels over TCP against peers that break the protocol.
#include "stream_fixture.h"

using namespace xfer;
using namespace xfer::test;

TEST_CASE("an end of the stream at every byte of a conversation is an end, and nothing more") {
    std::vector<uint8_t> talk = put_of(1, pattern(200, 1));
    std::vector<uint8_t> get = request(FrameType::get, 2, {{0, 100}});
    talk.insert(talk.end(), get.begin(), get.end());
    const std::vector<uint8_t> atomic = atomic_of(3, 8, 1);
    talk.insert(talk.end(), atomic.begin(), atomic.end());
    for (size_t cut = 0; cut <= talk.size(); cut += cut < 100 ? 1 : 7) {
        CAPTURE(cut);
        Raw raw;
        if (cut > 0) raw.say({talk.begin(), talk.begin() + static_cast<ptrdiff_t>(cut)});
        shutdown(raw.fd.get(), SHUT_WR);
        REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
        CHECK(raw.there.down->status == XFER_EPEERLOST);
    }
}

TEST_CASE("a conversation that arrives byte by byte is understood") {
    Raw raw;
    std::vector<uint8_t> talk =
        request(FrameType::put, 1, {{0, 100}, {200, 0}, {300, 100}}, pattern(200, 1));
    for (uint8_t byte : talk) {
        raw.say({byte});
        raw.loop->turn(kNsPerMs);
    }
    CHECK(raw.hear_frame().type == FrameType::ack);
    CHECK(raw.memory[399] == pattern(200, 1)[199]);
}

TEST_CASE("what no peer may say ends the channel") {
    std::vector<uint8_t> hundred = pattern(100, 1);
    SUBCASE("lengths that differ from the payload") {
        Raw raw;
        raw.say(request(FrameType::put, 1, {{0, 99}}, hundred));
        raw.expect_broken(XFER_EPROTO);
        CHECK(raw.there.accesses == 0);
    }
    SUBCASE("lengths that wrap") {
        Raw raw;
        raw.say(request(FrameType::put, 1, {{0, 0x80000000u}, {0, 0x80000064u}}, hundred));
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("a get of more than a chunk") {
        Raw raw;
        raw.say(request(FrameType::get, 1, {{0, kMaxChunk}, {0, 1}}));
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("an unknown atomic") {
        Raw raw;
        raw.say(atomic_of(1, 0, 1, 3));
        raw.expect_broken(XFER_EPROTO);
        CHECK(load<uint64_t>(raw.memory.data()) == 0);
    }
    SUBCASE("an atomic with a number left out") {
        Raw raw;
        raw.say(atomic_of(2, 0, 1));
        raw.expect_broken(XFER_EPROTO);
        CHECK(load<uint64_t>(raw.memory.data()) == 0);
    }
    SUBCASE("an atomic of another length") {
        Raw raw;
        std::vector<uint8_t> atomic = atomic_of(1, 0, 1);
        store<uint32_t>(atomic.data() + 4, kAtomicBody + 8);
        raw.say(atomic);
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("a number left out") {
        Raw raw;
        raw.say(put_of(2, hundred));
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("a put of 5 GiB") {
        Raw raw;
        std::vector<uint8_t> put = put_of(1, hundred);
        store<uint32_t>(put.data() + 4, 0x40000000);
        raw.say(put);
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("an acknowledgement of nothing") {
        Raw raw;
        raw.say(answer(FrameType::ack, 1));
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("an error of nothing") {
        Raw raw;
        raw.say(answer(FrameType::error, 1, XFER_EACCESS));
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("data of nothing") {
        Raw raw;
        raw.say(answer(FrameType::data, 1, XFER_OK, hundred));
        raw.expect_broken(XFER_EPROTO);
    }
    SUBCASE("garbage") {
        Raw raw;
        raw.say(std::vector<uint8_t>(3000, 0xee));
        raw.expect_broken(XFER_EPROTO);
    }
}

TEST_CASE("an answer of the wrong kind or length, or too early, ends the channel") {
    std::vector<uint8_t> into(100, 9);
    auto broken_by = [&](Dir dir, const std::vector<uint8_t> &bytes) {
        Raw raw;
        TestOp op(dir, kRegion, {{address(into.data()), 0, 100}});
        REQUIRE(raw.accepted().path().post(op));
        raw.accepted().path().flush();
        raw.hear(Frame::kSize + access_length(1) + (dir == Dir::put ? 100 : 0));
        raw.say(bytes);
        raw.expect_broken(XFER_EPROTO);
        REQUIRE(raw.there.done.size() == 1);
        CHECK(raw.there.done[0].status == XFER_EPEERLOST);
    };
    broken_by(Dir::get, answer(FrameType::ack, 1));
    broken_by(Dir::get, answer(FrameType::data, 1, XFER_OK, pattern(99, 1)));
    broken_by(Dir::get, answer(FrameType::data, 2, XFER_OK, pattern(100, 1)));
    broken_by(Dir::put, answer(FrameType::data, 1, XFER_OK, pattern(100, 1)));
    broken_by(Dir::put, answer(FrameType::ack, 2));
    broken_by(Dir::put, answer(FrameType::error, 2, XFER_EACCESS));
    CHECK(into == std::vector<uint8_t>(100, 9));

    const auto atomic_broken_by = [&](const std::vector<uint8_t> &bytes) {
        Raw raw;
        TestAtomic op(AtomicOp::add, 0, 1);
        REQUIRE(raw.accepted().path().post(op));
        raw.accepted().path().flush();
        CHECK(raw.hear(Frame::kSize + kAtomicBody) == atomic_of(1, 0, 1));
        raw.say(bytes);
        raw.expect_broken(XFER_EPROTO);
        REQUIRE(raw.there.done.size() == 1);
        CHECK(raw.there.done[0].status == XFER_EPEERLOST);
    };
    atomic_broken_by(answer(FrameType::ack, 1));
    atomic_broken_by(answer(FrameType::data, 1));
    atomic_broken_by(answer(FrameType::data, 1, XFER_OK, pattern(7, 1)));
    atomic_broken_by(answer(FrameType::data, 2, XFER_OK, pattern(8, 1)));
    std::vector<uint8_t> summed = answer(FrameType::data, 1, XFER_OK, pattern(16, 1));
    summed[1] = kChecked;
    atomic_broken_by(summed);

    // Of a put that has not left whole: its memory is still being read.
    Raw raw(true, 4096);
    std::vector<uint8_t> much(kMaxChunk);
    std::deque<TestOp> ops;
    for (int i = 0; i < 64; ++i) {
        ops.emplace_back(Dir::put, kRegion,
                         std::vector<Piece>{{address(much.data()), 0, kMaxChunk}});
        REQUIRE(raw.accepted().path().post(ops.back()));
    }
    raw.accepted().path().flush();
    turn_some(*raw.loop);
    CHECK(!ops.back().sent);
    raw.say(answer(FrameType::ack, 64));
    REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
    CHECK(raw.there.down->status == XFER_EPROTO);
    CHECK(raw.there.done.size() == 64);
    for (const auto &done : raw.there.done)
        CHECK(done.status == XFER_EPEERLOST);
}

TEST_CASE("a flood of requests past what may be unanswered ends the channel") {
    Raw raw(true, 4096);
    std::vector<uint8_t> all;
    for (uint64_t seq = 1; seq <= 100; ++seq) {
        std::vector<uint8_t> get = request(FrameType::get, seq, {{0, kMaxChunk}});
        all.insert(all.end(), get.begin(), get.end());
    }
    raw.say(all);
    REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
    CHECK(raw.there.down->status == XFER_EPROTO);
    CHECK(raw.there.served < 100);
}

TEST_CASE("a peer that reads is told all that one turn has to say; one that does not is given up") {
    Raw raw;
    Frame frame;
    frame.type = FrameType::found;
    frame.length = 1000;
    const std::vector<uint8_t> body(frame.length, 7);
    raw.there.control_hook = [&] {  // while reading, 400 KB in all
        for (int i = 0; i < 100; ++i)
            CHECK(raw.accepted().send(frame, body));
    };
    for (int i = 0; i < 4; ++i)
        raw.say(answer(FrameType::ping, 1));
    CHECK(raw.hear(400 * (Frame::kSize + frame.length)).size() == 400 * 1032);

    // What sockets hold was never ours to bound.
    constexpr uint64_t kSockets = 16u << 20;
    uint64_t taken = 0;
    while (taken < 100'000 && raw.accepted().send(frame, body))
        ++taken;
    const uint64_t bytes = taken * (Frame::kSize + frame.length);
    CHECK(bytes > kMaxControlWaiting - (Frame::kSize + frame.length));
    CHECK(bytes <= kMaxControlWaiting + kSockets);
}

TEST_CASE("who asks faster than it reads is heard when it has read, and answered everything") {
    constexpr uint64_t kAsked = 20'000;  // more than sockets and queue hold
    Raw raw(true, 4096);
    Frame frame;
    frame.type = FrameType::found;
    frame.length = 1000;
    const std::vector<uint8_t> body(frame.length, 7);
    raw.there.control_hook = [&] {
        frame.seq = raw.there.controls.back().frame.seq;
        CHECK(raw.accepted().send(frame, body));
    };
    std::vector<uint8_t> asked, heard;
    for (uint64_t seq = 1; seq <= kAsked; ++seq) {
        const std::vector<uint8_t> one = answer(FrameType::ping, seq);
        asked.insert(asked.end(), one.begin(), one.end());
    }
    size_t said = 0;
    const auto say = [&] {
        const ssize_t more = ::send(raw.fd.get(), asked.data() + said, asked.size() - said,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
        if (more > 0) said += static_cast<size_t>(more);
    };
    for (int i = 0; i < 100; ++i) {  // and nothing is read
        say();
        turn_some(*raw.loop);
    }
    CHECK(raw.there.controls.size() < kAsked / 10);
    const size_t size = Frame::kSize + frame.length;
    for (uint64_t seq = 1; seq <= kAsked; ++seq) {
        say();
        const std::vector<uint8_t> found = raw.hear(size);
        REQUIRE(decode_frame(found.data())->seq == seq);
    }
    CHECK(!raw.there.down);
}

TEST_CASE("who asks and never reads is given up, whenever it last read") {
    Raw raw(true, 4096);
    raw.there.control_hook = [&] { CHECK(raw.accepted().send(ping(1), {})); };
    std::vector<uint8_t> pings;
    for (int i = 0; i < 100'000; ++i) {
        const std::vector<uint8_t> one = answer(FrameType::ping, 1);
        pings.insert(pings.end(), one.begin(), one.end());
    }
    size_t said = 0;
    const auto given_up = [&] {
        const ssize_t more = ::send(raw.fd.get(), pings.data() + said, pings.size() - said,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
        if (more > 0) said += static_cast<size_t>(more);
        return raw.there.down.has_value();
    };
    REQUIRE((raw.until(given_up) || raw.until(given_up)));  // 5 s at least
    CHECK(raw.there.down->status == XFER_EPEERLOST);
    CHECK(raw.there.controls.size() < 50'000);
}

TEST_CASE("strangers that speak something else are sent away") {
    auto ends_with = [](const std::vector<uint8_t> &bytes, Status status) {
        Raw raw(false);
        raw.say(bytes);
        REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
        CHECK(raw.there.down->status == status);
        CHECK(raw.there.hellos.empty());
    };
    // The first bytes of a TLS client hello, and of an HTTP request.
    ends_with({0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03, 0x4a, 0x5b, 0x10,
               0x22, 0x9c},
              XFER_EPROTO);
    std::string http = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    ends_with({http.begin(), http.end()}, XFER_EPROTO);
    Hello refusal;
    refusal.kind = HelloKind::refuse;
    std::vector<uint8_t> huge = encode_hello(refusal);
    store<uint32_t>(huge.data() + 8, 1 << 30);
    ends_with(huge, XFER_ETOOBIG);
    std::mt19937 random(1);
    for (int i = 0; i < 200; ++i) {
        std::vector<uint8_t> bytes(16 + random() % 200);
        for (uint8_t &byte : bytes)
            byte = static_cast<uint8_t>(random());
        ends_with(bytes, XFER_EPROTO);
    }
}

TEST_CASE("random bytes in place of frames never pass") {
    std::mt19937 random(2);
    for (int i = 0; i < 300; ++i) {
        Raw raw;
        std::vector<uint8_t> talk = put_of(1, pattern(300, 1));
        std::vector<uint8_t> get = request(FrameType::get, 2, {{0, 100}});
        talk.insert(talk.end(), get.begin(), get.end());
        for (unsigned n = 1 + random() % 4; n > 0; --n)
            talk[random() % talk.size()] = static_cast<uint8_t>(random());
        raw.say(talk);
        shutdown(raw.fd.get(), SHUT_WR);
        REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
    }
}

TEST_CASE("one that does not take what it is sent, and speaks on and on, is not heard for ever") {
    if (!over_unix()) return;  // where what was sent has come at once, so that there is always more
    Raw raw;
    std::vector<uint8_t> words;
    while (words.size() < 1 << 20) {
        const std::vector<uint8_t> word = answer(FrameType::forget, 1);
        words.insert(words.end(), word.begin(), word.end());
    }
    size_t at = 0;
    const auto speak = [&] {
        const ssize_t sent =
            ::send(raw.fd.get(), words.data() + at, words.size() - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) at = (at + static_cast<size_t>(sent)) % words.size();
    };
    uint64_t heard = 0;
    raw.there.control_hook = [&] {
        raw.there.controls.clear();
        if (heard++ % 100 == 0) speak();
    };
    speak();
    calls.send_error = EPIPE;
    CHECK(raw.accepted().send(ping(1), {}));
    CHECK(raw.until([&] { return raw.there.down.has_value(); }));
    CHECK(raw.there.down->status == XFER_EPEERLOST);
    CHECK(heard > 100'000);
}
