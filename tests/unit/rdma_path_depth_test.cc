// SPDX-License-Identifier: Apache-2.0
// More requests than a queue has slots, of many sources at once: all of them end, in the order in
// which they were posted, and the queue is as deep then as it was.
#include <doctest/doctest.h>

#include <map>

#include "rdma_line.h"
#include "transport/rdma/path.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;

namespace {

constexpr uint64_t kSources = 8;

// Sources that each post one batch after the other, of so many requests in turn, the next one
// where the last has ended.
class Sources {
public:
    Sources(Line &line, std::vector<uint64_t> batches, uint64_t rounds)
        : line_(line), batches_(std::move(batches)), left_(kSources, rounds) {}

    void run() {
        line_.near->on_op = [this](Op &op) { on_over(op); };
        line_.inside([&] {
            for (uint64_t source = 0; source < kSources; ++source)
                post(source);
            line_.near->flush();
        });
        REQUIRE(line_.until_done());
        line_.near->on_op = nullptr;
    }
    const std::vector<Op *> &order() const { return order_; }
    uint64_t requests() const { return requests_; }

private:
    void post(uint64_t source) {
        if (left_[source] == 0) return;
        const uint64_t size = batches_[(source + --left_[source]) % batches_.size()];
        TestOp &op = line_.add(left_[source] % 3 ? Dir::put : Dir::get, size);
        REQUIRE(line_.near->queue(op));
        order_.push_back(&op);
        of_[&op] = source;
        requests_ += size;
    }
    void on_over(Op &op) {
        post(of_.at(&op));
        // As a connection does at the end of its turn, or seldom.
        if (order_.size() % 2) line_.near->flush();
    }

    Line &line_;
    const std::vector<uint64_t> batches_;
    std::vector<uint64_t> left_;
    std::vector<Op *> order_;
    std::map<const Op *, uint64_t> of_;
    uint64_t requests_ = 0;
};

// All of them well, once, and none passed by one that came later.
void check_order(const Line &line, const std::vector<Op *> &order) {
    REQUIRE(line.near->done.size() == order.size());
    for (size_t i = 0; i < order.size(); ++i)
        if (line.near->done[i] != Side::Done{order[i], XFER_OK}) FAIL("operation ", i);
}

// One operation of as many requests as there are slots goes by one list: none is taken.
void check_depth(Line &line, uint32_t depth) {
    const FakePosts posts = line.posts_in([&] { line.post_new(Dir::put, depth); });
    CHECK(posts.calls == 1);
    CHECK(posts.requests == depth);
    REQUIRE(line.until_done());
}

}  // namespace

TEST_CASE(
    "leak 3: who waits for slots holds none: eight sources of batches of up to 200 on depth 25") {
    for (const bool registered : {true, false})
        for (const std::vector<uint64_t> &batches :
             std::vector<std::vector<uint64_t>>{{1}, {10}, {30}, {200}, {1, 10, 30, 200}}) {
            CAPTURE(registered);
            CAPTURE(batches.size());
            CAPTURE(batches[0]);
            Line line(registered, 26);
            Sources sources(line, batches, 25);
            const FakePosts posts = line.posts_in([&] { sources.run(); });
            check_order(line, sources.order());
            if (registered) CHECK(posts.requests == sources.requests());
            if (registered) check_depth(line, 25);
        }
}

TEST_CASE("10,000 requests on depth 16") {
    for (const uint64_t size : {1u, 7u, 16u, 17u, 500u}) {
        CAPTURE(size);
        Line line(true, 17);
        Sources sources(line, {size}, 10'000 / kSources / size + 1);
        sources.run();
        CHECK(sources.requests() >= 10'000 - kSources * size);
        check_order(line, sources.order());
        check_depth(line, 16);
    }
}

TEST_CASE("leak 7: a small operation waits for those before it alone, whatever comes behind") {
    Line line(true, 17);
    line.stalled = true;
    TestOp &large = line.post_new(Dir::put, 500);
    TestOp &small = line.post_new(Dir::put, 1, 8'192);
    std::vector<Op *> order{&large, &small};
    // Others go on coming, large and small, as long as it waits.
    const auto another = [&] {
        TestOp &op = line.add(Dir::put, order.size() % 2 ? 200 : 1, 16'384);
        if (line.Paths::post(*line.near, op)) order.push_back(&op);
    };
    const FakePosts posts = line.posts_in([&] {
        REQUIRE(line.until([&] {
            another();
            line.fabric.run();
            return line.near->times_done(small) > 0;
        }));
    });
    CHECK(posts.requests <= 500 + 1 + 16);
    line.stalled = false;
    REQUIRE(line.until_done());
    check_order(line, order);
}
