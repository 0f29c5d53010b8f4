// SPDX-License-Identifier: Apache-2.0
// How memory is taken back from a neighbour that copies without asking. A slot, written by the
// owner, holds the stamp of a region while it may be reached; a claim, written by the neighbour,
// holds the stamp of what it copies.
//
// The neighbour claims, then looks at the slot; the owner clears the slot, then looks at the claim.
// All four accesses are sequentially consistent, so that in their total order one of the two sees
// the other: either the neighbour finds the slot cleared and copies nothing, or the owner finds the
// claim and waits until it is another. Stamps count up and never return, so that what was cleared
// stays so. (tests/unit/ring_test.cc goes through all interleavings, with stores that are delayed.)
#pragma once

#include <cstdint>

namespace xfer::shm {

// The neighbour. False: the region has ended, there is nothing to copy. Either way it leaves.
template <typename Word>
bool enter(Word &claim, Word &slot, uint64_t stamp) {
    claim.store(stamp);
    return slot.load() == stamp;
}
template <typename Word>
void leave(Word &claim) {
    claim.store(0);
}

// The owner. True: the neighbour copies still.
template <typename Word>
bool end(Word &slot, Word &claim, uint64_t stamp) {
    slot.store(0);
    return claim.load() == stamp;
}

}  // namespace xfer::shm
