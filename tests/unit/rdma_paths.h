// SPDX-License-Identifier: Apache-2.0
// Two fabrics of adapters on one loop, with a path between them: what a core has around it, without
// one. Each side writes down what it is told, and checks that it is told in order and once.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fake_verbs.h"
#include "loop/own_loop.h"
#include "recording_sink.h"
#include "transport/rdma/fabric.h"
#include "wire/proof.h"

namespace xfer::rdma {

using Octets = std::vector<uint8_t>;

// In place, as the memory has been given out.
inline void fill(Octets &bytes, uint32_t seed) {
    const Octets made = test::pattern(bytes.size(), seed);
    std::copy(made.begin(), made.end(), bytes.begin());
}
using test::TestOp;

// A loop whose clock can be put forward. Whoever uses it disarms what it has armed.
class SkippingLoop final : public Loop {
public:
    explicit SkippingLoop(OwnLoop &inner) : inner_(inner) {}
    void skip(uint64_t ns) {
        EngineLoop::Inside inside(inner_);
        ahead_ += ns;
        const std::set<Timer *> armed = std::move(armed_);
        armed_.clear();
        for (Timer *timer : armed)
            if (timer->armed()) arm(*timer, timer->due + ahead_ - ns);
    }
    uint64_t now() override { return inner_.now() + ahead_; }
    uint64_t clock() override { return inner_.clock() + ahead_; }
    void arm(Timer &timer, uint64_t due) override {
        armed_.insert(&timer);
        inner_.arm(timer, due > ahead_ ? due - ahead_ : 0);
    }
    void disarm(Timer &timer) override {
        armed_.erase(&timer);
        inner_.disarm(timer);
    }
    void defer(Task &task) override { inner_.defer(task); }
    void expect(uint64_t until) override { inner_.expect(until); }
    std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted) override {
        return inner_.watch(fd, sink, wanted);
    }
    void look_at(Poller &poller) override { inner_.look_at(poller); }
    std::unique_ptr<Resolving> resolve(const std::string &host, ResolveSink &sink) override {
        return inner_.resolve(host, sink);
    }
    void set_wake_sink(WakeSink &sink) override { inner_.set_wake_sink(sink); }
    void wake() override { inner_.wake(); }

private:
    OwnLoop &inner_;
    uint64_t ahead_ = 0;
    std::set<Timer *> armed_;  // some of them have fired
};

class Side final : AttachedPathSink, PathSink, OneSidedSink, FabricSink {
public:
    struct Done {
        Op *op;
        Status status;
        bool operator==(const Done &) const = default;
    };

    Side(const Verbs &verbs, FakeAdapter &of, const std::string &device, SkippingLoop &loop,
         const QueuePairOptions &options)
        : adapter(of) {
        auto filter = parse_device_filter(device);
        REQUIRE(filter);
        auto devices = open_devices(verbs, *filter);
        REQUIRE(devices);
        REQUIRE(devices->open.size() == 1);
        fabric = std::make_unique<AdapterFabric>(verbs, std::move(*devices), options, loop, log_);
        fabric->set_sink(*this);
    }

    Status open(bool first) {
        REQUIRE_FALSE(path);
        ready = started = down = closed = false, ended.reset(), down_why.reset();
        auto made = fabric->open({.first = first}, *this);
        if (!made) return made.error().status;
        path = std::move(*made);
        return XFER_OK;
    }
    void add_region(uint64_t number, Octets &bytes, uint32_t access = XFER_READ | XFER_WRITE) {
        ExportedMemory memory;
        memory.base = bytes.data(), memory.length = bytes.size(), memory.access = access;
        regions[number] = memory;
        fabric->add_region({number}, memory);
    }
    Result<ExportKey> key_of(uint64_t number) {
        return path->export_region({number}, regions.at(number));
    }
    bool post(TestOp &op) {
        const bool took = queue(op);
        flush();
        return took;
    }
    // It leaves with a flush, or the next task of the loop.
    bool queue(TestOp &op) {
        op.sent = op.canceled = op.unmapped = false;
        op.import = imports.at(op.remote.region).get();
        in_method = true;
        const bool took = path->post(op);
        in_method = false;
        if (took) posted.insert(&op);
        return took;
    }
    void flush() {
        in_method = true;
        path->flush();
        in_method = false;
    }
    bool cancel(TestOp &op) {
        in_method = true;
        const bool quiet = path->cancel(op);
        in_method = false;
        return quiet;
    }
    // As core does it when the peer says so.
    bool withdraw(uint64_t number) {
        in_method = true;
        if (auto node = imports.extract(number)) path->drop(std::move(node.mapped()));
        const bool quiet = path->withdrawn({number});
        in_method = false;
        return quiet;
    }
    void close(Status why = XFER_ECLOSED) {
        closed = true;
        path->close({why, XFER_ORIGIN_NONE, 0, "the test"});
    }
    bool is_over() const { return !path || ended; }
    Status status_of(const Op &op) const {
        for (const Done &each : done)
            if (each.op == &op) return each.status;
        return 1;  // not done
    }
    size_t times_done(const Op &op) const {
        return static_cast<size_t>(std::count_if(done.begin(), done.end(),
                                                 [&](const Done &each) { return each.op == &op; }));
    }

