// SPDX-License-Identifier: Apache-2.0
#include "core/peer/request.h"

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/peer/peer.h"

namespace xfer {

Request::Request(Endpoint &endpoint, uint32_t type, uint64_t user, uint32_t timeout)
    : ep(endpoint), timeout_ms(timeout), cover_(endpoint.engine.cancel_requests()) {
    event.kind = type;
    event.user = user;
    event.ep = reinterpret_cast<xfer_ep_t *>(&endpoint);
}

void Request::arrive(ShardCore &shard) {
    shard.submit(*this);
}

void Request::cancel() {
    peer->requests.finish(*this, XFER_ECANCELED);
}

uint64_t Request::limit() const {
    if (deadline != kNever || (wait && on)) return deadline;
    return stalls_since + ep->engine.options().stall_ms * kNsPerMs;
}

void Request::arm() {
    if (const uint64_t due = limit(); due != kNever) peer->shard.loop.arm(timer, due);
}

void Request::on_timer(Timer &) {
    if (peer->shard.now() < limit()) return arm();
    peer->requests.finish(*this, XFER_ETIMEDOUT);
}

}  // namespace xfer
