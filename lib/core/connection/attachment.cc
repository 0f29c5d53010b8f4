// SPDX-License-Identifier: Apache-2.0
#include "core/connection/attachment.h"

#include <algorithm>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"
#include "wire/short_name.h"

namespace xfer {

// Without a fabric there is never a use in trying, and who has something to move asks at each pump.
Attachment::Attachment(Connection &connection, uint32_t number, std::string_view kind)
    : connection_(connection),
      number_(number),
      rests_(!has_fabric(connection.shard)),
      kind_(kind) {}

Attachment::~Attachment() {
    disarm();
}

void Attachment::disarm() {
    connection_.shard.loop.disarm(reopen_);
    connection_.shard.loop.disarm(settled_limit_);
}

bool Attachment::has_fabric(const ShardCore &shard) {
    return std::any_of(shard.fabrics.begin(), shard.fabrics.end(),
                       [](const auto &fabric) { return fabric->is_there(); });
}

std::string_view Attachment::state() const {
    constexpr std::string_view kNames[] = {"none", "opening", "open", "ending"};
    return kNames[static_cast<size_t>(state_)];
}

// ---- attempts

Fabric *Attachment::shared_fabric() const {
    if (!connection_.handshake.agreed(kAttachedPaths)) return nullptr;
    const auto &theirs = connection_.handshake.peer_terms().transports;
    for (const auto &fabric : connection_.shard.fabrics)
        if (fabric->is_there() &&
            std::find(theirs.begin(), theirs.end(), fabric->name()) != theirs.end())
            return fabric.get();
    return nullptr;
}

bool Attachment::begin() {
    ++attempt_;
    why_ = start(*fabric_, true, {});
    if (is_closed()) open_again_later();
    return !is_closed();
}

// What lacks memory for it ends the attempt, not the connection.
Failure Attachment::start(Fabric &fabric, bool first, ConstBytes offer) {
    Failure why;
    if (!catch_bad_alloc([&] { why = make(fabric, first, offer); })) why = no_memory();
    ++failures_;
    if (why.status != XFER_OK) return why;
    fabric_ = &fabric;
    peer_closed_ = false;
    ready_since_ = 0;
    state_ = State::opening;
    return {};
}

// ---- signals

void Attachment::signal(ConstBytes message) {
    if (is_closed()) return;
    Frame frame;
    frame.type = FrameType::path_signal;
    frame.seq = attempt_;
    frame.region = number_;
    frame.generation = fabric_->number();
    frame.length = static_cast<uint32_t>(message.size());
    say(frame, message);
}

// What comes of an attempt that has ended here was sent before the peer heard of that.
void Attachment::on_signal(const Frame &frame, ConstBytes body) {
    const bool ours = connection_.side == Side::ours;
    if (!connection_.handshake.agreed(kAttachedPaths) || (ours && frame.seq > attempt_))
        return connection_.close({XFER_EPROTO, 0, 0, "a signal of a path that nobody has begun"});
    if (frame.seq > attempt_) {
        if (state_ != State::none)
            return connection_.close(
                {XFER_EPROTO, 0, 0, "a path is begun again before its end was told"});
        accept(frame, body);
    }
    if (frame.seq < attempt_) return;
    if (frame.status != XFER_OK) return on_peer_closed(frame);
    if (!is_closed()) connection_.in_turn([&] { hear(body); });
}

// Another attempt of the initiator's; it may end with its first word.
void Attachment::accept(const Frame &frame, ConstBytes offer) {
    attempt_ = frame.seq;
    why_ = {XFER_EUNSUPPORTED, 0, 0, "no fabric of ours has that number"};
    const auto &fabrics = connection_.shard.fabrics;
    const auto at = std::find_if(fabrics.begin(), fabrics.end(), [&](const auto &fabric) {
        return fabric->number() == frame.generation;
    });
    if (!connection_.usable())
        why_ = {XFER_EAGAIN, 0, 0, "the connection is about to end"};
    else if (frame.status != XFER_OK)
        why_ = {frame.status, XFER_ORIGIN_PEER, 0, "the peer's end failed at once"};
    else if (at != fabrics.end())
        why_ = start(**at, false, offer);
    if (!is_closed()) return;
    if (why_.status != XFER_EUNSUPPORTED) rests_ = false;  // it may be asked for again
    say_closed();
}

// ---- its end

void Attachment::close(const Failure &why) {
    disarm();
    rests_ = true;
    if (!is_closed()) end(why);
}

void Attachment::ended(const Failure &why) {
    why_ = why;
    state_ = State::fallen;
    if (connection_.closing()) return connection_.finish();
    say_closed();
    if (peer_closed_) return settle();
    if (ready_since_ == 0) return;  // nothing was posted: who says nothing costs only the attempt
    connection_.shard.loop.arm(settled_limit_,
                               connection_.shard.now() + connection_.keepalive.settles_after());
}

void Attachment::say_closed() {
    Frame frame;
    frame.type = FrameType::path_signal;
    frame.seq = attempt_;
    frame.region = number_;
    frame.status = why_.status == XFER_OK ? XFER_EPEERLOST : why_.status;
    say(frame, {});
}

void Attachment::on_peer_closed(const Frame &frame) {
    if (state_ == State::fallen) return settle();
    if (is_closed() || std::exchange(peer_closed_, true)) return;
    end({frame.status, XFER_ORIGIN_PEER, frame.status, "the peer's end has closed"});
}

// Nothing that was posted can land any more, here or there.
void Attachment::settle() {
    state_ = State::none;
    connection_.shard.loop.disarm(settled_limit_);
    const auto peer = short_name(connection_.handshake.peer().id);
    constexpr const char *kLine = "peer {}: {} {} by {} ended: {}";
    const bool is_news = ready_since_ || pause_ == 0;  // not one failed attempt after the other
    if (connection_.side == Side::ours && is_news)
        connection_.shard.log().warn(kLine, peer, kind_, number_, fabric_->name(), why_.message);
    else  // a peer could make as many of these lines as it likes
        connection_.shard.log().debug(kLine, peer, kind_, number_, fabric_->name(), why_.message);
    on_over();
    open_again_later();
    connection_.pump_soon();
}

// A peer that does not say that its end is closed is not trusted to have closed it. A loop that was
// kept from its work has not read what came meanwhile.
void Attachment::not_settled() {
    const uint64_t now = connection_.shard.now();
    if (now <= settled_limit_.due + kLastWordsNs / 4) return connection_.close(Failure(why_));
    connection_.shard.loop.arm(settled_limit_, now + kLastWordsNs);
}

// One that lasted counts as a success: the next pause is the first one again. A peer that has no
// such thing has none later.
void Attachment::open_again_later() {
    rests_ = true;
    if (why_.status == XFER_EUNSUPPORTED) return;
    if (connection_.side == Side::theirs) return void(rests_ = false);
    const bool lasted = ready_since_ && connection_.shard.now() >= ready_since_ + kLastingNs;
    pause_ = lasted ? kBackoffFirstNs : std::clamp(2 * pause_, kBackoffFirstNs, kBackoffLastNs);
    connection_.shard.loop.arm(reopen_, connection_.shard.now() + pause_);
}

void Attachment::on_timer(Timer &timer) {
    if (&timer == &settled_limit_) return not_settled();
    if (connection_.closing()) return;
    rests_ = false;
    try_again();
}

}  // namespace xfer