    FakeAdapter &adapter;
    std::unique_ptr<AdapterFabric> fabric;
    std::unique_ptr<AttachedPath> path;
    std::deque<Octets> to_peer;
    std::map<uint64_t, ExportedMemory> regions;
    std::map<uint64_t, std::unique_ptr<Import>> imports;
    bool starts = true;  // with on_ready
    bool ready = false, started = false, down = false, closed = false;
    std::optional<Failure> ended, down_why;
    std::set<const Op *> posted;
    std::vector<Done> done;
    std::vector<Op *> declined;
    std::vector<uint64_t> dropped, released;
    std::vector<std::pair<uint64_t, uint64_t>> begun;
    std::function<void(Op &)> on_op;  // done, or declined
    bool in_method = false;
    size_t signals = 0;

private:
    void send_signal(ConstBytes message) override {
        CHECK(message.size() > 0);
        CHECK(message.size() <= kMaxSignal);
        CHECK_FALSE(ended);
        ++signals;
        to_peer.emplace_back(message.begin(), message.end());
    }
    void on_ready() override {
        CHECK_FALSE(ready);
        CHECK_FALSE(closed);
        ready = true;
        if (!starts) return;
        started = true;
        path->start(*this, *this, 64);
    }
    void on_ended(const Failure &why) override {
        CHECK_FALSE(in_method);
        CHECK_FALSE(ended);
        CHECK(why.status != XFER_OK);
        CHECK(down == started);
        CHECK(posted.empty());
        ended = why;
    }
    void on_done(Op &op, Status status) override {
        note(op);
        done.push_back({&op, status});
        if (on_op) on_op(op);
    }
    void on_declined(Op &op) override {
        note(op);
        declined.push_back(&op);
        if (on_op) on_op(op);
    }
    void note(const Op &op) {
        CHECK_FALSE(in_method);
        CHECK_FALSE(down);
        CHECK(posted.erase(&op) == 1);
    }
    void on_dropped(RegionId region) override {
        CHECK_FALSE(in_method);
        CHECK_FALSE(down);
        dropped.push_back(region.value);
    }
    Status on_access(Dir, const Access &, std::span<const WirePiece>,
                     std::vector<iovec> &) override {
        FAIL_CHECK("nobody asks");
        return XFER_EACCESS;
    }
    void on_served(Dir, uint64_t, NotificationId) override { FAIL_CHECK("nobody is served"); }
    void on_quiesced(Target) override { FAIL_CHECK("nothing is waited for"); }
    void on_unmapped(Target) override { FAIL_CHECK("nothing is looked at"); }
    void on_notification_begun(NotificationId number, uint64_t key) override {
        CHECK_FALSE(down);
        CHECK(posted.empty());
        begun.push_back({number.value, key});
    }
    void on_down(const Failure &why) override {
        CHECK_FALSE(in_method);
        CHECK_FALSE(down);
        CHECK(started);
        CHECK(posted.empty());
        down = true;
        down_why = why;
    }
    void on_released(RegionId region) override { released.push_back(region.value); }

    Log log_;
};

struct Paths {
    explicit Paths(FakePersonality personality = {}, const FakeAdapterOptions &near_options = {},
                   const FakeAdapterOptions &far_options = {}, const QueuePairOptions &pair = {})
        : fabric(personality) {
        FakeAdapter &one = fabric.add(near_options), &other = fabric.add(far_options);
        EngineLoop::Inside inside(*own);
        near = std::make_unique<Side>(verbs, one, "fake0", loop, pair);
        far = std::make_unique<Side>(verbs, other, "fake1", loop, pair);
    }
    // Whatever was left open is closed, and nothing of it may be left.
    ~Paths() {
        fabric.hold_completions(false);
        stalled = false;
        close();
        CHECK(fabric.report() == "");
        EngineLoop::Inside inside(*own);
        near->fabric.reset();
        far->fabric.reset();
        CHECK(fabric.live() == FakeCounts{});
    }

