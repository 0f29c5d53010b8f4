// SPDX-License-Identifier: Apache-2.0
#include "core/half_open.h"

#include <algorithm>

#include "core/limits.h"

namespace xfer {

// A strong mix of 64 bits; who does not know the salt can't aim at a group.
size_t HalfOpen::group_of(const Source &source) const {
    uint64_t x = source.value ^ salt_ ^ (static_cast<uint64_t>(source.kind) << 62);
    for (int round = 0; round < 2; ++round) {
        x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
        x ^= x >> 29 ^ salt_;
    }
    return x % kGroups;
}

size_t HalfOpen::largest() const {
    return static_cast<size_t>(std::max_element(counts_.begin(), counts_.end()) - counts_.begin());
}

bool HalfOpen::admits(const Source &source, uint64_t now) {
    if (!full()) return true;
    const size_t most = largest();
    if (counts_[group_of(source)] + 1 < counts_[most]) return true;
    if (groups_[most].front().since + kHalfOpenGraceNs <= now) return true;
    ++turned_away_;
    pressed_ = now;
    return false;
}

void HalfOpen::enter(HalfOpenPlace &place, const Source &source, uint64_t now) {
    const size_t group = group_of(source);
    place.source = source;
    place.since = now;
    groups_[group].push_back(place);
    ++counts_[group];
    ++count_;
}

void HalfOpen::leave(HalfOpenPlace &place) {
    if (!place.linked()) return;
    place.unlink();
    --counts_[group_of(place.source)];
    --count_;
}

HalfOpenPlace *HalfOpen::displace(uint64_t now) {
    if (count_ == 0) return nullptr;
    HalfOpenPlace &oldest = groups_[largest()].front();
    leave(oldest);
    ++displaced_;
    pressed_ = now;
    return &oldest;
}

Source HalfOpen::busiest() {
    return count_ == 0 ? Source{} : groups_[largest()].front().source;
}

bool HalfOpen::under_pressure(uint64_t now) const {
    return pressed_ != 0 && now < pressed_ + kPressureEndsNs;
}

bool HalfOpen::report_due(uint64_t now) {
    if (reported_ != 0 && now < reported_ + kPressureLogNs) return false;
    reported_ = now;
    return true;
}

}  // namespace xfer
