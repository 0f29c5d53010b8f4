// SPDX-License-Identifier: Apache-2.0
#include "core/connection/path_selector.h"

#include <tuple>

#include "core/base/limits.h"

namespace xfer {

namespace {

bool moves(const PathView &path, const PathRequest &request) {
    const uint32_t needed = memory_bit(request.local) | memory_bit(request.remote);
    return path.fabric_here == path.fabric_there && (path.memory & needed) == needed;
}

bool better(const PathView &a, const PathView &b, bool small) {
    const auto score = [small](const PathView &path) {
        return std::tuple(path.scope, path.control != small, path.full, path.waiting);
    };
    return score(a) < score(b);
}

}  // namespace

Choice choose(std::span<const PathView> paths, const PathRequest &request) {
    const bool small = request.bytes <= kSmall;
    const PathView *best = nullptr;
    bool more = false;  // are on their way
    for (const PathView &path : paths) {
        if (path.health == PathView::Health::down || !moves(path, request)) continue;
        if (path.health == PathView::Health::opening)
            more = true;
        else if (!best || better(path, *best, small))
            best = &path;
    }
    if (!best) return {};
    const bool in_the_way = !small && best->control && best->scope == Scope::network;
    return {static_cast<size_t>(best - paths.data()), in_the_way && !more};
}

}  // namespace xfer
