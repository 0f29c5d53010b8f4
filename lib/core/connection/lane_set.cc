// SPDX-License-Identifier: Apache-2.0
#include "core/connection/lane_set.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"
#include "wire/short_name.h"

namespace xfer {

namespace {

Frame word(FrameType type) {
    Frame frame;
    frame.type = type;
    return frame;
}

}  // namespace

LaneSet::LaneSet(Connection &connection) : local(connection), connection_(connection) {
    lanes_.push_back(std::make_unique<Lane>(connection, 0));
    control_ = lanes_[0].get();
}

LaneSet::~LaneSet() {
    disarm();
}

void LaneSet::disarm() {
    connection_.shard.loop.disarm(limit_);
    connection_.shard.loop.disarm(reopen_);
    local.disarm();
}

Lane *LaneSet::find(uint64_t number) const {
    const auto at = std::find_if(lanes_.begin(), lanes_.end(),
                                 [&](const auto &lane) { return lane->number == number; });
    return at == lanes_.end() ? nullptr : at->get();
}

Lane &LaneSet::add(uint32_t number) {
    if (Lane *ended = find(number)) return *ended;
    lanes_.push_back(std::make_unique<Lane>(connection_, number));
    lanes_.back()->state = Lane::State::down;
    return *lanes_.back();
}

// Control frames belong on the control channel: the first lane until the peer has moved it.
bool LaneSet::hears_control_on(const Lane &lane) const {
    return &lane == (control_switched_ ? control_ : lanes_[0].get());
}

bool LaneSet::moves_control() const {
    return next_control_ && !next_control_->is_closed();
}

uint64_t LaneSet::last_heard() const {
    return std::max(first().channel->last_heard(), control_->channel->last_heard());
}

bool LaneSet::is_heard() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [this](const auto &lane) {
        return hears_control_on(*lane) && !lane->is_closed();
    });
}

// ---- which one carries what

PathView LaneSet::view(Lane &lane) const {
    PathView path;
    path.control = &lane == control_;
    path.waiting = lane.rail.bytes + lane.one_sided.bytes;  // what this loop copies, too
    path.full = !lane.route().has_room();
    // One by an adapter is no nearer than the others, which carry what would keep its frames
    // waiting.
    const bool attached = lane.number == kAttachedLane;
    path.scope = attached ? Scope::network : lane.rail.caps.scope;
    // The first one has nothing to say any more when the local one speaks.
    const bool over = lane.number == 0 && local.is_open() && !path.control;
    const bool frames_alone = attached && (!path.control || lane.rail.takes_none());
    if (lane.is_closed() || over || frames_alone)
        path.health = PathView::Health::down;
    else if (lane.state != Lane::State::ready)
        path.health = PathView::Health::opening;
    return path;
}

Choice LaneSet::choose_lane(uint64_t bytes) const {
    FixedVector<PathView, kMaxLanes + 3> paths;
    for (const auto &lane : lanes_)
        paths.push_back(view(*lane));
    return choose({paths.begin(), paths.size()}, {.bytes = bytes});
}

Route LaneSet::route_for(uint64_t bytes, const Access &access) {
    // Nothing is nearer than the local path, and then those beside the channels.
    if (control_->state == Lane::State::ready && control_->rail.caps.scope <= Scope::host)
        return control_->route();
    if (OneSidedRail *rail = connection_.attached.reaching(access)) return {first().rail, *rail};
    const Choice choice = choose_lane(bytes);
    const bool may_open =
        connection_.usable() && connection_.shard.engine.options().lanes != XFER_NONE;
    if (choice.open_lanes && may_open && !std::exchange(wanted_, true))
        connection_.in_turn([this] { open_data_lanes(); });
    return (choice.path ? *lanes_[*choice.path] : *control_).route();
}

bool LaneSet::flush() {
    bool flushed = false;
    for (const auto &lane : lanes_)
        flushed |= lane->flush();
    return flushed;
}

// ---- opening them

Failure LaneSet::dial_local(Transport &transport, const Uri &address) {
    Lane &lane = add(kLocalLane);
    lane.dial(transport, address);
    arm_limit();
    return lane.is_closed() ? lane.why : Failure{};
}

// Only who dialed knows an address that answers; the other end asks.
void LaneSet::ask_for_lanes(uint8_t which) {
    Frame ask = word(FrameType::lanes);
    ask.flags = which;
    connection_.send(ask);
}

