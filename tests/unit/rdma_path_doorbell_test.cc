// SPDX-License-Identifier: Apache-2.0
// Operations that leave together, by one post list: what it takes of the adapter, and what becomes
// of each whatever the adapter takes of the list.
#include <doctest/doctest.h>

#include <algorithm>

#include "rdma_line.h"
#include "transport/rdma/path.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;

namespace {

constexpr uint32_t kDeep = 129;  // slots as a queue pair has them

// What has not left is as it was.
void check_untouched(const Line &line, const Octets &remote) {
    CHECK(line.remote == remote);
    for (const TestOp &op : line.ops)
        CHECK_FALSE(op.sent);
}

}  // namespace

// ---- what it costs

TEST_CASE("operations of one turn leave by one doorbell, with few completions") {
    Line line(true, kDeep);
    const FakePosts posts = line.posts_in([&] {
        line.inside([&] {
            for (uint64_t i = 0; i < 64; ++i)
                line.queue_new(i % 2 ? Dir::get : Dir::put, 1, 16 * i);
            line.near->flush();
        });
    });
    CHECK(posts.calls == 1);
    CHECK(posts.requests == 64);
    CHECK(posts.signaled == 4);
    REQUIRE(line.until_done());
    REQUIRE(line.near->done.size() == 64);
    for (size_t i = 0; i < 64; ++i)
        CHECK(line.near->done[i] == Side::Done{&line.ops[i], XFER_OK});
}

