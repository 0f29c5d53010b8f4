// SPDX-License-Identifier: Apache-2.0
// Two fabrics of adapters on one loop, and what a core does between their ends, without one: it
// turns the loop, delivers what each end signals to the other, and lets the adapters go on.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fake_verbs.h"
#include "forwarding_loop.h"
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
// The faults that several fabrics have met, and the check that each of some kind was among them.
using MetFaults = std::map<FakeFault, uint64_t>;
inline void add_met(MetFaults &to, FakeFabric &fabric) {
    for (const auto &[fault, count] : fabric.met())
        to[fault] += count;
}
template <typename Faults>
void check_met(const MetFaults &met, std::string_view kind, const Faults &faults) {
    for (const auto fault : faults)
        CHECK_MESSAGE(met.contains(fault), "never met: ", kind, " ", static_cast<int>(fault));
}

// Of a port, or of a queue pair of the adapter, or its completion queue. Nothing, if it has none.
inline void raise_event(FakeFabric &fabric, FakeAdapter &adapter, ibv_event_type type) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = 1;
    if (type != IBV_EVENT_PORT_ERR && type != IBV_EVENT_PORT_ACTIVE) {
        const auto pairs = fabric.pairs();
        const auto of = std::find_if(pairs.begin(), pairs.end(), [&](const ibv_qp *pair) {
            return pair->context->device == adapter.context()->device;
        });
        if (of == pairs.end()) return;
        if (type == IBV_EVENT_CQ_ERR)
            event.element.cq = (*of)->send_cq;
        else
            event.element.qp = *of;
    }
    adapter.raise_async(event);
}

// A loop whose clock can be put forward. Whoever uses it disarms what it has armed.
class SkippingLoop final : public ForwardingLoop {
public:
    using ForwardingLoop::ForwardingLoop;
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

private:
    uint64_t ahead_ = 0;
    std::set<Timer *> armed_;  // some of them have fired
};

// One end: its adapter, and what it has said to the other one.
class AdapterEnd {
public:
    AdapterEnd(const Verbs &verbs, FakeAdapter &of, const std::string &device, Loop &loop,
               const QueuePairOptions &options)
        : adapter(of) {
        auto filter = parse_device_filter(device);
        REQUIRE(filter);
        auto devices = open_devices(verbs, *filter);
        REQUIRE(devices);
        REQUIRE(devices->open.size() == 1);
        fabric = std::make_unique<AdapterFabric>(verbs, std::move(*devices), options, loop, log);
    }

    FakeAdapter &adapter;
    Log log;  // of the fabric
    std::unique_ptr<AdapterFabric> fabric;
    std::deque<Octets> to_peer;
    size_t signals = 0;

protected:
    void say(ConstBytes message) {
        CHECK(message.size() > 0);
        CHECK(message.size() <= kMaxSignal);
        ++signals;
        to_peer.emplace_back(message.begin(), message.end());
    }
};

// An End is an AdapterEnd, and hears what the other one said: hear(const Octets &).
template <typename End>
struct TwoEnds {
    TwoEnds(FakePersonality personality, const FakeAdapterOptions &near_options,
            const FakeAdapterOptions &far_options, const QueuePairOptions &options)
        : fabric(personality) {
        FakeAdapter &one = fabric.add(near_options), &other = fabric.add(far_options);
        EngineLoop::Inside inside(*own);
        near = std::make_unique<End>(verbs, one, "fake0", loop, options);
        far = std::make_unique<End>(verbs, other, "fake1", loop, options);
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
    void deliver() {
        EngineLoop::Inside inside(*own);
        for (End *from : {near.get(), far.get()}) {
            End &to = from == near.get() ? *far : *near;
            while (!from->to_peer.empty()) {
                Octets bytes = std::move(from->to_peer.front());
                from->to_peer.pop_front();
                if (!filter || filter(*from, bytes)) to.hear(bytes);
            }
        }
    }
    void let_go() {
        fabric.hold_completions(false);
        stalled = false;
    }
    // When both ends are closed: nothing of them may be left.
    void check_nothing_left() {
        CHECK(fabric.report() == "");
        EngineLoop::Inside inside(*own);
        near->fabric.reset();
        far->fabric.reset();
        CHECK(fabric.live() == FakeCounts{});
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
    std::unique_ptr<End> near, far;
    std::function<bool(End &, Octets &)> filter;  // false: lost
    bool stalled = false;                         // adapters do nothing
};

}  // namespace xfer::rdma