void LaneSet::open_data_lanes(uint32_t at_most) {
    if (connection_.side == Side::theirs) return ask_for_lanes(0);
    if (is_local(first())) return;
    auto address = parse_uri(first().channel->remote());
    Transport *transport = address ? connection_.shard.transport_for(*address) : nullptr;
    const uint32_t lanes = connection_.shard.engine.options().lanes;
    const uint32_t last = transport && lanes != XFER_NONE ? lanes : 0;
    for (uint32_t k = 0; k < last && at_most > 0; ++k) {
        Lane &lane = add((tried_ + k) % last + 1);
        if (lane.state != Lane::State::down || lane.closed_unsaid) continue;
        if (--at_most == 0) tried_ = lane.number;
        lane.dial(*transport, *address);
        arm_limit();
        if (lane.is_closed()) return not_opened(lane, lane.why);
    }
}

void LaneSet::asked(const Frame &ask) {
    if (connection_.side == Side::theirs) return;
    if (ask.flags & kLocalLaneFlag) return local.on_asked();
    if (std::exchange(wanted_, true) || local.is_begun()) return;
    if (connection_.shard.engine.options().lanes != XFER_NONE) open_data_lanes();
}

// ---- joining

// Lanes arrive in any order.
std::string_view LaneSet::why_not(const Connection &half_open, const Hello &message,
                                  ConstBytes raw) const {
    const bool near = message.lane == kLocalLane;
    if (connection_.side == Side::ours)
        return "this side dialed that connection, and opens its lanes";
    if (!connection_.handshake.hear_lane(message, raw))
        return "the proof of the lane does not hold";
    if (!connection_.usable()) return "that connection is about to end";
    if (message.lane > kMaxLanes && !near) return "no lane has that number";
    if (near != is_local(half_open.control())) return "not the transport of that lane";
    if (near && moves_control()) return "the control channel goes by another lane";
    const Lane *lane = find(message.lane);
    if (!lane) return "";
    if (lane->state != Lane::State::down) return "that connection has a lane of that number";
    return message.generation > lane->generation ? "" : "that lane has been there before";
}

std::string_view LaneSet::join(Connection &half_open, const Hello &message, ConstBytes raw) {
    const std::string_view why = why_not(half_open, message, raw);
    if (!why.empty()) return why;
    Hello welcome;
    welcome.kind = HelloKind::lane_ready;
    welcome.lane = message.lane;
    const std::vector<uint8_t> words = encode_hello(welcome);
    Lane &lane = add(message.lane);
    lane.generation = message.generation;
    lane.adopt(std::move(half_open.control().channel));
    lane.channel->send_hello(words);
    if (lane.number == kLocalLane) {
        local.on_joining();
        await_switch_to(lane);
        return {};
    }
    lane.open();
    connection_.pump_soon();
    return {};
}

// We began it, and are let in.
void LaneSet::joined(Lane &lane) {
    if (takes_control(lane)) {
        lane.start();
        switch_control_to(lane);
    } else {
        lane.open();
        if (!reopen_.armed()) open_data_lanes();
    }
    connection_.sink.pump();
}

void LaneSet::await_switch_to(Lane &lane) {
    lane.state = Lane::State::joining;
    next_control_ = &lane;
    lane.start();
}

// Beside a lane by an adapter the first one goes on as a data lane does.
void LaneSet::switch_control_to(Lane &lane) {
    connection_.send(word(FrameType::control_switch));
    lane.state = Lane::State::ready;
    control_ = next_control_ = &lane;
    if (lane.number == kLocalLane) return local.on_switched();
    first().rail.window = kLaneWindow;
}

// The peer's last word on the first channel.
void LaneSet::on_control_switch(const Lane &from) {
    const bool due = from.number == 0 && !control_switched_;
    // Where it goes has ended here, and the peer had not heard that.
    if (due && connection_.attached_lane.is_ending())
        return connection_.close(Failure(connection_.attached_lane.why()));
    if (due && next_control_ && next_control_->is_closed())
        return connection_.close(Failure(next_control_->why));
    if (!due || !next_control_)
        return connection_.close(
            {XFER_EPROTO, 0, 0, "the peer moves the control channel to nowhere"});
    Lane &next = *next_control_;
    control_switched_ = true;
    if (connection_.side == Side::theirs) switch_control_to(next);
    next.channel->resume();
    connection_.sink.pump();
}

