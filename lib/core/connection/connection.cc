// SPDX-License-Identifier: Apache-2.0
#include "core/connection/connection.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/request_staging.h"
#include "wire/short_name.h"

namespace xfer {

namespace {

constexpr uint64_t kProbeSeq = uint64_t{1} << 63;  // of probes; users' pings count from 1

// Of the user's; what merely keeps the connection, or answers the peer, is not.
bool is_work(FrameType type) {
    return type == FrameType::notify || type == FrameType::message || type == FrameType::cancel;
}

}  // namespace

Connection::Connection(ShardCore &owner, ConnectionSink &above, const ConnectionRooms &rooms,
                       Side initiator, uint64_t local_number, uint64_t count)
    : ConnectionRooms(rooms),
      shard(owner),
      sink(above),
      side(initiator),
      number(local_number),
      sequence(count),
      handshake(owner.engine.self(), initiator, count),
      handshake_limit_(*this),
      probe_limit_(*this),
      quiet_limit_(*this) {
    const uint64_t patience =
        side == Side::ours ? shard.engine.options().connect_ms * kNsPerMs : kStrangerNs;
    shard.loop.arm(handshake_limit_, shard.now() + patience);
}

Connection::~Connection() {
    disarm_timers();
}

void Connection::disarm_timers() {
    for (Timer *timer : {&handshake_limit_, &probe_limit_, &quiet_limit_})
        shard.loop.disarm(*timer);
    keepalive.stop();
    attached.disarm();
    attached_lane.disarm();
}

Status Connection::dial(const Uri &address) {
    uri = to_string(address);
    Transport *transport = shard.transport_for(address);
    if (!transport) return XFER_EUNSUPPORTED;
    auto channel = transport->connect(address, control());
    if (!channel) {
        why = channel.error();
        return why.status;
    }
    control().channel = std::move(*channel);
    return XFER_OK;
}

// The peer answers at once.
void Connection::say(ConstBytes words) {
    control().channel->send_hello(words);
    shard.loop.expect(shard.now() + kWordsNs);
}

void Connection::send_hello(const Statement &statement) {
    say(handshake.hello(statement));
}

void Connection::send_proof(const Statement &statement, std::vector<Question> questions) {
    say(handshake.proof(statement, std::move(questions)));
    apply({.kind = ConnectionInput::proved});
}

void Connection::send_ready(const Statement &statement) {
    say(handshake.ready(statement));
}

void Connection::begin() {
    shard.loop.disarm(handshake_limit_);
    live_since_ = shard.now();
    live_by_ = shard.loop.clock();
    touch();
    control().open();
    if (shard.engine.options().lanes != XFER_NONE) control().rail.window = kLaneWindow / 8;
    sink.on_live();
}

void Connection::on_up(Lane &lane) {
    if (closing()) return;
    if (lane.number == 0) {
        lane.state = Lane::State::joining;
        return sink.on_up();
    }
    lane.state = Lane::State::joining;
    if (lane.limit != kNever) lane.set_limit(keepalive.lets_in_by());
    lane.channel->send_hello(handshake.lane(lane.number, lane.generation));
}

void Connection::on_hello(Lane &lane, ConstBytes raw) {
    if (closing()) return;
    auto message = decode_hello(raw);
    if (!message) return refuse(message.error());
    hear(lane, *message, raw);
}

void Connection::hear(Lane &lane, const Hello &message, ConstBytes raw) {
    if (message.kind == HelloKind::refuse) {
        const Status status = message.status < 0 ? message.status : XFER_EPROTO;
        if (lane.number != 0)
            return lane.channel->close({status, XFER_ORIGIN_PEER, 0, "the peer refused the lane"});
        retry_ns_ = std::min(message.retry_ms * kNsPerMs, kBusyMostNs);
        std::string why = "the peer refused the connection";
        if (status == XFER_EAUTH) why.append(": ").append(handshake.why_unproved(message));
        return close({status, XFER_ORIGIN_PEER, status, why});
    }
    if (lane.number != 0) {
        if (message.kind != HelloKind::lane_ready || lane.state != Lane::State::joining)
            return close({XFER_EPROTO, 0, 0, "unexpected words on a joining lane"});
        return lanes.joined(lane);
    }
    if (!peer) return hear_half_open(message, raw);
    const Status status = handshake.hear(message, raw);
    if (status == XFER_EAUTH) return refuse(status, handshake.why_unproved(message));
    if (status != XFER_OK) return refuse(status);
    switch (message.kind) {
    case HelloKind::reply:
        return sink.on_reply(message, raw);
    case HelloKind::ready:
        if (!state_.proved) return refuse(XFER_EPROTO);  // it answers a proof
        sink.on_ready(message);
        if (!live() && !closing()) await_turn();
        return;
    default:
        return refuse(XFER_EPROTO);
    }
}

// The peer has taken it and may say frames at once: they wait for the end of the connection in
// whose place this one comes.
void Connection::await_turn() {
    shard.loop.disarm(handshake_limit_);
    control().start();
}

// On a channel that was accepted: a new connection, or a lane of one that lives. Until it has
// proved itself it is answered from its own words and ours alone: nothing is looked up, kept or
// counted for the id that it claims, and the reply's statement is empty.
void Connection::hear_half_open(const Hello &message, ConstBytes raw) {
    if (candidate) return refuse(XFER_EPROTO);
    if (message.kind == HelloKind::lane && handshake.heard().empty())
        return sink.on_lane(message, raw);
    const Status status = handshake.hear(message, raw);
    if (status == XFER_EAUTH) return refuse(status, handshake.why_unproved(message));
    if (status != XFER_OK) return refuse(status);
    if (message.kind == HelloKind::proof) return sink.on_proof(message, raw);
    const Identity &claimed = message.identity;
    const EngineCore::Name &own = shard.engine.identity();
    if (claimed.id == own.id && claimed.incarnation != own.incarnation)
        return refuse(XFER_EIDENTITY);
    sequence = claimed.sequence;
    replied_at = shard.now();
    say(handshake.reply({}));  // if it is us, the dialing side learns it from this
}

// The limit of who dials, if it is the same, began earlier: the refusal shall come before that.
void Connection::wait_for_verdict(Peer &visited, const Statement &statement) {
    candidate = &visited;
    proved = statement;
    sink.leave_half_open();
    const uint64_t patience = shard.engine.options().connect_ms * kNsPerMs;
    shard.loop.arm(handshake_limit_, shard.now() + patience - patience / 4);
}

void Connection::hurry() {
    if (side != Side::ours || state_.proved || closing() || !handshake_limit_.armed()) return;
    shard.loop.arm(handshake_limit_, std::min(handshake_limit_.due, shard.now() + kHurryNs));
}

void Connection::refuse(Status status, std::string_view words) {
    if (words.empty()) words = xfer_status_text(status);
    refuse({status, 0, 0, std::string("handshake: ").append(words)});
}

void Connection::refuse(const Failure &why) {
    if (closing()) return;
    if (side == Side::theirs && !live()) {
        Hello message;
        message.kind = HelloKind::refuse;
        message.status = why.status;
        message.retry_ms = why.status == XFER_EOVERLOAD ? kBusyMs : 0;
        control().channel->send_hello(encode_hello(message));
    }
    close(why);
}

void Connection::close(const Failure &reason) {
    apply({.kind = ConnectionInput::close}, reason);
}

void Connection::close_lanes(const Failure &reason, Status bye) {
    sink.leave_half_open();
    why = reason;
    Frame frame;
    frame.type = FrameType::bye;
    frame.status = bye;
    const bool said = !bye || catch_bad_alloc([&] { lanes.control().channel->send(frame, {}); });
    static_cast<void>(said);      // its end says enough
    attached_lane.close(reason);  // by signals it may have last words on the first lane
    lanes.close(reason);
    attached.close(reason);
    finish();
}

void Connection::on_lane_down(Lane &lane, const Failure &reason) {
    if (!closing() && lanes.survives(lane, reason)) return;
    lane.state = Lane::State::down;
    if (closing() && lane.number == kAttachedLane) lanes.close(why);
    close(reason);
    finish();
}

void Connection::finish() {
    if (staged == 0 && lanes.all_closed() && attached.is_closed())
        apply({.kind = ConnectionInput::lanes_down});
}

void Connection::end() {
    disarm_timers();
    shard.loop.defer(*this);
}

// Deferred: more credit, the last copy was taken back, or the end of it all.
void Connection::run() {
    lanes.give_back();
    attached.give_back();
    if (state_.phase == ConnectionState::Phase::ended) return sink.on_ended();
    if (closing()) finish();
    if (usable())
        sink.pump();
    else if (!closing())
        flush();  // what was staged
    leave_when_quiet();
}

void Connection::pump_soon() {
    if (sink.waiting() || awaits_quiet(state_)) shard.loop.defer(*this);
}

// A turn fires timers before it reads: what came in time is heard first.
void Connection::end_probe() {
    if (!std::exchange(probe_over_, true))
        return shard.loop.arm(probe_limit_, shard.now() + kNsPerMs);
    apply({.kind = ConnectionInput::probe_timeout},
          {XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT, "an old connection did not answer"});
}

void Connection::on_timer(Timer &timer) {
    if (&timer == &probe_limit_) return end_probe();
    if (&timer == &quiet_limit_)
        return close(
            {XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT, "a reader of a closed region stalls"});
    if (candidate) return refuse(XFER_ETIMEDOUT, "the application did not decide in time");
    if (side == Side::ours && control().state == Lane::State::dialing)
        return close({XFER_EUNREACHABLE, XFER_ORIGIN_OS, ETIMEDOUT,
                      "no answer to the connection attempt (SYN)"});
    close({XFER_EUNREACHABLE, 0, 0, "the handshake did not end in time"});
}

// ---- the state machine

void Connection::apply(ConnectionInput input, const Failure &reason) {
    input.status = reason.status;
    const auto [state, outputs] = step(state_, input);
    state_ = state;
    for (const ConnectionOutput &output : outputs)
        perform(output, reason);
}

// What is ordered may end the connection before all of it is done: what follows then says nothing.
void Connection::perform(const ConnectionOutput &output, const Failure &reason) {
    switch (output.kind) {
    case ConnectionOutput::begin:
        return begin();
    case ConnectionOutput::send_offer:
        return send_word(FrameType::bye, XFER_EAGAIN);
    case ConnectionOutput::send_denial:
        return send_word(FrameType::bye, XFER_EBUSY);
    case ConnectionOutput::send_drain:
        return send_word(FrameType::drain);
    case ConnectionOutput::send_done:
        return send_word(FrameType::drain, XFER_OK, 1);
    case ConnectionOutput::send_ping:
        return send_word(FrameType::ping, XFER_OK, kProbeSeq | ++probes_);
    case ConnectionOutput::arm_offer:
        return keepalive.await_answer(output.until);
    case ConnectionOutput::disarm_offer:
        return keepalive.stop();
    case ConnectionOutput::arm_probe:
        probe_over_ = false;
        shard.heartbeat.arm();
        return shard.loop.arm(probe_limit_, output.until);
    case ConnectionOutput::disarm_probe:
        return shard.loop.disarm(probe_limit_);
    case ConnectionOutput::count_offer:
        return sink.count_idle_offer(true);
    case ConnectionOutput::uncount_offer:
        return sink.count_idle_offer(false);
    case ConnectionOutput::resume:
        return resume();
    case ConnectionOutput::drain:
        return drain();
    case ConnectionOutput::put_off:
        return sink.put_off();
    case ConnectionOutput::answered:
        return sink.on_answered();
    case ConnectionOutput::close:
        return close_lanes(reason, output.status);
    case ConnectionOutput::end:
        return end();
    }
}

void Connection::send_word(FrameType type, Status status, uint64_t seq) {
    Frame frame;
    frame.type = type;
    frame.status = status;
    frame.seq = seq;
    send(frame);
}

// ---- live

void Connection::touch() {
    keepalive.count_use(shard.now());
    shard.heartbeat.arm();
    sink.on_use();
}

void Connection::flush() {
    const bool by_lanes = lanes.flush();
    if (attached.flush() || by_lanes) touch();
}

bool Connection::send(const Frame &frame, ConstBytes body) {
    if (is_work(frame.type) && !closing()) touch();
    return send_by(lanes.control(), frame, body);
}

bool Connection::send_by(Lane &lane, const Frame &frame, ConstBytes body) {
    if (closing()) return false;
    bool taken = false;
    in_turn([&] { taken = lane.channel->send(frame, body); });
    if (!taken)
        close({XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT,
               "the peer does not read its control channel"});
    lane.frames.add(body.size());
    return taken;
}

// Nothing here needs memory: a region waits by a node of its own (core/region/shard_regions.h), a
// message by a count, and a lane says on_quiesced for each before its own end. A copy that goes on
// is no reader that stalls.
uint32_t Connection::retire(Target target, Status why) {
    const uint32_t count = lanes.retire(target, why) + attached.retire(target, why);
    quiet_awaited_ += count;
    if (count) shard.heartbeat.arm();
    if (count && !quiet_limit_.armed()) shard.loop.arm(quiet_limit_, shard.now() + kRetireNs);
    return count + shard.request_staging.retire(*this, target);
}

void Connection::on_quiesced(Target target) {
    if (--quiet_awaited_ == 0) shard.loop.disarm(quiet_limit_);
    sink.on_quiesced(target);
}

// A peer that sends control frames elsewhere broke the protocol.
void Connection::on_control(Lane &lane, const Frame &frame, ConstBytes body) {
    const bool beside_puts = frame.type == FrameType::notify && frame.flags & kCounted;
    const bool of_lane = frame.type == FrameType::path_signal && frame.region == kAttachedLane;
    if (closing() && !(of_lane && lane.number == 0 && !attached_lane.is_closed())) return;
    const bool here = of_lane ? lane.number == 0 : lanes.hears_control_on(lane);
    if (!beside_puts && !here) return close({XFER_EPROTO, 0, 0, "a control frame on a data lane"});
    switch (frame.type) {
    case FrameType::ping: {
        Frame pong;
        pong.type = FrameType::pong;
        pong.seq = frame.seq;
        send(pong);
        return;
    }
    case FrameType::pong:
        if (frame.seq == (kProbeSeq | probes_)) apply({.kind = ConnectionInput::pong});
        return sink.on_frame(frame, body);
    case FrameType::lanes:
        return frame.flags & kAttachedPathFlag ? attached.on_asked(frame) : lanes.asked(frame);
    case FrameType::path_signal:
        return of_lane ? attached_lane.on_signal(frame, body) : attached.on_signal(frame, body);
    case FrameType::control_switch:
        return lanes.on_control_switch(lane);
    case FrameType::lane_closed:
        return lanes.on_lane_closed(frame);
    case FrameType::request_export:
    case FrameType::exported:
    case FrameType::withdraw:
    case FrameType::withdrawn:
        return lanes.on_export(frame, body);
    case FrameType::drain:
        return on_drain(frame);
    case FrameType::bye:
        return on_leave(frame);
    default:
        return sink.on_frame(frame, body);
    }
}

}  // namespace xfer
