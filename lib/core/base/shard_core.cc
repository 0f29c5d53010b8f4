// SPDX-License-Identifier: Apache-2.0
#include "core/base/shard_core.h"

#include "core/base/limits.h"

namespace xfer {

ShardCore::ShardCore(EngineCore &owner, Loop &own_loop, uint32_t number, const ShardRooms &rooms)
    : ShardRooms(rooms), engine(owner), loop(own_loop), index(number) {
    scratch.reserve(kMaxPieces);
}

}  // namespace xfer
