// SPDX-License-Identifier: Apache-2.0
#include "core/peer/admission.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/inbound.h"
#include "core/peer/peer.h"
#include "wire/short_name.h"

namespace xfer {

bool Admission::open_to(uint64_t incarnation) {
    const bool is_in =
        admitted_ != 0 && admitted_ == incarnation;  // who says 0 is asked about each time
    if (!peer_.shard.engine.options().ask || is_in) return true;
    for (const Endpoint &ep : peer_.handles.all())
        if (!ep.inbound) return true;
    return false;
}

uint32_t Admission::undecided() {
    uint32_t count = 0;
    for ([[maybe_unused]] const Session &each : waiting_)
        ++count;
    return count;
}

// A restarted peer waits until its earlier life, which may have been claimed, has its verdict or is
// gone.
void Admission::ask(Session &half_open, const Statement &statement) {
    const uint64_t incarnation = half_open.handshake.peer().incarnation;
    if (peer_.shard.draining()) return half_open.refuse(XFER_ECLOSED);
    if (ep_ && incarnation != incarnation_) return half_open.refuse(XFER_EOVERLOAD);
    if (undecided() >= kMaxAttempts) return half_open.refuse(XFER_EOVERLOAD);
    if (!ep_ && !begin(half_open)) return half_open.refuse(XFER_EOVERLOAD);
    half_open.wait_for_verdict(peer_, statement);
    waiting_.push_back(half_open);
}

// Its last event is made with the first: its end needs no memory.
bool Admission::begin(Session &half_open) {
    const Identity &identity = half_open.handshake.peer();
    Inbound::Newcomer newcomer = peer_.shard.inbound.newcomer(half_open);
    Endpoint &ep = *newcomer.ep;
    ep.set_info(identity, half_open.handshake.peer_terms().blob,
                half_open.control().channel->remote());
    auto down_event = std::make_unique<Notice>(ep, XFER_EVENT_PEER_DOWN, std::vector<uint8_t>());
    if (!peer_.shard.engine.undecided().take()) return false;
    ep.counts_undecided.store(true);
    ep.peer = &peer_;
    ep_ = &ep;
    down_event_ = std::move(down_event);
    decided_ = false;
    incarnation_ = identity.incarnation;
    peer_.shard.log().info("peer {}: asks to come in from {}", short_name(identity.id),
                           half_open.control().channel->remote());
    peer_.shard.inbound.post(std::move(newcomer));
    return true;
}

void Admission::decide(Endpoint &ep, Status verdict) {
    if (verdict != XFER_OK) return turn_away(verdict);
    if (&ep == ep_ && !decided_) let_in();
}

void Admission::let_in() {
    decided_ = true;
    admitted_ = incarnation_;
    ep_->no_longer_undecided();
    for (Session &each : waiting_)
        if (!each.closing()) each.in_turn([&] { peer_.shard.inbound.let_in(peer_, each); });
}

// All that came from it ends; what we have dialed and is not up yet is not its visit.
void Admission::turn_away(Status verdict) {
    refuse_waiting(verdict);
    for (Session &each : peer_.connections()) {
        if (each.closing()) continue;
        if (each.live())
            each.close({verdict, 0, 0, "the application turned the peer away"});
        else if (each.side == Side::theirs)
            each.in_turn([&] { each.refuse(verdict); });
    }
    if (ep_ && !decided_) end({verdict, 0, 0, "the application turned the peer away"});
}

void Admission::refuse_waiting(Status verdict) {
    while (Session *each = waiting_.pop_front()) {
        each->candidate = nullptr;
        each->in_turn([&] { each->refuse(verdict); });
    }
}

void Admission::hand_over() {
    down_event_.reset();
    peer_.handles.attach(*std::exchange(ep_, nullptr));
}

void Admission::down(uint64_t incarnation) {
    if (admitted_ == incarnation) admitted_ = 0;
}

bool Admission::is_coming() {
    if (!waiting_.empty()) return true;
    for (const Session &each : peer_.connections()) {
        const bool asked_about = each.handshake.peer().incarnation == incarnation_;
        if (each.side == Side::theirs && !each.closing() && asked_about) return true;
    }
    return false;
}

// One that waited, or was let in and did not come to live.
void Admission::lost(Session &connection) {
    connection.ListNode<InUndecided>::unlink();
    if (ep_ && !is_coming()) end(connection.why);
}

// Who has kept its handle has one like any other of this peer.
void Admission::end(const Failure &why) {
    Endpoint &ep = *std::exchange(ep_, nullptr);
    if (decided_) down(incarnation_);
    ep.down_event = std::move(down_event_);
    peer_.handles.attach(ep);
    peer_.shard.outbox.notify_peer_down(ep, why);
}

// Who accepts a handle and closes it without a word has turned the peer away.
void Admission::closed(Endpoint &ep) {
    if (&ep != ep_) return;
    ep_ = nullptr;
    down_event_.reset();
    refuse_waiting(XFER_EACCESS);
}

}  // namespace xfer
