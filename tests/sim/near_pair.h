// SPDX-License-Identifier: Apache-2.0
// Two simulated neighbours, or engines with adapters, of which `a` copies to and from the memory of
// `b` without it, and what a script lets go wrong with that.
#pragma once

#include <algorithm>
#include <deque>
#include <map>

#include "sim_copy_path.h"
#include "sim_host.h"

namespace xfer {

class NearPair {
public:
    enum class By : uint8_t { rings, copies, adapter, copies_and_adapter };
    explicit NearPair(World &w, By by = By::copies) : world(w) {
        world.net.adapters = by == By::adapter || by == By::copies_and_adapter;
        world.net.neighbours = by != By::adapter;
        world.net.copies = by == By::copies || by == By::copies_and_adapter;
        world.net.on_copy = [this](CopyStep step, const SimCopyPath &path) {
            const uint64_t times = ++asked[step];
            return script ? script(step, times, path) : CopyFate::go_on;
        };
        a = std::make_unique<Host>(world, kA);
        b = std::make_unique<Host>(world, kB);
        ep = a->open(kB);
        REQUIRE(a->lookup(ep, ++last_user) == XFER_OK);
    }
    ~NearPair() {
        script = nullptr;
        a->end();
        b->end();
        world.net.on_copy = nullptr;
    }
    uint64_t copied() { return world.net.met["copied"]; }
    uint64_t said(FrameType type) { return world.net.frames[type]; }
    Status put(uint64_t offset, uint64_t length) {
        const std::vector<uint8_t> data(length, 7);
        return a->put(ep, data.data(), offset, length, ++last_user);
    }
    void put_to(const xfer_ref_t &ref, const std::vector<uint8_t> &data) {
        a->expect(++last_user);
        REQUIRE(xfer_put(ep, data.data(), &ref, 0, data.size(), last_user, nullptr) == XFER_OK);
        CHECK(a->wait(last_user) == XFER_OK);
    }
    // One more of the owner's.
    xfer_region_t *open_region(std::vector<uint8_t> &memory, xfer_ref_t &ref) {
        xfer_region_options_t lent{};
        lent.size = sizeof lent;
        lent.access = XFER_READ | XFER_WRITE;
        xfer_region_t *region = nullptr;
        REQUIRE(xfer_region_open(b->engine, &lent, memory.data(), memory.size(), &region,
                                 nullptr) == XFER_OK);
        REQUIRE(xfer_region_ref(region, &ref) == XFER_OK);
        return region;
    }
    // From here on what is asked is counted from 1.
    void come_near() {
        uint8_t byte = 1;
        for (int i = 0; i < 100 && copied() == 0; ++i)
            REQUIRE(a->put(ep, &byte, 0, 1, ++last_user) == XFER_OK);
        REQUIRE(copied() > 0);
        asked.clear();
    }
    uint64_t lost_connections() { return a->stats().connection_ends + b->stats().connection_ends; }

    World &world;
    std::function<CopyFate(CopyStep, uint64_t, const SimCopyPath &)> script;
    std::map<CopyStep, uint64_t> asked;
    std::unique_ptr<Host> a, b;
    xfer_ep_t *ep = nullptr;
    uint64_t last_user = 1'000'000;
};

// Puts and gets of many lengths, each of a range of its own, all under way at once. What has ended
// has its local memory overwritten at once, so that a later use of it is seen.
class Burst {
public:
    struct One {
        bool put = true;
        uint64_t user = 0, offset = 0;
        std::vector<uint8_t> local, right;
        bool canceled = false;
    };
    static constexpr uint8_t kUsedAgain = 0xee;

