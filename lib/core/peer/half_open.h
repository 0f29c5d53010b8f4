// SPDX-License-Identifier: Apache-2.0
// Half-open connections: accepted, and not proven. They have a bound of their own, and share its
// places by where they come from, since nothing that they say is true yet. When all are taken, a
// newcomer displaces the oldest of all, if that had more than enough time to prove itself; else one
// from a source with fewer displaces the oldest of the source with most, and one from that source
// does so once the oldest had the time of a round trip, and is turned away before. A token bucket
// spreads those evenly: else places that were taken in one burst come free in one burst, and a
// member of that source finds all of them taken most of the time.
// Sources fall into a fixed number of groups by a secret hash, so that many of them take no memory.
#pragma once

#include <array>
#include <cstdint>

#include "transport/source.h"
#include "util/list.h"

namespace xfer {

class Session;
struct InSource;
struct InAge;

// For connections that are no member's, out of the descriptors that this process may have.
uint32_t half_open_places();

struct HalfOpenPlace : ListNode<InSource>, ListNode<InAge> {
    explicit HalfOpenPlace(Session &connection) : connection(connection) {}
    bool entered() const { return ListNode<InSource>::linked(); }

    Session &connection;
    Source source;
    uint64_t since = 0;
};

class HalfOpen {
public:
    HalfOpen(uint32_t places, uint64_t salt) : places_(places), salt_(salt) {}

    // Whether one more from there is taken now; else it counts as turned away.
    bool admits(const Source &source, uint64_t now);
    void enter(HalfOpenPlace &place, const Source &source, uint64_t now);
    void leave(HalfOpenPlace &place);
    // Who goes for another; null: nobody is here.
    HalfOpenPlace *displace(uint64_t now);
    bool full() const { return count_ >= places_; }

    uint32_t places() const { return places_; }
    uint32_t count() const { return count_; }
    uint32_t most() const { return counts_[largest()]; }
    Source busiest();  // a source of the group with most
    uint64_t turned_away() const { return turned_away_; }
    uint64_t displaced() const { return displaced_; }
    bool under_pressure(uint64_t now) const;
    // Once when an episode of pressure begins, and every kPressureLogNs while it lasts.
    bool report_due(uint64_t now);

private:
    bool has_expired(uint64_t now) const;  // the oldest of all, under pressure
    bool takes_turn(uint64_t now);
    // The largest group is found by way of the largest of each block of them.
    static constexpr size_t kBlock = 32, kGroups = kBlock * kBlock;
    size_t group_of(const Source &source) const;
    size_t largest() const;
    void count(size_t group, int32_t change);

    const uint32_t places_;
    const uint64_t salt_;
    std::array<List<HalfOpenPlace, InSource>, kGroups> groups_;
    List<HalfOpenPlace, InAge> ages_;
    std::array<uint32_t, kGroups> counts_{};
    std::array<uint32_t, kBlock> block_most_{};  // of its groups' counts
    uint32_t count_ = 0;
    uint64_t turned_away_ = 0, displaced_ = 0;
    uint64_t paid_until_ = 0;  // the bucket, as the time at which it is full again (GCRA)
    uint64_t pressed_ = 0;     // when somebody was last turned away or displaced
    uint64_t reported_ = 0;    // of this episode, 0: not yet
};

}  // namespace xfer
