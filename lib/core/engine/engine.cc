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

uint64_t Engine::random_u64() {
    std::array<uint8_t, 8> bytes;
    self_.random(self_.random_context, bytes);
    return load<uint64_t>(bytes.data());
}

uint64_t Engine::age_ms() const {
    const auto age = std::chrono::steady_clock::now() - opened_;
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(age).count());
}

Shard &Engine::home(const EngineId &id) {
    return *shards_[load<uint64_t>(id.data()) % shards_.size()];
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
    Shard &shard = first_shard();
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
    Shard &shard = first_shard();
    std::vector<const Acceptor *> all;
    for (const auto &each : shard.inbound.listeners())
        all.push_back(each.get());
    all.push_back(listener.get());
    Terms terms = self_.terms();
    terms.listens = told_addresses(all, options_.advertise, kMaxListenUris);
    shard.inbound.keep(std::move(listener));
    self_.set_terms(std::move(terms));
}

std::vector<std::string> Engine::addresses() {
    std::unique_ptr<EngineLoop::Inside> inside;
    if (!loops_.empty()) inside = std::make_unique<EngineLoop::Inside>(*loops_[0]);
    std::vector<const Acceptor *> all;
    for (const auto &each : first_shard().inbound.listeners())
        if (each->terms().of_user) all.push_back(each.get());
    return told_addresses(all, options_.advertise, kMaxPeerUris);
}

// ---- regions

Result<Region *> Engine::open_region(const xfer_region_options_t &options, uint8_t *address,
                                     uint64_t length, std::unique_ptr<SharedMemory> own) {
    auto region = Ref<Region>::adopt(
        new Region(*this, last_region_.fetch_add(1) + 1, random_u64(), address, length));
    region->own = std::move(own);
    region->access = options.access;
    region->event.user = options.user;
    if (options.name) region->name = options.name;
    const auto *blob = static_cast<const uint8_t *>(options.blob);
    if (options.blob_length) region->blob.assign(blob, blob + options.blob_length);
    Regions prepared = prepare(*region);
    std::map<std::string, uint64_t, std::less<>> name;
    if (!region->name.empty()) name.emplace(region->name, region->id);
    std::lock_guard lock(registry_mutex_);
    if (closing_.load()) return Failure{XFER_ECLOSED, 0, 0, "the engine is closing"};
    if (regions_.size() >= kMaxRegions) return Failure{XFER_ETOOBIG, 0, 0, "too many regions"};
    names_.merge(name);
    if (!name.empty())
        return Failure{XFER_EEXIST, 0, 0, "a region is called \"" + region->name + "\" already"};
    enter(prepared);
    region->retain();  // the handle's
    return region.get();
}

// All that its coming and going take, so that neither fails half-way.
Engine::Regions Engine::prepare(Region &region) {
    region.comings = std::make_unique<RegionChange[]>(shards_.size());
    region.goings = std::make_unique<RegionChange[]>(shards_.size());
    for (size_t i = 0; i < shards_.size(); ++i)
        region.comings[i].places = RegionTable::Places(region);
    Regions prepared;
    prepared.emplace(region.id, Ref(region));
    return prepared;
}

void Engine::enter(Regions &prepared) {
    Region &region = *prepared.begin()->second;
    region.users = static_cast<uint32_t>(shards_.size());
    regions_.merge(prepared);
    for (auto &shard : shards_) {
        RegionChange &change = region.comings[shard->index];
        change.comes = true;
        post(change, region, *shard);
    }
}

bool Engine::post(RegionChange &change, Region &region, Shard &shard) {
    change.region = &region;
    region.retain();
    if (shard.enqueue(change)) return true;
    region.release();
    return false;
}

Region *Engine::find_entered(RegionId id) {
    std::lock_guard lock(registry_mutex_);
    const auto at = regions_.find(id.value);
    return at == regions_.end() ? nullptr : at->second.get();
}

Region *Engine::find_entered(std::string_view name) {
    std::lock_guard lock(registry_mutex_);
    const auto at = names_.find(name);
    return at == names_.end() ? nullptr : regions_.at(at->second).get();
}

