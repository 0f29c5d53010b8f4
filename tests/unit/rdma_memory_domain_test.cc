// SPDX-License-Identifier: Apache-2.0
// Which keys are found of regions that come and go while they are registered and used, and that no
// key works once a region's end was told.
#include "transport/rdma/memory_domain.h"

#include <sys/wait.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "domain_fixture.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

constexpr uint32_t kBoth = XFER_READ | XFER_WRITE;

struct Bench : LoopOverMemory, MemoryDomainSink {
    void on_settled() override { ++settled; }
    uint64_t settled = 0;
    Bench() { domain.emplace(memory.verbs, memory.port, *worker, log, *this); }
    ~Bench() { close(); }
    void close() {
        memory.loop_thread = {};  // its end may block
        domain.reset();
    }
    void on_released(RegionId region) override {
        CHECK_FALSE(inside);
        released.push_back(region.value);
        if (told) told(region.value);
    }

    void add(uint64_t region, uint64_t from, uint64_t length, uint32_t access = kBoth) {
        domain->add(RegionId{region}, {at(from), length, access, {}, -1, 0});
    }
    bool remove(uint64_t region) {
        inside = true;
        const bool quiet = domain->remove(RegionId{region});
        inside = false;
        return quiet;
    }
    LocalKey find(uint64_t offset, Dir dir = Dir::put) {
        return domain->find(address(offset), dir);
    }
    LocalKey await(uint64_t offset, Dir dir = Dir::put) {
        CHECK(turn_until([&] { return find(offset, dir).reach != 0; }));
        return find(offset, dir);
    }
    bool has_released(uint64_t region) const {
        return std::count(released.begin(), released.end(), region) == 1;
    }
    uint8_t *at(uint64_t offset) { return bytes.data() + offset; }
    uint64_t address(uint64_t offset) { return reinterpret_cast<uint64_t>(at(offset)); }
    bool allows(const LocalKey &key, uint64_t offset, bool writes = true) {
        return memory.allows(key.lkey, address(offset), key.reach, writes);
    }

    std::vector<uint8_t> bytes = std::vector<uint8_t>(1 << 16);
    std::optional<MemoryDomain> domain;
    std::vector<uint64_t> released;
    std::function<void(uint64_t)> told;
    bool inside = false;
};

}  // namespace

TEST_CASE("a region is registered when its memory is first used, and not before") {
    Bench bench;
    bench.add(1, 100, 1000);
    bench.turns(3);
    CHECK(bench.memory.adds == 0);
    CHECK(bench.find(99).reach == 0);
    CHECK(bench.find(1100).reach == 0);
    bench.turns(3);
    CHECK(bench.memory.adds == 0);
    CHECK(bench.find(100).reach == 0);
    CHECK(bench.await(100).reach == 1000);
    const LocalKey last = bench.find(1099, Dir::get);
    CHECK(last.reach == 1);
    CHECK(bench.allows(last, 1099));
    CHECK(bench.find(1100).reach == 0);
    CHECK(bench.find(99).reach == 0);
    CHECK(bench.memory.adds == 1);
}

TEST_CASE("a peer's wish registers it, too, once") {
    Bench bench;
    bench.add(1, 0, 1000, XFER_READ);
    CHECK(bench.domain->find(RegionId{2}).error().status == XFER_EAGAIN);
    CHECK(bench.domain->find(RegionId{1}).error().status == XFER_EAGAIN);
    CHECK(bench.find(0).reach == 0);
    REQUIRE(bench.turn_until([&] { return bool(bench.domain->find(RegionId{1})); }));
    auto found = bench.domain->find(RegionId{1});
    CHECK((*found)->chunks() == 1);
    CHECK((*found)->chunk(0).lkey == bench.find(0).lkey);
    CHECK(bench.memory.adds == 1);
}

TEST_CASE("a device that takes little at once gives several keys, and peers not too many") {
    Bench bench;
    bench.memory.port.limits.region_bytes = 4096;
    bench.domain.emplace(bench.memory.verbs, bench.memory.port, *bench.worker, bench.log, bench);
    bench.add(1, 10, kMaxParts * 4096);
    const LocalKey first = bench.await(10);
    CHECK(first.reach == 4096);
    CHECK(bench.find(10 + 4095).lkey == first.lkey);
    CHECK(bench.find(10 + 4095).reach == 1);
    const LocalKey next = bench.find(10 + 4096);
    CHECK(next.lkey != first.lkey);
    CHECK(next.reach == 4096);
    CHECK(bench.allows(next, 10 + 4096));
    CHECK(bench.domain->find(RegionId{1}));
    CHECK(bench.remove(1) == false);
    bench.bytes.resize((kMaxParts + 1) * 4096);
    REQUIRE(bench.turn_until([&] { return bench.has_released(1); }));
    bench.add(2, 0, kMaxParts * 4096 + 1);
    CHECK(bench.await(0).reach == 4096);
    CHECK(bench.domain->find(RegionId{2}).error().status == XFER_EUNSUPPORTED);
}

