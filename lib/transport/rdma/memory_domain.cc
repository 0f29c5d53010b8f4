// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/memory_domain.h"

#include <utility>

#include "util/memory.h"

namespace xfer::rdma {

// A region, and what is under way of it on the worker.
class MemoryDomain::Entry final : public Worker::Job, public ListNode<> {
public:
    enum class State : uint8_t { unused, registering, registered, failed, held, deregistering };

    Entry(MemoryDomain &of, RegionId number, const RegisteredRange &covered, bool for_peers_alone)
        : domain(of),
          region(number),
          range(covered),
          lent(for_peers_alone),
          era(std::make_unique<Era>()) {}

    uint64_t base() const { return reinterpret_cast<uint64_t>(range.base); }
    bool holds(uint64_t address) const { return address - base() < range.length; }

    void run() noexcept override {
        [[maybe_unused]] const bool tried =
            catch_bad_alloc([this] { state == State::deregistering ? close() : make(); });
    }
    void done(Status status) override {
        if (state == State::deregistering) return domain.on_deregistered(*this);
        domain.on_registered(*this, status);
    }

    // Why nothing, or still something, is registered.
    Failure failure() const { return why_ ? *why_ : no_memory(); }

    MemoryDomain &domain;
    const RegionId region;
    const RegisteredRange range;
    const bool lent;  // no chain uses its key: it waits for none
    State state = State::unused;
    bool removed = false;  // while it was being registered
    uint64_t held_by = 0;
    // The next one's, until it is removed; from then on the one that it waits for.
    std::unique_ptr<Era> era;
    std::unique_ptr<Registration> registration;  // the worker's while a job is under way

private:
    void make() {
        auto made = Registration::add(domain.verbs_, domain.port_, range);
        if (made)
            registration = std::make_unique<Registration>(std::move(*made));
        else
            why_ = std::make_unique<Failure>(made.error());
    }
    void close() {
        if (const auto why = registration->close_patiently())
            why_ = std::make_unique<Failure>(*why);
    }

