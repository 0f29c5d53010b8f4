// SPDX-License-Identifier: Apache-2.0
#include "core/connection/path_selector.h"

#include <tuple>

#include "core/base/limits.h"

namespace xfer {

namespace {

bool moves(const Path &path, const PathRequest &errand) {
    const uint32_t needed = memory_bit(errand.local) | memory_bit(errand.remote);
    return path.fabric_here == path.fabric_there && (path.memory & needed) == needed;
}

bool better(const Path &a, const Path &b, bool small) {
    const auto score = [small](const Path &path) {
        return std::tuple(path.distance, path.control != small, path.waiting);
    };
    return score(a) < score(b);
}

}  // namespace

Choice choose(std::span<const Path> paths, const PathRequest &errand) {
    const bool small = errand.bytes <= kSmall;
    const Path *best = nullptr;
    bool more = false;  // are on their way
    for (const Path &path : paths) {
        if (path.health == Path::Health::down || !moves(path, errand)) continue;
        if (path.health == Path::Health::opening)
            more = true;
        else if (!best || better(path, *best, small))
            best = &path;
    }
    if (!best) return {};
    const bool in_the_way = !small && best->control && best->distance == Scope::network;
    return {static_cast<size_t>(best - paths.data()), in_the_way && !more};
}

}  // namespace xfer
