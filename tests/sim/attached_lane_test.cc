// SPDX-License-Identifier: Apache-2.0
// A channel by the adapters of both ends, which takes the frames of a connection over from its
// first lane: how it is opened, what goes by it, and what becomes of the connection when it fails
// at any step, before and after.
#include <algorithm>

#include "near_pair.h"
#include "sim_channel.h"

using namespace xfer;

namespace {

using By = NearPair::By;

constexpr AttachStep kSteps[] = {AttachStep::open, AttachStep::offer, AttachStep::answer,
                                 AttachStep::done, AttachStep::last};
constexpr uint64_t kSignalsOfPath = 3, kSignalsOfLane = 4;

// Adapters that make channels, too.
struct Both {
    explicit Both(World &world) { world.net.adapter_lanes = true; }
};
struct LanePair : Both, NearPair {
    explicit LanePair(World &w, By by = By::adapter) : Both(w), NearPair(w, by) {}
    ~LanePair() { world.net.on_channel = nullptr; }

    bool has_switched() { return frames_go_by(*a, "adapter") && frames_go_by(*b, "adapter"); }
    void until_switched(uint64_t limit = 30 * kSecond) {
        for (uint64_t at = 0; at < limit && !has_switched(); at += 10 * kNsPerMs) {
            REQUIRE(put(0, 1) == XFER_OK);
            world.world.run_for(10 * kNsPerMs);
        }
        REQUIRE(has_switched());
    }
    static std::string told(Host &host) {
        std::string text(100'000, '\0');
        uint64_t needed = 0;
        REQUIRE(xfer_engine_describe(host.engine, text.data(), text.size(), &needed) == XFER_OK);
        std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '\0'; });
        return text;
    }
    static bool frames_go_by(Host &host, const std::string &lane) {
        return told(host).find("\"control\":\"" + lane + '"') != std::string::npos;
    }
    // Of the one or the other end, or both: each of these channels breaks.
    template <typename Which>
    void cut(Which which) {
        std::vector<SimChannel *> all;
        for (auto &[number, channel] : world.net.channels)
            if (which(*channel)) all.push_back(channel);
        REQUIRE(!all.empty());
        for (SimChannel *channel : all)
            channel->cut();
    }
    void cut_attached() {
        cut([](const SimChannel &channel) { return channel.is_attached(); });
    }
    void cut_first() {
        cut([](const SimChannel &channel) {
            return !channel.is_attached() && !channel.is_data_lane();
        });
    }
};

// Messages of one direction, with their number in them, of which the receiver sees the order.
struct Stream {
    Stream(NearPair &pair, bool forth)
        : pair(pair), from(forth ? *pair.a : *pair.b), to(forth ? *pair.b : *pair.a) {
        ep = forth ? pair.ep : from.open(kA);
        last = base = forth ? 10'000 : 20'000;
    }
    void send(uint64_t length) {
        sent.emplace_back(length, uint8_t{1});
        store<uint64_t>(sent.back().data(), sent.size());
        rooms.emplace_back(length);
        from.expect(++last);
        to.expect(last);
        REQUIRE(xfer_recv(to.engine, nullptr, rooms.back().data(), length, base, UINT64_MAX, last,
                          nullptr) == XFER_OK);
        REQUIRE(xfer_send(ep, sent.back().data(), length, base, last, nullptr) == XFER_OK);
    }
    void check() {
        for (size_t i = 0; i < sent.size(); ++i) {
            CHECK(to.done.at(base + 1 + i).status == XFER_OK);
            CHECK(rooms[i] == sent[i]);
        }
    }

    NearPair &pair;
    Host &from, &to;
    xfer_ep_t *ep;
    uint64_t base, last;
    std::deque<std::vector<uint8_t>> sent, rooms;
};

}  // namespace

