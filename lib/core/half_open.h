// SPDX-License-Identifier: Apache-2.0
// Half-open connections: accepted, and not proven. They have a bound of their own, and share its
// places by where they come from, since nothing that they say is true yet. When all are taken, a
// newcomer from a source with fewer displaces the oldest of the source with most; one from that
// source does so once the oldest had its time to prove itself, and is turned away before.
// Sources fall into a fixed number of groups by a secret hash, so that many of them take no memory.
#pragma once

#include <array>
#include <cstdint>

#include "transport/source.h"
#include "util/list.h"

namespace xfer {

class Connection;
struct InSource;

struct HalfOpenPlace : ListNode<InSource> {
    explicit HalfOpenPlace(Connection &connection) : connection(connection) {}

    Connection &connection;
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
    // Who goes for another: the oldest of the source with most; null: nobody is here.
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
    static constexpr size_t kGroups = 1024;
    size_t group_of(const Source &source) const;
    size_t largest() const;

    const uint32_t places_;
    const uint64_t salt_;
    std::array<List<HalfOpenPlace, InSource>, kGroups> groups_;
    std::array<uint32_t, kGroups> counts_{};
    uint32_t count_ = 0;
    uint64_t turned_away_ = 0, displaced_ = 0;
    uint64_t pressed_ = 0;   // when somebody was last turned away or displaced
    uint64_t reported_ = 0;  // of this episode, 0: not yet
};

}  // namespace xfer
