// SPDX-License-Identifier: Apache-2.0
// A path beside the channels of a connection: how it is opened, what moves by it, and what becomes
// of operations, connection and path when either end of it fails at any step.
#include <set>

#include "near_pair.h"

using namespace xfer;

namespace {

using By = NearPair::By;

constexpr uint64_t kOps = 12, kBytes = 30'000;
constexpr AttachStep kSteps[] = {AttachStep::open, AttachStep::offer, AttachStep::answer,
                                 AttachStep::done};

void move_some(NearPair &pair) {
    Burst burst(pair, kOps, kBytes);
    burst.begin();
    REQUIRE(burst.all_end());
    burst.check();
    CHECK(burst.count(XFER_OK) == kOps);
}

// Puts, until one is carried by the adapter.
void until_open(NearPair &pair) {
    const uint64_t before = pair.copied();
    for (int i = 0; i < 400 && pair.copied() == before; ++i) {
        REQUIRE(pair.put(0, 1) == XFER_OK);
        pair.world.world.run_for(20 * kNsPerMs);
    }
    CHECK(pair.copied() > before);
}

// What the engine tells behind that key, up to the end of the first object or array that ends
// there, without spaces.
std::string told(Host &host, const std::string &key) {
    std::string text(100'000, '\0');
    uint64_t needed = 0;
    REQUIRE(xfer_engine_describe(host.engine, text.data(), text.size(), &needed) == XFER_OK);
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\0'; });
    const size_t at = text.find('"' + key + "\":");
    if (at == std::string::npos) return "";
    const size_t begin = at + key.size() + 3;
    return text.substr(begin, text.find_first_of("]}", begin) + 1 - begin);
}

// Up to what it has carried.
std::string path_told(Host &host) {
    const std::string text = told(host, "attached_paths");
    return text.substr(0, text.find(",\"carried\""));
}

std::string path_told(const std::string &state, const std::string &fabric,
                      const std::string &why_not, const std::string &local,
                      const std::string &remote) {
    return R"([{"state":")" + state + R"(","fabric":")" + fabric + R"(","why_not":")" + why_not +
           R"(","local":")" + local + R"(","remote":")" + remote + '"';
}

}  // namespace