// It never came to carry anything. What wanted to move goes by other lanes.
void LaneSet::local_path_failed(const Failure &why) {
    local.on_failed(why);
    if (connection_.closing()) return;
    connection_.attached.open_asked();
    if (connection_.usable()) connection_.attached_lane.open();
    const bool waits = wanted_ && connection_.side == Side::ours && !reopen_.armed();
    if (waits && connection_.usable())
        connection_.in_turn([this] { open_data_lanes(); });
    else if (waits)
        connection_.shard.loop.arm(reopen_, connection_.shard.now() + kBackoffFirstNs);
    connection_.pump_soon();
}

// ---- their end

// The first lane ends behind the attached one, which may have last words to be said by it.
void LaneSet::close(const Failure &why) {
    disarm();
    for (auto &lane : lanes_)
        if (lane->number == 0 && control_->number == kAttachedLane && !control_->is_closed())
            continue;
        else if (lane->channel && !lane->is_closed())
            lane->channel->close(why);
        else
            lane->state = Lane::State::down;
}

bool LaneSet::all_closed() const {
    return std::all_of(lanes_.begin(), lanes_.end(),
                       [](const auto &lane) { return lane->is_closed(); });
}

void LaneSet::give_back() {
    for (const auto &lane : lanes_)
        lane->give_back();
}

uint32_t LaneSet::retire(Target target, Status why) {
    uint32_t lanes = 0;
    for (auto &lane : lanes_)
        lanes += lane->retire(target, why);
    return lanes;
}

// A lane may have ended meanwhile: who asks goes on without.
void LaneSet::on_export(const Frame &frame, ConstBytes body) {
    Lane *lane = find(frame.seq);
    OneSidedRail *rail = lane ? &lane->one_sided : connection_.attached.find(frame.seq);
    if (rail && rail->path) return rail->on_export(frame, body);
    if (frame.type != FrameType::request_export) return;
    Frame answer = word(FrameType::exported);
    answer.seq = frame.seq;
    answer.region = frame.region;
    answer.status = XFER_EUNSUPPORTED;
    connection_.send(answer);
}

void LaneSet::discard(NotificationId notification) {
    for (auto &lane : lanes_)
        if (lane->rail.path) lane->rail.path->discard(notification);
}

// Lanes of a peer that goes end in any order, and what it says where its control frames are heard
// tells why. So one that can't end alone ends the connection when the time for that is over: where
// we say frames ourselves, or with a peer that knows no `lane_closed`.
bool LaneSet::survives(Lane &lane, const Failure &why) {
    const bool was_ready = lane.state == Lane::State::ready;
    lane.state = was_ready ? Lane::State::fallen : Lane::State::down;
    lane.why = why;
    if (lane.number != 0 && !was_ready) return not_opened(lane, why), true;
    const bool alone = ends_alone(lane);
    const bool waits = alone ? why.status != XFER_EPROTO : why.status == XFER_EPEERLOST;
    if (!connection_.live() || !waits || hears_control_on(lane) || !is_heard()) return false;
    const uint64_t patience = alone ? connection_.keepalive.settles_after() : kLastWordsNs;
    lane.fell_at = connection_.shard.now();
    lane.set_limit(lane.fell_at + patience);
    arm_limit();
    if (alone && lane.rail.copies == 0) say_closed(lane.number);
    lane.closed_unsaid = alone && lane.rail.copies > 0;
    if (lane.peer_closed) settle(lane);
    connection_.pump_soon();
    return true;
}

// Signals of the attached lane go by the first one.
bool LaneSet::ends_alone(const Lane &lane) const {
    const bool has_signals = lane.number == 0 && control_->number == kAttachedLane;
    return &lane != control_ && !has_signals && connection_.handshake.agreed(kLanesEndAlone);
}

// Nothing that the peer has put by it can land any more.
void LaneSet::on_copied(Lane &lane) {
    if (!std::exchange(lane.closed_unsaid, false)) return;
    say_closed(lane.number);
    if (lane.state == Lane::State::down) open_again_later(lane);
}

void LaneSet::say_closed(uint64_t number) {
    Frame frame = word(FrameType::lane_closed);
    frame.seq = number;
    connection_.send(frame);
}

