// SPDX-License-Identifier: Apache-2.0
#include "core/connection/attached_lane.h"

#include <utility>

#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"
#include "wire/limits.h"

namespace xfer {

AttachedLane::AttachedLane(Connection &connection)
    : Attachment(connection, kAttachedLane, "lane") {}

// Only the initiator begins.
void AttachedLane::begin_if_due() {
    if (connection_.side == Side::theirs || !connection_.usable()) return;
    const LaneSet &lanes = connection_.lanes;
    if (!connection_.attached.has_ready() || lanes.moves_control() || lanes.local.is_begun())
        return;
    fabric_ = shared_fabric();
    if (!fabric_) return;
    begin();
}

// An initiator that opened the local lane, too, has only one of them take the frames.
Failure AttachedLane::make(Fabric &fabric, bool first, ConstBytes) {
    if (connection_.lanes.moves_control())
        return {XFER_EAGAIN, 0, 0, "the control channel goes by another lane"};
    Lane &lane = connection_.lanes.add(kAttachedLane);
    auto made = fabric.open_channel(
        {.first = first, .failures = failures_, .stall_ns = connection_.keepalive.stalls_after()},
        *this);
    if (!made) return lane.why = made.error();
    channel_ = made->get();
    lane_ = &lane;
    lane.adopt(std::move(*made));
    return {};
}

void AttachedLane::hear(ConstBytes message) {
    channel_->on_signal(message);
}

void AttachedLane::end(const Failure &why) {
    if (!lane_->is_closed()) channel_->close(why);
}

// A channel that ends may have last words, as a bye that its adapters have lost.
void AttachedLane::say(const Frame &frame, ConstBytes body) {
    Lane &first = connection_.lanes.first();
    if (!connection_.closing()) return void(connection_.send_by(first, frame, body));
    if (first.is_closed()) return;
    [[maybe_unused]] const bool said =
        catch_bad_alloc([&] { first.channel->send(frame, body); });  // its end says enough
}

// The initiator is the last to hear of it, so that its switch finds the other end ready.
void AttachedLane::on_ready() {
    if (connection_.closing()) return;
    if (connection_.lanes.moves_control())
        return end({XFER_EAGAIN, 0, 0, "the control channel goes by another lane"});
    state_ = State::ready;
    connection_.in_turn([this] {
        if (connection_.side == Side::ours)
            connection_.lanes.joined(*lane_);
        else
            connection_.lanes.await_switch_to(*lane_);
    });
}

std::string_view AttachedLane::why_not() const {
    if (!is_closed()) return "";
    if (why_.status != XFER_OK) return why_.message;
    if (!has_fabric(connection_.shard)) return "this engine has no fabric";
    if (!shared_fabric()) return "the peer has no fabric that this engine has";
    if (connection_.lanes.local.is_open()) return "the two are neighbours";
    return "no path by an adapter is open yet";
}

}  // namespace xfer
