// SPDX-License-Identifier: Apache-2.0
#include "core/base/shard_core.h"

#include "core/base/limits.h"

namespace xfer {

ShardCore::ShardCore(EngineCore &owner, Loop &own_loop, uint32_t number, const Rooms &rooms)
    : engine(owner),
      loop(own_loop),
      index(number),
      regions(rooms.regions),
      messages(rooms.messages),
      connections(rooms.connections),
      peers(rooms.peers),
      inbound(rooms.inbound),
      limit(rooms.limit),
      migration(rooms.migration) {
    scratch.reserve(kMaxPieces);
}

}  // namespace xfer
