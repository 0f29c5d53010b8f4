// SPDX-License-Identifier: Apache-2.0
// How memory is taken back from a neighbour that copies without asking: a hazard pointer (Michael,
// 2004), with stamps in place of addresses. A slot, written by the owner, holds the stamp of a
// region while it may be reached; the hazard, written by the neighbour, holds the stamp of what it
// copies.
//
// The neighbour publishes its hazard, then looks at the slot; the owner clears the slot, then looks
// at the hazard. All four accesses are sequentially consistent, so that in their total order one of
// the two sees the other: either the neighbour finds the slot cleared and copies nothing, or the
// owner finds the hazard and waits until it is another. Stamps count up and never return, so that
// what was cleared stays so. (tests/unit/ring_test.cc goes through all interleavings, with stores
// that are delayed.)
#pragma once

#include <atomic>
#include <cstdint>

namespace xfer::shm {

// The neighbour. False: the region has ended, there is nothing to copy. Either way it clears.
template <typename Word>
bool publish(Word &hazard, Word &slot, uint64_t stamp) {
    hazard.store(stamp);
    return slot.load() == stamp;
}
template <typename Word>
void clear(Word &hazard) {
    hazard.store(0, std::memory_order_release);
}

// The owner. True: the neighbour copies still.
template <typename Word>
bool retire(Word &slot, Word &hazard, uint64_t stamp) {
    slot.store(0);
    return hazard.load() == stamp;
}

}  // namespace xfer::shm
