// SPDX-License-Identifier: Apache-2.0
#include "core/connection/path_attachment.h"

#include <utility>

#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"

namespace xfer {

PathAttachment::PathAttachment(Connection &connection, uint32_t number)
    : Attachment(connection, number, "path"),
      rail(connection.lanes.first(), connection.lanes.first().rail, number) {}

// Only the initiator begins. Where neighbours may come to share memory, that is known first.
void PathAttachment::begin_or_ask() {
    if (!connection_.usable() || !connection_.lanes.local.leaves_to_others()) return;
    fabric_ = shared_fabric();
    rests_ = !fabric_ || connection_.side == Side::theirs;
    if (!fabric_) return;
    if (connection_.side == Side::ours) {
        if (begin()) asked_ = false;  // the peer hears of its end, and asks anew
        return;
    }
    Frame ask;
    ask.type = FrameType::lanes;
    ask.flags = kAttachedPathFlag;
    ask.seq = number_;
    connection_.send(ask);
}

void PathAttachment::on_asked() {
    asked_ = true;
    connection_.lanes.local.on_asked();
    open();
}

Failure PathAttachment::make(Fabric &fabric, bool first, ConstBytes offer) {
    const auto beside = connection_.attached.beside(*this, fabric);
    auto made = fabric.open({first, offer, beside, failures_}, *this);
    if (!made) return made.error();
    path_ = std::move(*made);
    return {};
}

void PathAttachment::say(const Frame &frame, ConstBytes body) {
    connection_.send(frame, body);
}

std::string_view PathAttachment::why_not() const {
    if (!is_closed()) return "";
    if (why_.status != XFER_OK) return why_.message;
    if (!has_fabric(connection_.shard)) return "this engine has no fabric";
    if (!shared_fabric()) return "the peer has no fabric that this engine has";
    if (connection_.lanes.local.is_open()) return "the two are neighbours";
    if (connection_.side == Side::theirs && rests_)
        return "the peer, which dialed, was asked to open it";
    return "nothing has been moved yet";
}

// The adapters meet: a channel by them will, too.
void PathAttachment::on_ready() {
    state_ = State::ready;
    ready_since_ = connection_.shard.now();
    failures_ = 0;
    rail.window = kLaneWindow;
    rail.start(*path_, kLaneOps);
    connection_.attached_lane.open();
    connection_.pump_soon();
}

void PathAttachment::try_again() {
    if (asked_) open();
    connection_.pump_soon();  // what we have to move asks for it
}

}  // namespace xfer
