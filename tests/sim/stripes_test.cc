// SPDX-License-Identifier: Apache-2.0
// A batch that goes by two data lanes, which take chunks of different sizes, and one of which
// breaks at any of its operations: each byte lands once, or its entry is told as lost.
#include "sim_channel.h"
#include "sim_host.h"

using namespace xfer;

namespace {

constexpr uint64_t kEntries = 160, kBytes = 3'000, kStride = 6'000;

// How often each byte of the owner's has been written.
struct Landings final : SimObserver {
    explicit Landings(Host &owner) : memory(owner.memory.data()), times(owner.memory.size()) {}
    uint64_t operation_at(const void *) override { return 0; }
    void leaves(uint64_t, const void *, uint32_t, bool) override {}
    void spoiled(uint64_t) override {}
    void reads(const void *) override {}
    void writes(const void *) override {}
    void lands(uint64_t, uint32_t, uint32_t, uint64_t, const uint8_t *at, size_t bytes) override {
        for (size_t i = 0; i < bytes; ++i)
            ++times[static_cast<size_t>(at - memory) + i];
    }
    void changes(uint64_t, uint32_t, uint32_t, uint64_t, const void *) override {}
    void announced(uint64_t, uint32_t) override {}
    void note(const std::string &) override {}
    const uint8_t *const memory;
    std::vector<uint8_t> times;
};

struct Stripes {
    explicit Stripes(World &w) : world(w), a(w, kA), b(w, kB), landings(b) {
        ep = a.open(kB);
        REQUIRE(a.lookup(ep, 1) == XFER_OK);
        const std::vector<uint8_t> bulk(300'000, 5);
        REQUIRE(a.put(ep, bulk.data(), 0, bulk.size(), 2) == XFER_OK);
        const auto open = [&] { return data_lanes().size() == 4; };  // ends of two
        REQUIRE(world.world.run_until(open, 10 * kSecond));
        world.world.run_for(kSecond);
        std::fill(b.memory.begin(), b.memory.end(), uint8_t{0});
        REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
    }
    ~Stripes() {
        world.net.observer = nullptr;
        world.net.on_step = nullptr;
        world.net.on_caps = nullptr;
        xfer_batch_close(batch);
    }
    std::vector<SimChannel *> data_lanes() {
        std::vector<SimChannel *> lanes;
        for (auto &[number, channel] : world.net.channels)
            if (channel->is_data_lane()) lanes.push_back(channel);
        return lanes;
    }
    void add(bool put) {
        for (uint64_t i = 0; i < kEntries; ++i) {
            uint8_t *at = local.data() + i * kBytes;
            std::fill_n(put ? at : &b.memory[i * kStride], kBytes, static_cast<uint8_t>(1 + i));
            const Status added = put ? xfer_batch_put(batch, at, &a.ref, i * kStride, kBytes)
                                     : xfer_batch_get(batch, at, &a.ref, i * kStride, kBytes);
            REQUIRE(added == XFER_OK);
        }
    }
    // One lane of ours breaks, at its k-th step of that kind.
    void break_at(ChannelStep step, Break how, uint64_t k) {
        world.net.on_step = [this, step, how, k, times = uint64_t{0}](SimChannel &channel,
                                                                      ChannelStep now) mutable {
            const bool ours = channel.transport().number == a.process->number;
            if (!ours || !channel.is_data_lane() || now != step) return Break::none;
            if (!breaking) breaking = &channel;
            return &channel == breaking && ++times == k ? how : Break::none;
        };
    }
    const xfer_event_t &run() {
        world.net.observer = &landings;
        a.expect(10);
        REQUIRE(xfer_batch_submit(batch, 10, nullptr) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return a.pending == 0; }, kBeforeStall));
        return a.done.at(10);
    }
    void check_put(uint64_t entry, Status status) {
        const uint64_t at = entry * kStride;
        const bool as_often = std::all_of(
            &landings.times[at], &landings.times[at + kBytes],
            [status](uint8_t times) { return times == 1 || (times == 0 && status != XFER_OK); });
        CHECK(as_often);
        const uint8_t *there = &b.memory[at];
        const bool right = std::equal(there, there + kBytes, local.data() + entry * kBytes);
        if (status == XFER_OK) CHECK(right);
    }
    void check(bool put, const xfer_event_t &how) {
        std::vector<xfer_status_t> entries(kEntries);
        REQUIRE(xfer_batch_entries(batch, 0, kEntries, entries.data()) == XFER_OK);
        CHECK((how.status == XFER_OK || how.status == XFER_EPEERLOST));
        uint64_t failed = 0;
        for (uint64_t i = 0; i < kEntries; ++i) {
            CAPTURE(i);
            failed += entries[i] != XFER_OK;
            const uint8_t *here = local.data() + i * kBytes;
            if (put)
                check_put(i, entries[i]);
            else if (entries[i] == XFER_OK)
                CHECK(
                    std::all_of(here, here + kBytes, [i](uint8_t byte) { return byte == 1 + i; }));
        }
        CHECK((failed != 0) == (how.status != XFER_OK));
        if (failed) CHECK(bool(how.flags & XFER_MAYBE_APPLIED) == put);
    }

