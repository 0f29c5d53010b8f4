// SPDX-License-Identifier: Apache-2.0
#include "core/connection/lane.h"

#include <algorithm>
#include <utility>

#include "core/connection/connection.h"
#include "core/engine/shard.h"
#include "util/memory.h"

namespace xfer {

// One that has ended is dialed again in its place. What lacks memory for it ends the attempt, not
// the connection.
void Lane::dial(Transport &transport, const Uri &address) {
    Result<std::unique_ptr<Channel>> made = no_memory();
    const bool tried = catch_bad_alloc([&] { made = transport.connect(address, *this); });
    static_cast<void>(tried);  // it says the same
    if (channel) ++generation;
    ready_since = 0;
    if (!made) {
        state = State::down;
        why = made.error();
        return;
    }
    channel = std::move(*made);
    state = State::dialing;
}

void Lane::adopt(std::unique_ptr<Channel> made) {
    channel = std::move(made);
    channel->set_sink(*this);
    state = State::dialing;
}

void Lane::start() {
    rail.window = number == kLocalLane ? kLocalWindow : kLaneWindow;
    channel->start(rail, std::min(connection.handshake.peer_terms().max_ops, kLaneOps), kLaneOps);
    rail.start(channel->path());
}

void Lane::open() {
    state = State::ready;
    ready_since = connection.shard.now();
    reported = false;
    start();
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
