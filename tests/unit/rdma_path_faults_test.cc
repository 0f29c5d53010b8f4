// SPDX-License-Identifier: Apache-2.0
// What goes wrong on a path that is open: posts taken in part, errors, cut links, ends at any time,
// cancels, regions that end. Each operation ends once, and memory is quiet then.
#include <doctest/doctest.h>

#include <cstring>

#include "rdma_line.h"
#include "transport/rdma/path.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;
using test::pattern;

// ---- errors

TEST_CASE("the k-th post takes j requests: each operation ends once, and another path serves") {
    for (const int error : {ENOMEM, EINVAL})
        for (unsigned k = 1; k <= 5; ++k)
            for (unsigned taken = 0; taken <= 3; ++taken) {
                CAPTURE(error);
                CAPTURE(k);
                CAPTURE(taken);
                Line line;
                line.fabric.fail_post(k, taken, error);
                for (uint64_t i = 0; i < 6; ++i) {
                    TestOp &op = line.add(i % 2 ? Dir::get : Dir::put, 5, 128 * i);
                    if (line.Paths::post(*line.near, op)) continue;
                    line.ops.pop_back();  // it has ended by then
                    break;
                }
                REQUIRE(line.until_done());
                line.check_each_once();
                line.settle();
                size_t lost = 0;
                for (const Side::Done &done : line.near->done) {
                    CHECK((done.status == XFER_OK || done.status == XFER_EPEERLOST));
                    lost += done.status != XFER_OK;
                    if (done.status == XFER_EPEERLOST && !done.op->sent) CHECK(line.near->ended);
                }
                CHECK((lost > 0) == line.near->ended.has_value());
                if (taken > 0) CHECK(line.near->ended);
                line.close();
                line.open();
            }
}

TEST_CASE(
    "the k-th request ends in each error: what is behind it is lost, and what is before done") {
    const ibv_wc_status errors[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR,
                                    IBV_WC_LOC_PROT_ERR, IBV_WC_REM_OP_ERR, IBV_WC_GENERAL_ERR};
    for (const ibv_wc_status error : errors)
        for (unsigned k = 1; k <= 20; ++k) {
            CAPTURE(static_cast<int>(error));
            CAPTURE(k);
            Line line(k % 2);
            line.fabric.fail_request(near_pair(line), k, error);
            for (uint64_t i = 0; i < 4; ++i)
                line.post_new(i % 2 ? Dir::get : Dir::put, line.registered ? 5 : 5, 128 * i);
            REQUIRE(line.until_done());
            line.check_each_once();
            if (!line.registered && line.near->done.size() == 4 && !line.near->ended) continue;
            REQUIRE(line.until_ended());
            REQUIRE(line.near->done.size() == 4);
            bool before = true;
            for (size_t i = 0; i < 4; ++i) {
                const Side::Done &done = line.near->done[i];
                if (before && done.status == XFER_OK) continue;
                const bool is_first = std::exchange(before, false);
                const bool dead_key = error == IBV_WC_REM_ACCESS_ERR;
                CHECK(done.status == (is_first && dead_key ? XFER_ESTALE : XFER_EPEERLOST));
            }
            CHECK_FALSE(before);
        }
}

TEST_CASE("a get that failed leaves the memory of a bounce buffer's owner alone") {
    Line line(false);
    const Octets given = line.local;
    line.fabric.fail_request(near_pair(line), 1, IBV_WC_RETRY_EXC_ERR);
    TestOp &op = line.post_new(Dir::get, 1);
    REQUIRE(line.until_done());
    CHECK(line.near->status_of(op) == XFER_EPEERLOST);
    CHECK(line.local == given);
}

TEST_CASE(
    "a cut link: what was posted is lost, what was not can go elsewhere, the next path serves") {
    for (const FakeCut cut : {FakeCut::requests, FakeCut::answers}) {
        Line line;
        line.stalled = true;
        for (uint64_t i = 0; i < 10; ++i)
            line.post_new(i % 2 ? Dir::get : Dir::put, 3, 64 * i);
        CHECK(line.ops.front().sent);
        CHECK_FALSE(line.ops.back().sent);
        line.fabric.cut(line.near->adapter, line.far->adapter, cut);
        line.stalled = false;
        REQUIRE(line.until_ended());
        line.check_each_once();
        for (const Side::Done &done : line.near->done)
            CHECK(done.status == XFER_EPEERLOST);
        CHECK_FALSE(line.ops.back().sent);
        CHECK(line.near->down_why->status != XFER_OK);
        line.fabric.mend(line.near->adapter, line.far->adapter);
        line.close();
        line.open();
        line.import(*line.far, kRegion);
        line.near->done.clear();
        TestOp &op = line.post_new(Dir::put, 3);
        REQUIRE(line.until_done());
        CHECK(line.near->status_of(op) == XFER_OK);
    }
}