    World &world;
    Host a, b;
    Landings landings;
    xfer_ep_t *ep = nullptr;
    xfer_batch_t *batch = nullptr;
    SimChannel *breaking = nullptr;
    std::vector<uint8_t> local = std::vector<uint8_t>(kEntries * kBytes);
};

// Ends of different numbers take chunks of different sizes.
void narrow_lanes(World &world) {
    world.net.on_caps = [](const SimChannel &channel, Caps &caps) {
        if (!channel.is_data_lane()) return;
        const bool small = (channel.number() / 2) % 2;
        caps.max_bytes = small ? 20'000 : 100'000;
        caps.max_pieces = small ? 5 : 40;
    };
}

struct Broken {
    ChannelStep step;
    Break how;
};
constexpr Broken kBroken[] = {{ChannelStep::post, Break::wire},
                              {ChannelStep::post, Break::refuse},
                              {ChannelStep::answer, Break::wire}};

}  // namespace

TEST_CASE("a lane breaks at any of its operations: each byte lands once, or is told as lost") {
    uint64_t well = 0, lost = 0;
    for (const bool put : {true, false})
        for (const auto &[step, how] : kBroken)
            for (uint64_t k = 1; k <= 20; ++k) {
                CAPTURE(put);
                CAPTURE(static_cast<int>(step));
                CAPTURE(static_cast<int>(how));
                CAPTURE(k);
                World world(k);
                world.lanes = 2;
                narrow_lanes(world);
                Stripes stripes(world);
                stripes.add(put);
                stripes.break_at(step, how, k);
                const xfer_event_t &ended = stripes.run();
                stripes.check(put, ended);
                ++(ended.status == XFER_OK ? well : lost);
                CHECK(stripes.a.stats().connection_ends == 0);
                CHECK(stripes.a.downs + stripes.b.downs == 0);
                world.net.on_step = nullptr;
                world.net.observer = nullptr;
                const std::vector<uint8_t> data(700'000, 9);
                CHECK(stripes.a.put(stripes.ep, data.data(), 0, data.size(), 20) == XFER_OK);
            }
    CHECK(well > 0);
    CHECK(lost > 0);
}

// All that was posted by it, and had not left, goes by the other one, in chunks that it takes.
TEST_CASE("what a lane had not sent when it ended goes by another, cut anew") {
    for (const uint64_t k : {1, 2, 3, 7}) {
        CAPTURE(k);
        World world(k);
        world.lanes = 2;
        narrow_lanes(world);
        Stripes stripes(world);
        stripes.add(true);
        stripes.break_at(ChannelStep::post, Break::refuse, k);
        world.net.window = 0;  // nothing leaves before it breaks
        stripes.a.expect(10);
        REQUIRE(xfer_batch_submit(stripes.batch, 10, nullptr) == XFER_OK);
        world.net.observer = &stripes.landings;
        world.world.run_for(50 * kNsPerMs);
        world.net.window = 1 << 20;
        for (auto &[number, channel] : world.net.channels)
            channel->path().flush();
        REQUIRE(world.world.run_until([&] { return stripes.a.pending == 0; }, kBeforeStall));
        const xfer_event_t &how = stripes.a.done.at(10);
        CHECK(how.status == XFER_OK);
        stripes.check(true, how);
    }
}
