// SPDX-License-Identifier: Apache-2.0
// Two simulated engines with adapters of fake verbs, so many rails each, and what they do with each
// other at once: puts, gets, messages, and batches that notify.
#pragma once

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim_adapters.h"
#include "sim_host.h"

namespace xfer {

struct RailOptions {
    uint32_t rails = 1;  // of each
    uint32_t loops = 1;  // likewise
    bool windows = true;
    rdma::FakePersonality personality = {};
};

// The adapters of the engine at kA come first, then those of the one at kB.
struct RdmaWorld : World {
    RdmaWorld(uint64_t seed, const RailOptions &options)
        : World(seed), adapters(world, options.personality), rails(options.rails) {
        loops = options.loops;
        adapters.options.send_requests = 32;  // so that the queue is full at times
        for (uint32_t i = 0; i < 2 * rails; ++i)
            of.push_back(&adapters.fabric.add({.windows = options.windows}));
        fabrics = [this](const Host &host, SimLoop &loop) {
            return adapters.open(loop, devices(host.uri == kA));
        };
    }
    std::string devices(bool first) const {
        std::string names;
        for (uint32_t i = 0; i < rails; ++i)
            names += (i ? ",fake" : "fake") + std::to_string(first ? i : rails + i);
        return names;
    }
    // A rail of one of the two, to all of the other's.
    template <typename Call>
    void each_link(uint32_t rail, Call call) {
        for (uint32_t i = rails; i < 2 * rails; ++i)
            call(*of[rail], *of[i]);
    }
    void cut(uint32_t rail, rdma::FakeCut kind) {
        each_link(rail, [&](auto &one, auto &other) { adapters.fabric.cut(one, other, kind); });
        adapters.go_on();
    }
    void mend(uint32_t rail) {
        each_link(rail, [&](auto &one, auto &other) { adapters.fabric.mend(one, other); });
        adapters.go_on();
    }

    SimAdapters adapters;
    const uint32_t rails;
    std::vector<rdma::FakeAdapter *> of;
};

class RdmaPair : public RdmaWorld {
public:
    explicit RdmaPair(uint64_t seed, const RailOptions &options = {}) : RdmaWorld(seed, options) {
        a = std::make_unique<Host>(*this, kA);
        b = std::make_unique<Host>(*this, kB);
        there = a->open(kB);
        back = b->open(kA);
    }
    // Quiet, whatever was under way: the adapters have nothing of the engines' any more.
    ~RdmaPair() {
        adapters.on_step = nullptr;
        end();
    }
    void end() {
        for (Host *host : {a.get(), b.get()})
            if (host) host->end();
        CHECK(adapters.fabric.report() == "");
        CHECK(adapters.fabric.live() == rdma::FakeCounts{});
    }
    void lookup() {
        REQUIRE(a->lookup(there, ++last_user) == XFER_OK);
        REQUIRE(b->lookup(back, ++last_user) == XFER_OK);
    }
    // Frames go by the adapters, and each path of both ends carries what is put.
    bool until_up(uint64_t limit = 60 * kSecond) {
        const uint64_t end = world.now() + limit;
        for (uint64_t pause = 5; world.now() < end; pause = std::min<uint64_t>(2 * pause, 160)) {
            const auto before_a = carried(*a), before_b = carried(*b);
            for (uint32_t i = 0; i < 4 * rails; ++i)
                put_some(*a, there), put_some(*b, back);
            world.run_for(pause * kNsPerMs);
            if (are_more(before_a, carried(*a)) && are_more(before_b, carried(*b)))
                return are_apart(*a) && are_apart(*b);
        }
        return false;
    }
    uint64_t lost_connections() { return a->stats().connection_ends + b->stats().connection_ends; }
    uint64_t requests() { return adapters.fabric.posts().requests; }

    std::unique_ptr<Host> a, b;
    xfer_ep_t *there = nullptr, *back = nullptr;
    uint64_t last_user = 1'000'000;

