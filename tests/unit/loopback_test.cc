// SPDX-License-Identifier: Apache-2.0
#include "transport/loopback/loopback.h"

#include <deque>

#include "recording_sink.h"

using namespace xfer;
using namespace xfer::test;

namespace {

constexpr uint64_t kRegion = 7;

struct Self {
    std::unique_ptr<OwnLoop> loop = std::move(*OwnLoop::open());
    RecordingSink sink;
    std::vector<uint8_t> memory = std::vector<uint8_t>(8 << 20);
    std::unique_ptr<Channel> channel = make_loopback_channel(*loop);

    Self() {
        channel->set_sink(sink);
        channel->start(sink, 64, 64);
        channel->resume();
        sink.regions[kRegion] = &memory;
    }
    bool all_done(size_t count) {
        return turn_until(*loop, [&] { return sink.done.size() >= count; });
    }
};

}  // namespace

TEST_CASE("puts and gets are checked and copied") {
    Self self;
    std::vector<uint8_t> data = pattern(5000, 1), back(5000);
    TestOp put(Dir::put, kRegion,
               {{address(data.data()), 100, 2000}, {address(data.data()) + 2000, 9000, 3000}});
    TestOp get(Dir::get, kRegion,
               {{address(back.data()), 100, 2000}, {address(back.data()) + 2000, 9000, 3000}});
    TestOp empty(Dir::put, kRegion, {{address(data.data()), 100, 0}});
    TestOp stale(Dir::put, 99, {{address(data.data()), 0, 5000}});
    TestOp past(Dir::get, kRegion, {{address(back.data()), (8 << 20) - 1, 2}});
    self.sink.in_method = true;
    for (TestOp *op : {&put, &get, &empty, &stale, &past})
        REQUIRE(self.channel->path().post(*op));
    self.channel->path().flush();
    self.sink.in_method = false;
    REQUIRE(self.all_done(5));
    CHECK(self.sink.done[0].status == XFER_OK);
    CHECK(self.sink.done[1].status == XFER_OK);
    CHECK(self.sink.done[2].status == XFER_OK);
    CHECK(self.sink.done[3].status == XFER_ESTALE);
    CHECK(self.sink.done[4].status == XFER_ERANGE);
    CHECK(back == data);
    CHECK(std::equal(data.begin(), data.begin() + 2000, self.memory.begin() + 100));
    CHECK(self.sink.served_put == 5000);
    CHECK(self.sink.served_get == 5000);
}

TEST_CASE("a region can be moved within itself") {
    Self self;
    self.memory = pattern(1 << 20, 4);
    std::vector<uint8_t> was = self.memory;
    TestOp put(Dir::put, kRegion, {{address(self.memory.data()), 1000, 100'000}});
    REQUIRE(self.channel->path().post(put));
    self.channel->path().flush();
    REQUIRE(self.all_done(1));
    CHECK(std::equal(was.begin(), was.begin() + 100'000, self.memory.begin() + 1000));
}

TEST_CASE("frames and messages come back in order, and only so many may wait") {
    Self self;
    Frame frame;
    frame.type = FrameType::lookup;
    frame.length = 3;
    const uint8_t name[] = {'a', 'b', 'c'};
    int taken = 0;
    self.sink.in_method = true;
    while (self.channel->send(frame, name))
        frame.seq = static_cast<uint64_t>(++taken);
    self.sink.in_method = false;
    CHECK(taken > 100);
    REQUIRE(turn_until(*self.loop,
                       [&] { return self.sink.controls.size() == static_cast<size_t>(taken); }));
    for (size_t i = 0; i < self.sink.controls.size(); ++i) {
        CHECK(self.sink.controls[i].frame.seq == i);
        CHECK(self.sink.controls[i].body == std::vector<uint8_t>(name, name + 3));
    }
    self.channel->send_hello(name);
    REQUIRE(turn_until(*self.loop, [&] { return self.sink.hellos.size() == 1; }));
}

TEST_CASE("a canceled operation copies nothing") {
    Self self;
    std::vector<uint8_t> data = pattern(5000, 1);
    TestOp first(Dir::put, kRegion, {{address(data.data()), 0, 5000}}),
        second(Dir::put, kRegion, {{address(data.data()), 5000, 5000}});
    REQUIRE(self.channel->path().post(first));
    REQUIRE(self.channel->path().post(second));
    self.channel->path().flush();
    CHECK(self.channel->path().cancel(first));
    REQUIRE(self.all_done(2));
    CHECK(self.sink.done[0].op == &first);
    CHECK(self.sink.done[0].status == XFER_ECANCELED);
    CHECK(self.sink.done[1].status == XFER_OK);
    CHECK(self.memory[0] == 0);
    CHECK(self.memory[5000] == data[0]);
}

TEST_CASE("close ends what was posted, then the channel, also from inside a call") {
    Self self;
    std::vector<uint8_t> data = pattern(kMaxChunk, 1);
    std::deque<TestOp> ops;
    for (int i = 0; i < 64; ++i) {
        ops.emplace_back(Dir::put, kRegion,
                         std::vector<Piece>{{address(data.data()), 0, kMaxChunk}});
        REQUIRE(self.channel->path().post(ops.back()));
    }
    CHECK(!self.channel->path().post(ops.back()));
    self.sink.done_hook = [&](Op &op, Status) {
        if (&op != &ops[2]) return;
        self.channel->close({XFER_ECLOSED, 0, 0, "enough"});
        self.channel->path().cancel(ops[40]);
    };
    self.channel->path().flush();
    REQUIRE(turn_until(*self.loop, [&] { return self.sink.down.has_value(); }));
    REQUIRE(self.sink.done.size() == 64);
    for (size_t i = 0; i < 64; ++i) {
        const Status expected = self.sink.done[i].op == &ops[40] ? XFER_ECANCELED
                                : i < 3                          ? XFER_OK
                                                                 : XFER_EPEERLOST;
        CHECK(self.sink.done[i].status == expected);
    }
    CHECK(self.sink.down->status == XFER_ECLOSED);
    CHECK(!self.channel->path().post(ops[0]));
}
