// SPDX-License-Identifier: Apache-2.0
#include "core/connection/lane.h"

#include <algorithm>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"

namespace xfer {

// One that has ended is dialed again in its place. What lacks memory for it ends the attempt, not
// the connection.
void Lane::dial(Transport &transport, const Uri &address) {
    Result<std::unique_ptr<Channel>> made = no_memory();
    [[maybe_unused]] const bool tried =
        catch_bad_alloc([&] { made = transport.connect(address, *this); });
    if (channel) ++generation;
    ready_since = 0;
    if (!made) {
        state = State::down;
        why = made.error();
        return;
    }
    channel = std::move(*made);
    state = State::dialing;
    set_limit(connection.shard.now() + connection.shard.engine.options().connect_ms * kNsPerMs);
}

void Lane::adopt(std::unique_ptr<Channel> made) {
    channel = std::move(made);
    channel->set_sink(*this);
    state = State::dialing;
    limit = kNever;
}

void Lane::start() {
    rail.window = number == kLocalLane ? kLocalWindow : kLaneWindow;
    if (number == kAttachedLane) rail.window = kLaneWindow / 8;
    const uint32_t max_ops = std::min(connection.handshake.peer_terms().max_ops, kLaneOps);
    channel->start(rail, max_ops, kLaneOps);
    rail.start(channel->path());
    if (OneSidedPath *path = channel->one_sided()) {
        one_sided.window = kLocalWindow;
        one_sided.start(*path, max_ops);
    }
}

bool Lane::flush() {
    const bool flushed = rail.unflushed || one_sided.unflushed;
    if (rail.unflushed) rail.flush();
    if (one_sided.unflushed) one_sided.flush();
    return flushed;
}

void Lane::give_back() {
    one_sided.repost();
    rail.give_back();
    one_sided.give_back();
    if (rail.path && !one_sided.path) one_sided.settle();  // it has ended alone
    const bool may_end = number != kAttachedLane && state == State::ready;
    if (rail.path && may_end && rail.takes_none())
        channel->close({XFER_EPEERLOST, XFER_ORIGIN_NONE, 0, "a lane that takes no operations"});
}

void Lane::settle() {
    one_sided.repost();
    rail.settle();
    one_sided.settle();
}

uint32_t Lane::retire(Target target, Status why) {
    const bool served = rail.path && !rail.path->retire(target, why);
    return served + !one_sided.retire(target, why);
}

void Lane::open() {
    state = State::ready;
    ready_since = connection.shard.now();
    reported = false;
    if (!rail.path) start();
    channel->resume();
}

void Lane::on_up() {
    connection.in_turn([&] { connection.on_up(*this); });
}

void Lane::on_hello(ConstBytes message) {
    connection.in_turn([&] { connection.on_hello(*this, message); });
}

void Lane::on_control(const Frame &frame, ConstBytes body) {
    connection.in_turn([&] { connection.on_control(*this, frame, body); });
}

void Lane::on_closed(const Failure &why) {
    connection.on_lane_down(*this, why);
}

}  // namespace xfer