TEST_CASE("closed with operations under way: each ends, then the path, and no byte moves later") {
    for (const bool registered : {true, false})
        for (int steps = 0; steps < 6; ++steps)
            for (const bool by_far : {false, true}) {
                CAPTURE(registered);
                CAPTURE(steps);
                CAPTURE(by_far);
                Line line(registered);
                for (uint64_t i = 0; i < 8; ++i)
                    line.post_new(i % 2 ? Dir::get : Dir::put, 5, 128 * i);
                line.stalled = true;
                for (int i = 0; i < steps; ++i) {
                    line.fabric.step();
                    line.fabric.step();
                    line.step();
                }
                line.Paths::close(by_far ? *line.far : *line.near);
                line.stalled = false;
                REQUIRE(line.until([&] { return (by_far ? line.far : line.near)->is_over(); }));
                if (by_far) line.Paths::close(*line.near);
                REQUIRE(line.until_ended());
                line.check_each_once();
                const Octets local = line.local, remote = line.remote;
                line.settle(20);
                CHECK(line.local == local);
                CHECK(line.remote == remote);
            }
}

TEST_CASE("an adapter that flushes nothing is not waited for longer than a second") {
    FakePersonality personality;
    Line line(true, 4, personality);
    line.stalled = true;
    for (uint64_t i = 0; i < 8; ++i)
        line.post_new(Dir::put, 5, 128 * i);
    line.Paths::close(*line.near);
    line.settle();
    CHECK_FALSE(line.near->ended);
    line.skip(900);
    line.settle();
    CHECK_FALSE(line.near->ended);
    line.skip(200);
    REQUIRE(line.until_ended());
    line.check_each_once();
    for (const Side::Done &done : line.near->done)
        CHECK(done.status == XFER_EPEERLOST);
    line.fabric.took(Violation::busy_pair);
    line.fabric.took(Violation::unpolled);
    line.stalled = false;
}

// ---- cancel

TEST_CASE("canceled at each stage: memory is quiet when it says so, and the end is told once") {
    for (const bool registered : {true, false})
        for (const Dir dir : {Dir::put, Dir::get})
            for (int steps = 0; steps < 30; ++steps) {
                CAPTURE(registered);
                CAPTURE(static_cast<int>(dir));
                CAPTURE(steps);
                Line line(registered);
                line.stalled = true;
                TestOp &first = line.post_new(dir, 9, 0);
                TestOp &second = line.post_new(dir, 9, 1024);
                TestOp &third = line.post_new(dir, 1, 2048);
                for (int i = 0; i < steps; ++i) {
                    line.fabric.step();
                    line.step();
                }
                const Octets local_before = line.local;
                const Octets remote_before = line.remote;
                for (TestOp *op : {&first, &second}) {
                    if (!line.near->posted.count(op)) continue;
                    const bool quiet = line.inside([&] { return line.near->cancel(*op); });
                    CHECK(quiet == op->canceled);
                    if (!registered) CHECK(quiet);
                    if (!op->sent) CHECK(quiet);
                    const uint64_t at = op == &first ? 0 : 1024;
                    if (!quiet) continue;
                    // Whatever is read or written there from now on is seen.
                    std::fill_n(&line.local[at], 9 * 16, uint8_t{0xee});
                }
                line.stalled = false;
                REQUIRE(line.until_done());
                line.check_each_once();
                CHECK(line.near->status_of(third) == XFER_OK);
                CHECK_FALSE(line.near->ended);
                for (TestOp *op : {&first, &second}) {
                    const uint64_t at = op == &first ? 0 : 1024;
                    const Status status = line.near->status_of(*op);
                    CHECK((status == XFER_OK || status == XFER_ECANCELED));
                    if (op->canceled) {
                        CHECK(status == XFER_ECANCELED);
                        for (uint64_t i = 0; i < 9 * 16; ++i) {
                            if (line.local[at + i] != 0xee) FAIL("written: ", i);
                            if (line.remote[at + i] == 0xee && remote_before[at + i] != 0xee)
                                FAIL("read: ", i);
                        }
                    }
                }
            }
}