TEST_CASE("memory that can't be written is no place for a get") {
    Bench bench;
    bench.memory.read_only = bench.at(0);
    bench.add(1, 0, 1000, XFER_READ);
    const LocalKey key = bench.await(0);
    CHECK(key.reach == 1000);
    CHECK(bench.allows(key, 0, false));
    CHECK(bench.find(0, Dir::get).reach == 0);
    CHECK(bench.find(0, Dir::atomic).reach == 0);
    // Another region, of the same memory, may be written.
    bench.memory.read_only = nullptr;
    bench.add(2, 0, 500, XFER_READ);
    CHECK(bench.find(0).lkey == key.lkey);
    const LocalKey written = bench.await(0, Dir::get);
    CHECK(written.reach == 500);
    CHECK(bench.allows(written, 0));
    CHECK(bench.find(500, Dir::get).reach == 0);
    CHECK(bench.find(500).lkey == key.lkey);
}

TEST_CASE("of regions that overlap any serves, and each goes alone") {
    Bench bench;
    bench.add(1, 0, 1000);
    bench.add(2, 0, 1000);
    bench.add(3, 500, 4000);
    CHECK(bench.find(10).reach == 0);
    CHECK(bench.find(700).reach == 0);  // the one that comes is waited for
    const LocalKey first = bench.await(10);
    CHECK(bench.memory.adds == 1);
    CHECK(bench.find(700).lkey == first.lkey);
    CHECK(bench.await(2000).reach == 2500);
    CHECK(bench.memory.adds == 2);
    const uint64_t taken = bench.domain->find(RegionId{1}) ? 1 : 2;
    CHECK_FALSE(bench.remove(taken));
    CHECK(bench.find(10).reach == 0);  // the other one begins
    const LocalKey second = bench.await(10);
    CHECK(second.lkey != first.lkey);
    CHECK(bench.allows(second, 10));
    CHECK(bench.turn_until([&] { return bench.has_released(taken); }));
    CHECK(bench.find(700).reach > 0);
}

TEST_CASE("a region that could not be registered is not tried again, and that is logged once") {
    Bench bench;
    bench.memory.fail_adds = 1;
    bench.add(1, 0, 1000);
    CHECK(bench.find(0).reach == 0);
    REQUIRE(bench.turn_until([&] { return !bench.lines.empty(); }));
    CHECK(bench.lines[0].find("mlx5_0:1") != std::string::npos);
    CHECK(bench.find(0).reach == 0);
    CHECK(bench.domain->find(RegionId{1}).error().status == XFER_EUNSUPPORTED);
    bench.turns(5);
    CHECK(bench.memory.adds == 1);
    CHECK(bench.lines.size() == 1);
    // Others are.
    bench.add(2, 0, 1000);
    CHECK(bench.await(0).reach == 1000);
    CHECK(bench.remove(1));
}

TEST_CASE("one that was never used is quiet at once, as is one that nobody knows") {
    Bench bench;
    bench.add(1, 0, 1000);
    CHECK(bench.remove(1));
    CHECK(bench.remove(1));
    CHECK(bench.remove(7));
    CHECK(bench.find(0).reach == 0);
    bench.turns(3);
    CHECK(bench.memory.adds == 0);
    CHECK(bench.released.empty());
}

TEST_CASE("one that ends while it waits for the worker is not registered at all") {
    Bench bench;
    bench.memory.hold();
    bench.add(1, 0, 1000);
    bench.add(2, 1000, 1000);
    bench.find(0);
    bench.memory.await_call();
    bench.find(1000);
    CHECK(bench.remove(2));
    bench.memory.let_go();
    CHECK(bench.await(0).reach == 1000);
    bench.turns(3);
    CHECK(bench.memory.adds == 1);
    CHECK(bench.released.empty());
}

TEST_CASE("one that ends while it is registered is deregistered, and told after that") {
    for (const bool fails : {false, true}) {
        CAPTURE(fails);
        Bench bench;
        bench.memory.hold();
        bench.memory.fail_adds = fails;
        bench.add(1, 0, 1000);
        bench.find(0);
        bench.memory.await_call();
        CHECK_FALSE(bench.remove(1));
        CHECK(bench.domain->find(RegionId{1}).error().status == XFER_EAGAIN);
        bench.turns(3);
        CHECK(bench.released.empty());
        bench.told = [&](uint64_t) { CHECK(bench.memory.registered() == 0); };
        bench.memory.let_go();
        REQUIRE(bench.turn_until([&] { return bench.has_released(1); }));
        CHECK(bench.memory.adds == 1);
        CHECK(bench.memory.removes == (fails ? 0 : 1));
        CHECK(bench.lines.empty());
    }
}

