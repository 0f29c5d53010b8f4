// SPDX-License-Identifier: Apache-2.0
// The send queue of one queue pair, as numbers: which of its slots are taken, by which chains, and
// which of them a completion gives back. Chains are posted as lists of one or several; the last
// request of each list is signaled, and of the others few are. Requests are numbered in the order
// in which they are posted, modulo 2^32, and a reliable queue pair carries them out and tells of
// them in that order: what is told of one request stands for all before it. (lib/design/0057)
//
// A ledger lives as long as its queue pair: one that is degraded never recovers, as the queue pair
// never does. No verbs call is made, and no memory is taken after construction. Thread: one at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace xfer::rdma {

// What becomes of a wish for slots.
enum class Admitted : uint8_t {
    granted,
    full,       // later: what is posted gives them back
    too_large,  // never
    degraded,   // not by this queue pair any more
};

// How a chain ended.
struct ChainEnd {
    enum class How : uint8_t {
        done,     // every request of it that was posted is carried out
        failed,   // the status of a completion says so: `native`
        unknown,  // nothing was told of it; its bytes may have moved, and no more of them will
    };
    uint64_t cookie = 0;    // the caller's
    uint32_t requests = 0;  // that were posted: so many slots are free again
    How how = How::unknown;
    int native = 0;
    bool operator==(const ChainEnd &) const = default;
};

class Ledger {
public:
    explicit Ledger(uint32_t slots);  // at least 1; throws std::bad_alloc

    // Slots for all of a list of `requests`, at least 1, or none. What is granted is to be answered
    // by posted() for each of its chains, in order, or by refused(), before the next question.
    Admitted reserve(uint32_t requests);
    // The number of the first of the requests that were granted.
    uint32_t next() const { return next_; }
    // The queue pair took all of a chain of so many requests.
    void posted(uint64_t cookie, uint32_t requests);
    // It took so many requests, 0 or more, of this chain of the list, and none behind them; where
    // that can't be told, all count as taken. What it took of the list are orphans: the signaled
    // one may not be among them, so that nothing may ever tell of them, and the queue pair is
    // degraded. Where it took nothing at all, there is no chain, the slots are free at once, and
    // the queue pair is as it was.
    void refused(uint64_t cookie, uint32_t taken);

    // A request is carried out, or ended with this status of a completion, other than 0, and with
    // it all before it. False: nothing of that number is outstanding; nothing changes.
    bool completed(uint32_t sequence);
    bool failed(uint32_t sequence, int native);
    // The queue pair is in ERR and was drained, or it is destroyed: whatever is outstanding ends.
    void drained();
    // Nothing more is granted.
    void degrade() { degraded_ = true; }

    // Chains that ended, each once, in the order in which they were posted. Their slots are free
    // when they are taken from here.
    std::optional<ChainEnd> pop_ended();

    uint32_t slots() const { return slots_; }
    uint32_t outstanding() const { return next_ - freed_; }  // slots that are taken
    bool degraded() const { return degraded_; }

private:
    struct Record {
        ChainEnd end;
        uint32_t past = 0;   // the number after its last request
        bool ended = false;  // it is only to be popped
    };
    Record &record(uint32_t index) { return records_[index & (records_.size() - 1)]; }
    void append(uint64_t cookie, uint32_t requests);
    bool is_outstanding(uint32_t sequence) const;
    void end_through(uint32_t sequence, int native);

    // Numbers begin shortly before they wrap, so that no ledger is too young to have met that.
    static constexpr uint32_t kFirst = UINT32_MAX - 30;

    uint32_t slots_;
    std::vector<Record> records_;  // a ring: a chain has at least one slot, so it suffices
    uint32_t first_ = kFirst;      // chain that is not yet popped
    uint32_t told_ = kFirst;       // chain that has not yet ended
    uint32_t last_ = kFirst;       // chain to come
    uint32_t next_ = kFirst;       // request to come
    uint32_t freed_ = kFirst;      // requests before it have given their slots back
    uint32_t reached_ = kFirst;    // requests before it are over
    uint32_t reserved_ = 0;        // granted, and not answered
    bool answered_ = false;        // in part
    bool degraded_ = false;
};

}  // namespace xfer::rdma
