// SPDX-License-Identifier: Apache-2.0
#include "core/peer/half_open.h"

#include <sys/resource.h>

#include <algorithm>

#include "core/base/limits.h"

namespace xfer {

// Others need descriptors too: members, the files of the program.
uint32_t half_open_places() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMinHalfOpen;
    const rlim_t share = limit.rlim_cur / kHalfOpenPart;
    return static_cast<uint32_t>(std::clamp<rlim_t>(share, kMinHalfOpen, kMaxHalfOpen));
}

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
    const auto block = std::max_element(block_most_.begin(), block_most_.end());
    const auto first = counts_.begin() + (block - block_most_.begin()) * kBlock;
    return static_cast<size_t>(std::find(first, first + kBlock, *block) - counts_.begin());
}

void HalfOpen::count(size_t group, int32_t change) {
    counts_[group] += static_cast<uint32_t>(change);
    count_ += static_cast<uint32_t>(change);
    const size_t block = group / kBlock;
    const auto first = counts_.begin() + block * kBlock;
    block_most_[block] = *std::max_element(first, first + kBlock);
}

bool HalfOpen::admits(const Source &source, uint64_t now) {
    if (!full() || has_expired(now)) return true;
    const size_t most = largest();
    if (counts_[group_of(source)] + 1 < counts_[most]) return true;
    if (groups_[most].front().since + kHalfOpenGraceNs <= now && takes_turn(now)) return true;
    ++turned_away_;
    pressed_ = now;
    return false;
}

bool HalfOpen::has_expired(uint64_t now) const {
    return !ages_.empty() && ages_.front().since + kHalfOpenPressedNs <= now;
}

// As many in the grace as there are places.
bool HalfOpen::takes_turn(uint64_t now) {
    const uint64_t full = std::max(paid_until_, now);
    if (full > now + kHalfOpenBurstNs) return false;
    paid_until_ = full + kHalfOpenGraceNs / places_;
    return true;
}

void HalfOpen::enter(HalfOpenPlace &place, const Source &source, uint64_t now) {
    const size_t group = group_of(source);
    place.source = source;
    place.since = now;
    groups_[group].push_back(place);
    ages_.push_back(place);
    count(group, 1);
}

void HalfOpen::leave(HalfOpenPlace &place) {
    if (!place.entered()) return;
    place.ListNode<InSource>::unlink();
    place.ListNode<InAge>::unlink();
    count(group_of(place.source), -1);
}

HalfOpenPlace *HalfOpen::displace(uint64_t now) {
    if (count_ == 0) return nullptr;
    HalfOpenPlace &oldest = has_expired(now) ? ages_.front() : groups_[largest()].front();
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
