// SPDX-License-Identifier: Apache-2.0
#include "core/message/receive.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/message/message_receiver.h"
#include "core/message/receive_queue.h"
#include "core/transfer/flow.h"

namespace xfer {

void Receive::arrive(ShardCore &shard) {
    if (over)
        shard.finish(*this);
    else if (connection)
        shard.messages.pull(*this);
    else
        engine->receive_queue().post(*this);
}

void Receive::on_timer(Timer &timer) {
    if (flow) return Transfer::on_timer(timer);
    engine->receive_queue().end(*this, XFER_ETIMEDOUT);
}

void Receive::cancel() {
    if (flow) return Transfer::cancel();
    engine->receive_queue().end(*this, XFER_ECANCELED);
}

void Receive::match(const Arrival &arrival) {
    connection = arrival.connection;
    number = arrival.number;
    length = arrival.length;
    checked = arrival.checked;
    source_ = arrival.source;
    std::copy(arrival.from.begin(), arrival.from.end(), sender_.bytes);
    sender_.incarnation = arrival.incarnation;
    event.tag = arrival.tag;
    event.data = &sender_;
    event.data_length = sizeof sender_;
    if (event.ep || !source_ || source_->closed.load()) return;
    const bool here = source_->of_user.load() || source_->state.load() == XFER_EP_READY;
    if (!here) return;  // its handle goes with its PEER_DOWN
    event.ep = reinterpret_cast<xfer_ep_t *>(source_.get());
}

void Receive::make_room() {
    if (!takes) return;
    taken_.reset(new uint8_t[sizeof sender_ + std::min(length, capacity)]);
    buffer = taken_.get() + sizeof sender_;
}

void Receive::report_taken() {
    if (!taken_ || (event.status != XFER_OK && event.status != XFER_ETRUNC)) return;
    std::memcpy(taken_.get(), &sender_, sizeof sender_);
    event.data = taken_.get();
    event.data_length = sizeof sender_ + std::min(length, capacity);
}

bool Receive::still_valid() {
    // Another loop may have told its CLOSED meanwhile.
    const bool over = source_ && (source_->gone() || source_->state.load() == XFER_EP_CLOSED);
    if (!named && over) event.ep = nullptr;
    const Endpoint *from = named ? named.get() : source_.get();
    if (from && connection) event.index = from->user.load();
    return true;
}

bool Receive::stays() {
    Transfer::stays();
    return true;
}

void Receive::connection_lost(Connection &lost) {
    end_lost(lost.why);
}

void Receive::ended() {
    Connection *live = flow->connection();
    if (live && live->number == connection && is_open(live->state()))
        live->message_receiver.completed(number, status);
    Transfer::ended();
    event.bytes = length;
    event.status = truncated(event.status);
    report_taken();
}

void Receive::end(ShardCore &shard, Status why) {
    event.status = why;
    event.flags = XFER_FENCED;
    event.bytes = length;
    report_taken();
    const uint64_t bytes = std::min(length, capacity);
    shard.counters[OpKind::recv].end(why, bytes, shard.now() - started);
    const Ref<Endpoint> ep_named = named;
    shard.outbox.post(*this);
    if (!ep_named) return;
    // Its endpoint's CLOSED, told by another loop, must not overtake this. Of the first loop it
    // asks before.
    const bool away = shard.index && ep_named->shard.load() != &shard;
    if (away || ep_named->ended.load()) shard.outbox.hand_over();
    ep_named->receives.fetch_sub(1);
}

void Receive::leave() {
    if (std::exchange(counted, false)) engine->receive_queue().ended();
}

std::array<Ref<Endpoint>, 3> Receive::clear() {
    reset();
    list.clear();
    from.reset();
    taken_.reset();
    connection = number = length = 0;
    place = {};
    leave();
    return {Ref<Endpoint>::adopt(std::exchange(ep, nullptr)), std::move(named), std::move(source_)};
}

}  // namespace xfer
