// SPDX-License-Identifier: Apache-2.0
// What core relies on of a path by which requests for memory of a device go (StagedRequest).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "ends.h"

using namespace xfer;
using namespace xfer::test;

namespace {

constexpr size_t kBytes = 5000;

// The requests that are staged, in their order; each ends when the test says so.
struct Device {
    struct Request final : StagedRequest {
        explicit Request(Dir way, std::vector<iovec> ranges) : dir(way), memory(std::move(ranges)) {
            for (const iovec &range : memory)
                bounce.iov_len += range.iov_len;
            bytes.resize(bounce.iov_len);
            bounce.iov_base = bytes.data();
        }
        void apply() override {
            CHECK(dir == Dir::put);
            CHECK(!released);
            ++applied;
        }
        void release() override { ++released; }
        void end(Status with = XFER_OK) {
            uint8_t *at = bytes.data();
            for (const iovec &range : memory) {
                dir == Dir::put ? std::memcpy(range.iov_base, at, range.iov_len)
                                : std::memcpy(at, range.iov_base, range.iov_len);
                at += range.iov_len;
            }
            status = with;
            over = true;
        }
        const Dir dir;
        std::vector<iovec> memory;
        std::vector<uint8_t> bytes;
        int applied = 0, released = 0;
    };

    explicit Device(Ends &both) : ends(both) {
        ends.there().stage_hook = [this](Dir dir, std::vector<iovec> &ranges) -> StagedRequest * {
            if (!stages) return nullptr;
            requests.emplace_back(dir, ranges);
            ranges.assign(1, requests.back().bounce);
            return &requests.back();
        };
    }
    ~Device() { ends.there().stage_hook = nullptr; }
    bool await(size_t count) {
        return ends.until([&] {
            return requests.size() == count &&
                   (requests.back().dir == Dir::get || requests.back().applied);
        });
    }
    bool released() const {
        return std::all_of(requests.begin(), requests.end(),
                           [](const Request &request) { return request.released == 1; });
    }

    Ends &ends;
    bool stages = true;
    std::deque<Request> requests;
};

}  // namespace

TEST_SUITE_BEGIN("requests");

TEST_CASE("an answer waits for its copy, and those behind it with it") {
    auto ends = make_ends();
    Device device(*ends);
    const std::vector<uint8_t> data = pattern(kBytes, 1);
    std::vector<uint8_t> back(kBytes), host(kBytes);
    TestOp put(Dir::put, kRegion, {{address(data.data()), 0, kBytes}});
    TestOp get(Dir::get, kRegion, {{address(back.data()), 0, kBytes}});
    TestOp behind(Dir::get, kRegion, {{address(host.data()), 1 << 20, kBytes}});
    put.last = get.last = behind.last = true;
    ends->post(put);
    ends->post(get);
    ends->flush();
    REQUIRE(device.await(2));
    device.stages = false;
    ends->post(behind);
    ends->flush();
    ends->pass(20);
    CHECK(ends->there().served_put == 0);  // the sink knows of staged ones by itself
    CHECK(!ends->is_done(put));
    CHECK(!ends->is_done(get));
    device.requests[0].end();
    device.requests[1].end();  // which reads what the put has brought
    ends->back().path().flush();
    REQUIRE(ends->all_done(3));
    for (TestOp *op : {&put, &get, &behind})
        CHECK(ends->status_of(*op) == XFER_OK);
    CHECK(back == data);
    CHECK(device.requests[0].applied == 1);
    REQUIRE(ends->until([&] { return device.released(); }));
}

TEST_CASE("a copy that fails refuses its request, and no other") {
    auto ends = make_ends();
    Device device(*ends);
    std::vector<uint8_t> data = pattern(kBytes, 1), untouched = data;
    std::deque<TestOp> ops;
    for (const Dir dir : {Dir::put, Dir::get, Dir::put})
        ops.emplace_back(dir, kRegion, std::vector<Piece>{{address(data.data()), 0, kBytes}});
    for (TestOp &op : ops) {
        ends->post(op);
        ends->flush();
    }
    REQUIRE(device.await(3));
    device.requests[0].end(XFER_EIO);
    device.requests[1].end(XFER_ENOMEM);
    device.requests[2].end();
    ends->back().path().flush();
    REQUIRE(ends->all_done(3));
    CHECK(ends->status_of(ops[0]) == XFER_EIO);
    CHECK(ends->status_of(ops[1]) == XFER_ENOMEM);
    CHECK(ends->status_of(ops[2]) == XFER_OK);
    CHECK(data == untouched);
    REQUIRE(ends->until([&] { return device.released(); }));
}

TEST_CASE("a get that waits for its copy is refused as soon as its region ends") {
    auto ends = make_ends();
    Device device(*ends);
    std::vector<uint8_t> into(kBytes);
    TestOp get(Dir::get, kRegion, {{address(into.data()), 0, kBytes}});
    ends->post(get);
    ends->flush();
    REQUIRE(device.await(1));
    CHECK(ends->back().path().retire(RegionId{kRegion}, XFER_ESTALE));
    REQUIRE(ends->until([&] { return ends->is_done(get); }));
    CHECK(ends->status_of(get) == XFER_ESTALE);
    CHECK(device.released());
}

TEST_CASE("a path that ends lets go of what is staged, once") {
    for (const bool over : {false, true}) {
        auto ends = make_ends();
        Device device(*ends);
        std::vector<uint8_t> data = pattern(kBytes, 1);
        std::deque<TestOp> ops;
        for (int i = 0; i < 6; ++i)
            ops.emplace_back(i % 2 ? Dir::get : Dir::put, kRegion,
                             std::vector<Piece>{{address(data.data()), 0, kBytes}});
        for (TestOp &op : ops)
            ends->post(op);
        ends->flush();
        REQUIRE(device.await(6));
        if (over) device.requests[0].end();
        ends->back().close({XFER_ECLOSED, 0, 0, "a test"});
        REQUIRE(ends->until([&] { return ends->there().down.has_value(); }));
        CHECK(device.released());
    }
}

TEST_SUITE_END();
