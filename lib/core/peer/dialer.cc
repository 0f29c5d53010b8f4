// SPDX-License-Identifier: Apache-2.0
#include "core/peer/dialer.h"

#include <algorithm>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/connection_limit.h"
#include "core/peer/peer.h"
#include "core/peer/peer_table.h"
#include "util/memory.h"
#include "wire/short_name.h"

namespace xfer {

Dialer::Dialer(Peer &peer, const std::vector<std::string> &known) : addresses(&peer), peer_(peer) {
    for (const std::string &address : known)
        addresses.add(address);
}

// As that of its peer.
Dialer::~Dialer() {
    if (redial_.armed()) peer_.shard.loop.disarm(redial_);
    if (dialing_) peer_.shard.limit.dial_ended(*this);
    give_slot();
}

bool Dialer::reachable() const {
    return !addresses.empty() || peer_.is_self();
}

Failure Dialer::why_down() const {
    if (reachable() || last_failure_.status != XFER_OK) return last_failure_;
    return {XFER_EUNREACHABLE, 0, 0, "no address is known, and no connection from it has come"};
}

// ---- the slot

bool Dialer::take_slot() {
    if (!slot_) slot_ = peer_.shard.engine.slots().take();
    return slot_;
}

void Dialer::give_slot() {
    if (!std::exchange(slot_, false)) return;
    peer_.shard.engine.slots().give();
    peer_.shard.limit.room_made();
}

bool Dialer::pass_slot() {
    return std::exchange(slot_, false);
}

void Dialer::adopt_slot() {
    if (std::exchange(slot_, true)) peer_.shard.engine.slots().give();
}

// ---- when

// What is known of addresses that failed is kept until their time has come, also if nobody waits:
// who opens the same peer again before then waits as well.
void Dialer::schedule() {
    ShardCore &shard = peer_.shard;
    if (peer_.live() || shard.closing() || !reachable() || redial_.armed() || dialing_ ||
        !peer_.may_dial())
        return;
    if (peer_.wanted()) peer_.handles.set_states(XFER_EP_CONNECTING);
    if (const uint64_t at = may_dial_at(); at > shard.now()) return shard.loop.arm(redial_, at);
    if (!peer_.wanted()) return;
    dialing_ = true;
    shard.limit.dial_when_free(*this);
}

// Of two that know each other one may yield to the other, for a while: in a full mesh that is
// warmed up from all sides at once, half of the attempts are then never made.
uint64_t Dialer::may_dial_at() {
    const uint64_t at = peer_.is_self() ? 0 : addresses.next().at;
    const uint64_t yield = peer_.shard.engine.options().yield_ms * kNsPerMs;
    if (!peer_.wanted() || !yield || !peer_.id || peer_.ours_smaller()) return at;
    if (!wanted_since_) wanted_since_ = peer_.shard.now();
    return std::max(at, wanted_since_ + yield);
}

void Dialer::on_timer(Timer &) {
    schedule();
    peer_.shard.peers.review(peer_);
}

void Dialer::pause() {
    peer_.shard.loop.disarm(redial_);
}

void Dialer::connected() {
    wanted_since_ = 0;
    last_failure_ = {};
    pause();
    attempt_over();
}

// ---- an attempt

void Dialer::dial() {
    Session *attempt = nullptr;
    if (catch_bad_alloc(
            [&] { peer_.is_self() ? peer_.connect_to_self() : begin_attempt(attempt); }))
        return;
    if (attempt) return attempt->close(no_memory());
    attempt_over();
    if (peer_.is_self())
        peer_.fail_waiting(no_memory());
    else
        attempt_failed(addresses.next().uri, no_memory(), 0);
    give_slot();
}

void Dialer::begin_attempt(Session *&attempt) {
    ShardCore &shard = peer_.shard;
    auto uri = parse_uri(addresses.next().uri);
    addresses.set_of_other(addresses.next().uri, false);
    const uint64_t sequence = shard.engine.next_sequence();
    auto *connection = new Session(shard, Side::ours, shard.next_number(), sequence);
    attempt = connection;
    shard.counters.connects.add();
    peer_.adopt(*connection);
    peer_.hear({Input::dial, connection->number, sequence, 0, {}});
    const Status status = uri ? connection->dial(*uri) : uri.error().status;
    if (status != XFER_OK) {
        const Failure &why = connection->why;
        connection->close({status, why.origin, why.native, why.message});
    }
}

void Dialer::attempt_over() {
    if (!std::exchange(dialing_, false)) return;
    peer_.shard.limit.dial_ended(*this);
}

void Dialer::misled(const std::string &uri, const Failure &why) {
    addresses.set_of_other(uri, true);
    if (!peer_.live()) last_failure_ = why;
}

// Who asked for no more than a connection hears why there is none once no address is left to try;
// but not of a peer that is only busy, or that has a better connection with us.
void Dialer::attempt_failed(const std::string &uri, const Failure &why, uint64_t retry_ns) {
    ShardCore &shard = peer_.shard;
    last_failure_ = why;
    peer_.note_error(why, uri);
    addresses.failed(uri, shard.now(), retry_ns, shard.engine.random_u64());
    // That another engine answered is known before the attempt ends, and those misled were told
    // then.
    const bool refused = why.status == XFER_EIDENTITY && !addresses.is_of_other(uri);
    if (refused) addresses.set_of_other(uri, true);
    shard.log().info("peer {}: attempt {} at {} failed: {}: {}",
                     peer_.id ? short_name(*peer_.id) : "unknown", addresses.failures(), uri,
                     xfer_status_name(why.status), why.message);
    if (!addresses.empty() && addresses.next().at <= shard.now()) return;  // the next one, at once
    const Status status = why.status;
    if (status == XFER_EAUTH || status == XFER_EVERSION || status == XFER_EACCESS)
        return peer_.fail_waiting(why);
    if (refused && addresses.all_of_others()) peer_.fail_misled(why, true);
    if (status == kDuplicate || retry_ns) return;
    if (status == XFER_EIDENTITY && !refused) return peer_.requests.end_misled_connects(status);
    peer_.requests.end_connects(status);
}

}  // namespace xfer