TEST_CASE("frames go by the adapters when a path by them is open") {
    World world(1);
    LanePair pair(world);
    CHECK(LanePair::frames_go_by(*pair.a, "first"));
    pair.until_switched();
    CHECK(pair.said(FrameType::path_signal) == kSignalsOfPath + kSignalsOfLane);
    CHECK(pair.said(FrameType::control_switch) == 2);
    world.world.run_for(10 * kSecond);
    CHECK(pair.put(0, 400'000) == XFER_OK);
    const std::string text = LanePair::told(*pair.a);
    CHECK(text.find(R"("small":"adapter","bulk":"first")") != std::string::npos);
    CHECK(pair.said(FrameType::path_signal) == kSignalsOfPath + kSignalsOfLane);
    CHECK(pair.lost_connections() == 0);
}

TEST_CASE("messages alone open it, of either end") {
    for (const bool forth : {true, false}) {
        World world(1);
        LanePair pair(world);
        Stream stream(pair, forth);
        for (int i = 0; i < 20; ++i) {
            stream.send(100);
            world.world.run_for(10 * kNsPerMs);
        }
        CHECK(pair.has_switched());
        stream.check();
    }
}

TEST_CASE("neighbours that share memory need none") {
    World world(1);
    LanePair pair(world, By::copies_and_adapter);
    pair.come_near();
    world.world.run_for(kSecond);
    CHECK(LanePair::frames_go_by(*pair.a, "local"));
    CHECK(pair.said(FrameType::path_signal) == 0);
}

TEST_CASE("an attempt that fails at any step of either end costs nothing but its time") {
    for (const AttachStep step : kSteps)
        for (const AttachFate fate :
             {AttachFate::fail, AttachFate::lack, AttachFate::garble, AttachFate::mute})
            for (const uint64_t times : {1, 3})
                for (const bool first : {true, false}) {
                    const bool of_open = step == AttachStep::open;
                    if (of_open != (fate == AttachFate::lack) && fate != AttachFate::fail) continue;
                    CAPTURE(static_cast<int>(step));
                    CAPTURE(static_cast<int>(fate));
                    CAPTURE(times);
                    CAPTURE(first);
                    World world(times);
                    LanePair pair(world);
                    uint64_t met = 0;
                    world.net.on_channel = [&](AttachStep now, bool by_first) {
                        const bool here = now == step && (!of_open || by_first == first);
                        return here && ++met <= times ? fate : AttachFate::go_on;
                    };
                    pair.until_switched();
                    CHECK(met == times + 1);
                    CHECK(pair.lost_connections() == 0);
                }
}

TEST_CASE("attempts that fail have pauses that double, up to two seconds") {
    World world(1);
    LanePair pair(world);
    std::vector<uint64_t> begun;
    world.net.on_channel = [&](AttachStep step, bool first) {
        if (step == AttachStep::open && first) begun.push_back(world.world.now());
        return step == AttachStep::answer ? AttachFate::fail : AttachFate::go_on;
    };
    REQUIRE(pair.put(0, 1) == XFER_OK);
    world.world.run_for(20 * kSecond);
    REQUIRE(begun.size() > 8);
    uint64_t pause = 20 * kNsPerMs;
    for (size_t i = 1; i < begun.size(); ++i) {
        const uint64_t waited = begun[i] - begun[i - 1];
        CHECK(waited >= pause);
        CHECK(waited < pause + 10 * kNsPerMs);
        pause = std::min(2 * pause, 2 * kSecond);
    }
    CHECK(pair.lost_connections() == 0);
}

TEST_CASE("an end that never has such a channel is asked once") {
    for (const bool first : {true, false}) {
        World world(1);
        LanePair pair(world);
        uint64_t met = 0;
        world.net.on_channel = [&](AttachStep step, bool by_first) {
            if (step != AttachStep::open || by_first != first) return AttachFate::go_on;
            return ++met, AttachFate::absent;
        };
        for (int i = 0; i < 20; ++i) {
            REQUIRE(pair.put(0, 1) == XFER_OK);
            world.world.run_for(kSecond);
        }
        CHECK(met == 1);
        CHECK(LanePair::frames_go_by(*pair.a, "first"));
        CHECK(pair.lost_connections() == 0);
    }
}

TEST_CASE("messages keep their order across the switch, both ways, by queue pairs or signals") {
    for (const bool by_signals : {false, true})
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            CAPTURE(by_signals);
            CAPTURE(seed);
            World world(seed);
            world.net.lanes_by_signals = by_signals;
            LanePair pair(world);
            Stream forth(pair, true), back(pair, false);
            REQUIRE(pair.put(0, 1) == XFER_OK);
            for (int i = 0; i < 60; ++i) {
                for (Stream *stream : {&forth, &back})
                    stream->send(8 + world.world.random(4) * 1'500);
                world.world.run_for(world.world.random(kNsPerMs / 10));
            }
            const auto all_ended = [&] { return pair.a->pending + pair.b->pending == 0; };
            REQUIRE(world.world.run_until(all_ended, kBeforeStall));
            forth.check();
            back.check();
            pair.until_switched();
            CHECK(pair.said(FrameType::control_switch) == 2);
            CHECK((world.net.met["frame, as signals"] > 0) == by_signals);
            CHECK(pair.lost_connections() == 0);
        }
}

namespace {

// Batches of which each tells the owner when its data are there, with an atomic behind each.
struct Batches {
    static constexpr uint64_t kCount = 40, kBytes = 20'000;

    explicit Batches(LanePair &both) : pair(both) {
        xfer_region_options_t lent{};
        lent.size = sizeof lent;
        lent.access = XFER_READ | XFER_WRITE | XFER_ATOMIC;
        REQUIRE(xfer_region_open(pair.b->engine, &lent, &word, sizeof word, &region, nullptr) ==
                XFER_OK);
        REQUIRE(xfer_region_ref(region, &ref) == XFER_OK);
        pair.b->on_notify = [this](const xfer_event_t &event) {
            const uint8_t *there = pair.b->memory.data() + event.tag * kBytes;
            CHECK(std::all_of(there, there + kBytes,
                              [&](uint8_t byte) { return byte == event.tag + 1; }));
            ++told;
        };
    }
    ~Batches() {
        pair.b->on_notify = nullptr;
        for (xfer_batch_t *batch : all)
            xfer_batch_close(batch);
        xfer_region_close(region);
    }
    void begin() {
        const uint64_t number = all.size();
        sources.emplace_back(kBytes, static_cast<uint8_t>(number + 1));
        xfer_batch_t *batch = nullptr;
        REQUIRE(xfer_batch_open(pair.ep, nullptr, &batch, nullptr) == XFER_OK);
        all.push_back(batch);
        REQUIRE(xfer_batch_put(batch, sources.back().data(), &pair.a->ref, number * kBytes,
                               kBytes) == XFER_OK);
        xfer_submit_options_t options{};
        options.size = sizeof options;
        options.flags = XFER_SUBMIT_NOTIFY;
        options.notify_key = number;
        pair.a->expect(++pair.last_user);
        REQUIRE(xfer_batch_submit(batch, pair.last_user, &options) == XFER_OK);
        pair.a->expect(++pair.last_user);
        REQUIRE(xfer_atomic(pair.ep, XFER_ATOMIC_ADD, nullptr, &ref, 0, 1, 0, pair.last_user,
                            nullptr) == XFER_OK);
    }

    LanePair &pair;
    uint64_t word = 0, told = 0;
    xfer_ref_t ref{};
    xfer_region_t *region = nullptr;
    std::vector<xfer_batch_t *> all;
    std::deque<std::vector<uint8_t>> sources;
};

}  // namespace

TEST_CASE("notifications stay behind their data, and atomics are done once, across the switch") {
    for (const bool by_signals : {false, true})
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            CAPTURE(by_signals);
            CAPTURE(seed);
            World world(seed);
            world.net.lanes_by_signals = by_signals;
            LanePair pair(world);
            if (seed % 2)
                pair.script = [](CopyStep step, uint64_t, const SimCopyPath &) {
                    return step == CopyStep::post ? CopyFate::decline : CopyFate::go_on;
                };
            Batches batches(pair);
            for (uint64_t i = 0; i < Batches::kCount; ++i) {
                batches.begin();
                world.world.run_for(world.world.random(kNsPerMs / 5));
                const auto has_room = [&] { return pair.a->pending < 40; };
                REQUIRE(world.world.run_until(has_room, kBeforeStall));
            }
            const auto all_told = [&] {
                return pair.a->pending == 0 && batches.told == Batches::kCount;
            };
            REQUIRE(world.world.run_until(all_told, kBeforeStall));
            CHECK(batches.word == Batches::kCount);
            CHECK(pair.has_switched());
            CHECK(pair.lost_connections() == 0);
        }
}

TEST_CASE("a channel that takes frames alone leaves operations to the first lane") {
    World world(1);
    world.net.on_caps = [](const SimChannel &channel, Caps &caps) {
        if (channel.is_attached()) caps.max_ops = 0;
    };
    LanePair pair(world);
    pair.until_switched();
    CHECK(LanePair::told(*pair.a).find(R"("small":"first","bulk":"first")") != std::string::npos);
    pair.script = [](CopyStep step, uint64_t, const SimCopyPath &) {
        return step == CopyStep::post ? CopyFate::decline : CopyFate::go_on;
    };
    CHECK(pair.put(0, 100) == XFER_OK);
    CHECK(pair.put(0, 300'000) == XFER_OK);
    CHECK(pair.lost_connections() == 0);
}

// Of either kind, at any moment: whatever was under way ends, and the next connection has it again.
TEST_CASE("after the switch the end of the channel, or of the first lane, ends the connection") {
    for (const bool first : {false, true})
        for (const bool by_signals : {false, true})
            for (uint64_t wait = 0; wait < 2'000'000; wait += 100'000) {
                CAPTURE(first);
                CAPTURE(by_signals);
                CAPTURE(wait);
                World world(wait + 1);
                world.net.lanes_by_signals = by_signals;
                LanePair pair(world);
                pair.until_switched();
                Burst burst(pair, 8, 30'000);
                burst.begin();
                world.world.run_for(wait);
                first ? pair.cut_first() : pair.cut_attached();
                REQUIRE(burst.all_end());
                burst.check();
                const auto both_lost = [&] { return pair.lost_connections() == 2; };
                REQUIRE(world.world.run_until(both_lost, kSecond));
                pair.until_switched();
            }
}

// By the first lane, or by the one that frames go by now.
TEST_CASE("the switch said again breaks the protocol") {
    Frame again;
    again.type = FrameType::control_switch;
    for (const bool attached : {false, true})
        for (const size_t end : {0, 1}) {
            CAPTURE(attached);
            CAPTURE(end);
            World world(1);
            LanePair pair(world);
            pair.until_switched();
            std::vector<SimChannel *> ends;
            for (auto &[number, channel] : world.net.channels)
                if (!channel->is_data_lane() && channel->is_attached() == attached)
                    ends.push_back(channel);
            REQUIRE(ends.size() == 2);
            REQUIRE(ends[end]->send(again, {}));
            const auto both_lost = [&] { return pair.lost_connections() == 2; };
            CHECK(world.world.run_until(both_lost, kSecond));
            pair.until_switched();
        }
}

// Where the switch was said to an end that has just closed, it is no breach of the protocol.
TEST_CASE("a channel that breaks around the switch costs the connection at most") {
    uint64_t costly = 0, cheap = 0;
    for (uint64_t wait = 0; wait < 2'500'000; wait += 10'000) {
        CAPTURE(wait);
        World world(wait + 1);
        LanePair pair(world);
        uint64_t answered = 0;
        world.net.on_channel = [&](AttachStep step, bool) {
            if (step == AttachStep::answer && !answered) answered = world.world.now();
            return AttachFate::go_on;
        };
        REQUIRE(pair.put(0, 1) == XFER_OK);
        REQUIRE(world.world.run_until([&] { return answered != 0; }, kSecond));
        world.world.run_for(wait);
        pair.cut_attached();
        world.world.run_for(kSecond);
        for (Host *host : {pair.a.get(), pair.b.get()})
            CHECK(LanePair::told(*host).find("XFER_EPROTO") == std::string::npos);
        ++(pair.lost_connections() ? costly : cheap);
        pair.until_switched();
    }
    CHECK(costly > 0);
    CHECK(cheap > 0);
}

TEST_CASE("what it is, and why there is none, is told") {
    const auto lane = [](const std::string &state, const std::string &fabric,
                         const std::string &why_not) {
        return R"("attached_lane":{"state":")" + state + R"(","fabric":")" + fabric +
               R"(","why_not":")" + why_not + R"("})";
    };
    const auto tells = [](Host &host, const std::string &text) {
        return LanePair::told(host).find(text) != std::string::npos;
    };
    World world(1);
    LanePair pair(world);
    CHECK(tells(*pair.a, lane("none", "", "nopathbyanadapterisopenyet")));
    pair.until_switched();
    CHECK(tells(*pair.a, lane("open", "adapter", "")));
    CHECK(tells(*pair.b, lane("open", "adapter", "")));
    CHECK(tells(*pair.a, R"({"lane":"adapter","state":"ready",)"));
    world.net.on_channel = [](AttachStep, bool) { return AttachFate::fail; };
    pair.cut_attached();
    for (int i = 0; i < 100; ++i) {
        world.world.run_for(20 * kNsPerMs);
        pair.put(0, 1);
    }
    CHECK(tells(*pair.a, lane("none", "adapter", "theadapterhasnoplace")));
}

TEST_CASE("signs of life count, by queue pairs or signals") {
    for (const bool by_signals : {false, true}) {
        World world(1);
        world.net.lanes_by_signals = by_signals;
        LanePair pair(world);
        pair.until_switched();
        const uint64_t before = pair.said(FrameType::ping) + world.net.met["frame, as signals"];
        world.world.run_for(60 * kSecond);
        CHECK(pair.said(FrameType::ping) + world.net.met["frame, as signals"] > before + 10);
        CHECK(pair.lost_connections() == 0);
    }
}

TEST_CASE("a peer that falls silent after the switch is found out") {
    World world(1);
    LanePair pair(world);
    pair.until_switched();
    world.net.silent = true;
    const auto both_lost = [&] { return pair.lost_connections() == 2; };
    CHECK(world.world.run_until(both_lost, 10 * kSecond));
    world.net.silent = false;
}

// An adapter sends again what is not acknowledged, for longer than a peer is waited for.
TEST_CASE("queue pairs that bring nothing any more cost no connection, whatever its heartbeat") {
    for (const uint32_t heartbeat_ms : {20, 100, 500, 1'000, 5'000}) {
        CAPTURE(heartbeat_ms);
        World world(heartbeat_ms);
        world.heartbeat_ms = heartbeat_ms;
        LanePair pair(world);
        pair.until_switched();
        world.world.run_for(10 * kSecond);
        world.net.lanes_stall = true;
        world.world.run_for(20 * kSecond);
        CHECK(world.net.met["frame, as signals"] > 0);
        CHECK(pair.put(0, 100) == XFER_OK);
        CHECK(pair.lost_connections() == 0);
    }
}

TEST_CASE("a peer whose queue pair brings nothing any more answers when another has its name") {
    World world(1);
    world.net.adapters = world.net.adapter_lanes = true;
    const std::vector<uint8_t> id(16, 7), data(100, 1);
    Host a(world, kA), b(world, kB, id);
    xfer_ep_t *ep = a.open(kB);
    REQUIRE(a.lookup(ep, 1) == XFER_OK);
    uint64_t user = 1;
    while (!LanePair::frames_go_by(a, "adapter") && user < 1'000)
        REQUIRE(a.put(ep, data.data(), 0, data.size(), ++user) == XFER_OK);
    world.world.run_for(10 * kNsPerMs);
    world.net.lanes_stall = true;
    Host newcomer(world, "", id);
    newcomer.expect(1);
    REQUIRE(xfer_ep_lookup(newcomer.open(kA), "memory", 1, nullptr, nullptr) == XFER_OK);
    world.world.run_for(2 * kSecond);
    CHECK(world.net.met["frame, as signals"] > 0);
    CHECK(a.downs == 0);
    CHECK(a.put(ep, data.data(), 0, data.size(), ++user) == XFER_OK);
    newcomer.end();
    world.world.run_for(kSecond);
}

TEST_CASE("an engine that ends before, in and after the switch ends, and says goodbye") {
    for (const bool by_signals : {false, true})
        for (uint64_t wait = 0; wait < 6'000'000; wait += 100'000)
            for (const uint64_t detach_ns : {0u, 1'000'000u}) {
                CAPTURE(by_signals);
                CAPTURE(wait);
                World world(wait + 1);
                world.net.lanes_by_signals = by_signals;
                LanePair pair(world);
                world.net.detach_ns = detach_ns;
                Status down = XFER_OK;
                pair.b->on_other = [&](const xfer_event_t &event) {
                    if (event.kind == XFER_EVENT_PEER_DOWN) down = event.status;
                };
                Burst burst(pair, 8, 30'000);
                burst.begin();
                world.world.run_for(wait);
                pair.a->end();
                CHECK(burst.all_end(0));
                world.world.run_for(kSecond);
                CHECK(down == XFER_ECLOSED);
                pair.b->on_other = nullptr;
            }
}

// Its first lane is open until the attached one is over.
TEST_CASE("an engine that closes serves nothing more that comes by the first lane") {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        World world(seed);
        world.net.on_caps = [](const SimChannel &channel, Caps &caps) {
            if (channel.is_attached()) caps.max_ops = 0;
        };
        LanePair pair(world);
        pair.until_switched();
        pair.script = [](CopyStep step, uint64_t, const SimCopyPath &) {
            return step == CopyStep::post ? CopyFate::decline : CopyFate::go_on;
        };
        world.net.detach_ns = 10 * kNsPerMs;
        const std::vector<uint8_t> data(1'000, 9), before = pair.b->memory;
        xfer_engine_close(pair.b->engine);
        pair.a->expect(++pair.last_user);
        REQUIRE(xfer_put(pair.ep, data.data(), &pair.a->ref, 5'000, data.size(), pair.last_user,
                         nullptr) == XFER_OK);
        world.world.run_for(5 * kNsPerMs);
        CHECK(pair.b->memory == before);
        pair.b->end();
        CHECK(pair.a->wait(pair.last_user) != XFER_OK);
    }
}

TEST_CASE("an attempt that hangs keeps no idle connection") {
    for (const AttachStep step : {AttachStep::answer, AttachStep::last}) {
        World world(1);
        world.idle_ms = 300;
        LanePair pair(world);
        world.net.on_channel = [&](AttachStep now, bool) {
            return now == step ? AttachFate::mute : AttachFate::go_on;
        };
        REQUIRE(pair.put(0, 1) == XFER_OK);
        const auto both_lost = [&] { return pair.lost_connections() == 2; };
        CHECK(world.world.run_until(both_lost, kSecond - 100 * kNsPerMs));
    }
}

TEST_CASE("a connection whose frames go by adapters rests, and ends when it is idle") {
    World world(1);
    world.idle_ms = 5'000;
    LanePair pair(world);
    pair.until_switched();
    world.world.run_for(4 * kSecond);
    CHECK(pair.lost_connections() == 0);
    const auto both_lost = [&] { return pair.lost_connections() == 2; };
    CHECK(world.world.run_until(both_lost, 3 * kSecond));
    CHECK(pair.a->downs + pair.b->downs == 0);
    pair.until_switched();
}

TEST_CASE("two that dial each other at once come to have one") {
    with_seeds(20, [](World &world) {
        world.net.adapters = world.net.adapter_lanes = true;
        Host a(world, kA), b(world, kB);
        xfer_ep_t *to_b = a.open(kB), *to_a = b.open(kA);
        uint64_t user = 0;
        const auto look_up = [&](Host &host, xfer_ep_t *ep) {
            host.expect(++user);
            REQUIRE(xfer_ep_lookup(ep, "memory", user, nullptr, nullptr) == XFER_OK);
        };
        look_up(a, to_b), look_up(b, to_a);
        REQUIRE(world.world.run_until([&] { return a.pending + b.pending == 0; }, kBeforeStall));
        const std::vector<uint8_t> data(1'000, 3);
        for (int i = 0; i < 100; ++i) {
            REQUIRE(a.put(to_b, data.data(), 0, data.size(), ++user) == XFER_OK);
            REQUIRE(b.put(to_a, data.data(), 0, data.size(), ++user) == XFER_OK);
        }
        CHECK(LanePair::frames_go_by(a, "adapter"));
        CHECK(LanePair::frames_go_by(b, "adapter"));
        CHECK(world.net.frames[FrameType::control_switch] == 2);
    });
}
