// SPDX-License-Identifier: Apache-2.0
// Channels over sockets: bytes, answers, accepting.
#include "stream_fixture.h"

using namespace xfer;
using namespace xfer::test;

// ---- moving bytes ----

TEST_CASE("puts and gets of every size arrive") {
    Pair pair;
    size_t done = 0;
    for (uint32_t size :
         {0u, 1u, 31u, 64u, 4096u, 16383u, 16384u, 16385u, 32768u, 65537u, 262143u, 262144u}) {
        CAPTURE(size);
        std::vector<uint8_t> data = pattern(size, size), back(size);
        TestOp put(Dir::put, kRegion, {{address(data.data()), 1000, size}});
        TestOp get(Dir::get, kRegion, {{address(back.data()), 1000, size}});
        put.last = true;
        pair.post(put);
        pair.post(get);
        pair.channel->path().flush();
        REQUIRE(pair.all_done(done += 2));
        CHECK(pair.here.done[done - 2].status == XFER_OK);
        CHECK(pair.here.done[done - 1].status == XFER_OK);
        CHECK(put.sent);
        CHECK(std::equal(data.begin(), data.end(), pair.memory.begin() + 1000));
        CHECK(back == data);
    }
    CHECK(pair.there.served_put == pair.there.served_get);
}

TEST_CASE("a small put costs one system call at each step") {
    Pair pair;
    std::vector<uint8_t> data = pattern(64, 1);
    for (int i = 0; i < 3; ++i) {
        TestOp put(Dir::put, kRegion, {{address(data.data()), 0, 64}});
        put.last = true;
        calls = {};
        pair.post(put);
        pair.channel->path().flush();
        REQUIRE(pair.all_done(static_cast<size_t>(i) + 1));
        turn_some(*pair.loop);
        CHECK(calls.sends == 2);
        CHECK(calls.receives == 2);
    }
}

struct Mix {
    std::mt19937 random;
    Pair &pair;
    std::vector<uint8_t> local = pattern(4 << 20, 5);
    std::vector<uint8_t> expected_local = local, expected_memory;
    std::deque<TestOp> ops;
    std::vector<Status> expected;
    std::vector<size_t> taken;  // 4 KiB blocks of both sides, each used by one operation

    Mix(Pair &pair, uint32_t seed) : random(seed), pair(pair) {
        pair.memory = pattern(4 << 20, 6);
        expected_memory = pair.memory;
        taken.resize(pair.memory.size() / 4096);
        for (size_t i = 0; i < taken.size(); ++i)
            taken[i] = i;
        std::shuffle(taken.begin(), taken.end(), random);
    }
    std::vector<Piece> pieces(size_t most) {
        std::vector<Piece> out;
        size_t count = 1 + random() % most;
        for (size_t i = 0; i < count && !taken.empty() && out.size() < 60; ++i) {
            size_t block = taken.back() * 4096;
            taken.pop_back();
            out.push_back({address(local.data() + block), block, random() % 4096});
        }
        return out;
    }
    void add() {
        std::vector<Piece> ranges = pieces(random() % 4 == 0 ? 60 : 2);
        Dir dir = random() % 2 ? Dir::put : Dir::get;
        unsigned kind = random() % 8;
        Status status = kind == 0 ? XFER_EACCESS : kind == 1 ? XFER_ESTALE : XFER_OK;
        TestOp &op = ops.emplace_back(dir, kind == 1 ? 99 : kRegion, ranges, kind == 0 ? 5 : kKey);
        op.last = random() % 4 == 0;
        expected.push_back(status);
        if (status != XFER_OK) return;
        for (const Piece &range : ranges) {
            uint8_t *mine = expected_local.data() + range.offset,
                    *theirs = expected_memory.data() + range.offset;
            std::memcpy(dir == Dir::put ? theirs : mine, dir == Dir::put ? mine : theirs,
                        range.length);
        }
    }
    void run(size_t count) {
        for (size_t i = 0; i < count && taken.size() > 60; ++i)
            add();
        size_t next = 0;
        auto feed = [&] {
            while (next < ops.size() && pair.channel->path().post(ops[next]))
                ++next;
            pair.channel->path().flush();
        };
        pair.here.done_hook = [&](Op &, Status) { feed(); };
        feed();
        REQUIRE(pair.all_done(ops.size()));
        for (size_t i = 0; i < ops.size(); ++i) {
            CAPTURE(i);
            CHECK(pair.here.done[i].op == &ops[i]);  // in the order of posting
            CHECK(pair.here.done[i].status == expected[i]);
        }
        CHECK(local == expected_local);
        CHECK(pair.memory == expected_memory);
    }
};