    std::unique_ptr<Failure> why_;  // of the last step; null where memory lacked for it
};

MemoryDomain::MemoryDomain(const Verbs &verbs, const Port &port, Worker &worker, const Log &log,
                           MemoryDomainSink &sink)
    : verbs_(verbs),
      port_(port),
      worker_(worker),
      log_(log),
      sink_(sink),
      era_(std::make_unique<Era>()) {}

// In the child of a fork what was registered is the parent's, and what its worker was at may be
// half done: all of it is left alone.
MemoryDomain::~MemoryDomain() {
    const bool forked = ::getpid() != pid_;
    for (auto &[region, entry] : entries_)
        forked ? void(entry.release()) : worker_.drop(*entry);
    for (OwningList<Entry> *removed : {&waiting_, &held_, &on_worker_})
        while (Entry *entry = removed->pop_front()) {
            if (forked) continue;
            worker_.drop(*entry);
            delete entry;
        }
}

// ---- regions

void MemoryDomain::add(RegionId region, const ExportedMemory &memory) {
    if (!memory.length) return;
    const RegisteredRange range{memory.base, memory.length, memory.access, false, true};
    auto made = std::make_unique<Entry>(*this, region, range, memory.lent);
    Entry &entry = *made;
    const auto [at, added] = entries_.emplace(region.value, std::move(made));
    XFER_CHECK(added);
    if (entry.lent) return;
    if (catch_bad_alloc([&] { by_address_.add(entry.base(), entry.range.length, entry); })) return;
    entries_.erase(at);
    throw std::bad_alloc();
}

bool MemoryDomain::remove(RegionId region) {
    auto node = entries_.extract(region.value);
    if (!node) return true;
    std::unique_ptr<Entry> entry = std::move(node.mapped());
    if (!entry->lent) {
        by_address_.remove(entry->base(), entry->range.length, *entry);
        last_hit_ = {};
    }
    switch (entry->state) {
    case Entry::State::registering:
        if (worker_.revoke(*entry)) return true;
        entry->removed = true;
        on_worker_.push_back(*entry.release());
        return false;
    case Entry::State::registered:
        if (entry->lent) return retire(std::move(entry)), false;
        std::swap(era_, entry->era);
        waiting_.push_back(*entry.release());
        end_eras();
        return false;
    default:
        return true;
    }
}

// The oldest first: who entered later may use what was there before.
void MemoryDomain::end_eras() {
    while (!waiting_.empty() && waiting_.front().era->under_way == 0)
        retire(std::unique_ptr<Entry>(waiting_.pop_front()));
}

// A device deregisters nothing that a window is bound to.
void MemoryDomain::retire(std::unique_ptr<Entry> entry) {
    if (entry->held_by == 0) return deregister(std::move(entry));
    entry->state = Entry::State::held;
    held_.push_back(*entry.release());
}

MemoryDomain::Hold MemoryDomain::hold(RegionId region) {
    Entry &entry = *entries_.at(region.value);
    ++entry.held_by;
    return &entry;
}

void MemoryDomain::let_go(Hold hold) {
    if (--hold->held_by > 0 || hold->state != Entry::State::held) return;
    hold->ListNode<>::unlink();
    deregister(std::unique_ptr<Entry>(hold));
}

// ---- registering

void MemoryDomain::begin(Entry &entry) {
    entry.state = Entry::State::registering;
    worker_.submit(entry);
}

void MemoryDomain::on_registered(Entry &entry, Status status) {
    const bool registered = entry.registration != nullptr;
    entry.state = registered ? Entry::State::registered : Entry::State::failed;
    const bool told = entry.lent && std::exchange(told_lent_failed_, !registered);
    if (!registered && !entry.removed && !told)
        log_.warn("{}: {} bytes of memory at {:#x} go by other ways: {}", port_.name,
                  entry.range.length, entry.base(),
                  status == XFER_OK ? entry.failure().message : Text("no thread registers it"));
    if (!entry.removed) return sink_.on_settled();
    // Nobody has found a key of it.
    entry.ListNode<>::unlink();
    registered ? deregister(std::unique_ptr<Entry>(&entry)) : release(entry);
}

void MemoryDomain::deregister(std::unique_ptr<Entry> entry) {
    entry->state = Entry::State::deregistering;
    on_worker_.push_back(*entry);
    worker_.submit_urgent(*entry.release());
}

// A device that keeps it is broken, or has failed. There is nobody else to ask.
void MemoryDomain::on_deregistered(Entry &entry) {
    if (entry.registration->chunks())
        log_.error("{}: {} bytes of memory at {:#x} stay registered: {}", port_.name,
                   entry.range.length, entry.base(), entry.failure().message);
    entry.ListNode<>::unlink();
    release(entry);
}

void MemoryDomain::release(Entry &entry) {
    const std::unique_ptr<Entry> ended(&entry);
    sink_.on_released(entry.region);
}

// ---- keys

Result<const Registration *> MemoryDomain::find(RegionId region) {
    const Failure not_yet{XFER_EAGAIN, XFER_ORIGIN_NONE, 0, "it is being registered"};
    const auto at = entries_.find(region.value);
    if (at == entries_.end()) return not_yet;
    Entry &entry = *at->second;
    if (entry.state == Entry::State::unused) begin(entry);
    if (entry.state == Entry::State::registering) return not_yet;
    if (entry.state == Entry::State::failed)
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, 0, "it can't be registered"};
    if (entry.registration->chunks() > kMaxParts)
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, 0, "too many registrations make it"};
    return entry.registration.get();
}

LocalKey MemoryDomain::find(uint64_t address, Dir dir) {
    const bool writes = dir != Dir::put;
    const uint64_t offset = address - last_hit_.begin;
    if (offset < last_hit_.length && (last_hit_.writable || !writes))
        return {last_hit_.lkey, last_hit_.length - offset};
    return look_up(address, writes);
}

LocalKey MemoryDomain::find_removed(uint64_t address, Dir dir) {
    for (const Entry &entry : waiting_) {
        if (!entry.holds(address) || (dir != Dir::put && !entry.registration->writable())) continue;
        const auto chunk = entry.registration->chunk_at(address - entry.base());
        return {chunk.lkey, entry.base() + chunk.offset + chunk.length - address};
    }
    return {};
}

// One that may come to serve it is waited for, before another one is begun.
LocalKey MemoryDomain::look_up(uint64_t address, bool writes) {
    Entry *unused = nullptr;
    bool coming = false;
    LocalKey key;
    by_address_.find(address, [&](Entry &entry) {
        if (!entry.holds(address)) return true;
        coming |= entry.state == Entry::State::registering;
        if (entry.state == Entry::State::unused && !unused) unused = &entry;
        if (entry.state != Entry::State::registered) return true;
        if (writes && !entry.registration->writable()) return true;
        const auto chunk = entry.registration->chunk_at(address - entry.base());
        last_hit_ = {entry.base() + chunk.offset, chunk.length, chunk.lkey,
                     entry.registration->writable()};
        key = {chunk.lkey, last_hit_.begin + chunk.length - address};
        return false;
    });
    if (!key.reach && !coming && unused) begin(*unused);
    return key;
}

}  // namespace xfer::rdma