TEST_CASE("one alone has a completion of its own, and large ones have") {
    Line line(true, kDeep, {}, 1 << 20);
    FakePosts posts = line.posts_in([&] { line.post_new(Dir::put, 1); });
    CHECK(posts.calls == 1);
    CHECK(posts.signaled == 1);
    REQUIRE(line.until_done());
    posts = line.posts_in([&] {
        line.inside([&] {
            for (uint64_t i = 0; i < 8; ++i) {
                TestOp &op = make(line.ops, Dir::put, kRegion,
                                  {{address(line.local.data()), 0, 40'000 + i}});
                REQUIRE(line.near->queue(op));
            }
            line.near->flush();
        });
    });
    CHECK(posts.calls == 1);
    CHECK(posts.signaled == 8);
    REQUIRE(line.until_done());
}

TEST_CASE("slots come back before a queue is empty, however short it is") {
    for (const uint32_t granted : {2u, 3u, 5u, 9u, 17u, 33u}) {
        CAPTURE(granted);
        Line line(true, granted);
        const FakePosts posts = line.posts_in([&] {
            line.inside([&] {
                for (uint64_t i = 0; i < granted - 1; ++i)
                    line.queue_new(Dir::put, 1, 16 * i);
                line.near->flush();
            });
        });
        CHECK(posts.calls == 1);
        CHECK(posts.signaled >= std::min(4u, granted - 1));
        REQUIRE(line.until_done());
    }
}

TEST_CASE("a list has a bound, and the next one follows at once") {
    Line line(true, 401);  // slots are as asked for, which is 128
    const FakePosts posts = line.posts_in([&] {
        line.inside([&] {
            for (uint64_t i = 0; i < 20; ++i)
                line.queue_new(Dir::put, 10, 160 * i);
            line.near->flush();
        });
    });
    CHECK(posts.requests == 128);
    CHECK(posts.calls == 2);
    REQUIRE(line.until_done());
    line.check_each_once();
}

TEST_CASE("slots that come back in one turn are filled by one doorbell") {
    Line line(true, 26);
    line.stalled = true;
    for (uint64_t i = 0; i < 50; ++i)
        line.post_new(Dir::put, 1, 16 * i);
    const FakePosts posts = line.posts_in([&] {
        line.fabric.run();
        line.step();
    });
    CHECK(posts.calls == 1);
    CHECK(posts.requests == 25);
    line.stalled = false;
    REQUIRE(line.until_done());
}

// ---- between post and flush

TEST_CASE("what nobody flushes leaves with the next turn") {
    Line line;
    line.inside([&] { line.queue_new(Dir::put, 2); });
    line.own->turn(0);
    CHECK(line.ops.back().sent);
    REQUIRE(line.until_done());
    CHECK(line.near->status_of(line.ops.back()) == XFER_OK);
}

TEST_CASE("canceled before it is flushed: quiet at once, and nothing of it is posted") {
    Line line;
    const Octets remote = line.remote;
    const FakePosts posts = line.posts_in([&] {
        line.inside([&] {
            TestOp &op = line.queue_new(Dir::put, 3);
            CHECK(line.near->cancel(op));
            line.near->flush();
        });
        REQUIRE(line.until_done());
    });
    CHECK(posts.calls == 0);
    CHECK(line.near->status_of(line.ops.back()) == XFER_ECANCELED);
    check_untouched(line, remote);
}

TEST_CASE("a region that is withdrawn before the flush: declined, and nothing of it is posted") {
    Line line;
    const Octets remote = line.remote;
    const FakePosts posts = line.posts_in([&] {
        line.inside([&] {
            line.queue_new(Dir::put, 3);
            CHECK(line.near->withdraw(kRegion));
            line.near->flush();
        });
        REQUIRE(line.until_done());
    });
    CHECK(posts.calls == 0);
    CHECK(line.near->declined == std::vector<Op *>{&line.ops.back()});
    check_untouched(line, remote);
}

TEST_CASE("memory of this side that ends before the flush is not read by the adapter") {
    Line line;
    line.inside([&] {
        line.queue_new(Dir::get, 3);
        line.near->fabric->remove_region({1});
        line.near->flush();
    });
    REQUIRE(line.until([&] { return !line.near->released.empty(); }));
    REQUIRE(line.until_done());
    line.check_each_once();
}

TEST_CASE("a path that ends before the flush: told as never sent, and nothing is posted") {
    for (const bool flushes : {false, true}) {
        Line line;
        const Octets remote = line.remote;
        const FakePosts posts = line.posts_in([&] {
            line.inside([&] {
                for (uint64_t i = 0; i < 4; ++i)
                    line.queue_new(Dir::put, 3, 64 * i);
                line.near->close();
                if (flushes) line.near->flush();
            });
            REQUIRE(line.until_ended());
        });
        CHECK(posts.requests == 0);
        line.check_each_once();
        for (const Side::Done &done : line.near->done)
            CHECK(done.status == XFER_EPEERLOST);
        check_untouched(line, remote);
    }
}

// ---- what is taken in part

TEST_CASE("a list of several operations of which k requests are taken, for every k") {
    for (const bool mute : {false, true})
        for (const uint64_t others : {uint64_t{0}, uint64_t{3}})
            for (unsigned taken = 0; taken <= 12; ++taken) {
                CAPTURE(mute);
                CAPTURE(others);
                CAPTURE(taken);
                FakePersonality personality;
                personality.null_bad_wr = mute;
                Line line(true, kDeep, personality);
                line.stalled = true;
                for (uint64_t i = 0; i < others; ++i)
                    line.post_new(Dir::put, 2, 2048 + 64 * i);
                line.fabric.fail_post(1, taken, EIO);
                const Octets remote = line.remote;
                line.inside([&] {
                    for (uint64_t i = 0; i < 4; ++i)
                        line.queue_new(i % 2 ? Dir::get : Dir::put, 3, 128 * i);
                    line.near->flush();
                });
                const unsigned counted = mute ? 12 : taken;
                for (unsigned i = 0; i < 4; ++i)
                    CHECK(line.ops[others + i].sent == (counted > 3 * i));
                line.stalled = false;
                REQUIRE(line.until_ended());
                line.check_each_once();
                CHECK(line.near->done.size() == others + 4);
                for (const Side::Done &done : line.near->done) {
                    CHECK((done.status == XFER_OK || done.status == XFER_EPEERLOST));
                    if (done.status == XFER_OK) CHECK(done.op->sent);
                }
                for (unsigned i = 0; i < 4; i += 2)  // a put that was not taken
                    if (3 * i >= taken)
                        CHECK(std::equal(&remote[128 * i], &remote[128 * i + 48],
                                         &line.remote[128 * i]));
                line.close();
                line.open();
            }
}

TEST_CASE("a list that is not taken for want of room waits, and leaves in its order") {
    Line line(true, kDeep);
    line.stalled = true;
    line.post_new(Dir::put, 2, 4096);
    line.fabric.fail_post(1, 0, ENOMEM);
    line.inside([&] {
        for (uint64_t i = 0; i < 5; ++i) {
            TestOp &op = line.add(Dir::put, 1 + i, 128 * i);
            op.remote.notification = 30 + i / 2;
            REQUIRE(line.near->queue(op));
        }
        line.near->flush();
    });
    for (size_t i = 1; i < line.ops.size(); ++i)
        CHECK_FALSE(line.ops[i].sent);
    // One that is canceled meanwhile leaves nothing, and holds nobody back.
    CHECK(line.inside([&] { return line.near->cancel(line.ops[2]); }));
    line.stalled = false;
    const FakePosts posts = line.posts_in([&] { REQUIRE(line.until_done()); });
    CHECK(posts.calls == 1);
    CHECK(posts.requests == 1 + 3 + 4 + 5 + 3);  // and the records of three notifications
    line.check_each_once();
    CHECK(line.near->status_of(line.ops[2]) == XFER_ECANCELED);
    std::vector<const Op *> order;
    for (const Side::Done &done : line.near->done)
        if (done.status == XFER_OK) order.push_back(done.op);
    CHECK(order == std::vector<const Op *>{&line.ops[0], &line.ops[1], &line.ops[3], &line.ops[4],
                                           &line.ops[5]});
    line.Paths::close(*line.far);
    REQUIRE(line.until([&] { return line.far->ended.has_value(); }));
    CHECK(line.far->begun.size() == 3);
}

TEST_CASE(
    "the k-th request of a list fails: what is behind it is lost, and nothing is told wrong") {
    for (const ibv_wc_status error : {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR})
        for (unsigned k = 1; k <= 24; ++k) {
            CAPTURE(static_cast<int>(error));
            CAPTURE(k);
            Line line(true, kDeep);
            line.fabric.fail_request(near_pair(line), k, error);
            line.inside([&] {
                for (uint64_t i = 0; i < 24; ++i)
                    line.queue_new(Dir::put, 1, 16 * i);
                line.near->flush();
            });
            REQUIRE(line.until_ended());
            line.check_each_once();
            for (unsigned i = 0; i < 24; ++i) {
                const Status status = line.near->status_of(line.ops[i]);
                const bool dead_key = error == IBV_WC_REM_ACCESS_ERR && i + 1 == k;
                // Of the run that it was in nobody knows; of the one before it is known.
                const bool is_told = i < 16 && k > 16;
                CHECK(status == (is_told ? XFER_OK : dead_key ? XFER_ESTALE : XFER_EPEERLOST));
                if (i + 1 >= k)
                    CHECK(std::equal(&line.remote[16 * i], &line.remote[16 * i + 8],
                                     &test::pattern(line.remote.size(), 2)[16 * i]));
            }
        }
}
