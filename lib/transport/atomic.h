// SPDX-License-Identifier: Apache-2.0
// An atomic, done. Whoever does it, the owner's loop or a neighbour that has mapped the word, does
// it here: so all of them are one with each other, and with what the owner's own program does to
// the word by sequentially consistent atomics.
#pragma once

#include <atomic>

#include "wire/frame.h"

namespace xfer {

inline bool is_aligned(uint64_t address) {
    return address % kAtomicWidth == 0;
}

// Returns what was there. `word`: aligned, and memory.
inline uint64_t apply(const Atomic &atomic, void *word) {
    static_assert(std::atomic_ref<uint64_t>::is_always_lock_free &&
                      std::atomic_ref<uint64_t>::required_alignment == kAtomicWidth,
                  "a lock would be this process's own");
    const std::atomic_ref<uint64_t> at(*static_cast<uint64_t *>(word));
    if (atomic.op == AtomicOp::add) return at.fetch_add(atomic.operand);
    uint64_t before = atomic.compare;
    at.compare_exchange_strong(before, atomic.operand);
    return before;
}

}  // namespace xfer
