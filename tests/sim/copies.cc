// SPDX-License-Identifier: Apache-2.0
// What befalls copies between neighbours, and by adapters, in a random scenario.
#include <iterator>
#include <random>

#include "scenario.h"
#include "sim_fabric.h"

namespace xfer {

namespace {

// By random numbers of its own, so that those of the world stay as they are.
struct Trouble {
    explicit Trouble(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15 + 1) {
        for (uint64_t &one_in : often)
            if (random() % 2) one_in = 2 + random() % 200;
        if (random() % 2) falls_one_in = 2 + random() % 400;
    }
    bool chance(uint64_t one_in) { return one_in && random() % one_in == 0; }
    CopyFate one_of(std::initializer_list<CopyFate> fates) {
        return fates.begin()[random() % fates.size()];
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
    std::mt19937_64 random;
    uint64_t often[6] = {};  // one in so many; 0: never
    uint64_t falls_one_in = 0;
};

// Of the set-up of paths beside channels.
struct AttachTrouble {
    explicit AttachTrouble(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15 + 2) {
        if (random() % 2) one_in = 2 + random() % 10;
    }
    AttachFate at(AttachStep step) {
        if (!one_in || random() % one_in) return AttachFate::go_on;
        constexpr AttachFate kOfOpen[] = {AttachFate::fail, AttachFate::absent, AttachFate::lack};
        constexpr AttachFate kOfSignal[] = {AttachFate::fail, AttachFate::garble, AttachFate::mute};
        const AttachFate *const fates = step == AttachStep::open ? kOfOpen : kOfSignal;
        return fates[random() % std::size(kOfOpen)];
    }
    std::mt19937_64 random;
    uint64_t one_in = 0;
};

}  // namespace

void Scenario::trouble_copies() {
    auto trouble = std::make_shared<Trouble>(world.seed());
    if (trouble->random() % 2) net.copy_ns_max = 5 * kNsPerMs;
    if (swarm.narrow || trouble->random() % 3 == 0) {
        net.copy_max_bytes = static_cast<uint32_t>(1 + trouble->random() % kMaxChunk);
        net.copy_max_pieces = static_cast<uint32_t>(1 + trouble->random() % kMaxPieces);
    }
    net.on_copy = [trouble](CopyStep step, const SimCopyPath &) { return trouble->at(step); };
    auto attach = std::make_shared<AttachTrouble>(world.seed());
    if (attach->random() % 3 == 0) net.detach_ns = attach->random() % (700 * kNsPerMs);
    if (attach->random() % 3 == 0) net.release_ns_max = 1 + attach->random() % (700 * kNsPerMs);
    if (attach->random() % 3 == 0) net.register_ns_max = 1 + attach->random() % (700 * kNsPerMs);
    if (attach->random() % 3 == 0) net.adapter_lacks_one_in = 1 + attach->random() % 5;
    net.on_attach = [attach](AttachStep step, const SimAttachedPath &) { return attach->at(step); };
    auto channels = std::make_shared<AttachTrouble>(world.seed() + 1);
    net.on_channel = [channels](AttachStep step, bool) { return channels->at(step); };
}

}  // namespace xfer
