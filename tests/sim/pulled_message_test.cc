// SPDX-License-Identifier: Apache-2.0
// Long messages, whose receiver's adapter reads them where they lie: by what they are pulled, and
// that the sender's memory is its own again with the event of its send, however that ends.
#include "near_pair.h"

using namespace xfer;

namespace {

constexpr uint64_t kLong = 400'000, kShort = 60'000;
constexpr uint64_t kSend = 1, kReceive = 2;  // user words
constexpr uint8_t kUsedAgain = 0xee;

// `b` sends to `a`, whose path to it is open.
struct Parcel {
    explicit Parcel(NearPair &both, uint64_t bytes = kLong, uint64_t capacity = kLong)
        : pair(both), data(bytes), room(capacity, 0) {
        for (uint64_t i = 0; i < bytes; ++i)
            data[i] = static_cast<uint8_t>(1 + i % 199);
        right = data;
        registered = pair.b->process->registered.size();
        pair.a->on_done = [this](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_RECV) received();
        };
        pair.b->on_done = [this](const xfer_event_t &event) {
            if (event.kind == XFER_EVENT_SEND) sent();
        };
    }
    ~Parcel() { pair.a->on_done = pair.b->on_done = nullptr; }

    void send(uint32_t timeout_ms = 0) {
        if (pair.b->eps.empty()) {
            back = pair.b->open(kA);
            REQUIRE(pair.b->lookup(back, 1'000) == XFER_OK);
        }
        back = pair.b->eps[0];
        pair.b->expect(kSend);
        xfer_op_options_t options{};
        options.size = sizeof options;
        options.timeout_ms = timeout_ms;
        REQUIRE(xfer_send(back, data.data(), data.size(), 7, kSend, &options) == XFER_OK);
    }
    void receive() {
        pair.a->expect(kReceive);
        REQUIRE(xfer_recv(pair.a->engine, pair.ep, room.data(), room.size(), 7, UINT64_MAX,
                          kReceive, nullptr) == XFER_OK);
    }
    // The receiver has it; what is left is the end of its key.
    void arrive() {
        receive();
        send();
        REQUIRE(pair.world.world.run_until([this] { return pair.a->pending == 0; }, kSecond));
        pair.world.world.run_for(10 * kNsPerMs);
    }
    void cancel_send() { xfer_cancel(pair.b->engine, back, kSend, UINT64_MAX); }
    void cancel_receive() { xfer_cancel(pair.a->engine, nullptr, kReceive, UINT64_MAX); }
    bool both_end(uint64_t limit = kBeforeStall) {
        return pair.world.world.run_until(
            [this] { return pair.a->pending == 0 && pair.b->pending == 0; }, limit);
    }
    Status sent_with() { return pair.b->done.at(kSend).status; }
    Status received_with() { return pair.a->done.at(kReceive).status; }

    // Both have ended as they may, and nothing has used their memory since.
    void check() {
        pair.world.world.run_for(2 * kSecond);
        const Status at_a = received_with(), at_b = sent_with();
        CHECK((at_a == XFER_OK || at_a == XFER_ETRUNC) == (arrived == 1));
        if (at_b == XFER_OK)
            CHECK(arrived == 1);
        else if (pair.b->done.at(kSend).flags & XFER_FENCED)
            CHECK(arrived == 0);
        CHECK(std::all_of(room.begin(), room.end(), [](uint8_t x) { return x == kUsedAgain; }));
        CHECK(pair.world.net.met["copy, dead key"] == 0);
    }

    NearPair &pair;
    std::vector<uint8_t> data, room, right;
    xfer_ep_t *back = nullptr;
    size_t registered = 0, arrived = 0;

private:
    void received() {
        const Status status = received_with();
        if (status == XFER_OK || status == XFER_ETRUNC) {
            ++arrived;
            const uint64_t here = std::min(room.size(), right.size());
            CHECK(std::equal(room.begin(), room.begin() + static_cast<ptrdiff_t>(here),
                             right.begin()));
        }
        std::fill(room.begin(), room.end(), kUsedAgain);
    }
    void sent() {
        CHECK(pair.b->process->registered.size() <= registered);  // no key of it works
        std::fill(data.begin(), data.end(), kUsedAgain);
    }
};

// What `a` has moved by it.
uint64_t bytes_by_adapter(NearPair &pair) {
    std::string text(100'000, '\0');
    uint64_t needed = 0;
    REQUIRE(xfer_engine_describe(pair.a->engine, text.data(), text.size(), &needed) == XFER_OK);
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\0'; });
    const std::string key = "\"adapter\":{\"requests\":", bytes = "\"bytes\":";
    const size_t at = text.find(key);
    return at == std::string::npos ? 0
                                   : std::stoull(text.substr(text.find(bytes, at) + bytes.size()));
}

// The adapters have met, and the owner's region is registered.
void open(World &world, NearPair &pair) {
    pair.come_near();
    world.world.run_for(kSecond);
}

}  // namespace

TEST_CASE(
    "a long message is read by the adapter, as far as there is room, and nothing goes by lanes") {
    for (const uint64_t capacity : {kLong, kLong / 3, 2 * kLong})
        for (const bool late : {false, true}) {
            CAPTURE(capacity);
            World world(1);
            NearPair pair(world, NearPair::By::adapter);
            open(world, pair);
            Parcel message(pair, kLong, capacity);
            const uint64_t before = bytes_by_adapter(pair);
            if (!late) message.receive();
            message.send();
            if (late) world.world.run_for(kSecond);
            if (late) message.receive();
            REQUIRE(message.both_end(50 * kNsPerMs));
            message.check();
            CHECK(message.sent_with() == XFER_OK);
            CHECK(message.arrived == 1);
            CHECK(bytes_by_adapter(pair) - before == std::min(capacity, kLong));
            CHECK(pair.said(FrameType::withdraw) == 0);
        }
}

TEST_CASE("what was read leaves nothing behind: the next ones are, however many there were") {
    World world(1);
    NearPair pair(world, NearPair::By::adapter);
    open(world, pair);
    for (uint64_t i = 0; i < 4'200; ++i) {
        Parcel message(pair, kShort + 6'000, kShort + 6'000);
        message.receive();
        message.send();
        REQUIRE(message.both_end());
        REQUIRE(message.received_with() == XFER_OK);
        pair.a->done.erase(kReceive);
        pair.b->done.erase(kSend);
    }
    CHECK(bytes_by_adapter(pair) >= 4'200 * (kShort + 6'000));
}

TEST_CASE("a short message is not worth it") {
    World world(1);
    NearPair pair(world, NearPair::By::adapter);
    open(world, pair);
    Parcel message(pair, kShort);
    const uint64_t copies = pair.copied();
    message.receive();
    message.send();
    REQUIRE(message.both_end());
    message.check();
    CHECK(message.arrived == 1);
    CHECK(pair.copied() == copies);
}

TEST_CASE("an adapter that takes long to know it is waited for, but not for ever") {
    for (const uint64_t most : {50u, 5'000u}) {
        uint64_t by_lanes = 0, by_adapter = 0;
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            World world(seed);
            NearPair pair(world, NearPair::By::adapter);
            open(world, pair);
            world.net.register_ns_max = most * kNsPerMs;
            Parcel message(pair);
            const uint64_t before = bytes_by_adapter(pair);
            message.receive();
            message.send();
            REQUIRE(message.both_end());
            message.check();
            CHECK(message.arrived == 1);
            const uint64_t moved = bytes_by_adapter(pair) - before;
            by_lanes += moved == 0;
            by_adapter += moved == kLong;
        }
        CAPTURE(by_adapter);
        CAPTURE(by_lanes);
        CHECK(by_adapter > 5);
        CHECK((by_lanes > 5) == (most > 1'000));
    }
}

// Where it can't be exported, or imported, it goes by lanes.
TEST_CASE("a message arrives, whatever fails with its key") {
    for (const CopyStep step : {CopyStep::exported, CopyStep::imported})
        for (const CopyFate fate : {CopyFate::fail, CopyFate::lack, CopyFate::refuse})
            for (const uint64_t times : {1, 1'000}) {
                if (step == CopyStep::imported && fate == CopyFate::fail) continue;
                CAPTURE(static_cast<int>(step));
                CAPTURE(static_cast<int>(fate));
                World world(1);
                NearPair pair(world, NearPair::By::adapter);
                open(world, pair);
                Parcel message(pair);
                uint64_t met = 0;
                pair.script = [&](CopyStep now, uint64_t, const SimCopyPath &) {
                    return now == step && ++met <= times ? fate : CopyFate::go_on;
                };
                message.receive();
                message.send();
                REQUIRE(message.both_end());
                message.check();
                CHECK(message.sent_with() == XFER_OK);
                CHECK(message.arrived == 1);
                CHECK(met > 0);
                pair.script = nullptr;
            }
}

TEST_CASE("a path that falls at any step of a pull ends both ends of the message alike") {
    uint64_t lost = 0;
    for (const CopyStep step : {CopyStep::post, CopyStep::begin, CopyStep::finish})
        for (uint64_t k = 1; k <= 8; ++k) {
            CAPTURE(static_cast<int>(step));
            CAPTURE(k);
            World world(k);
            NearPair pair(world, NearPair::By::adapter);
            open(world, pair);
            Parcel message(pair, 6 * kLong, 6 * kLong);
            message.send();
            world.world.run_for(kSecond);
            pair.asked.clear();
            pair.script = falls_at(step, k);
            message.receive();
            REQUIRE(message.both_end());
            message.check();
            CHECK(message.sent_with() == message.received_with());
            CHECK(pair.lost_connections() == 0);
            lost += message.received_with() != XFER_OK;
            pair.script = nullptr;
        }
    CHECK(lost > 0);
}

// The peer's loop is kept from its work, as by an application that drives it, and says nothing.
TEST_CASE("a receiver that rests costs a send that ends no more than its time") {
    for (uint64_t after = 0; after < 2'000'000; after += 100'000) {
        CAPTURE(after);
        World world(after + 1);
        NearPair pair(world, NearPair::By::adapter);
        open(world, pair);
        world.net.copy_ns_max = 4 * kSecond;  // reads that last
        Parcel message(pair, 6 * kLong, 6 * kLong);
        pair.b->eps.empty() ? void(pair.b->lookup(pair.b->open(kA), 1'000)) : void();
        message.receive();
        message.send();
        world.world.run_for(after);
        message.cancel_send();
        REQUIRE(world.world.run_until([&] { return pair.b->pending == 0; }, kSecond));
        CHECK(pair.lost_connections() == 0);
        message.cancel_receive();
        REQUIRE(message.both_end());
        CHECK(pair.lost_connections() == 0);
    }
}

// The receiver has it, and nothing but the adapter's end of the key is waited for.
TEST_CASE("a send that was received ends well, whatever ends while its key does") {
    for (const bool connection : {false, true})
        for (uint64_t seed = 1; seed <= 10; ++seed) {
            CAPTURE(connection);
            CAPTURE(seed);
            World world(seed);
            NearPair pair(world, NearPair::By::adapter);
            open(world, pair);
            world.net.release_ns_max = 20 * kSecond;
            Parcel message(pair);
            message.arrive();
            message.cancel_send();
            if (connection) world.net.cut_all();
            if (!connection) pair.b->end();
            REQUIRE(message.both_end(40 * kSecond));
            message.check();
            CHECK(message.sent_with() == XFER_OK);
        }
}

// Its endpoint has moved to the engine that came to the address: nothing else keeps that peer.
TEST_CASE("a send whose peer is gone for good ends with its key, and its engine can end") {
    uint64_t outlived = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        CAPTURE(seed);
        World world(seed);
        NearPair pair(world, NearPair::By::adapter);
        open(world, pair);
        world.net.release_ns_max = 30 * kSecond;
        Parcel message(pair);
        message.arrive();
        pair.a->end();
        Host successor(world, kA);
        REQUIRE(pair.b->lookup(message.back, 2'000) == XFER_OK);
        outlived += pair.b->pending;
        if (seed % 2) REQUIRE(message.both_end(40 * kSecond));
        pair.b->end();
        message.check();
        CHECK(message.sent_with() == XFER_OK);
    }
    CHECK(outlived > 0);
}

namespace {

enum class Ends : uint8_t { send, receive, deadline, connection, engine, other_engine };

void end_it(Parcel &message, Ends how) {
    NearPair &pair = message.pair;
    switch (how) {
    case Ends::send:
        return message.cancel_send();
    case Ends::receive:
        return message.cancel_receive();
    case Ends::deadline:
        return;
    case Ends::connection:
        return pair.world.net.cut_all();
    case Ends::engine:
        return pair.b->end();
    case Ends::other_engine:
        return pair.a->end();
    }
}

}  // namespace

// The deadline is one of the send, and set so that it passes at any time.
TEST_CASE("the memory of a send that ends at any time is quiet, and no key of it works") {
    std::map<Ends, uint64_t> cut_short;
    for (const Ends how : {Ends::send, Ends::receive, Ends::deadline, Ends::connection,
                           Ends::engine, Ends::other_engine})
        for (uint64_t after = 0; after < 6'000'000; after += 100'000) {
            CAPTURE(static_cast<int>(how));
            CAPTURE(after);
            World world(after + 1);
            world.net.copy_bounces = after % 200'000 == 0;
            world.net.detach_ns = after % 300'000 == 0 ? 300 * kNsPerMs : 0;
            NearPair pair(world, NearPair::By::adapter);
            open(world, pair);
            world.net.copy_ns_max = 2 * kNsPerMs;
            world.net.register_ns_max = world.net.release_ns_max = 3 * kNsPerMs;
            Parcel message(pair, 6 * kLong, 6 * kLong);
            pair.b->eps.empty() ? void(pair.b->lookup(pair.b->open(kA), 1'000)) : void();
            message.receive();
            message.send(how == Ends::deadline ? static_cast<uint32_t>(1 + after / 200'000) : 0);
            world.world.run_for(after);
            end_it(message, how);
            // One that has lost the other waits for ever.
            if (!message.both_end(2 * kSecond)) message.cancel_receive(), message.cancel_send();
            REQUIRE(message.both_end());
            message.check();
            if (how <= Ends::deadline) CHECK(pair.lost_connections() == 0);
            cut_short[how] += message.sent_with() != XFER_OK;
            if (how <= Ends::deadline) CHECK(pair.put(0, 1'000) == XFER_OK);  // it goes on
        }
    for (const auto &[how, count] : cut_short) {
        CAPTURE(static_cast<int>(how));
        CHECK(count > 0);
    }
}