TEST_CASE("the end of one does not wait for registrations that have not begun") {
    Bench bench;
    for (uint64_t region = 1; region <= 4; ++region)
        bench.add(region, region * 1000, 1000);
    bench.await(1000);
    bench.memory.hold();
    bench.find(2000);
    bench.memory.await_call();
    bench.find(3000), bench.find(4000);
    CHECK_FALSE(bench.remove(1));
    bench.memory.let_go();
    REQUIRE(bench.turn_until([&] { return bench.has_released(1); }));
    CHECK(bench.memory.adds_before_remove == 2);
    CHECK(bench.await(4000).reach == 1000);
}

TEST_CASE("no memory is deregistered while a chain is under way that may use its key") {
    Bench bench;
    bench.add(1, 0, 1000);
    bench.add(2, 2000, 1000);
    const LocalKey first = bench.await(0), second = bench.await(2000);
    const auto chain = bench.domain->enter();
    CHECK_FALSE(bench.remove(1));
    CHECK(bench.find(0).reach == 0);
    const auto later = bench.domain->enter();
    CHECK_FALSE(bench.remove(2));
    const auto last = bench.domain->enter();
    bench.turns(3);
    CHECK(bench.allows(first, 0));
    CHECK(bench.allows(second, 2000));
    // The second one may be used by what entered first as well.
    bench.domain->leave(later);
    bench.turns(3);
    CHECK(bench.released.empty());
    CHECK(bench.allows(first, 0));
    CHECK(bench.allows(second, 2000));
    bench.domain->leave(chain);
    REQUIRE(bench.turn_until([&] { return bench.released.size() == 2; }));
    CHECK(bench.released == std::vector<uint64_t>{1, 2});
    CHECK(bench.memory.registered() == 0);
    bench.domain->leave(last);
}

TEST_CASE("a chain of the last epoch holds what is removed behind it, and nothing before") {
    Bench bench;
    bench.add(1, 0, 1000);
    bench.add(2, 2000, 1000);
    bench.await(0);
    const LocalKey second = bench.await(2000);
    CHECK_FALSE(bench.remove(1));
    const auto chain = bench.domain->enter();
    CHECK_FALSE(bench.remove(2));
    REQUIRE(bench.turn_until([&] { return bench.has_released(1); }));
    bench.turns(3);
    CHECK(bench.allows(second, 2000));
    bench.domain->leave(chain);
    CHECK(bench.turn_until([&] { return bench.has_released(2); }));
}

TEST_CASE("a region may come again, under the same number, when its end was told") {
    Bench bench;
    for (int i = 0; i < 50; ++i) {
        bench.add(1, 0, 1000);
        const LocalKey key = bench.await(0);
        CHECK(bench.allows(key, 0));
        CHECK_FALSE(bench.remove(1));
        REQUIRE(bench.turn_until([&] { return !bench.released.empty(); }));
        bench.released.clear();
        CHECK_FALSE(bench.allows(key, 0));
    }
}

TEST_CASE("who is told of an end may add and remove others") {
    Bench bench;
    for (uint64_t i = 1; i <= 4; ++i)
        bench.add(i, i * 1000, 1000), bench.await(i * 1000);
    bench.told = [&](uint64_t region) {
        if (region == 1) CHECK_FALSE(bench.domain->remove(RegionId{2}));
        if (region == 2) bench.add(9, 9000, 1000);
    };
    CHECK_FALSE(bench.remove(1));
    REQUIRE(bench.turn_until([&] { return bench.has_released(2); }));
    CHECK(bench.await(9000).reach == 1000);
    CHECK(bench.find(3000).reach == 1000);
}

TEST_CASE(
    "a device that does not let go at once is asked again, and one that never does is told of") {
    {
        Bench bench;
        bench.add(1, 0, 1000);
        bench.await(0);
        bench.memory.fail_removes = 3;
        CHECK_FALSE(bench.remove(1));
        REQUIRE(bench.turn_until([&] { return bench.has_released(1); }));
        CHECK(bench.memory.registered() == 0);
        CHECK(bench.lines.empty());
    }
    Bench bench;
    bench.add(1, 0, 1000);
    bench.await(0);
    bench.memory.fail_removes = 10;
    bench.memory.loop_thread = {};
    CHECK_FALSE(bench.remove(1));
    REQUIRE(bench.turn_until([&] { return bench.has_released(1); }));
    REQUIRE(bench.lines.size() == 1);
    CHECK(bench.lines[0].find("stay registered") != std::string::npos);
}

