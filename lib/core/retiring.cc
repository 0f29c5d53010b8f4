// SPDX-License-Identifier: Apache-2.0
// Memory that a connection must let go of: regions that end, and messages that were pulled. What is
// on its way out of it leaves first.
#include "core/connection.h"
#include "core/peer.h"
#include "core/shard.h"

namespace xfer {

uint32_t Connection::lanes_that_send(uint64_t id, Status why) {
    uint32_t lanes = 0;
    for (auto &lane : lanes_)
        if (lane->state == Lane::State::ready && !lane->link->retire(id, why)) ++lanes;
    return lanes;
}

void Connection::wait_quiet(uint64_t id, Retiring what) {
    retiring_.emplace(id, std::move(what));
    if (!limit_.armed()) shard.loop.arm(limit_, shard.now() + kRetireNs);
}

void Connection::retire(Region &region) {
    const Status why = region.is_grant() ? XFER_EREVOKED : XFER_ESTALE;
    const uint32_t lanes = lanes_that_send(region.id, why);
    serving.removed(region);
    if (!lanes) return;
    region.users.fetch_add(1);
    wait_quiet(region.id, {Ref(region), nullptr, lanes});
}

// A chunk that is half received: the next one is refused with its first byte.
void Connection::discard(uint64_t notification) {
    for (auto &lane : lanes_)
        if (lane->state == Lane::State::ready) lane->link->discard(notification);
}

bool Connection::retire(Transfer &send) {
    const uint64_t id = kMessageBit | send.letter.number;
    const uint32_t lanes = lanes_that_send(id, XFER_ESTALE);
    if (lanes) wait_quiet(id, {{}, &send, lanes});
    return lanes == 0;
}

void Connection::on_quiet(uint64_t id) {
    auto at = retiring_.find(id);
    if (at == retiring_.end() || --at->second.lanes) return;
    const Retiring held = std::move(at->second);
    retiring_.erase(at);
    if (retiring_.empty() && !probing_) shard.loop.disarm(limit_);
    if (held.region) return shard.region_quiet(*held.region);
    peer->flow.sending.quiet(*held.send);
}

}  // namespace xfer