    static nlohmann::json told(Host &host) {
        std::string text(100'000, '\0');
        uint64_t needed = 0;
        REQUIRE(xfer_engine_describe(host.engine, text.data(), text.size(), &needed) == XFER_OK);
        text.resize(needed - 1);
        return nlohmann::json::parse(text);
    }

private:
    static constexpr uint64_t kSome = 100'000;

    void put_some(Host &host, xfer_ep_t *ep) {
        host.expect(++last_user);
        REQUIRE(xfer_put(ep, some_.data(), &host.ref, 0, kSome, last_user, nullptr) == XFER_OK);
    }
    // By each path that is open, where frames go by the adapters; else nothing.
    static std::vector<uint64_t> carried(Host &host) {
        const nlohmann::json all = told(host);
        std::vector<uint64_t> requests;
        for (const auto &loop : all.at("loops"))
            for (const auto &peer : loop.at("peers"))
                for (const auto &connection : peer.at("connections"))
                    for (const auto &path : connection.at("attached_paths"))
                        if (connection.at("control") == "adapter" && path.at("state") == "open")
                            requests.push_back(path.at("carried").at("requests"));
        return requests;
    }
    // Each path has a port of its own.
    static bool are_apart(Host &host) {
        const nlohmann::json all = told(host);
        std::set<std::string> ports;
        size_t count = 0;
        for (const auto &loop : all.at("loops"))
            for (const auto &peer : loop.at("peers"))
                for (const auto &connection : peer.at("connections"))
                    for (const auto &path : connection.at("attached_paths"))
                        ++count, ports.insert(path.at("local"));
        return ports.size() == count;
    }
    bool are_more(const std::vector<uint64_t> &before, const std::vector<uint64_t> &now) const {
        return before.size() == rails && now.size() == rails &&
               std::equal(before.begin(), before.end(), now.begin(), std::less<>{});
    }

    const std::vector<uint8_t> some_ = std::vector<uint8_t>(kSome, 1);
};

// So many operations of each end with the other, begun at random moments of a span of time, each
// with memory of its own at both ends. What has ended has its local memory overwritten at once, so
// that a later use of it is seen. A pair has one at a time.
class RdmaStorm {
public:
    RdmaStorm(RdmaPair &both, uint64_t count, uint64_t span_ns) : pair_(both) {
        for (const bool forth : {true, false}) {
            Host &from = forth ? *pair_.a : *pair_.b, &to = forth ? *pair_.b : *pair_.a;
            uint64_t at = 0;
            for (uint64_t i = 0; i < count; ++i)
                add(from, to, forth ? pair_.there : pair_.back, at);
        }
        for (Host *host : {pair_.a.get(), pair_.b.get()}) {
            host->on_done = [this](const xfer_event_t &event) { ended(event); };
            host->on_notify = [this](const xfer_event_t &event) { notified(event); };
        }
        for (One &one : all_)
            pair_.world.post(pair_.world.random(span_ns), [this, &one] { begin(one); });
    }
    ~RdmaStorm() {
        for (Host *host : {pair_.a.get(), pair_.b.get()})
            if (host) host->on_done = host->on_notify = nullptr;
        for (One &one : all_)
            if (one.batch) xfer_batch_close(one.batch);
    }
    RdmaStorm(const RdmaStorm &) = delete;
    RdmaStorm &operator=(const RdmaStorm &) = delete;

    bool all_end(uint64_t limit = kBeforeStall) {
        return pair_.world.run_until([this] { return begun_ == all_.size() && left_ == 0; }, limit);
    }
    // Receives of messages that never come, and messages that nobody receives.
    void give_up(Host &host) {
        for (const One &one : all_)
            if (one.kind == Kind::message && (one.to == &host || one.from == &host))
                xfer_cancel(host.engine, one.to == &host ? nullptr : one.ep, one.user, UINT64_MAX);
    }
    // Of an owner that lives: who has written something of a batch tells it of that batch.
    void check_told(const Host &owner) const {
        for (const One &one : all_) {
            if (one.kind != Kind::batch || one.to != &owner) continue;
            CAPTURE(one.user);
            const bool landed = std::find(one.remote, one.remote + one.right.size(),
                                          one.right[0]) != one.remote + one.right.size();
            CHECK(one.told <= 1);
            if (landed) CHECK(one.told == 1);
        }
    }
    uint64_t lost() const { return lost_; }
    uint64_t left() const { return left_; }
    // At rest. A notification that was owed may still come.
    void check() {
        pair_.world.run_for(kSecond);
        const bool quiet = pair_.lost_connections() == 0;
        for (const One &one : all_) {
            CAPTURE(one.user);
            CAPTURE(static_cast<int>(one.kind));
            const bool untouched = std::all_of(one.local, one.local + one.right.size(),
                                               [](uint8_t byte) { return byte == kUsedAgain; });
            CHECK(untouched);
            const bool used_again = std::find(one.remote, one.remote + one.right.size(),
                                              kUsedAgain) != one.remote + one.right.size();
            CHECK_FALSE(used_again);
            if (one.status == XFER_OK) CHECK(is_right(one, one.remote));
            if (quiet && !one.then.empty())
                CHECK(std::equal(one.then.begin(), one.then.end(), one.remote));
            if (one.kind == Kind::batch && one.status == XFER_OK) CHECK(one.told_ok == 1);
            if (one.kind == Kind::message && one.status == XFER_OK) CHECK(one.received == XFER_OK);
        }
        check_told(*pair_.a), check_told(*pair_.b);
    }

    std::set<Status> may_end = {XFER_OK, XFER_EPEERLOST};

private:
    enum class Kind : uint8_t { put, get, message, batch };
    static constexpr uint8_t kUsedAgain = 0xee;
    static constexpr uint64_t kHalf = 1 << 19;  // of each memory: what peers reach, then our own

    struct One {
        Kind kind = Kind::put;
        Host *from = nullptr, *to = nullptr;
        xfer_ep_t *ep = nullptr;
        uint64_t user = 0, offset = 0;
        // What it moves; memory that is in no region; what was there when a write ended as lost,
        // after which nothing of it lands where the connection lives.
        std::vector<uint8_t> right, own, then;
        uint8_t *local = nullptr, *remote = nullptr;
        xfer_batch_t *batch = nullptr;
        Status status = 1, received = 1;  // 1: not yet
        int told = 0, told_ok = 0;
    };

