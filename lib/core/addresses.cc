// SPDX-License-Identifier: Apache-2.0
#include "core/addresses.h"

#include <algorithm>
#include <tuple>

#include "core/limits.h"
#include "util/check.h"

namespace xfer {

void Addresses::enter(AddressIndex &index) {
    index_ = &index;
    for (auto &address : list_)
        if (!address->claimed) index.insert(*address);
}

void Addresses::leave() {
    index_ = nullptr;
    for (auto &address : list_)
        address->unlink();
}

Address *Addresses::find(const std::string &uri) const {
    auto at = std::find_if(list_.begin(), list_.end(),
                           [&](const auto &address) { return address->uri == uri; });
    return at == list_.end() ? nullptr : at->get();
}

bool Addresses::has(const std::string &uri) const {
    const Address *address = find(uri);
    return address && !address->claimed;
}

void Addresses::add(const std::string &uri, bool claimed) {
    Address *address = find(uri);
    if (!address) address = list_.emplace_back(std::make_unique<Address>(owner_, uri)).get();
    address->claimed &= claimed;
    if (index_ && !address->claimed && !address->linked()) index_->insert(*address);
}

void Addresses::doubt() {
    for (auto &address : list_) {
        address->claimed = true;
        address->unlink();
    }
}

void Addresses::learn(const std::string &uri, bool claimed) {
    if (find(uri) || list_.size() < kMaxListenUris) add(uri, claimed);
}

void Addresses::remove(const std::string &uri) {
    std::erase_if(list_, [&](const auto &address) { return address->uri == uri; });
}

// Whose time comes first; of several, the one that was not tried for longest.
Addresses::Next Addresses::next() const {
    XFER_CHECK(!empty());
    const Address &first =
        **std::min_element(list_.begin(), list_.end(), [](const auto &a, const auto &b) {
            return std::tie(a->not_before, a->turn) < std::tie(b->not_before, b->turn);
        });
    return {first.uri, first.not_before};
}

void Addresses::failed(const std::string &uri, uint64_t now, uint64_t floor, uint64_t dice) {
    Address *address = find(uri);
    if (!address) return;  // the peer turned out not to live there
    const uint32_t doublings = std::min(address->failures++, 10u);
    const uint64_t wait = std::max(floor, std::min(kBackoffFirstNs << doublings, kBackoffLastNs));
    // Never sooner than the peer asked for; on our own account at least half of it.
    const uint64_t least = std::max(floor, wait / 2);
    address->not_before = now + least + dice % (wait / 2 + 1);
    address->turn = ++turns_;
}

void Addresses::alive(bool restarted) {
    if (restarted) short_lives_ = 0;
    for (auto &address : list_)
        address->failures = 0, address->not_before = 0;
}

// The first is forgiven, for a peer that lost its connection is back at once more often than not.
void Addresses::lived(const std::string &uri, uint64_t age, uint64_t now, uint64_t dice) {
    if (age >= kLastingNs) {
        short_lives_ = 0;
        return;
    }
    const uint32_t before = short_lives_++;
    if (before == 0) return;
    if (Address *address = find(uri)) address->failures = before - 1;
    failed(uri, now, 0, dice);
}

uint32_t Addresses::failures() const {
    uint32_t most = 0;
    for (const auto &address : list_)
        most = std::max(most, address->failures);
    return most;
}

}  // namespace xfer