// Each lane has a limit of its own: they may fall one after the other.
void LaneSet::arm_limit() {
    uint64_t first = kNever;
    for (const auto &lane : lanes_)
        if (lane->has_limit()) first = std::min(first, lane->limit);
    if (first == kNever)
        connection_.shard.loop.disarm(limit_);
    else
        connection_.shard.loop.arm(limit_, first);
}

// A loop that was kept from its work has not read what came meanwhile.
void LaneSet::on_limit() {
    const uint64_t now = connection_.shard.now();
    const bool late = now > limit_.due + kLastWordsNs / 4;
    for (auto &lane : lanes_) {
        if (!lane->has_limit() || now < lane->limit) continue;
        if (late && !std::exchange(lane->overdue, true)) {
            lane->limit = now + kLastWordsNs;
            continue;
        }
        if (lane->state == Lane::State::fallen) return connection_.close(Failure(lane->why));
        lane->limit = kNever;
        lane->channel->close({XFER_EUNREACHABLE, 0, 0, "nobody answered in time"});
    }
    arm_limit();
}

// Of a lane that has not come to be here, the peer's end is all there was: nothing that comes by it
// is looked at, and it is answered at once.
void LaneSet::on_lane_closed(const Frame &frame) {
    Lane *lane = find(frame.seq);
    const bool stays =
        lane && (!ends_alone(*lane) || lane->number == kAttachedLane || hears_control_on(*lane));
    if (!connection_.handshake.agreed(kLanesEndAlone) || stays)
        return connection_.close({XFER_EPROTO, 0, 0, "the peer closes the control channel alone"});
    if (lane && lane->state == Lane::State::fallen) return settle(*lane);
    if (lane && lane->state == Lane::State::ready) lane->peer_closed = true;
    if (lane && lane->state != Lane::State::down)
        lane->channel->close({XFER_EPEERLOST, XFER_ORIGIN_PEER, XFER_EPEERLOST,
                              "the peer's end of the lane has closed"});
    if (!lane || !lane->peer_closed) say_closed(frame.seq);
}

// Nothing that was sent by it can land any more, here or there.
void LaneSet::settle(Lane &lane) {
    lane.state = Lane::State::down;
    lane.peer_closed = false;
    ++lane.falls;
    connection_.shard.counters.lane_falls.add();
    arm_limit();
    const auto peer = short_name(connection_.handshake.peer().id);
    constexpr const char *kLine = "peer {}: lane {} ended alone: {}";
    if (connection_.side == Side::ours)
        connection_.shard.log().warn(kLine, peer, lane.number, lane.why.message);
    else  // a peer could make as many of these lines as it likes
        connection_.shard.log().debug(kLine, peer, lane.number, lane.why.message);
    lane.settle();
    connection_.sink.on_lane_ended();
    open_again_later(lane);
    connection_.pump_soon();
}

void LaneSet::not_opened(Lane &lane, const Failure &why) {
    if (next_control_ == &lane) next_control_ = nullptr;
    if (lane.number == kAttachedLane) return connection_.attached_lane.on_lane_closed(why);
    if (!std::exchange(lane.reported, true))
        connection_.shard.log().warn("peer {}: lane {} to {} failed: {}",
                                     short_name(connection_.handshake.peer().id), lane.number,
                                     connection_.uri, why.message);
    if (lane.number == kLocalLane) return local_path_failed(why);
    open_again_later(lane);
}

// One at a time, and the others when it is let in. A lane that lasts counts as a success: the next
// pause is the first one again.
void LaneSet::open_again_later(const Lane &lane) {
    const uint64_t now = connection_.shard.now();
    if (connection_.side == Side::theirs || lane.number == 0 || reopen_.armed()) return;
    const bool lasted = lane.ready_since && lane.fell_at >= lane.ready_since + kLastingNs;
    pause_ = lasted ? kBackoffFirstNs : std::clamp(2 * pause_, kBackoffFirstNs, kBackoffLastNs);
    connection_.shard.loop.arm(reopen_, now + pause_);
}

void LaneSet::on_timer(Timer &timer) {
    if (&timer == &limit_) return on_limit();
    if (connection_.closing() || local.is_begun()) return;
    if (connection_.usable()) return connection_.in_turn([this] { open_data_lanes(1); });
    // We have offered to end it, and it may go on.
    const uint64_t pause = std::max(pause_, kBackoffFirstNs);  // there was none before a local path
    connection_.shard.loop.arm(reopen_, connection_.shard.now() + pause);
}

}  // namespace xfer
