// SPDX-License-Identifier: Apache-2.0
// Which of a connection's paths carries a piece of work. Pure: it is told what the paths are like,
// and asks nobody. tests/unit/path_selector_test.cc has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/path.h"
#include "xfer/xfer.h"

namespace xfer {

constexpr uint32_t memory_bit(uint32_t kind) {
    return 1u << kind;
}

struct PathView {
    enum class Health : uint8_t { opening, ready, down };
    Scope scope = Scope::network;
    Health health = Health::ready;
    bool control = false;  // frames go by it too, and wait behind what it carries
    uint64_t waiting = 0;  // bytes that are posted and not answered
    uint32_t memory = memory_bit(XFER_MEM_HOST);  // the kinds that it moves
    // The fabrics that its ends are attached to: those that differ do not reach each other. 0: all
    // that routers connect.
    uint64_t fabric_here = 0, fabric_there = 0;
    bool full = false;  // it takes no more until some of that is answered
};

struct PathRequest {
    uint64_t bytes = 0;
    uint32_t local = XFER_MEM_HOST, remote = XFER_MEM_HOST;  // kinds of memory
};

struct Choice {
    std::optional<size_t> path;  // none that is ready moves such memory
    bool open_lanes = false;     // it would keep frames waiting, and nothing better is on its way
};

// The nearest that moves such memory, be it full; of several, work of up to kSmall bytes takes the
// one that frames take, where nothing long is ahead of it, and all else one that has room, with the
// least to do, of those that frames do not.
Choice choose(std::span<const PathView> paths, const PathRequest &request);

}  // namespace xfer
