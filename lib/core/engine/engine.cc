// SPDX-License-Identifier: Apache-2.0
#include "core/engine/engine.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/base/limits.h"
#include "transport/builtin.h"
#include "util/local_address.h"
#include "util/memory.h"

namespace xfer {

bool Engine::is_lent(uint64_t address, uint64_t length, Memory &memory) const {
    const std::optional<LentRange> lent = regions_.find_lent(address, length);
    if (!lent || lent->device == 0) return lent.has_value();
    memory.kind = XFER_MEM_CUDA;
    memory.origin = Memory::Origin::allocated;
    memory.device = static_cast<int32_t>(lent->device - 1);
    memory.base = lent->base;
    memory.size = lent->length;
    memory.id = lent->allocation;
    return true;
}

uint64_t Engine::age_ms() const {
    const auto age = std::chrono::steady_clock::now() - opened_;
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(age).count());
}

Status Engine::listen(const Uri &uri, const xfer_listen_options_t &options, size_t room,
                      std::string &bound, Failure &why) {
    ListenTerms terms{options.user, {}, true};
    why = take_listen_options(options, uri, terms.advertise);
    if (why.status != XFER_OK) return why.status;
    const bool insecure = options_.insecure || options.flags & XFER_LISTEN_INSECURE;
    if (options_.key.empty() && !insecure && uri.scheme == "tcp" && !is_loopback(uri)) {
        why = check_local_address(uri);
        if (why.status != XFER_OK) return why.status;
        why = {XFER_EAUTH, 0, 0,
               to_string(uri) + ": listening beyond loopback needs a key or XFER_LISTEN_INSECURE"};
        return why.status;
    }
    ShardCore &shard = first_shard();
    std::unique_ptr<EngineLoop::Inside> inside;
    if (!loops_.empty()) inside = std::make_unique<EngineLoop::Inside>(*loops_[0]);
    if (closing_.load()) return XFER_ECLOSED;
    auto listener = shard.inbound.make_listener(uri, options.mode ? options.mode : kDefaultMode,
                                                std::move(terms), room);
    if (!listener) {
        why = listener.error();
        return why.status;
    }
    bound = (*listener)->bound();
    keep(std::move(*listener));
    return XFER_OK;
}

// What needs memory comes first: one that is not kept does not listen.
void Engine::keep(std::unique_ptr<Acceptor> listener) {
    ShardCore &shard = first_shard();
    std::vector<const Acceptor *> all;
    for (const auto &each : shard.inbound.listeners())
        all.push_back(each.get());
    all.push_back(listener.get());
    Terms terms = self_.terms();
    terms.listens = advertised_addresses(all, options_.advertise, kMaxListenUris);
    shard.inbound.keep(std::move(listener));
    self_.set_terms(std::move(terms));
}

std::vector<std::string> Engine::addresses() {
    std::unique_ptr<EngineLoop::Inside> inside;
    if (!loops_.empty()) inside = std::make_unique<EngineLoop::Inside>(*loops_[0]);
    std::vector<const Acceptor *> all;
    for (const auto &each : first_shard().inbound.listeners())
        if (each->terms().of_user) all.push_back(each.get());
    return advertised_addresses(all, options_.advertise, kMaxPeerUris);
}

// ---- operations

bool Engine::peek(const Posted &wanted, xfer_message_info_t &info) {
    std::optional<EngineLoop::Inside> inside;
    if (!loops_.empty()) inside.emplace(*loops_[0]);
    return receive_queue_.peek(wanted, info);
}

// ---- the end

class Engine::BeginDrain final : public Message {
public:
    explicit BeginDrain(uint64_t limit) : limit_(limit) {}
    void arrive(ShardCore &shard) override {
        shard.begin_drain(limit_);
        delete this;
    }

private:
    const uint64_t limit_;
};

