// SPDX-License-Identifier: Apache-2.0
#include "core/peer/addresses.h"

#include <algorithm>
#include <tuple>

#include "core/base/limits.h"
#include "util/check.h"

namespace xfer {

void Addresses::enter(AddressIndex &index) {
    index_ = &index;
    for (Address &address : list_)
        if (!address.claimed) index.insert(address);
}

void Addresses::leave() {
    index_ = nullptr;
    for (Address &address : list_)
        address.unlink();
}

Address *Addresses::find(const std::string &uri) {
    auto at = std::find_if(list_.begin(), list_.end(),
                           [&](const Address &address) { return address.uri == uri; });
    return at == list_.end() ? nullptr : &*at;
}

bool Addresses::has(const std::string &uri) {
    const Address *address = find(uri);
    return address && !address->claimed;
}

bool Addresses::leads_on(const std::string &uri) {
    const Address *address = find(uri);
    return address && (!address->claimed || address->said_later);
}

void Addresses::admit(Address &address, bool claimed) {
    address.claimed &= claimed;
    if (index_ && !address.claimed && !address.linked()) index_->insert(address);
}

void Addresses::add(const std::string &uri, bool claimed) {
    Address *address = find(uri);
    admit(address ? *address : list_.emplace_back(owner_, uri), claimed);
}

bool Addresses::add(std::list<Address> &made, bool claimed) {
    bool any = false;
    while (!made.empty()) {
        Address *address = find(made.front().uri);
        if (address) {
            made.pop_front();
        } else {
            list_.splice(list_.end(), made, made.begin());
            address = &list_.back();
            address->peer = owner_;
            any = true;
        }
        address->not_before = 0;
        address->said_later = true;
        admit(*address, claimed);
    }
    return any;
}

void Addresses::seen(const std::string &uri) {
    if (Address *address = find(uri)) admit(*address, false);
}

void Addresses::mark_unverified() {
    for (Address &address : list_) {
        address.claimed = true;
        address.unlink();
    }
}

void Addresses::learn(const std::string &uri, bool claimed) {
    if (find(uri) || list_.size() < kMaxListenUris) add(uri, claimed);
}

void Addresses::remove(const std::string &uri) {
    std::erase_if(list_, [&](const Address &address) { return address.uri == uri; });
}

// Whose time comes first; of several, the one that was not tried for longest.
Addresses::Next Addresses::next() const {
    XFER_CHECK(!empty());
    const Address &first =
        *std::min_element(list_.begin(), list_.end(), [](const Address &a, const Address &b) {
            return std::tie(a.not_before, a.turn) < std::tie(b.not_before, b.turn);
        });
    return {first.uri, first.not_before};
}

void Addresses::failed(const std::string &uri, uint64_t now, uint64_t retry_after,
                       uint64_t random) {
    Address *address = find(uri);
    if (!address) return;  // the peer turned out not to live there
    const uint32_t doublings = std::min(address->failures++, 10u);
    const uint64_t wait =
        std::max(retry_after, std::min(kBackoffFirstNs << doublings, kBackoffLastNs));
    // Never sooner than the peer asked for; on our own account at least half of it.
    const uint64_t least = std::max(retry_after, wait / 2);
    address->not_before = now + least + random % (wait / 2 + 1);
    address->turn = ++turns_;
}

void Addresses::set_of_other(const std::string &uri, bool of_other) {
    if (Address *address = find(uri)) address->of_other = of_other;
}

bool Addresses::is_of_other(const std::string &uri) {
    const Address *address = find(uri);
    return address && address->of_other;
}

bool Addresses::all_of_others() const {
    return std::all_of(list_.begin(), list_.end(),
                       [](const Address &address) { return address.of_other; });
}

void Addresses::alive(bool restarted) {
    if (restarted) short_lives_ = 0;
    for (Address &address : list_)
        address.failures = 0, address.not_before = 0, address.of_other = false;
}

// The first is forgiven, for a peer that lost its connection is back at once more often than not.
void Addresses::connection_ended(const std::string &uri, uint64_t age, uint64_t now,
                                 uint64_t random) {
    if (age >= kLastingNs) {
        short_lives_ = 0;
        return;
    }
    const uint32_t before = short_lives_++;
    if (before == 0) return;
    if (Address *address = find(uri)) address->failures = before - 1;
    failed(uri, now, 0, random);
}

uint32_t Addresses::failures() const {
    uint32_t most = 0;
    for (const Address &address : list_)
        most = std::max(most, address.failures);
    return most;
}

}  // namespace xfer