TEST_CASE("what moves opens it, and goes by it then, small and large") {
    World world(1);
    NearPair pair(world, By::adapter);
    CHECK(pair.copied() == 0);
    CHECK(pair.said(FrameType::path_signal) == 0);
    pair.come_near();
    CHECK(pair.said(FrameType::path_signal) == 3);
    const uint64_t before = pair.said(FrameType::put);
    CHECK(pair.put(0, 400'000) == XFER_OK);
    move_some(pair);
    CHECK(pair.said(FrameType::put) == before);
    CHECK(pair.said(FrameType::path_signal) == 3);
    CHECK(pair.lost_connections() == 0);
}

TEST_CASE("the end that was dialed asks for it, once") {
    World world(1);
    NearPair pair(world, By::adapter);
    Host &b = *pair.b;
    xfer_ep_t *back = b.open(kA);
    REQUIRE(b.lookup(back, ++pair.last_user) == XFER_OK);
    const std::vector<uint8_t> data(1000, 5);
    for (int i = 0; i < 100; ++i)
        REQUIRE(b.put(back, data.data(), 0, data.size(), ++pair.last_user) == XFER_OK);
    CHECK(pair.copied() > 0);
    CHECK(pair.said(FrameType::path_signal) == 3);
    CHECK(pair.said(FrameType::lanes) <= 2);  // for a local path, and for this one
}

TEST_CASE("neighbours that share memory need none") {
    World world(1);
    NearPair pair(world, By::copies_and_adapter);
    pair.come_near();
    CHECK(pair.said(FrameType::path_signal) == 0);
}

TEST_CASE("what it is, and why there is none, is told") {
    World world(1);
    NearPair pair(world, By::adapter);
    CHECK(told(*pair.a, "fabrics") == R"([{"name":"adapter","number":1})");
    CHECK(path_told(*pair.b) == path_told("none", "", "nothinghasbeenmovedyet", "", ""));
    CHECK(told(*pair.a, "adapter").empty());
    pair.come_near();
    CHECK(path_told(*pair.a) == path_told("open", "adapter", "", "1", "2"));
    CHECK(path_told(*pair.b) == path_told("open", "adapter", "", "2", "1"));
    CHECK_FALSE(told(*pair.a, "attached_paths").ends_with(R"("carried":{"requests":0,"bytes":0})"));
    CHECK(told(*pair.b, "attached_paths").ends_with(R"("carried":{"requests":0,"bytes":0})"));
    CHECK(told(*pair.a, "adapter").starts_with(R"({"requests":)"));
    CHECK(told(*pair.a, "mapped").empty());
    pair.script = falls_at(CopyStep::begin, 1);
    pair.put(0, 1);
    CHECK(path_told(*pair.a).starts_with(R"([{"state":"none","fabric":"adapter","why_not":")"));
    CHECK_FALSE(path_told(*pair.a).ends_with(R"("why_not":"","local":"","remote":"")"));
}

TEST_CASE("while it is opened, and while it ends, it is told so") {
    World world(1);
    world.net.detach_ns = 100 * kNsPerMs;
    NearPair pair(world, By::adapter);
    std::set<std::string> states;
    for (int round = 1; round <= 2; ++round) {
        if (round == 2) pair.come_near();
        if (round == 2) pair.script = falls_at(CopyStep::finish, 3);
        Burst burst(pair, kOps, kBytes);
        burst.begin();
        for (int i = 0; i < 2'000; ++i) {
            world.world.run_for(kNsPerMs / 10);
            for (Host *host : {pair.a.get(), pair.b.get()}) {
                const std::string path = path_told(*host);
                states.insert(path.substr(11, path.find('"', 11) - 11));
            }
        }
        REQUIRE(burst.all_end());
    }
    for (const char *state : {"none", "opening", "open", "ending"}) {
        CAPTURE(std::string(state));
        CHECK(states.erase(state) == 1);
    }
    CHECK(states.empty());
}

TEST_CASE("who has no fabric, alone or like its peer, tells so") {
    World world(1);
    NearPair pair(world, By::rings);
    CHECK(told(*pair.a, "fabrics") == "[]");
    CHECK(path_told(*pair.a) == path_told("none", "", "thisenginehasnofabric", "", ""));
    world.net.adapters = true;
    Host late(world, "tcp://10.0.0.3:3");
    xfer_ep_t *ep = late.open(kB);
    REQUIRE(late.lookup(ep, 1) == XFER_OK);
    CHECK(path_told(late) == path_told("none", "", "thepeerhasnofabricthatthisenginehas", "", ""));
    late.end();
}

TEST_CASE("a path that falls ends what it had begun, and is opened again") {
    with_each_fall(By::adapter, kOps, [](NearPair &pair, CopyStep) {
        Burst burst(pair, kOps, kBytes);
        burst.begin();
        REQUIRE(burst.all_end());
        burst.check();
        pair.script = nullptr;
        move_some(pair);
        until_open(pair);
    });
}

// What an adapter has on its way lands although its end is closed, if that of the owner is not.
TEST_CASE("nothing lands behind the end of an operation that was lost with its path") {
    uint64_t astray = 0, landed = 0;
    with_each_fall(By::adapter, kOps, [&](NearPair &pair, CopyStep) {
        Burst burst(pair, kOps, kBytes);
        std::map<uint64_t, std::vector<uint8_t>> then;
        const auto counts = pair.a->on_done;
        pair.a->on_done = [&](const xfer_event_t &event) {
            counts(event);
            for (const Burst::One &one : burst.all) {
                if (one.user != event.user) continue;
                const uint8_t *there = pair.b->memory.data() + one.offset;
                then[one.user].assign(there, there + one.right.size());
            }
        };
        burst.begin();
        REQUIRE(burst.all_end());
        pair.world.world.run_for(2 * kSecond);
        for (const Burst::One &one : burst.all) {
            const uint8_t *there = pair.b->memory.data() + one.offset;
            if (one.put) CHECK(std::equal(there, there + one.right.size(), then[one.user].begin()));
        }
        pair.a->on_done = counts;
        astray += pair.world.net.met["copy, astray"];
        landed += pair.world.net.met["copy, landed astray"];
    });
    CHECK(astray > 0);
    CHECK(landed > 0);
}

TEST_CASE("an end that takes too long to close costs the connection") {
    World world(1);
    NearPair pair(world, By::adapter);
    pair.come_near();
    world.net.detach_ns = 700 * kNsPerMs;
    pair.script = falls_at(CopyStep::finish, 1);
    Burst burst(pair, kOps, kBytes);
    burst.begin();
    REQUIRE(burst.all_end());
    burst.check();
    CHECK(pair.lost_connections() > 0);
    world.net.detach_ns = 0;
    pair.script = nullptr;
    move_some(pair);
}

TEST_CASE("an attempt that fails at any step of either end costs nothing but its time") {
    for (const AttachStep step : kSteps)
        for (const AttachFate fate :
             {AttachFate::fail, AttachFate::lack, AttachFate::garble, AttachFate::mute})
            for (uint64_t times : {1, 3})
                for (const bool first : {true, false}) {
                    CAPTURE(static_cast<int>(step));
                    CAPTURE(static_cast<int>(fate));
                    CAPTURE(first);
                    const bool of_open = step == AttachStep::open;
                    if (of_open != (fate == AttachFate::lack) && fate != AttachFate::fail) continue;
                    World world(times);
                    NearPair pair(world, By::adapter);
                    uint64_t met = 0;
                    world.net.on_attach = [&](AttachStep now, const SimAttachedPath &path) {
                        const bool here = now == step && (!of_open || path.first() == first);
                        return here && ++met <= times ? fate : AttachFate::go_on;
                    };
                    REQUIRE(pair.put(0, 1) == XFER_OK);
                    move_some(pair);
                    until_open(pair);
                    CHECK(met >= times);
                    CHECK(pair.lost_connections() == 0);
                    world.net.on_attach = nullptr;
                }
}

TEST_CASE("an end that never has such a path is asked once") {
    for (const bool first : {true, false}) {
        World world(1);
        NearPair pair(world, By::adapter);
        uint64_t met = 0;
        world.net.on_attach = [&](AttachStep step, const SimAttachedPath &path) {
            if (step != AttachStep::open || path.first() != first) return AttachFate::go_on;
            return ++met, AttachFate::absent;
        };
        for (int i = 0; i < 20; ++i) {
            REQUIRE(pair.put(0, 1) == XFER_OK);
            world.world.run_for(kSecond);
        }
        CHECK(met == 1);
        CHECK(pair.copied() == 0);
        CHECK(pair.lost_connections() == 0);
        world.net.on_attach = nullptr;
    }
}

TEST_CASE("an engine that ends while its path is opened, or open, or falls, ends") {
    for (uint64_t wait = 0; wait < 3'000'000; wait += 100'000)
        for (const uint64_t detach_ns : {0u, 1'000'000u}) {
            CAPTURE(wait);
            World world(wait + 1);
            NearPair pair(world, By::adapter);
            world.net.detach_ns = detach_ns;
            pair.script = falls_at(CopyStep::finish, 2);
            Burst burst(pair, kOps, kBytes);
            burst.begin();
            world.world.run_for(wait);
            pair.a->end();
            CHECK(burst.all_end(0));
        }
}

namespace {

// One more region of the owner's that the initiator has imported, and a large put to it under way.
struct LentRegion {
    explicit LentRegion(NearPair &both) : pair(both), owner(*both.b) {
        region = pair.open_region(memory, ref);
        const uint64_t before = pair.copied();
        for (int i = 0; i < 50 && pair.copied() == before; ++i)
            pair.put_to(ref, std::vector<uint8_t>(100, 1));
        REQUIRE(pair.copied() > before);
        owner.on_other = [this](const xfer_event_t &event) {
            closed |= event.kind == XFER_EVENT_CLOSED && event.object == region;
        };
        pair.asked.clear();
        pair.a->expect(++pair.last_user);
        REQUIRE(xfer_put(pair.ep, data.data(), &ref, 0, data.size(), pair.last_user, nullptr) ==
                XFER_OK);
    }
    ~LentRegion() { owner.on_other = nullptr; }
    void close() {
        xfer_region_close(region);
        REQUIRE(pair.world.world.run_until([this] { return closed; }, kSecond));
    }

    NearPair &pair;
    Host &owner;
    std::vector<uint8_t> memory = std::vector<uint8_t>(400'000);
    const std::vector<uint8_t> data = std::vector<uint8_t>(400'000, 9);
    xfer_ref_t ref{};
    xfer_region_t *region = nullptr;
    bool closed = false;
};

}  // namespace

// The owner's adapter can't see who still writes: the initiator has to say it, or its path ends.
TEST_CASE("a region is closed when nothing of the initiator's writes to it any more") {
    for (const bool falls : {false, true})
        for (uint64_t after = 0; after < 4'000'000; after += 80'000) {
            CAPTURE(falls);
            CAPTURE(after);
            World world(after + 1);
            NearPair pair(world, By::adapter);
            pair.come_near();
            world.net.copy_ns_max = 2 * kNsPerMs;  // longer than words take
            LentRegion lent(pair);
            if (falls) pair.script = falls_at(CopyStep::finish, 1);
            world.world.run_for(after);
            lent.close();
            const std::vector<uint8_t> then = lent.memory;
            REQUIRE(world.world.run_until([&] { return pair.a->pending == 0; }, kBeforeStall));
            world.world.run_for(kSecond);
            CHECK(lent.memory == then);
            CHECK(pair.lost_connections() == 0);
            CHECK(world.net.met["copy, dead key"] == 0);
            if (!falls) CHECK(pair.said(FrameType::withdrawn) == 1);
        }
}

namespace {

uint64_t id_of(xfer_region_t *region) {
    xfer_region_info_t info{};
    REQUIRE(xfer_region_info(region, &info, sizeof info) == XFER_OK);
    return info.id;
}

}  // namespace

// Whoever has one, as a peer that does not do what it says.
TEST_CASE("a region is closed when no key of it works any more") {
    uint64_t late = 0;
    for (const uint32_t loops : {1, 3})
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            CAPTURE(loops);
            CAPTURE(seed);
            World world(seed);
            world.loops = loops;
            world.net.release_ns_max = 100 * kNsPerMs;
            NearPair pair(world, By::adapter);
            pair.come_near();
            LentRegion lent(pair);
            REQUIRE(world.world.run_until([&] { return pair.a->pending == 0; }, kSecond));
            const uint64_t id = id_of(lent.region);
            CHECK(lent.owner.process->is_registered(id));
            lent.owner.on_other = [&](const xfer_event_t &event) {
                if (event.kind != XFER_EVENT_CLOSED || event.object != lent.region) return;
                lent.closed = true;
                CHECK_FALSE(lent.owner.process->is_registered(id));
            };
            lent.close();
            CHECK_FALSE(lent.owner.process->is_registered(id));
            CHECK(lent.owner.process->is_registered(id_of(lent.owner.region)));
            CHECK(pair.lost_connections() == 0);
            late += world.net.met["region, released late"];
        }
    CHECK(late > 5);
}

TEST_CASE("an engine's end tells its regions when no key of them works any more") {
    uint64_t late = 0;
    enum class Closes : uint8_t { never, before, meanwhile };
    for (const Closes closes : {Closes::never, Closes::before, Closes::meanwhile})
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            CAPTURE(static_cast<int>(closes));
            CAPTURE(seed);
            World world(seed);
            world.loops = 1 + seed % 3;
            world.net.release_ns_max = 100 * kNsPerMs;
            NearPair pair(world, By::adapter);
            pair.come_near();
            LentRegion lent(pair);
            REQUIRE(world.world.run_until([&] { return pair.a->pending == 0; }, kSecond));
            const uint64_t ids[] = {id_of(lent.region), id_of(lent.owner.region)};
            uint64_t told = 0;
            lent.owner.on_other = [&](const xfer_event_t &event) {
                if (event.kind != XFER_EVENT_CLOSED) return;
                told += event.object == lent.region || event.object == lent.owner.region;
                if (event.object == lent.region)
                    CHECK_FALSE(lent.owner.process->is_registered(ids[0]));
                if (event.object == lent.owner.region)
                    CHECK_FALSE(lent.owner.process->is_registered(ids[1]));
            };
            if (closes == Closes::before) xfer_region_close(lent.region);
            if (closes == Closes::meanwhile) {
                REQUIRE(xfer_engine_close(pair.b->engine) == XFER_OK);
                REQUIRE(world.world.run_until([&] { return pair.a->downs > 0; }, kSecond));
                xfer_region_close(lent.region);
            }
            pair.b->end();
            CHECK(told == 2);
            CHECK(pair.b->process->registered.empty());
            if (closes == Closes::never) xfer_region_close(lent.region);
            late += world.net.met["region, released late"];
        }
    CHECK(late > 5);
}

TEST_CASE("an adapter that lacks memory to know of a region does without it") {
    World world(1);
    world.net.adapter_lacks_one_in = 1;
    NearPair pair(world, By::adapter);
    for (int i = 0; i < 20; ++i)
        REQUIRE(pair.put(0, 1000) == XFER_OK);
    move_some(pair);
    CHECK(pair.copied() == 0);
    world.net.adapter_lacks_one_in = 0;
    LentRegion lent(pair);
    lent.close();
    CHECK(pair.lost_connections() == 0);
}

namespace {

constexpr uint64_t kPartAt = 1000, kPart = 1000;

xfer_ref_t grant_part(NearPair &pair) {
    xfer_grant_options_t part{};
    part.size = sizeof part;
    part.access = XFER_WRITE;
    part.offset = kPartAt, part.length = kPart;
    part.lease_ms = XFER_NONE;
    xfer_ref_t ref{};
    REQUIRE(xfer_region_grant(pair.b->region, &part, &ref, nullptr) == XFER_OK);
    return ref;
}

bool reaches_grants(const Host &owner) {
    const auto &registered = owner.process->registered;
    return std::any_of(registered.begin(), registered.end(),
                       [](const auto &at) { return is_grant({at.second}); });
}

}  // namespace

TEST_CASE("a grant goes by the adapter, and is told revoked when no key of it works any more") {
    uint64_t late = 0;
    for (const uint32_t loops : {1, 3})
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            CAPTURE(loops);
            CAPTURE(seed);
            World world(seed);
            world.loops = loops;
            world.net.release_ns_max = 100 * kNsPerMs;
            NearPair pair(world, By::adapter);
            pair.come_near();
            const xfer_ref_t ref = grant_part(pair);
            const uint64_t before = pair.copied();
            for (int i = 0; i < 50 && pair.copied() == before; ++i)
                pair.put_to(ref, std::vector<uint8_t>(kPart, 5));
            REQUIRE(pair.copied() > before);
            CHECK(reaches_grants(*pair.b));
            uint64_t told = 0;
            pair.b->on_other = [&](const xfer_event_t &event) {
                if (event.kind != XFER_EVENT_REVOKED) return;
                ++told;
                CHECK_FALSE(reaches_grants(*pair.b));
            };
            REQUIRE(xfer_region_revoke(pair.b->region, &ref) == XFER_OK);
            REQUIRE(world.world.run_until([&] { return told == 1; }, kSecond));
            CHECK(pair.b->process->is_registered(id_of(pair.b->region)));
            const std::vector<uint8_t> then = pair.b->memory;
            const std::vector<uint8_t> data(kPart, 6);
            pair.a->expect(++pair.last_user);
            REQUIRE(xfer_put(pair.ep, data.data(), &ref, 0, kPart, pair.last_user, nullptr) ==
                    XFER_OK);
            CHECK(pair.a->wait(pair.last_user) == XFER_EREVOKED);
            CHECK(pair.b->memory == then);
            CHECK(pair.lost_connections() == 0);
            CHECK(world.net.met["copy, dead key"] == 0);
            pair.b->on_other = nullptr;
            late += world.net.met["region, released late"];
        }
    CHECK(late > 5);
}

TEST_CASE("an engine's end tells its grants when no key of them works any more") {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        World world(seed);
        world.loops = 1 + seed % 3;
        world.net.release_ns_max = 100 * kNsPerMs;
        NearPair pair(world, By::adapter);
        pair.come_near();
        const xfer_ref_t ref = grant_part(pair);
        for (int i = 0; i < 20; ++i)
            pair.put_to(ref, std::vector<uint8_t>(kPart, 5));
        CHECK(reaches_grants(*pair.b));
        uint64_t told = 0;
        pair.b->on_other = [&](const xfer_event_t &event) {
            if (event.kind != XFER_EVENT_REVOKED) return;
            ++told;
            CHECK_FALSE(reaches_grants(*pair.b));
        };
        pair.b->end();
        CHECK(told == 1);
        CHECK(pair.b->process->registered.empty());
    }
}

TEST_CASE("a grant is served by its owner where adapters have no windows") {
    World world(1);
    world.net.windows = false;
    NearPair pair(world, By::adapter);
    pair.come_near();
    const xfer_ref_t ref = grant_part(pair);
    const uint64_t before = pair.copied();
    for (int i = 0; i < 20; ++i)
        pair.put_to(ref, std::vector<uint8_t>(kPart, 5));
    CHECK(pair.copied() == before);
    CHECK(pair.b->memory[kPartAt + kPart - 1] == 5);
}