TEST_CASE("canceled in use on an adapter that does not answer: the path ends in a quarter second") {
    Line line;
    line.stalled = true;
    TestOp &op = line.post_new(Dir::get, 2);
    CHECK_FALSE(line.inside([&] { return line.near->cancel(op); }));
    line.skip(200);
    line.settle();
    CHECK_FALSE(line.near->ended);
    line.skip(60);
    line.settle();
    line.stalled = false;  // it flushes
    REQUIRE(line.until_ended());
    CHECK(line.near->down_why->status == XFER_ETIMEDOUT);
    line.check_each_once();
    CHECK(line.near->status_of(op) != XFER_OK);
}

TEST_CASE("canceled in use, and the loop is late: what ends meanwhile costs no path") {
    for (const bool ends : {true, false}) {
        Line line;
        line.stalled = true;
        TestOp &op = line.post_new(Dir::get, 2);
        CHECK_FALSE(line.inside([&] { return line.near->cancel(op); }));
        line.skip(2'000);
        line.settle();
        CHECK_FALSE(line.near->down_why);
        line.stalled = !ends;
        if (ends) REQUIRE(line.until_done());
        line.skip(70);
        line.settle();
        line.stalled = false;
        if (!ends) REQUIRE(line.until_ended());
        CHECK(line.near->ended.has_value() == !ends);
        line.check_each_once();
    }
}

TEST_CASE("canceled when it is over and not yet told") {
    Line line;
    TestOp &op = make(line.ops, Dir::put, kRegion, {{address(line.local.data()), 0, 0}});
    line.inside([&] {
        REQUIRE(line.near->post(op));
        CHECK(line.near->cancel(op));
    });
    REQUIRE(line.until_done());
    line.check_each_once();
}

TEST_CASE("canceled behind a close: told once, with the path's end") {
    for (const bool registered : {true, false}) {
        Line line(registered);
        line.stalled = true;
        for (uint64_t i = 0; i < 4; ++i)
            line.post_new(Dir::get, 3, 64 * i);
        line.Paths::close(*line.near);
        for (TestOp &op : line.ops)
            line.inside([&] { line.near->cancel(op); });
        line.skip(300);
        line.settle();
        line.stalled = false;
        REQUIRE(line.until_ended());
        line.check_each_once();
        CHECK(line.near->down_why->status == XFER_ECLOSED);
    }
}

// ---- regions

TEST_CASE("a region that is withdrawn: who uses it is waited for, and on_dropped comes once") {
    for (const bool registered : {true, false})
        for (int steps = 0; steps < 12; ++steps) {
            CAPTURE(registered);
            CAPTURE(steps);
            Line line(registered);
            line.stalled = true;
            for (uint64_t i = 0; i < 5; ++i)
                line.post_new(i % 2 ? Dir::get : Dir::put, 5, 128 * i);
            for (int i = 0; i < steps; ++i) {
                line.fabric.step();
                line.step();
            }
            const size_t told = line.near->done.size();
            const bool quiet = line.inside([&] { return line.near->withdraw(kRegion); });
            if (quiet) {
                const Octets remote = line.remote;
                line.stalled = false;
                line.settle();
                CHECK(line.remote == remote);
            } else {
                CHECK(line.near->dropped.empty());
                line.stalled = false;
                REQUIRE(line.until([&] { return !line.near->dropped.empty(); }));
                CHECK(line.near->dropped == std::vector<uint64_t>{kRegion});
                // Nothing of it is under way any more.
                fill(line.remote, 5);
                const Octets filled = line.remote;
                line.settle();
                CHECK(line.remote == filled);
            }
            REQUIRE(line.until_done());
            line.check_each_once();
            CHECK(line.near->dropped.size() == (quiet ? 0 : 1));
            CHECK(told <= line.near->done.size());
            CHECK_FALSE(line.near->ended);
            for (TestOp *op : {&line.ops.back()})
                if (!op->sent) CHECK(line.near->declined.size() > 0);
        }
}

TEST_CASE("a path that ends with a region that is withdrawn tells the end alone") {
    Line line;
    line.stalled = true;
    line.post_new(Dir::put, 3);
    CHECK_FALSE(line.inside([&] { return line.near->withdraw(kRegion); }));
    line.Paths::close(*line.near);
    line.stalled = false;
    REQUIRE(line.until_ended());
    CHECK(line.near->dropped.empty());
}

TEST_CASE("a region that its owner closed under a key that lives: stale, and the path recovers") {
    Line line;
    REQUIRE_FALSE(line.inside([&] { return line.far->fabric->remove_region({kRegion}); }));
    REQUIRE(line.until([&] { return !line.far->released.empty(); }));
    const Octets remote = line.remote;
    TestOp &op = line.post_new(Dir::put, 2);
    TestOp &behind = line.post_new(Dir::get, 2);
    REQUIRE(line.until_ended());
    CHECK(line.near->status_of(op) == XFER_ESTALE);
    CHECK(line.near->status_of(behind) == XFER_EPEERLOST);
    CHECK(line.remote == remote);
    line.close();
    line.open();
}

TEST_CASE("memory of this side that is closed while it is used stays registered until then") {
    Line line(true, 16);
    line.stalled = true;
    TestOp &op = line.post_new(Dir::get, 5);
    CHECK_FALSE(line.inside([&] { return line.near->fabric->remove_region({1}); }));
    line.settle(20);
    CHECK(line.near->released.empty());
    line.stalled = false;
    REQUIRE(line.until([&] { return !line.near->released.empty(); }));
    CHECK(line.near->times_done(op) == 1);
    CHECK(line.near->status_of(op) == XFER_OK);
}

TEST_CASE("a region is exported when it is registered, and has the same key then") {
    Paths paths;
    Octets bytes(4096);
    paths.open();
    paths.inside([&] {
        paths.far->add_region(3, bytes);
        auto key = paths.far->key_of(3);
        REQUIRE_FALSE(key);
        CHECK(key.error().status == XFER_EAGAIN);
    });
    paths.import(*paths.far, 3);
    paths.inside([&] {
        auto one = paths.far->key_of(3), other = paths.far->key_of(3);
        REQUIRE(one);
        REQUIRE(other);
        CHECK(std::equal((*one).begin(), (*one).end(), (*other).begin(), (*other).end()));
        CHECK_FALSE(paths.near->path->import(Octets{1, 2, 3}));
    });
}

// ---- events of the device

TEST_CASE("what the device says of ports and queues ends the paths that it is about") {
    const ibv_event_type types[] = {IBV_EVENT_PORT_ERR,   IBV_EVENT_QP_FATAL,
                                    IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
                                    IBV_EVENT_CQ_ERR,     IBV_EVENT_DEVICE_FATAL};
    for (const ibv_event_type type : types)
        for (const bool busy : {false, true}) {
            CAPTURE(static_cast<int>(type));
            CAPTURE(busy);
            Line line;
            ibv_qp *const pair = near_pair(line);
            line.stalled = busy;
            if (busy) line.post_new(Dir::put, 5);
            ibv_async_event event{};
            event.event_type = type;
            if (type == IBV_EVENT_CQ_ERR)
                event.element.cq = pair->send_cq;
            else if (type == IBV_EVENT_PORT_ERR)
                event.element.port_num = 1;
            else
                event.element.qp = pair;
            line.near->adapter.raise_async(event);
            line.settle();
            line.stalled = false;
            REQUIRE(line.until_ended());
            line.check_each_once();
            CHECK(line.near->down_why->status != XFER_OK);
            CHECK(std::string_view(line.near->down_why->message) != "");
        }
}

TEST_CASE("an event that a port is up, which it was, ends nothing") {
    Line line;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_PORT_ACTIVE;
    event.element.port_num = 1;
    line.near->adapter.raise_async(event);
    line.settle();
    CHECK_FALSE(line.near->ended);
}

// ---- notifications

TEST_CASE(
    "a notification is noted at its owner before its first byte, and told when the path ends") {
    for (int steps = 0; steps < 8; ++steps)
        for (const bool inlined : {false, true}) {
            CAPTURE(steps);
            CAPTURE(inlined);
            FakeAdapterOptions options;
            options.granted_sends = 3;
            if (!inlined) options.inline_bytes = 0;
            Octets local = pattern(4096, 1), remote(4096);
            Paths paths({}, options, options);
            paths.open();
            paths.share(*paths.far, kRegion, remote);
            paths.inside([&] { paths.near->add_region(1, local); });
            paths.warm_up(*paths.near, kRegion, local);
            std::deque<TestOp> ops;
            paths.stalled = true;
            for (uint64_t i = 0; i < 3; ++i) {
                TestOp &op = make(ops, i == 1 ? Dir::get : Dir::put, kRegion,
                                  {{address(local.data()) + 600 * i, 600 * i, 300},
                                   {address(local.data()) + 600 * i + 300, 600 * i + 301, 290}});
                op.remote.notification = 40 + i;
                op.remote.notification_key = 50 + i;
                REQUIRE(paths.post(*paths.near, op));
            }
            for (int i = 0; i < steps; ++i) {
                paths.fabric.step();
                paths.step();
            }
            const bool first_landed = remote[0] || remote[100];
            const bool third_landed = remote[1200] || remote[1300];
            paths.close(*paths.far);
            REQUIRE(paths.until([&] { return paths.far->ended.has_value(); }));
            std::map<uint64_t, uint64_t> begun(paths.far->begun.begin(), paths.far->begun.end());
            CHECK(begun.size() == paths.far->begun.size());
            if (first_landed) CHECK(begun[40] == 50);
            if (third_landed) CHECK(begun[42] == 52);
            CHECK(begun.count(41) == 0);  // a get has none
            paths.stalled = false;
            paths.close();
        }
}

TEST_CASE("one record for each notification, however many puts it has") {
    Line line(true, 8);
    const FakePosts before = line.fabric.posts();
    for (uint64_t i = 0; i < 10; ++i) {
        TestOp &op = line.add(Dir::put, 1, 64 * i);
        op.remote.notification = 5;
        op.remote.notification_key = 6;
        REQUIRE(line.Paths::post(*line.near, op));
    }
    REQUIRE(line.until_done());
    CHECK(line.fabric.posts().requests - before.requests == 11);
    line.Paths::close(*line.far);
    REQUIRE(line.until([&] { return line.far->ended.has_value(); }));
    CHECK(line.far->begun == std::vector<std::pair<uint64_t, uint64_t>>{{5, 6}});
}

// A notification leaves when the gets before it have ended, and tells the owner that it may write.
TEST_CASE("leak 9: a get ends when its bytes are here, though the adapter reads late") {
    for (int steps = 0; steps < 20; ++steps) {
        CAPTURE(steps);
        Line line(true, 16, {.late_reads = true});
        line.stalled = true;
        line.post_new(Dir::put, 4, 512);
        const TestOp &get = line.post_new(Dir::get, 4);
        line.post_new(Dir::put, 4, 1024);
        line.near->on_op = [&](Op &op) {
            if (&op != &get) return;
            for (uint64_t i = 0; i < 4; ++i)
                CHECK(
                    std::equal(&line.local[16 * i], &line.local[16 * i + 8], &line.remote[16 * i]));
            fill(line.remote, 9);
        };
        for (int i = 0; i < steps; ++i) {
            line.fabric.step();
            line.settle(3);
        }
        line.stalled = false;
        REQUIRE(line.until_done());
        line.check_each_once();
        line.near->on_op = nullptr;
        CHECK(line.near->status_of(get) == XFER_OK);
    }
}

TEST_CASE("leak 9: the next path knows nothing of what the last one noted") {
    Line line;
    for (int round = 0; round < 20; ++round) {
        TestOp &op = line.add(Dir::put, 1);
        op.remote.notification = 100 + static_cast<uint64_t>(round);
        op.remote.notification_key = 1;
        REQUIRE(line.Paths::post(*line.near, op));
        REQUIRE(line.until_done());
        line.close();
        REQUIRE(line.far->begun.size() == 1);
        CHECK(line.far->begun[0].first == op.remote.notification);
        line.far->begun.clear();
        line.open();
        line.import(*line.far, kRegion);
    }
}
