// SPDX-License-Identifier: Apache-2.0
// What two neighbours share: one sealed memfd with a ring and a hazard pointer for each direction,
// and two tables of slots. The acceptor makes it and hands it over; it has no name and leaves
// nothing behind. `Side` says whose a thing is.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "transport/shm/ring.h"
#include "util/fd.h"
#include "util/status.h"
#include "wire/limits.h"

namespace xfer::shm {

constexpr uint64_t kRingBytes = 256 * 1024;
constexpr uint32_t kSlots = 4'096;

enum class Side : uint8_t { initiator, acceptor };
constexpr Side other(Side side) {
    return side == Side::initiator ? Side::acceptor : Side::initiator;
}

// A notification: its puts may be copied from here on, and nobody sees that.
struct Noted {
    std::atomic<uint64_t> number, key;
};

// Written by each end for itself.
struct End {
    RingShared<> ring;                           // of which it is the writer
    alignas(64) std::atomic<uint64_t> hazard;    // the stamp of the slot from or to which it copies
    alignas(64) std::atomic<uint64_t> nonce_at;  // where in its memory the nonce below stands
    std::array<uint8_t, 16> nonce;               // who can read that can reach all of its memory
    alignas(64) std::atomic<uint64_t> slots[kSlots];  // stamps of what it exports; 0: of nothing
    alignas(64) Noted noted[kNotificationSpan];  // by number; what another replaces is long over
    alignas(64) uint8_t data[kRingBytes];
};

struct Shared {
    uint64_t magic;
    uint32_t version, size;
    End ends[2];
};

// The size of a memfd that can't be cut short; 0: it is something else.
uint64_t sealed_size(const Fd &memory);

class Segment {
public:
    static Result<std::unique_ptr<Segment>> make();
    // From descriptors that a neighbour sent; whatever it may have sent.
    static Result<std::unique_ptr<Segment>> take(std::vector<Fd> fds);
    ~Segment();

    int descriptor() const { return memory_.get(); }
    End &end(Side side) { return shared_->ends[static_cast<int>(side)]; }

private:
    Segment() = default;
    Failure map();

    Fd memory_;
    Shared *shared_ = nullptr;
};

}  // namespace xfer::shm