    Burst(NearPair &near, uint64_t count, uint64_t bytes) : near_(near), host_(*near.a) {
        uint64_t at = 0;
        for (uint64_t i = 0; i < count; ++i) {
            One one;
            one.put = i % 3 != 2;
            one.user = ++near.last_user;
            one.offset = at;
            one.right.assign(bytes + 7 * i, static_cast<uint8_t>(1 + i % 200));
            one.local = one.right;
            if (!one.put) fill(one);
            at += one.right.size();
            REQUIRE(at <= near.b->memory.size());
            all.push_back(std::move(one));
        }
        host_.on_done = [this](const xfer_event_t &event) { ended(event); };
    }
    ~Burst() { host_.on_done = nullptr; }
    void begin() {
        for (One &one : all)
            begin(one);
    }
    void begin(One &one) {
        host_.expect(one.user);
        const auto call = one.put ? put_one(one) : get_one(one);
        REQUIRE(call == XFER_OK);
    }
    void cancel(One &one) {
        one.canceled = true;
        REQUIRE(xfer_cancel(host_.engine, near_.ep, one.user, UINT64_MAX) == XFER_OK);
    }
    bool all_end(uint64_t limit = kBeforeStall) {
        return near_.world.world.run_until([this] { return host_.pending == 0; }, limit);
    }
    const xfer_event_t &event(const One &one) const { return host_.done.at(one.user); }
    bool has_ended(const One &one) const { return host_.done.count(one.user); }
    uint64_t count(Status status) const {
        return static_cast<uint64_t>(std::count_if(all.begin(), all.end(), [&](const One &one) {
            return has_ended(one) && event(one).status == status;
        }));
    }
    // At rest: each has ended as it may, once, and nobody has used its memory after that.
    void check() {
        for (One &one : all) {
            CAPTURE(one.user);
            REQUIRE(has_ended(one));
            const xfer_event_t &how = event(one);
            const bool lost = how.status == XFER_EPEERLOST;
            CHECK(
                (how.status == XFER_OK || lost || (one.canceled && how.status == XFER_ECANCELED)));
            if (lost) CHECK(bool(how.flags & XFER_MAYBE_APPLIED) == one.put);
            const bool untouched = std::all_of(one.local.begin(), one.local.end(),
                                               [](uint8_t byte) { return byte == kUsedAgain; });
            CHECK(untouched);
            const uint8_t *there = near_.b->memory.data() + one.offset;
            const bool used_again =
                std::find(there, there + one.right.size(), kUsedAgain) != there + one.right.size();
            CHECK_FALSE(used_again);
            if (one.put && how.status == XFER_OK)
                CHECK(std::equal(one.right.begin(), one.right.end(), there));
        }
    }

    std::deque<One> all;

private:
    void fill(One &one) {
        std::copy(one.right.begin(), one.right.end(),
                  near_.b->memory.begin() + static_cast<ptrdiff_t>(one.offset));
        std::fill(one.local.begin(), one.local.end(), uint8_t{0});
    }
    Status put_one(One &one) {
        return xfer_put(near_.ep, one.local.data(), &host_.ref, one.offset, one.local.size(),
                        one.user, nullptr);
    }
    Status get_one(One &one) {
        return xfer_get(near_.ep, one.local.data(), &host_.ref, one.offset, one.local.size(),
                        one.user, nullptr);
    }
    void ended(const xfer_event_t &event) {
        for (One &one : all) {
            if (one.user != event.user) continue;
            if (!one.put && event.status == XFER_OK) CHECK(one.local == one.right);
            std::fill(one.local.begin(), one.local.end(), kUsedAgain);
        }
    }

    NearPair &near_;
    Host &host_;
};

inline std::function<CopyFate(CopyStep, uint64_t, const SimCopyPath &)> falls_at(CopyStep step,
                                                                                 uint64_t k) {
    return [=](CopyStep now, uint64_t times, const SimCopyPath &) {
        return now == step && times == k ? CopyFate::fall : CopyFate::go_on;
    };
}

// A path that falls at each step of each of so many operations, which costs no connection.
template <typename Check>
void with_each_fall(NearPair::By by, uint64_t ops, Check check) {
    for (const CopyStep step : {CopyStep::post, CopyStep::begin, CopyStep::finish})
        for (uint64_t k = 1; k <= ops; ++k) {
            CAPTURE(static_cast<int>(step));
            CAPTURE(k);
            World world(k);
            NearPair pair(world, by);
            pair.come_near();
            pair.script = falls_at(step, k);
            check(pair, step);
            CHECK(pair.lost_connections() == 0);
            CHECK(pair.a->downs + pair.b->downs == 0);
        }
}

}  // namespace xfer
