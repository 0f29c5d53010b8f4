// SPDX-License-Identifier: Apache-2.0
// A path that is open, with operations of as many requests as a test wants.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "rdma_paths.h"

namespace xfer::rdma {

constexpr uint64_t kRegion = 7;

// A path with a region of the far side, and memory of the near one that is registered, or not.
struct Line : Paths {
    explicit Line(bool is_registered = true, uint32_t granted = 4, FakePersonality personality = {},
                  size_t size = 64 * 1024)
        : Paths(personality, with_sends(granted), with_sends(granted)),
          registered(is_registered),
          local(test::pattern(size, 1)),
          remote(test::pattern(size, 2)) {
        open();
        share(*far, kRegion, remote);
        if (registered) inside([&] { near->add_region(1, local); });
        Octets other(1);
        warm_up(*near, kRegion, registered ? local : other);
        for (int i = 0; i < 5; ++i)
            own->turn(kNsPerMs);
        fill(local, 1);
    }
    ~Line() { Paths::close(); }  // while the memory is there

    static FakeAdapterOptions with_sends(uint32_t granted) {
        FakeAdapterOptions options;
        options.granted_sends = granted;
        options.inline_bytes = 0;
        return options;
    }
    // Of so many requests.
    TestOp &add(Dir dir, uint64_t requests, uint64_t at = 0) {
        std::vector<Piece> pieces;
        for (uint64_t i = 0; i < requests; ++i)
            pieces.push_back({test::address(local.data()) + at + 16 * i, at + 16 * i, 8});
        return make(ops, dir, kRegion, pieces);
    }
    TestOp &post_new(Dir dir, uint64_t requests, uint64_t at = 0) {
        TestOp &op = add(dir, requests, at);
        REQUIRE(Paths::post(*near, op));
        return op;
    }
    // As post_new(), without a flush behind it: inside() a turn.
    TestOp &queue_new(Dir dir, uint64_t requests, uint64_t at = 0) {
        TestOp &op = add(dir, requests, at);
        REQUIRE(near->queue(op));
        return op;
    }
    // What was posted meanwhile.
    template <typename Call>
    FakePosts posts_in(Call call) {
        const FakePosts before = fabric.posts();
        call();
        const FakePosts after = fabric.posts();
        return {after.calls - before.calls, after.requests - before.requests,
                after.signaled - before.signaled};
    }
    bool until_done() {
        return until([&] { return near->posted.empty(); });
    }
    bool until_ended() {
        return until([&] { return near->ended.has_value(); });
    }
    void check_each_once() {
        for (TestOp &op : ops) {
            const auto count = std::count(near->declined.begin(), near->declined.end(), &op);
            CHECK(near->times_done(op) + static_cast<size_t>(count) == 1);
        }
    }

    const bool registered;
    Octets local, remote;
    std::deque<TestOp> ops;
};

inline ibv_qp *near_pair(Line &line) {
    for (ibv_qp *pair : line.fabric.pairs())
        if (std::string(pair->context->device->name) == "fake0") return pair;
    return nullptr;
}

}  // namespace xfer::rdma
