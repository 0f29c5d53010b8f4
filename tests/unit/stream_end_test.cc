// SPDX-License-Identifier: Apache-2.0
// Channels over TCP: operations, regions and channels that end early.
#include "stream_fixture.h"

using namespace xfer;
using namespace xfer::test;

// ---- cancel ----

TEST_CASE("an operation that has not left is withdrawn") {
    Pair pair;
    std::vector<uint8_t> data = pattern(4096, 1);
    TestOp op(Dir::put, kRegion, {{address(data.data()), 0, 4096}}),
        other(Dir::put, kRegion, {{address(data.data()), 8192, 4096}});
    pair.post(op);
    pair.post(other);
    pair.here.in_method = true;
    CHECK(pair.channel->path().cancel(op));
    pair.here.in_method = false;
    pair.channel->path().flush();
    REQUIRE(pair.all_done(2));
    CHECK(pair.here.done[0].op == &op);
    CHECK(pair.here.done[0].status == XFER_ECANCELED);
    CHECK(!op.sent);
    CHECK(pair.here.done[1].status == XFER_OK);
    CHECK(pair.memory[0] == 0);
    CHECK(std::equal(data.begin(), data.end(), pair.memory.begin() + 8192));
}

TEST_CASE("an operation that has partly left is filled up with zeros") {
    Raw raw(true, 4096);
    std::vector<uint8_t> data(kMaxChunk, 0xaa), other(kMaxChunk, 0xbb);
    TestOp first(Dir::put, kRegion,
                 {{address(data.data()), 0, 100'000},
                  {address(data.data()) + 100'001, 100'001, kMaxChunk - 100'001}});
    TestOp second(Dir::put, kRegion, {{address(other.data()), 0, kMaxChunk}});
    TestOp third(Dir::put, kRegion, {{address(other.data()), 0, kMaxChunk}});
    REQUIRE(raw.accepted().path().post(first));
    REQUIRE(raw.accepted().path().post(second));
    REQUIRE(raw.accepted().path().post(third));
    std::deque<TestOp> stuffing;
    for (int i = 0; i < 40; ++i) {
        stuffing.emplace_back(Dir::put, kRegion,
                              std::vector<Piece>{{address(other.data()), 0, kMaxChunk}});
        REQUIRE(raw.accepted().path().post(stuffing.back()));
    }
    raw.accepted().path().flush();
    turn_some(*raw.loop);
    // The last that has begun to leave is somewhere in the middle.
    TestOp *partly = nullptr;
    for (TestOp &op : stuffing)
        if (op.sent) partly = &op;
    if (!partly) partly = third.sent ? &third : second.sent ? &second : &first;
    CHECK(partly->sent);
    REQUIRE(raw.accepted().path().cancel(*partly));
    const uint8_t byte = partly == &first ? 0xaa : 0xbb;
    if (partly == &first) std::fill(data.begin(), data.end(), 0xcc);  // quiet now: ours again
    for (uint64_t seq = 1; seq <= partly->seq; ++seq) {
        Frame frame = *decode_frame(raw.hear(Frame::kSize).data());
        REQUIRE(frame.type == FrameType::put);
        CHECK(frame.seq == seq);
        raw.hear(access_length(frame.pieces));
        if (seq < partly->seq) {
            raw.hear(frame.length - access_length(frame.pieces));
            continue;
        }
        std::vector<uint8_t> payload = raw.hear(frame.length - access_length(frame.pieces));
        auto zero = std::find(payload.begin(), payload.end(), 0);
        CHECK(zero != payload.end());
        CHECK(std::all_of(payload.begin(), zero, [&](uint8_t b) { return b == byte; }));
        CHECK(std::all_of(zero, payload.end(), [&](uint8_t b) { return b == 0; }));
    }
    CHECK(raw.there.done.empty());
    raw.say(answer(FrameType::ack, partly->seq));
    REQUIRE(raw.until([&] { return raw.there.done.size() == partly->seq; }));
    CHECK(raw.there.done.back().op == partly);
    CHECK(raw.there.done.back().status == XFER_OK);
}

TEST_CASE("a canceled get writes nothing any more") {
    Raw raw;
    std::vector<uint8_t> into(100'000, 1), data = pattern(100'000, 4);
    TestOp early(Dir::get, kRegion, {{address(into.data()), 0, 100'000}});
    TestOp late(Dir::get, kRegion, {{address(into.data()), 0, 100'000}});
    REQUIRE(raw.accepted().path().post(early));
    REQUIRE(raw.accepted().path().post(late));
    raw.accepted().path().flush();
    raw.hear(2 * (Frame::kSize + access_length(1)));
    CHECK(raw.accepted().path().cancel(early));  // before its data
    raw.say(answer(FrameType::data, 1, XFER_OK, data));
    REQUIRE(raw.until([&] { return raw.there.done.size() == 1; }));
    CHECK(raw.there.done[0].status == XFER_ECANCELED);
    CHECK(std::all_of(into.begin(), into.end(), [](uint8_t b) { return b == 1; }));

    std::vector<uint8_t> reply = answer(FrameType::data, 2, XFER_OK, data);
    raw.say({reply.begin(), reply.begin() + 50'000});
    REQUIRE(raw.until([&] { return into[40'000] == data[40'000]; }));
    turn_some(*raw.loop);
    CHECK(raw.accepted().path().cancel(late));  // in the midst of it
    std::vector<uint8_t> now = into;
    raw.say({reply.begin() + 50'000, reply.end()});
    REQUIRE(raw.until([&] { return raw.there.done.size() == 2; }));
    CHECK(raw.there.done[1].status == XFER_ECANCELED);
    CHECK(into == now);
}

TEST_CASE("an atomic that has left is told as its owner says, canceled or not") {
    Raw raw;
    TestAtomic done(AtomicOp::add, 0, 1), cut(AtomicOp::add, 0, 1), refused(AtomicOp::add, 0, 1);
    for (TestAtomic *op : {&done, &cut, &refused})
        REQUIRE(raw.accepted().path().post(*op));
    raw.accepted().path().flush();
    raw.hear(3 * (Frame::kSize + kAtomicBody));
    std::vector<uint8_t> before(8);
    store<uint64_t>(before.data(), 0x1234567890abcdef);
    CHECK(raw.accepted().path().cancel(done));
    raw.say(answer(FrameType::data, 1, XFER_OK, before));
    REQUIRE(raw.until([&] { return raw.there.done.size() == 1; }));
    CHECK(raw.there.done[0].status == XFER_OK);
    CHECK(done.before == 0x1234567890abcdef);

    const std::vector<uint8_t> reply = answer(FrameType::data, 2, XFER_OK, before);
    raw.say({reply.begin(), reply.end() - 4});
    turn_some(*raw.loop);
    CHECK(raw.accepted().path().cancel(cut));  // in the midst of its answer
    raw.say({reply.end() - 4, reply.end()});
    REQUIRE(raw.until([&] { return raw.there.done.size() == 2; }));
    CHECK(raw.there.done[1].status == XFER_OK);
    CHECK(cut.before == 0x1234567890abcdef);

    CHECK(raw.accepted().path().cancel(refused));
    raw.say(answer(FrameType::error, 3, XFER_EREVOKED));
    REQUIRE(raw.until([&] { return raw.there.done.size() == 3; }));
    CHECK(raw.there.done[2].status == XFER_EREVOKED);
}

// ---- retire ----

TEST_CASE("an atomic that was done is answered so, though its region ends before that leaves") {
    Raw raw;
    store<uint64_t>(raw.memory.data() + 8, 5);
    raw.there.control_hook = [&] {
        CHECK(raw.accepted().path().retire(RegionId{kRegion}, XFER_ESTALE));
        raw.there.regions.clear();
    };
    std::vector<uint8_t> talk = atomic_of(1, 8, 3);
    const std::vector<uint8_t> ping = answer(FrameType::ping, 1), late = atomic_of(2, 8, 3);
    talk.insert(talk.end(), ping.begin(), ping.end());
    talk.insert(talk.end(), late.begin(), late.end());
    raw.say(talk);
    CHECK(raw.hear_frame().type == FrameType::data);
    CHECK(load<uint64_t>(raw.hear(8).data()) == 5);
    const Frame refused = raw.hear_frame();
    CHECK(refused.type == FrameType::error);
    CHECK(refused.status == XFER_ESTALE);
    CHECK(load<uint64_t>(raw.memory.data() + 8) == 8);
}

TEST_CASE("a region that is closed while a put comes in is left alone") {
    Raw raw;
    std::vector<uint8_t> data = pattern(100'000, 4), put = put_of(1, data);
    raw.say({put.begin(), put.begin() + 50'000});
    REQUIRE(raw.until([&] { return raw.memory[40'000] == data[40'000]; }));
    turn_some(*raw.loop);
    CHECK(raw.accepted().path().retire(RegionId{kRegion}, XFER_ESTALE));
    std::vector<uint8_t> now = raw.memory;
    raw.say({put.begin() + 50'000, put.end()});
    Frame frame = raw.hear_frame();
    CHECK(frame.type == FrameType::error);
    CHECK(frame.status == XFER_ESTALE);
    CHECK(raw.memory == now);
    CHECK(raw.there.quiet.empty());
    CHECK(raw.there.served == 0);
}

TEST_CASE("a put that comes in when its notification ends is left alone") {
    constexpr uint64_t kNumber = 3, kWord = 44;
    Raw raw;
    std::vector<uint8_t> data = pattern(100'000, 4), put = put_of(1, data);
    // The same with the notification behind the key.
    std::optional<Frame> head = decode_frame(put.data());
    REQUIRE(head);
    head->flags |= kNotified;
    head->length += kNotificationBytes;
    encode(*head, put.data());
    uint8_t both[kNotificationBytes];
    store<uint64_t>(both, kNumber);
    store<uint64_t>(both + 8, kWord);
    put.insert(put.begin() + Frame::kSize + 8, both, both + kNotificationBytes);
    raw.say({put.begin(), put.begin() + 50'000});
    REQUIRE(raw.until([&] { return raw.memory[40'000] == data[40'000]; }));
    turn_some(*raw.loop);
    raw.accepted().path().discard({kNumber + 1});  // another's
    raw.say({put.begin() + 50'000, put.begin() + 60'000});
    REQUIRE(raw.until([&] { return raw.memory[55'000] == data[55'000]; }));
    turn_some(*raw.loop);
    raw.accepted().path().discard({kNumber});
    std::vector<uint8_t> now = raw.memory;
    raw.say({put.begin() + 60'000, put.end()});
    Frame frame = raw.hear_frame();
    CHECK(frame.type == FrameType::error);
    CHECK(frame.status == XFER_ECANCELED);
    CHECK(raw.memory == now);
    CHECK(raw.there.served == 0);
}

TEST_CASE("a region that is closed while it is read is quiet when that has left") {
    for (bool lost : {false, true}) {
        Raw raw(true, 4096);
        std::vector<uint8_t> all;
        for (uint64_t seq = 1; seq <= 60; ++seq) {
            std::vector<uint8_t> get = request(FrameType::get, seq, {{0, kMaxChunk}});
            all.insert(all.end(), get.begin(), get.end());
        }
        raw.memory = pattern(1 << 20, 3);
        std::vector<uint8_t> was = raw.memory;
        raw.say(all);
        REQUIRE(raw.until([&] { return raw.there.served == 60; }));
        turn_some(*raw.loop);
        CHECK(raw.accepted().path().retire(RegionId{kRegion + 1}, XFER_ESTALE));
        CHECK(!raw.accepted().path().retire(RegionId{kRegion}, XFER_ESTALE));
        CHECK(raw.there.quiet.empty());
        if (lost) {
            raw.fd.reset();
            REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
            CHECK(raw.there.quiet == std::vector<uint64_t>{kRegion});
            continue;
        }
        bool stale = false;
        for (uint64_t seq = 1; seq <= 60; ++seq) {
            Frame frame = raw.hear_frame();
            CHECK(frame.seq == seq);
            if (frame.type == FrameType::error) {
                CHECK(frame.status == XFER_ESTALE);
                if (!stale) {
                    CHECK(raw.until([&] { return raw.there.quiet.size() == 1; }));
                    std::fill(raw.memory.begin(), raw.memory.end(), 0);
                }
                stale = true;
                continue;
            }
            CHECK(!stale);
            std::vector<uint8_t> payload = raw.hear(frame.length);
            CHECK(std::equal(payload.begin(), payload.end(), was.begin()));
        }
        CHECK(stale);
    }
}

// ---- the end ----

TEST_CASE("close is told later, after every operation, with last words sent") {
    Pair pair;
    std::vector<uint8_t> data(64);
    TestOp flying(Dir::get, 99, {{address(data.data()), 0, 64}}),
        waiting(Dir::put, kRegion, {{address(data.data()), 0, 64}});
    pair.post(flying);
    pair.channel->path().flush();
    pair.post(waiting);
    Frame bye;
    bye.type = FrameType::bye;
    bye.status = XFER_ECLOSED;
    pair.here.in_method = true;
    CHECK(pair.channel->send(bye, {}));
    pair.channel->close({XFER_ECLOSED, 0, 0, "enough"});
    pair.channel->close({XFER_EIO, 0, 0, "again"});
    pair.here.in_method = false;
    REQUIRE(pair.until([&] { return pair.here.down.has_value(); }));
    CHECK(pair.here.down->status == XFER_ECLOSED);
    REQUIRE(pair.here.done.size() == 2);
    CHECK(pair.here.done[0].status == XFER_EPEERLOST);
    CHECK(pair.here.done[1].status == XFER_EPEERLOST);
    CHECK(flying.sent);
    CHECK(!waiting.sent);
    CHECK(!pair.channel->path().post(waiting));
    REQUIRE(pair.until([&] { return pair.there.down.has_value(); }));
    REQUIRE(pair.there.controls.size() == 1);
    CHECK(pair.there.controls[0].frame.type == FrameType::bye);
    CHECK(pair.there.down->status == XFER_EPEERLOST);
}

TEST_CASE("a channel may be closed from every call that it makes") {
    Pair pair;
    std::vector<uint8_t> data(64);
    std::deque<TestOp> ops;
    for (int i = 0; i < 10; ++i) {
        ops.emplace_back(Dir::put, kRegion, std::vector<Piece>{{address(data.data()), 0, 64}});
        pair.post(ops.back());
    }
    pair.here.done_hook = [&](Op &op, Status) {
        pair.channel->close({XFER_ECLOSED, 0, 0, "enough"});
        if (&op != &ops[9]) pair.channel->path().cancel(ops[9]);
        pair.channel->path().flush();
    };
    pair.there.control_hook = [&] { pair.accepted().close({XFER_ECLOSED, 0, 0, "enough"}); };
    pair.channel->send(ping(1), {});
    pair.channel->send(ping(2), {});
    pair.channel->path().flush();
    REQUIRE(pair.until([&] { return pair.here.down && pair.there.down; }));
    CHECK(pair.there.controls.size() == 1);
    CHECK(pair.here.done.size() == 10);
}

TEST_CASE("a reset in the middle of a frame ends everything that was posted") {
    Raw raw;
    std::vector<uint8_t> data(1000);
    TestOp sent(Dir::get, kRegion, {{address(data.data()), 0, 1000}}),
        unsent(Dir::get, kRegion, {{address(data.data()), 0, 1000}});
    REQUIRE(raw.accepted().path().post(sent));
    raw.accepted().path().flush();
    std::vector<uint8_t> half = answer(FrameType::data, 1, XFER_OK, pattern(1000, 1));
    half.resize(500);
    raw.say(half);
    turn_some(*raw.loop);
    linger hard{1, 0};
    setsockopt(raw.fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    raw.fd.reset();
    REQUIRE(raw.accepted().path().post(unsent));
    REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
    CHECK(raw.there.down->status == XFER_EPEERLOST);
    CHECK(raw.there.down->origin == XFER_ORIGIN_OS);
    CHECK(raw.there.down->native == ECONNRESET);
    REQUIRE(raw.there.done.size() == 2);
    CHECK(raw.there.done[0].status == XFER_EPEERLOST);
    CHECK(sent.sent);
    CHECK(!unsent.sent);
}

TEST_CASE("what the peer said before it hung up is heard, though sending fails first") {
    Raw raw;
    raw.say(answer(FrameType::bye, 0, XFER_ECLOSED));
    std::vector<uint8_t> data(1000);
    TestOp op(Dir::put, kRegion, {{address(data.data()), 0, 1000}});
    REQUIRE(raw.accepted().path().post(op));
    calls.send_error = EPIPE;
    raw.accepted().path().flush();
    REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
    REQUIRE(raw.there.controls.size() == 1);
    CHECK(raw.there.controls[0].frame.status == XFER_ECLOSED);
    CHECK(raw.there.down->status == XFER_EPEERLOST);
    CHECK(raw.there.down->native == EPIPE);
    CHECK(!op.sent);
}

TEST_CASE("a reset that a write was told of first is told as a reset") {
    if (over_unix()) return;  // where a write is told EPIPE, and the read of the reset
    Raw raw;
    std::vector<uint8_t> data(1000);
    TestOp op(Dir::put, kRegion, {{address(data.data()), 0, 1000}});
    linger hard{1, 0};
    setsockopt(raw.fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    raw.fd.reset();
    // Before the loop looks at the socket.
    SUBCASE("of an operation") {
        REQUIRE(raw.accepted().path().post(op));
    }
    SUBCASE("of control frames alone") {
        Frame ping;
        ping.type = FrameType::ping;
        REQUIRE(raw.accepted().send(ping, {}));
    }
    raw.accepted().path().flush();
    REQUIRE(raw.until([&] { return raw.there.down.has_value(); }));
    CHECK(raw.there.down->status == XFER_EPEERLOST);
    CHECK(raw.there.down->origin == XFER_ORIGIN_OS);
    CHECK(raw.there.down->native == ECONNRESET);
}
