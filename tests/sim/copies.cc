// SPDX-License-Identifier: Apache-2.0
// What befalls copies between neighbours in a random scenario.
#include <random>

#include "scenario.h"
#include "sim_copy_path.h"

namespace xfer {

namespace {

// By dice of its own, so that those of the world fall as they did.
struct Trouble {
    explicit Trouble(uint64_t seed) : dice(seed * 0x9e3779b97f4a7c15 + 1) {
        for (uint64_t &one_in : often)
            if (dice() % 2) one_in = 2 + dice() % 200;
        if (dice() % 2) falls_one_in = 2 + dice() % 400;
    }
    bool chance(uint64_t one_in) { return one_in && dice() % one_in == 0; }
    CopyFate one_of(std::initializer_list<CopyFate> fates) {
        return fates.begin()[dice() % fates.size()];
    }
    CopyFate at(CopyStep step) {
        const bool moves = step <= CopyStep::finish;
        if (moves && chance(falls_one_in)) return CopyFate::fall;
        if (!chance(often[static_cast<size_t>(step)])) return CopyFate::go_on;
        switch (step) {
        case CopyStep::post:
            return one_of({CopyFate::decline, CopyFate::decline, CopyFate::refuse});
        case CopyStep::begin:
            return CopyFate::decline;
        case CopyStep::finish:
            return CopyFate::go_on;
        case CopyStep::cancel:
            return one_of({CopyFate::decline, CopyFate::busy});
        case CopyStep::exported:
            return one_of({CopyFate::refuse, CopyFate::fail, CopyFate::lack});
        case CopyStep::imported:
            break;
        }
        return one_of({CopyFate::refuse, CopyFate::lack});
    }
    std::mt19937_64 dice;
    uint64_t often[6] = {};  // one in so many; 0: never
    uint64_t falls_one_in = 0;
};

}  // namespace

void Scenario::trouble_copies() {
    net.copies = true;
    auto trouble = std::make_shared<Trouble>(world.seed());
    if (trouble->dice() % 2) net.copy_ns_max = 5 * kNsPerMs;
    if (swarm.narrow || trouble->dice() % 3 == 0) {
        net.copy_max_bytes = static_cast<uint32_t>(1 + trouble->dice() % kMaxChunk);
        net.copy_max_pieces = static_cast<uint32_t>(1 + trouble->dice() % kMaxPieces);
    }
    net.on_copy = [trouble](CopyStep step, const SimCopyPath &) { return trouble->at(step); };
}

}  // namespace xfer
