// SPDX-License-Identifier: Apache-2.0
// Memory that a connection must let go of: regions that end, and messages that were pulled. What is
// on its way out of it leaves first. Nothing here needs memory: a region waits by a node of its own
// (core/region/shard_regions.h), a message by a count, and a lane says on_quiesced for each before
// its own end.
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/peer/peer.h"
#include "core/region/shard_regions.h"
#include "core/transfer/flow.h"

namespace xfer {

uint32_t Connection::lanes_that_send(Target target, Status why) {
    const uint32_t count = lanes.retire(target, why);
    quiet_awaited_ += count;
    if (count) shard.heartbeat.arm();
    if (count && !quiet_limit_.armed()) shard.loop.arm(quiet_limit_, shard.now() + kRetireNs);
    return count;
}

void Connection::retire(Region &region) {
    const Status why = region.is_grant() ? XFER_EREVOKED : XFER_ESTALE;
    if (const uint32_t count = lanes_that_send(RegionId{region.id}, why))
        shard.regions.wait_quiet(region, count);
    target_side.removed(region);
}

// A chunk that is half received: the next one is refused with its first byte.
void Connection::discard(NotificationId notification) {
    lanes.discard(notification);
}

uint32_t Connection::retire(MessageId message) {
    return lanes_that_send(message, XFER_ESTALE);
}

void Connection::on_quiesced(Target target) {
    if (--quiet_awaited_ == 0) shard.loop.disarm(quiet_limit_);
    if (const auto message = target.message()) return peer->flow.messages.quiet(*this, *message);
    shard.regions.on_quiesced(*target.region());
}

}  // namespace xfer
