// SPDX-License-Identifier: Apache-2.0
#include "core/base/endpoint.h"

#include <algorithm>
#include <cstring>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"

namespace xfer {

Endpoint::Endpoint(EngineCore &owner, std::vector<std::string> addresses, uint64_t word)
    : Handle(Magic::endpoint),
      engine(owner),
      uri(addresses.empty() ? "" : addresses.front()),
      user(word),
      max_operations_(owner.options().max_operations),
      address_(uri),
      listed_(std::move(addresses)) {
    engine.retain();
}

Endpoint::~Endpoint() {
    no_longer_undecided();
    engine.release();
}

ShardCore &Endpoint::first_shard() const {
    return engine.first_shard();
}

bool Endpoint::take_room(uint32_t limit) {
    room_wanted.store(true);
    // Room may have come between the two: whoever leaves last finds it, as others may have been
    // refused by nothing but the count of this caller. The wish stays, since it may be theirs, too:
    // a ROOM that nobody waits for does no harm.
    while (outstanding.fetch_sub(1) <= limit) {
        if (outstanding.fetch_add(1) >= limit) continue;
        if (!ended.load()) return true;
        outstanding.fetch_sub(1);
        return false;
    }
    return false;
}

void Endpoint::set_info(const Identity &identity, const std::vector<uint8_t> &blob,
                        const std::string &address) {
    std::vector<uint8_t> new_blob = blob;
    std::string new_address = address;
    std::lock_guard lock(info_mutex_);
    identity_ = identity;
    blob_.swap(new_blob);
    address_.swap(new_address);
}

void Endpoint::set_identity(const Identity &identity) {
    std::lock_guard lock(info_mutex_);
    identity_ = identity;
}

void Endpoint::read_info(xfer_peer_info_t &info) const {
    std::lock_guard lock(info_mutex_);
    std::copy(identity_.id.begin(), identity_.id.end(), info.id.bytes);
    info.id.incarnation = identity_.incarnation;
    info.state = state.load();
    info.blob_length = static_cast<uint32_t>(blob_.size());
    std::copy(blob_.begin(), blob_.end(), info.blob);
    const size_t length = std::min(address_.size(), sizeof info.address - 1);
    std::memcpy(info.address, address_.data(), length);
}

std::optional<EngineId> Endpoint::peer_id() const {
    std::lock_guard lock(info_mutex_);
    if (identity_.incarnation == 0) return std::nullopt;
    return identity_.id;
}

bool Endpoint::list(const std::vector<std::string> &uris) {
    std::lock_guard lock(info_mutex_);
    std::vector<std::string> all = listed_;
    for (const std::string &each : uris)
        if (std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
    if (all.size() > kMaxPeerUris) return false;
    listed_.swap(all);
    return true;
}

bool Endpoint::lists(const std::string &address) const {
    std::lock_guard lock(info_mutex_);
    return std::find(listed_.begin(), listed_.end(), address) != listed_.end();
}

bool Endpoint::lists_several() const {
    std::lock_guard lock(info_mutex_);
    return listed_.size() > 1;
}

bool Endpoint::waits_anywhere() const {
    std::lock_guard lock(info_mutex_);
    return !inbound && listed_.empty();
}

// A keep may have come first, by the handle of another event.
void Endpoint::give() {
    if (!of_user.exchange(true)) retain();
}

void Endpoint::no_longer_undecided() {
    if (counts_undecided.exchange(false)) engine.undecided().give();
}

bool Endpoint::of_accept() const {
    return inbound && engine.options().own_peers;
}

bool Endpoint::is_lent() const {
    return !of_user.load() && !of_accept();
}

// Carries a reference of its own.
void Endpoint::Close::arrive(ShardCore &shard) {
    ShardCore *home = ep.shard.load();
    if (home != &shard && home->post(*this)) return;
    shard.close(ep);
    ep.release();
}

void Endpoint::EndReceives::arrive(ShardCore &shard) {
    shard.on_end_receives(ep);
}

void Endpoint::IdentityKnown::arrive(ShardCore &shard) {
    posted.store(false);
    shard.on_identity_known(ep);
    ep.release();  // may destroy this
}

void Endpoint::Closed::released() {
    ep.ended.store(true);
    ep.release();  // the loop's count
}

Notice::Notice(Endpoint &endpoint, uint32_t type, std::vector<uint8_t> bytes)
    : ep_(endpoint), data_(std::move(bytes)) {
    event.kind = type;
    event.ep = reinterpret_cast<xfer_ep_t *>(&endpoint);
    if (!data_.empty()) {
        event.data = data_.data();
        event.data_length = data_.size();
    }
}

void Notice::blame(const Failure &why) {
    event.origin = why.origin;
    event.native_code = why.native;
    reason_ = why.message;
    explain(reason_);
}

// A ROOM that is left out does no harm: another one still comes, and says the same.
std::atomic<uint32_t> &Notice::waiting() const {
    if (event.kind == XFER_EVENT_ROOM) return ep_.rooms;
    return event.kind == XFER_EVENT_REGION_GONE ? ep_.gone_regions : ep_.notices;
}

bool Notice::admit() {
    const uint32_t most = event.kind == XFER_EVENT_REGION_GONE ? kMaxGoneNotices : kMaxNotices;
    if (waiting().fetch_add(1) < most || event.kind == XFER_EVENT_PEER_DOWN)
        return ep_.retain(), true;
    waiting().fetch_sub(1);
    return false;
}

// The handle may have got its word since this was raised.
bool Notice::still_valid() {
    event.user = ep_.user.load();
    return !ep_.gone();
}

void Notice::given() {
    if (event.kind == XFER_EVENT_PEER && ep_.of_accept()) ep_.give();
}

void Notice::released() {
    waiting().fetch_sub(1);
    if (event.kind == XFER_EVENT_PEER_DOWN) ep_.no_longer_undecided();
    // Once: the peer may have come back, and gone again, before its first end was told.
    if (event.kind == XFER_EVENT_PEER_DOWN && !ep_.of_user.load() && !ep_.closed.exchange(true))
        ep_.engine.close_silently(ep_);
    ep_.release();
    delete this;
}

}  // namespace xfer
