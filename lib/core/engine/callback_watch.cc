// SPDX-License-Identifier: Apache-2.0
#include "core/engine/callback_watch.h"

#include <time.h>

#include <algorithm>

#include "core/base/limits.h"

namespace xfer {

uint64_t CallbackWatch::now() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void CallbackWatch::begin(uint32_t kind, uint64_t turn) {
    began_.store(std::max(turn, last_end_), std::memory_order_relaxed);
    running_.store(kind, std::memory_order_relaxed);
}

uint64_t CallbackWatch::end() {
    last_end_ = now();
    running_.store(0, std::memory_order_relaxed);
    const uint64_t began = began_.load(std::memory_order_relaxed);
    const uint64_t took = last_end_ > began ? last_end_ - began : 0;
    const bool slow = took >= kSlowCallbackNs;
    const bool first = slow && !was_slow_;
    was_slow_ = slow;
    if (!slow) return 0;
    slow_.fetch_add(1, std::memory_order_relaxed);
    longest_.store(std::max(took, longest_.load(std::memory_order_relaxed)),
                   std::memory_order_relaxed);
    return first ? took : 0;
}

CallbackWatch::State CallbackWatch::state() const {
    State state;
    state.slow = slow_.load(std::memory_order_relaxed);
    state.longest_ns = longest_.load(std::memory_order_relaxed);
    state.running = running_.load(std::memory_order_relaxed);
    const uint64_t now = CallbackWatch::now(), began = began_.load(std::memory_order_relaxed);
    if (state.running && now > began) state.running_ns = now - began;
    return state;
}

}  // namespace xfer