    void step() {
        own->turn(100'000);
        deliver();
        if (!stalled) fabric.run();
    }
    void settle(int turns = 8) {
        for (int i = 0; i < turns; ++i)
            step();
    }
    template <typename Condition>
    bool until(Condition condition) {
        const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > limit) return false;
            step();
        }
        return true;
    }
    template <typename Call>
    auto inside(Call call) {
        EngineLoop::Inside inside(*own);
        return call();
    }
    void skip(uint64_t ms) { loop.skip(ms * kNsPerMs); }

    Status begin(bool far_first = false) {
        EngineLoop::Inside inside(*own);
        const Status one = near->open(!far_first);
        return one == XFER_OK ? far->open(far_first) : one;
    }
    bool both_ready() const { return near->ready && far->ready; }
    void open() {
        REQUIRE(begin() == XFER_OK);
        const bool is_ready = until([&] { return both_ready() || near->ended || far->ended; });
        for (const Side *side : {near.get(), far.get()})
            if (side->ended) MESSAGE(std::string_view(side->ended->message));
        REQUIRE(is_ready);
        REQUIRE(both_ready());
    }
    void close(Side &side) {
        if (side.path && !side.ended) inside([&] { side.close(); });
    }
    // As core does it: when both have ended.
    void close() {
        close(*near);
        close(*far);
        REQUIRE(until_over());
        release();
    }
    bool until_over() {
        return until([&] { return near->is_over() && far->is_over(); });
    }
    void release() {
        EngineLoop::Inside inside(*own);
        for (Side *side : {near.get(), far.get()}) {
            side->path.reset();
            side->to_peer.clear();
            side->imports.clear();
        }
    }
    void deliver() {
        EngineLoop::Inside inside(*own);
        for (Side *from : {near.get(), far.get()}) {
            Side &to = from == near.get() ? *far : *near;
            while (!from->to_peer.empty()) {
                Octets bytes = std::move(from->to_peer.front());
                from->to_peer.pop_front();
                if (filter && !filter(*from, bytes)) continue;
                if (to.path) to.path->on_signal(bytes);
            }
        }
    }

    // A region of `owner` as the other side imports it.
    void share(Side &owner, uint64_t number, Octets &bytes,
               uint32_t access = XFER_READ | XFER_WRITE) {
        inside([&] { owner.add_region(number, bytes, access); });
        import(owner, number);
    }
    void import(Side &owner, uint64_t number) { REQUIRE(try_import(owner, number)); }
    bool try_import(Side &owner, uint64_t number) {
        Side &initiator = &owner == near.get() ? *far : *near;
        std::optional<ExportKey> key;
        REQUIRE(until([&] {
            return inside([&] {
                auto got = owner.key_of(number);
                if (got) key = *got;
                return got || got.error().status != XFER_EAGAIN;
            });
        }));
        REQUIRE(key);
        return inside([&] {
            auto import = initiator.path->import({key->begin(), key->size()});
            if (!import) return false;
            import->region = {number};
            initiator.imports[number] = std::move(import);
            return true;
        });
    }
    bool post(Side &side, TestOp &op) {
        return inside([&] { return side.post(op); });
    }
    // So that bounce buffers or a registration are there for as many bytes.
    void warm_up(Side &side, uint64_t region, Octets &local, uint64_t bytes = 1) {
        for (int i = 0; i < 2'000; ++i) {
            TestOp op(Dir::get, region, {{test::address(local.data()), 0, bytes}});
            REQUIRE(post(side, op));
            REQUIRE(until([&] { return side.posted.empty(); }));
            if (side.times_done(op)) return side.done.clear();
            side.declined.clear();
            own->turn(kNsPerMs);
        }
        FAIL("it stays cold");
    }

    std::unique_ptr<OwnLoop> own = [] {
        auto made = OwnLoop::open();
        REQUIRE(made);
        REQUIRE(crypto_ready());
        return std::move(*made);
    }();
    SkippingLoop loop{*own};
    FakeFabric fabric;
    Verbs verbs = FakeFabric::verbs();
    std::unique_ptr<Side> near, far;
    std::function<bool(Side &, Octets &)> filter;  // false: lost
    bool stalled = false;                          // adapters do nothing
};

inline TestOp &make(std::deque<TestOp> &ops, Dir dir, uint64_t region,
                    const std::vector<Piece> &pieces) {
    ops.emplace_back();
    ops.back().make(dir, region, pieces);
    return ops.back();
}

}  // namespace xfer::rdma