// What needs memory comes first: a drain that was refused has not begun.
Status Engine::drain(uint32_t timeout_ms, uint64_t user) {
    if (closing()) return XFER_ECLOSED;
    std::vector<std::unique_ptr<BeginDrain>> drains;
    for (const auto &shard : shards_) {
        const bool limited = timeout_ms && shard->index == 0;
        drains.push_back(std::make_unique<BeginDrain>(limited ? timeout_ms * kNsPerMs : 0));
    }
    if (!draining_.begin(user, static_cast<uint32_t>(shards_.size()))) return XFER_EBUSY;
    bool taken = false;
    for (auto &shard : shards_) {
        BeginDrain *posted = drains[shard->index].release();  // it deletes itself where it arrives
        if (shard->post(*posted))
            taken = true;
        else
            delete posted;
    }
    return !taken && draining_.revoke() ? XFER_ECLOSED : XFER_OK;
}

Status Engine::close() {
    if (closing_.exchange(true)) return XFER_ECLOSED;
    // Before the loops hear of it, since the engine may be gone after that.
    if (options_.unref) dispatcher_.callers_loop()->hold();
    for (size_t i = 0; i < shards_.size(); ++i)
        shards_[i]->post(closings_[i]);
    return XFER_OK;
}

void Engine::shard_ended(ShardCore &last) {
    if (shards_left_.fetch_sub(1) != 1) return;
    draining_.finish(XFER_ECANCELED, last);
    regions_.end_all(last);
    last.outbox.post(end_);
}

void Engine::join_threads() {
    for (size_t i = 0; i < threads_.size(); ++i) {
        own_loops_[i]->stop();
        threads_[i].join();
    }
    threads_.clear();
    dispatcher_.stop();
}

Status Engine::join(uint32_t timeout_ms) {
    if (dispatcher_.on_thread()) return XFER_EDEADLK;
    if (options_.dispatch == XFER_DISPATCH_LOOP && !dispatcher_.ended()) return XFER_EBUSY;
    const bool polled = options_.dispatch == XFER_DISPATCH_POLL;
    if (polled) dispatcher_.end_polls();
    close();
    if (!(polled ? dispatcher_.drain(timeout_ms) : dispatcher_.wait_ended(timeout_ms)))
        return XFER_ETIMEDOUT;
    join_threads();
    // What is left of the shards refuses the calls of handles that were not closed yet.
    for (auto &shard : shards_) {
        shard->transports.clear();
        shard->fabrics.clear();
        shard->release_handles();
    }
    loops_.clear();
    for (auto &loop : own_loops_)
        loop->close();
    callers_loop_.reset();
    dispatcher_.release();
    release();
    return XFER_OK;
}

// The threads are the parent's, and what they own can't be taken apart without them: it is left to
// the end of the child, but for the descriptors that the loops share with the parent.
Status Engine::join_forked() {
    for (EngineLoop *loop : loops_)
        loop->forked();
    dispatcher_.forked();
    return XFER_OK;
}

void Engine::stats(xfer_engine_stats_t &stats) const {
    uint64_t pending = 0;
    for (auto &shard : shards_) {
        const ShardCounters &counters = shard->counters;
        counters[OpKind::put].add_to(stats.put);
        counters[OpKind::get].add_to(stats.get);
        counters[OpKind::batch].add_to(stats.batch);
        counters[OpKind::notify].add_to(stats.notify);
        counters[OpKind::send].add_to(stats.send);
        counters[OpKind::recv].add_to(stats.recv);
        counters[OpKind::atomic].add_to(stats.atomic);
        for (size_t i = 0; i < 64; ++i)
            stats.errors[i] += counters.errors[i].get();
        stats.served_put += counters.served_put.get();
        stats.served_get += counters.served_get.get();
        stats.served_atomic += counters.served_atomic.get();
        stats.lane_falls += counters.lane_falls.get();
        stats.refused += counters.refused.get();
        pending += counters.pending.get();
        stats.inflight += counters.inflight.get();
        stats.connects += counters.connects.get();
        stats.accepts += counters.accepts.get();
        stats.connections += counters.connections.get();
        stats.connection_ends += counters.connection_ends.get();
    }
    stats.queued = queued_of(pending, stats.inflight);
    for (const EngineLoop *loop : loops_)
        stats.wakeups += loop->wakeups();
    stats.events_queued = dispatcher_.queued();
    stats.events = dispatcher_.delivered();
    regions_.each(
        [&](const Region &region) { ++(region.is_grant() ? stats.grants : stats.regions); });
}

}  // namespace xfer