Status Engine::end_region(Region &region) {
    std::lock_guard lock(registry_mutex_);
    if (region.ended.load()) return XFER_ECLOSED;
    for (Region &grant : region.grants)
        leave(grant, XFER_ECLOSED);
    leave(region, XFER_OK);
    return XFER_OK;
}

void Engine::leave(Region &region, Status why) {
    region.ended.store(true);
    region.event.kind = region.is_grant() ? XFER_EVENT_REVOKED : XFER_EVENT_CLOSED;
    region.event.object = region.is_grant() ? region.parent.get() : &region;
    region.event.status = why;
    region.ListNode<InGrants>::unlink();
    if (!region.name.empty()) names_.erase(region.name);
    region.retain();  // for as long as this takes
    regions_.erase(region.id);
    for (auto &shard : shards_)
        if (!post(region.goings[shard->index], region, *shard)) unused(region);
    region.release();
}

// Its last user was a loop that has ended, and so has every other one: the engine's end tells it.
void Engine::unused(Region &region) {
    if (region.users.fetch_sub(1) != 1) return;
    region.retain();  // the event's
    untold_.push_back(region);
    if (region.is_grant()) unused(*region.parent);
}

// No connection is left, so nothing touches the memory of those that are still open. Grants go
// first: a region's own event is its last.
void Engine::end_regions(Shard &last) {
    std::lock_guard lock(registry_mutex_);
    while (EventNode *ended = untold_.pop_front())
        last.outbox.post(*ended);
    for (const bool grants : {true, false})
        for (auto &[id, region] : regions_) {
            if (region->is_grant() != grants) continue;
            region->ended.store(true);
            region->ListNode<InGrants>::unlink();
            region->event.kind = grants ? XFER_EVENT_REVOKED : XFER_EVENT_CLOSED;
            region->event.object = grants ? region->parent.get() : region.get();
            region->event.status = grants ? XFER_ECLOSED : XFER_OK;
            region->retain();
            last.outbox.post(*region);
        }
    regions_.clear();
    names_.clear();
}

// ---- operations

bool Engine::peek(const Posted &wanted, xfer_message_info_t &info) {
    std::optional<EngineLoop::Inside> inside;
    if (!loops_.empty()) inside.emplace(*loops_[0]);
    return receive_queue_.peek(wanted, info);
}

Status Engine::begin_receive(Endpoint *named) {
    const uint32_t receives = receives_.fetch_add(1) + 1;
    Status status = receives > kMaxReceives ? XFER_EAGAIN : XFER_OK;
    if (status == XFER_OK && named) {
        named->had_receives.store(true);
        named->receives.fetch_add(1);
        if (!named->ended.load()) return XFER_OK;
        named->receives.fetch_sub(1);
        status = XFER_ECLOSED;
    }
    if (status != XFER_OK) receives_.fetch_sub(1);
    return status;
}

void Engine::receive_ended() {
    receives_.fetch_sub(1);
}

bool Engine::post_from(size_t index, Message &message) {
    for (; index < shards_.size(); ++index)
        if (shards_[index]->post(message)) return true;
    return false;
}

void Engine::close_silently(Endpoint &ep) {
    ep.retain();
    if (!ep.shard.load()->post(ep.close)) ep.release();
}

// ---- the end

class Engine::BeginDrain final : public Message {
public:
    explicit BeginDrain(uint64_t limit) : limit_(limit) {}
    void arrive(Shard &shard) override {
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

void Engine::shard_ended(Shard &last) {
    if (shards_left_.fetch_sub(1) != 1) return;
    draining_.finish(XFER_ECANCELED, last);
    end_regions(last);
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
        shard->release_handles();
    }
    turned_ = nullptr;
    loops_.clear();
    own_loops_.clear();
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
        stats.queued += counters.queued.get();
        stats.inflight += counters.inflight.get();
        stats.connects += counters.connects.get();
        stats.accepts += counters.accepts.get();
        stats.connections += counters.connections.get();
        stats.connection_ends += counters.connection_ends.get();
    }
    for (const EngineLoop *loop : loops_)
        stats.wakeups += loop->wakeups();
    stats.events_queued = dispatcher_.queued();
    stats.events = dispatcher_.delivered();
    std::lock_guard lock(registry_mutex_);
    for (const auto &[id, region] : regions_)
        ++(region->is_grant() ? stats.grants : stats.regions);
}

}  // namespace xfer