    void add(Host &from, Host &to, xfer_ep_t *ep, uint64_t &at) {
        SimWorld &dice = pair_.world;
        constexpr uint64_t kLengths[] = {200, 3'000, 12'000, 40'000};
        One &one = all_.emplace_back();
        one.kind = static_cast<Kind>(dice.random(4));
        one.from = &from, one.to = &to, one.ep = ep;
        one.user = ++pair_.last_user;
        one.offset = at;
        one.right.assign(1 + dice.random(kLengths[dice.random(4)]),
                         static_cast<uint8_t>(1 + dice.random(200)));
        at += one.right.size();
        REQUIRE(at <= kHalf);
        one.own.resize(one.right.size());
        one.local = dice.random(2) ? one.own.data() : from.memory.data() + kHalf + one.offset;
        one.remote = to.memory.data() + one.offset;
        const bool out = one.kind != Kind::get;
        std::fill_n(one.local, one.right.size(), out ? one.right[0] : uint8_t{0});
        std::fill_n(one.remote, one.right.size(), out ? uint8_t{0} : one.right[0]);
        if (one.kind == Kind::batch) fill_batch(one);
    }
    static bool is_right(const One &one, const uint8_t *bytes) {
        return std::equal(one.right.begin(), one.right.end(), bytes);
    }

    // Nothing of an engine that has ended meanwhile.
    void begin(One &one) {
        ++begun_;
        if (one.from->ended || one.to->ended) return;
        ++left_;
        one.from->expect(one.user);
        const xfer_ref_t &ref = one.from->ref;
        const uint64_t length = one.right.size();
        Status call = XFER_OK;
        switch (one.kind) {
        case Kind::put:
            call = xfer_put(one.ep, one.local, &ref, one.offset, length, one.user, nullptr);
            break;
        case Kind::get:
            call = xfer_get(one.ep, one.local, &ref, one.offset, length, one.user, nullptr);
            break;
        case Kind::message:
            receive(one);
            call = xfer_send(one.ep, one.local, length, one.user, one.user, nullptr);
            break;
        case Kind::batch:
            call = submit(one);
        }
        if (call == XFER_ECLOSED && may_end.contains(call))
            --one.from->pending, --left_;
        else
            REQUIRE(call == XFER_OK);
    }
    void receive(One &one) {
        const Status call = xfer_recv(one.to->engine, nullptr, one.remote, one.right.size(),
                                      one.user, UINT64_MAX, one.user, nullptr);
        if (call == XFER_ECLOSED && may_end.contains(call)) return;
        REQUIRE(call == XFER_OK);
        ++left_;
        one.to->expect(one.user);
    }
    // Two entries, and the word to the owner behind both.
    static void fill_batch(One &one) {
        const uint64_t length = one.right.size(), half = length / 2;
        REQUIRE(xfer_batch_open(one.ep, nullptr, &one.batch, nullptr) == XFER_OK);
        if (half > 0)
            REQUIRE(xfer_batch_put(one.batch, one.local, &one.from->ref, one.offset, half) ==
                    XFER_OK);
        REQUIRE(xfer_batch_put(one.batch, one.local + half, &one.from->ref, one.offset + half,
                               length - half) == XFER_OK);
    }
    static Status submit(One &one) {
        xfer_submit_options_t options{};
        options.size = sizeof options;
        options.flags = XFER_SUBMIT_NOTIFY;
        options.notify_key = one.user;
        return xfer_batch_submit(one.batch, one.user, &options);
    }

    One *find(uint64_t user) {
        for (One &one : all_)
            if (one.user == user) return &one;
        return nullptr;
    }
    void ended(const xfer_event_t &event) {
        One *const one = find(event.user);
        if (!one) return;
        --left_;
        CAPTURE(one->user);
        CHECK(may_end.contains(event.status));
        if (event.kind == XFER_EVENT_RECV) {
            one->received = event.status;
            if (event.status == XFER_OK) CHECK(is_right(*one, one->remote));
            return;
        }
        one->status = event.status;
        lost_ += event.status != XFER_OK;
        const bool writes = one->kind == Kind::put || one->kind == Kind::batch;
        if (event.status == XFER_OK && writes) CHECK(is_right(*one, one->remote));
        if (event.status != XFER_OK && writes)
            one->then.assign(one->remote, one->remote + one->right.size());
        if (event.status == XFER_OK && one->kind == Kind::get) CHECK(is_right(*one, one->local));
        std::fill_n(one->local, one->right.size(), kUsedAgain);
    }
    void notified(const xfer_event_t &event) {
        One *const one = find(event.tag);
        REQUIRE(one);
        ++one->told;
        if (event.status != XFER_OK) return;
        ++one->told_ok;
        CHECK(is_right(*one, one->remote));
    }

    RdmaPair &pair_;
    std::deque<One> all_;
    uint64_t begun_ = 0, left_ = 0, lost_ = 0;
};

}  // namespace xfer