TEST_CASE("puts, gets and refusals mixed, in many pieces, are answered in order") {
    for (uint32_t seed = 1; seed <= 10; ++seed) {
        CAPTURE(seed);
        Pair pair;
        Mix mix(pair, seed);
        mix.run(400);
    }
}

TEST_CASE("the same through small socket buffers") {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        CAPTURE(seed);
        Pair pair(64 * 1024);
        Mix mix(pair, seed);
        mix.run(200);
    }
}

TEST_CASE("the same when every system call does less than asked") {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        Pair pair;
        std::mt19937 random(seed);
        calls.shorten = &random;
        Mix mix(pair, seed);
        mix.run(200);
    }
}

TEST_CASE("both ways at once, each side full of requests, without waiting for each other") {
    Pair pair(16384);
    std::vector<uint8_t> mine = pattern(1 << 20, 3), theirs(8 << 20);
    pair.here.regions[kRegion] = &mine;
    std::deque<TestOp> forth, back;
    for (uint64_t i = 0; i < 64; ++i) {
        uint64_t at = i % 4 * kMaxChunk;
        forth.emplace_back(i % 2 ? Dir::put : Dir::get, kRegion,
                           std::vector<Piece>{{address(theirs.data()) + at, at, kMaxChunk}});
        back.emplace_back(
            i % 2 ? Dir::get : Dir::put, kRegion,
            std::vector<Piece>{{address(theirs.data()) + (4 << 20) + at, at, kMaxChunk}});
        pair.post(forth.back());
        REQUIRE(pair.accepted().path().post(back.back()));
    }
    pair.channel->path().flush();
    pair.accepted().path().flush();
    REQUIRE(
        pair.until([&] { return pair.here.done.size() == 64 && pair.there.done.size() == 64; }));
    CHECK(pair.here.served == 64);
    CHECK(pair.there.served == 64);
}

TEST_CASE("no more operations are taken than the peer allows") {
    Pair pair(0, 4, 4);
    std::vector<uint8_t> data(64);
    std::deque<TestOp> ops;
    for (int i = 0; i < 5; ++i)
        ops.emplace_back(Dir::put, kRegion, std::vector<Piece>{{address(data.data()), 0, 64}});
    for (int i = 0; i < 4; ++i)
        CHECK(pair.channel->path().post(ops[i]));
    CHECK(!pair.channel->path().post(ops[4]));
    pair.channel->path().flush();
    REQUIRE(pair.all_done(4));
    CHECK(pair.channel->path().post(ops[4]));
    pair.channel->path().flush();
    REQUIRE(pair.all_done(5));
}