TEST_CASE("its end deregisters all, whatever the worker is at, and tells nobody") {
    for (int step = 0; step < 4; ++step) {
        CAPTURE(step);
        Bench bench;
        for (uint64_t i = 1; i <= 4; ++i)
            bench.add(i, i * 1000, 1000);
        bench.await(1000);
        bench.await(2000);
        bench.memory.hold();
        if (step == 1) bench.find(3000), bench.memory.await_call(), bench.find(4000);
        if (step == 2) {
            CHECK_FALSE(bench.remove(1));
            bench.memory.await_call();
        }
        if (step == 3) {
            bench.find(3000), bench.memory.await_call();
            CHECK_FALSE(bench.remove(1));
            CHECK_FALSE(bench.remove(3));
        }
        bench.memory.loop_thread = {};
        std::thread later([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            bench.memory.let_go();
        });
        bench.domain.reset();
        CHECK(bench.memory.registered() == 0);
        later.join();
        bench.turns(3);
        CHECK(bench.released.empty());
    }
}

TEST_CASE("in the child of a fork nothing of the parent's is deregistered") {
    Bench bench;
    bench.add(1, 0, 1000);
    bench.add(2, 1000, 1000);
    bench.await(0);
    bench.memory.hold();
    bench.find(1000);
    bench.memory.await_call();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        bench.domain.reset();
        ::_exit(bench.memory.removes);
    }
    int how = -1;
    REQUIRE(::waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how));
    CHECK(WEXITSTATUS(how) == 0);
    bench.memory.let_go();
}

// Beside a model: each key that is found is one of a region that is there, allows what it is for,
// and works until the chains that were under way have left.
TEST_CASE("whatever comes and goes in whichever order, keys work as long as they may be used") {
    struct Chain {
        MemoryDomain::Epoch epoch;
        std::vector<std::pair<LocalKey, uint64_t>> keys;
    };
    struct Range {
        uint64_t offset, length;
    };
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        Bench bench;
        bench.memory.port.limits.region_bytes = seed % 3 ? UINT64_MAX : 4096;
        bench.domain.emplace(bench.memory.verbs, bench.memory.port, *bench.worker, bench.log,
                             bench);
        std::map<uint64_t, Range> regions;
        std::set<uint64_t> ending;
        std::deque<Chain> chains;
        uint64_t last = 0, found = 0;
        bench.told = [&](uint64_t region) { CHECK(ending.erase(region) == 1); };
        for (int step = 0; step < 2000; ++step) {
            const uint64_t what = random() % 100, offset = random() % bench.bytes.size();
            if (what < 15 && regions.size() < 20) {
                const uint64_t most = std::min<uint64_t>(bench.bytes.size() - offset, 20'000);
                const Range range{offset, 1 + random() % most};
                bench.add(++last, range.offset, range.length);
                regions[last] = range;
            } else if (what < 25 && !regions.empty()) {
                const auto at = std::next(regions.begin(), random() % regions.size());
                if (!bench.remove(at->first)) ending.insert(at->first);
                regions.erase(at);
            } else if (what < 35 && chains.size() < 10) {
                chains.push_back({bench.domain->enter(), {}});
            } else if (what < 45 && !chains.empty()) {
                const size_t which = random() % chains.size();
                for (const auto &[key, from] : chains[which].keys)
                    CHECK(bench.allows(key, from));
                bench.domain->leave(chains[which].epoch);
                chains.erase(chains.begin() + static_cast<ptrdiff_t>(which));
            } else if (what < 50) {
                bench.loop->turn(random() % 2 ? kNsPerMs : 0);
            } else if (!chains.empty()) {
                Chain &chain = chains.back();
                const LocalKey key = bench.find(offset, random() % 2 ? Dir::put : Dir::get);
                const bool there = std::any_of(regions.begin(), regions.end(), [&](const auto &at) {
                    const Range &range = at.second;
                    return range.offset <= offset && offset < range.offset + range.length &&
                           offset + key.reach <= range.offset + range.length;
                });
                if (!key.reach) continue;
                CHECK(there);
                CHECK(bench.allows(key, offset));
                chain.keys.emplace_back(key, offset);
                ++found;
            }
        }
        while (!chains.empty()) {
            for (const auto &[key, from] : chains.front().keys)
                CHECK(bench.allows(key, from));
            bench.domain->leave(chains.front().epoch);
            chains.pop_front();
        }
        CHECK(found > 100);
        for (const auto &[region, range] : regions)
            if (!bench.remove(region)) ending.insert(region);
        REQUIRE(bench.turn_until([&] { return ending.empty(); }));
        CHECK(bench.memory.registered() == 0);
        CHECK(bench.lines.empty());
    }
}
