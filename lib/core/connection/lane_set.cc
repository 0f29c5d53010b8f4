// SPDX-License-Identifier: Apache-2.0
// The channels of a connection beside its first: data lanes, which join it, and the local lane,
// through memory that both ends share, which takes the control channel over. Both are opened when
// there is something to move; the local lane alone carries all of it, so that data lanes are opened
// only where there is none.
//
// Frames have an order, and two channels have none between them. So each end says `shift` as its
// last word on the old channel and goes on by the new one, and hears the new one once it has heard
// the other's `shift`. The initiator begins: what it could not join costs nothing.
#include <algorithm>
#include <utility>

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/peer/peer.h"
#include "wire/short_name.h"

namespace xfer {

namespace {

bool is_local(const Lane &lane) {
    return lane.channel->scope() <= Scope::host;
}

Frame word(FrameType type) {
    Frame frame;
    frame.type = type;
    return frame;
}

}  // namespace

// ---- which one carries what

PathView Connection::view(const Lane &lane) const {
    PathView path;
    path.control = &lane == control_lane_;
    path.waiting = lane.rail.bytes;
    path.scope = lane.rail.caps.scope;
    // The first one has nothing to say any more when the local one speaks.
    const bool over = lane.number == 0 && !path.control;
    if (lane.state == Lane::State::down || over)
        path.health = PathView::Health::down;
    else if (lane.state != Lane::State::ready)
        path.health = PathView::Health::opening;
    return path;
}

Choice Connection::route(uint64_t bytes) const {
    FixedVector<PathView, kMaxLanes + 2> paths;
    for (const auto &lane : lanes_)
        paths.push_back(view(*lane));
    return choose({paths.begin(), paths.size()}, {.bytes = bytes});
}

Rail &Connection::rail_for(uint64_t bytes) {
    const Choice choice = route(bytes);
    const bool may_open = usable() && shard.engine.options().lanes != XFER_NONE;
    if (choice.open_lanes && may_open && !std::exchange(lanes_wanted_, true))
        in_turn([this] { open_lanes(); });
    return choice.path ? lanes_[*choice.path]->rail : control_lane_->rail;
}

// ---- opening them

// Who lists an address of shared memory may be a neighbour. Only trying tells.
void Connection::open_local_path() {
    if (local_path_ != LocalPath::apart || !usable()) return;
    local_path_ = LocalPath::tried;
    if (is_local(control())) return;
    // It goes on as it is where there is no memory for more.
    if (!catch_bad_alloc([this] { look_for_neighbour(); })) local_path_failure_ = no_memory();
}

void Connection::look_for_neighbour() {
    if (std::none_of(shard.transports.begin(), shard.transports.end(),
                     [](const auto &transport) { return transport->name() == "shm"; })) {
        local_path_failure_ = {
            XFER_EUNSUPPORTED, 0, 0,
            "shm is not among our transports (option transports, XFER_TRANSPORTS)"};
        return;
    }
    const auto &listens = handshake.peer_terms().listens;
    const auto at = std::find_if(listens.begin(), listens.end(),
                                 [](const std::string &uri) { return uri.starts_with("shm:"); });
    if (at == listens.end()) {
        local_path_failure_ = {XFER_EUNSUPPORTED, 0, 0, "the peer offers no shared memory"};
        return;
    }
    auto address = parse_uri(*at);
    Transport *transport = address ? shard.transport_for(*address) : nullptr;
    if (!transport) {
        local_path_failure_ = {XFER_EADDR, 0, 0,
                               "the peer's address of shared memory is malformed"};
        return;
    }
    if (side == Side::theirs) return ask_for_lanes(kLocalLaneFlag);
    lanes_.reserve(lanes_.size() + 1);
    auto lane = std::make_unique<Lane>(*this, kLocalLane);
    auto channel = transport->connect(*address, *lane);
    if (!channel) {
        local_path_failure_ = channel.error();
        return;
    }
    lane->channel = std::move(*channel);
    lanes_.push_back(std::move(lane));
    local_path_ = LocalPath::joining;
}

// Only who dialed knows an address that answers; the other end asks.
void Connection::ask_for_lanes(uint8_t which) {
    Frame ask = word(FrameType::lanes);
    ask.flags = which;
    send(ask);
}

void Connection::open_lanes() {
    if (side == Side::theirs) return ask_for_lanes(0);
    if (is_local(control()) || std::exchange(lanes_opened_, true)) return;
    auto address = parse_uri(control().channel->remote());
    Transport *transport = address ? shard.transport_for(*address) : nullptr;
    for (uint32_t i = 1; transport && i <= shard.engine.options().lanes; ++i) {
        auto lane = std::make_unique<Lane>(*this, i);
        auto channel = transport->connect(*address, *lane);
        if (!channel) {
            shard.log().warn("peer {}: lane {} to {}: {}", short_name(handshake.peer().id), i, uri,
                             channel.error().message);
            break;
        }
        lane->channel = std::move(*channel);
        lanes_.push_back(std::move(lane));
    }
}

void Connection::on_lanes(const Frame &ask) {
    if (side == Side::theirs) return;
    if (ask.flags & kLocalLaneFlag) return open_local_path();
    if (std::exchange(lanes_wanted_, true) || local_path_ == LocalPath::joining ||
        local_path_ == LocalPath::switched)
        return;
    if (shard.engine.options().lanes != XFER_NONE) open_lanes();
}

// ---- joining

// Lanes arrive in any order.
std::string_view Connection::why_no_lane(const Connection &half_open, const Hello &message,
                                         ConstBytes raw) const {
    const bool local = message.lane == kLocalLane;
    if (side == Side::ours) return "this side dialed that connection, and opens its lanes";
    if (!handshake.hear_lane(message, raw)) return "the proof of the lane does not hold";
    if (!usable()) return "that connection is about to end";
    if (message.lane > kMaxLanes && !local) return "no lane has that number";
    if (local != is_local(half_open.control())) return "not the transport of that lane";
    const bool taken = std::any_of(lanes_.begin(), lanes_.end(),
                                   [&](const auto &lane) { return lane->number == message.lane; });
    return taken ? "that connection has a lane of that number" : "";
}

std::string_view Connection::join_lane(Connection &half_open, const Hello &message,
                                       ConstBytes raw) {
    const std::string_view why_not = why_no_lane(half_open, message, raw);
    if (!why_not.empty()) return why_not;
    const bool local = message.lane == kLocalLane;
    Hello welcome;
    welcome.kind = HelloKind::lane_ready;
    welcome.lane = message.lane;
    const std::vector<uint8_t> words = encode_hello(welcome);
    lanes_.push_back(std::make_unique<Lane>(*this, message.lane));
    Lane &lane = *lanes_.back();
    lane.adopt(std::move(half_open.control().channel));
    lane.channel->send_hello(words);
    if (local) {
        lane.state = Lane::State::joining;
        local_path_ = LocalPath::joining;
        lane.start();
        return {};
    }
    lane.open();
    pump_soon();
    return {};
}

// We dialed it, and are let in.
void Connection::joined(Lane &lane) {
    if (lane.number == kLocalLane) {
        lane.start();
        switch_control_to(lane);
    } else {
        lane.open();
    }
    peer->flow.pump();
}

void Connection::switch_control_to(Lane &lane) {
    send(word(FrameType::shift));
    lane.state = Lane::State::ready;
    control_lane_ = &lane;
    local_path_ = LocalPath::switched;
}

// The peer's last word on the first channel.
void Connection::on_control_switch(Lane &from) {
    const auto local = std::find_if(lanes_.begin(), lanes_.end(), [](const auto &lane) {
        return lane->number == kLocalLane && lane->state != Lane::State::down;
    });
    const bool due =
        side == Side::ours ? local_path_ == LocalPath::switched : local_path_ == LocalPath::joining;
    if (from.number != 0 || control_switched_ || !due || local == lanes_.end())
        return close({XFER_EPROTO, 0, 0, "the peer moves the control channel to nowhere"});
    control_switched_ = true;
    if (side == Side::theirs) switch_control_to(**local);
    (*local)->channel->resume();
    peer->flow.pump();
}

std::string_view Connection::local_path() const {
    if (has_local_path()) return "open";
    if (local_path_ == LocalPath::joining) return "opening";
    return local_path_ == LocalPath::apart ? "not tried"
           : local_path_failure_.status    ? "none"
                                           : "asked for";
}

std::string_view Connection::why_not_local() const {
    if (has_local_path() || local_path_ == LocalPath::joining) return "";
    if (local_path_ == LocalPath::apart) return "nothing has been moved yet";
    if (local_path_failure_.status) return local_path_failure_.message;
    return "the peer, which dialed, was asked to open it";
}

// It never came to carry anything. What wanted to move goes by other lanes.
void Connection::local_path_failed(const Failure &why) {
    local_path_failure_ = why;
    local_path_ = LocalPath::tried;
    if (!usable()) return;
    if (lanes_wanted_ && side == Side::ours) open_lanes();
    pump_soon();
}

}  // namespace xfer