TEST_CASE("control frames come whole and in order, and only so many may wait") {
    Pair pair(256 * 1024);
    std::vector<uint8_t> body = pattern(kMaxControl, 2);
    Frame frame;
    frame.type = FrameType::found;
    frame.length = kMaxControl;
    int taken = 0;
    while (pair.channel->send(frame, body))
        ++taken;
    CHECK(taken > 30);
    CHECK(taken < 5'000);  // with what the sockets hold
    REQUIRE(pair.until([&] { return pair.there.controls.size() == static_cast<size_t>(taken); }));
    for (const auto &control : pair.there.controls)
        CHECK(control.body == body);
    CHECK(pair.channel->send(ping(9), {}));
    REQUIRE(
        pair.until([&] { return pair.there.controls.size() == static_cast<size_t>(taken) + 1; }));
    CHECK(pair.there.controls.back().frame.seq == 9);
}

TEST_CASE("a channel moves between transports with what it has not read") {
    Raw raw(false);
    Hello hello;
    hello.kind = HelloKind::refuse;
    std::vector<uint8_t> first = encode_hello(hello), both = first;
    for (uint8_t byte : put_of(1, pattern(100, 1), kAckWanted))
        both.push_back(byte);
    DetachedChannel ticket;
    raw.there.hello_hook = [&] { ticket = raw.accepted().detach(); };
    raw.say(both);
    REQUIRE(raw.until([&] { return static_cast<bool>(ticket.fd); }));
    REQUIRE(raw.there.hellos.size() == 1);
    CHECK(raw.there.hellos[0] == first);
    CHECK(ticket.unread == put_of(1, pattern(100, 1), kAckWanted));
    raw.accepting.channels[0] = raw.transport->adopt(std::move(ticket));
    raw.accepted().set_sink(raw.there);
    raw.accepted().start(raw.there, 64, 64);
    raw.accepted().resume();
    CHECK(raw.hear_frame().type == FrameType::ack);
    CHECK(std::equal(raw.memory.begin(), raw.memory.begin() + 100, pattern(100, 1).begin()));
}

// ---- acknowledgements ----

TEST_CASE("an acknowledgement waits for more only while more is coming") {
    Raw raw;
    std::vector<uint8_t> two = put_of(1, pattern(100, 1));
    std::vector<uint8_t> next = put_of(2, pattern(100, 2));
    two.insert(two.end(), next.begin(), next.begin() + 50);
    raw.say(two);
    REQUIRE(raw.until([&] { return raw.there.served == 1; }));
    CHECK(raw.silent());
    raw.say({next.begin() + 50, next.end()});
    Frame ack = raw.hear_frame();
    CHECK(ack.type == FrameType::ack);
    CHECK(ack.seq == 2);
    // The initiator waits: at once, whatever else is coming.
    two = put_of(3, pattern(100, 1), kAckWanted);
    next = put_of(4, pattern(100, 2));
    two.insert(two.end(), next.begin(), next.begin() + 50);
    raw.say(two);
    CHECK(raw.hear_frame().seq == 3);
    raw.say({next.begin() + 50, next.end()});
    CHECK(raw.hear_frame().seq == 4);
}

TEST_CASE("a refused put is answered after its payload, between its neighbours") {
    Raw raw;
    std::vector<uint8_t> good = pattern(40'000, 1), all = put_of(1, good);
    std::vector<uint8_t> bad = request(FrameType::put, 2, {{0, 40'000}}, pattern(40'000, 2), 5);
    all.insert(all.end(), bad.begin(), bad.begin() + 20'000);
    raw.say(all);
    REQUIRE(raw.until([&] { return raw.there.served == 1; }));
    CHECK(raw.silent());
    raw.say({bad.begin() + 20'000, bad.end()});
    raw.say(put_of(3, good));
    Frame first = raw.hear_frame(), second = raw.hear_frame(), third = raw.hear_frame();
    CHECK(first.type == FrameType::ack);
    CHECK(first.seq == 1);
    CHECK(second.type == FrameType::error);
    CHECK(second.seq == 2);
    CHECK(second.status == XFER_EACCESS);
    CHECK(third.type == FrameType::ack);
    CHECK(third.seq == 3);
    CHECK(std::equal(good.begin(), good.end(), raw.memory.begin()));
}

// ---- accepting ----

TEST_CASE("without descriptors accepting pauses and goes on") {
    Listening base;
    Fd client = base.dial_raw();
    calls.accept_error = EMFILE;
    const uint64_t begin = base.loop->now();
    while (base.loop->now() - begin < 250 * kNsPerMs)
        base.loop->turn(10 * kNsPerMs);
    CHECK(calls.accepts >= 2);
    CHECK(calls.accepts <= 4);
    CHECK(base.accepting.channels.empty());
    calls.accept_error = 0;
    CHECK(base.until([&] { return base.accepting.channels.size() == 1; }));
}

// A busy host makes rounds longer, never shorter: the shortest shows whether the second one waits.
TEST_CASE("under pressure those who come share a wake-up, else they wait for none") {
    constexpr uint64_t kCoalesceNs = 2 * kNsPerMs;
    Listening base;
    auto heard = [&](const Fd &client) {
        char byte;
        return ::recv(client.get(), &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
    };
    std::deque<Fd> clients;
    for (bool admitting : {true, false}) {
        CAPTURE(admitting);
        base.accepting.admitting = admitting;
        uint64_t shortest = kNever;
        for (int round = 0; round < 50; ++round) {
            const Fd &first = clients.emplace_back(base.dial_raw());
            calls.accepts = 0;
            uint64_t slept = 0;  // the listener has not before, if at all
            REQUIRE(base.until([&] {
                if (calls.accepts >= 2) return true;
                slept = base.loop->now();
                return false;
            }));
            const Fd &second = clients.emplace_back(base.dial_raw());
            calls.accepts = 0;
            REQUIRE(base.until([&] { return calls.accepts > 0; }));
            shortest = std::min(shortest, base.loop->now() - slept);
            if (!admitting) REQUIRE(base.until([&] { return heard(first) && heard(second); }));
        }
        CHECK((shortest < kCoalesceNs) == admitting);
    }
}
