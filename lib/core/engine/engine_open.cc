// SPDX-License-Identifier: Apache-2.0
// How an engine comes to be: who it is, its loops and what they run on, and the address at which
// its neighbours find it.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/limits.h"
#include "core/engine/engine.h"
#include "transport/builtin.h"
#include "wire/short_name.h"

namespace xfer {

Engine::Engine(Options options, const Seams &seams)
    : EngineCore(
          std::move(options), half_open_places(),
          {cancel_requests_, counters_, notifications_, receive_queue_, regions_, submissions_}),
      seams_(seams),
      own_device_(seams.device ? nullptr : make_device()),
      device_(seams.device ? seams.device : own_device_.get()),
      dispatcher_(options_, end_) {
    events_ = &dispatcher_;
    self_.random = seams_.random ? seams_.random : [](void *, Bytes out) { random_bytes(out); };
    self_.random_context = seams_.context;
    identity_.id = options_.id;
    if (!options_.own_id) self_.random(self_.random_context, identity_.id);
    while (identity_.incarnation == 0)
        identity_.incarnation = random_u64();
    options_.log.prefix = Text("engine ") + short_name(identity_.id) + ": ";
    self_.id = identity_.id;
    self_.incarnation = identity_.incarnation;
    self_.key = options_.key;
    Terms terms;
    terms.max_ops = kLaneOps;
    // Where the user's own thread drives us, our silence says nothing.
    const bool threads = options_.io_threads || options_.dispatch == XFER_DISPATCH_THREAD;
    const uint64_t silence_ms = std::min<uint64_t>(lost_after(options_.heartbeat_ms), UINT32_MAX);
    terms.silence_ms = threads ? static_cast<uint32_t>(silence_ms) : 0;
    terms.blob = options_.blob;
    terms.listens = options_.advertise;
    self_.set_terms(std::move(terms));
    end_.event.kind = XFER_EVENT_CLOSED;
    end_.event.object = this;
    end_.event.user = options_.user;
}

// After a failed open, threads may run and loops be alive; after a join there is nothing of them.
Engine::~Engine() {
    join_threads();
    shards_.clear();
    UvLoop::abandon(std::move(callers_loop_));
}

Result<Engine *> Engine::open(Options options, const Seams &seams) {
    if (!crypto_ready()) return Failure{XFER_EIO, 0, 0, "no source of random numbers"};
    auto engine = Ref<Engine>::adopt(new Engine(std::move(options), seams));
    if (Failure failure = engine->start(); failure.status != XFER_OK) return failure;
    engine->retain();  // the handle's
    return engine.get();
}

void Engine::make_shard(Loop &loop, uint32_t index, OwnLoop *own) {
    shards_.push_back(std::make_unique<Shard>(*this, loop, index, own));
    ShardCore &shard = *shards_.back();
    shard.transports = seams_.transports ? seams_.transports(seams_.context, loop)
                                         : builtin_transports(loop, log(), options_.transports);
    shard.fabrics = seams_.fabrics
                        ? seams_.fabrics(seams_.context, loop)
                        : builtin_fabrics(loop, log(), options_.transports, options_.rdma);
    for (const auto &fabric : shard.fabrics)
        fabric->set_sink(shard.regions);
    Terms terms = self_.terms();
    terms.transports.clear();
    for (auto &transport : shard.transports)
        terms.transports.emplace_back(transport->name());
    for (auto &fabric : shard.fabrics)
        if (fabric->is_there()) terms.transports.emplace_back(fabric->name());
    self_.set_terms(std::move(terms));
}

// Under a name that nobody guesses, told to peers that have proved themselves. Without it they
// reach us as others do.
void Engine::await_neighbours() {
    const Uri uri{.scheme = "shm",
                  .host = fmt::format("{:016x}{:016x}", random_u64(), random_u64()),
                  .path = {}};
    if (!first_shard().transport_for(uri) || self_.terms().listens.size() == kMaxListenUris) return;
    auto listener = first_shard().inbound.make_listener(uri, kDefaultMode, {}, kMaxUri);
    if (!listener) return log().warn("no neighbour finds us: {}", listener.error().message);
    keep(std::move(*listener));
}

Failure Engine::add_loop() {
    if (options_.io_threads == 0 && options_.dispatch == XFER_DISPATCH_LOOP) {
        auto loop = UvLoop::open(options_.loop, options_.unref);
        if (!loop) return loop.error();
        callers_loop_ = std::move(*loop);
        loops_.push_back(callers_loop_.get());
        return {};
    }
    auto loop = OwnLoop::open(options_.spin());
    if (!loop) return loop.error();
    own_loops_.push_back(std::move(*loop));
    loops_.push_back(own_loops_.back().get());
    return {};
}

// Where no thread does I/O, the side that dispatches drives its loop.
Failure Engine::open_dispatcher() {
    if (options_.io_threads) return dispatcher_.open();
    return callers_loop_ ? dispatcher_.open(*callers_loop_) : dispatcher_.open(*own_loops_[0]);
}

Failure Engine::start() {
    const auto simulated = static_cast<uint32_t>(seams_.loops.size());
    const uint32_t count = simulated ? simulated : std::max(options_.io_threads, 1u);
    closings_ = std::make_unique<Closing[]>(count);
    shards_left_ = count;
    loops_.reserve(count);
    own_loops_.reserve(count);
    shards_.reserve(count);
    threads_.reserve(count);
    if (simulated) {
        for (Loop *loop : seams_.loops)
            make_shard(*loop, static_cast<uint32_t>(shards_.size()));
        await_neighbours();
        return options_.dispatch == XFER_DISPATCH_POLL ? dispatcher_.open() : Failure{};
    }
    for (uint32_t i = 0; i < count; ++i) {
        if (Failure why = add_loop(); why.status != XFER_OK) return why;
        EngineLoop::Inside inside(*loops_.back());
        make_shard(*loops_.back(), i, callers_loop_ ? nullptr : own_loops_.back().get());
        if (i == 0) await_neighbours();
    }
    if (Failure failure = open_dispatcher(); failure.status != XFER_OK) return failure;
    const bool threads = options_.io_threads || options_.dispatch == XFER_DISPATCH_THREAD;
    for (size_t i = 0; threads && i < own_loops_.size(); ++i)
        threads_.emplace_back([loop = own_loops_[i].get()] { loop->run(); });
    dispatcher_.start();
    return {};
}

}  // namespace xfer
