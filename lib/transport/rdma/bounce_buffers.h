// SPDX-License-Identifier: Apache-2.0
// Registered memory of our own, by which bytes go that lie in none: copied here before they are
// sent, or from here when they have come. It is made when it is first asked for. Nothing in it is
// cleared, and nobody sees what was there before: of what is sent each byte was filled in, and of a
// get that ended well each byte was written by the adapter; of one that did not, none is copied.
// Thread: the loop's.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "loop/worker.h"
#include "transport/rdma/port.h"
#include "transport/rdma/registration.h"
#include "transport/rdma/verbs.h"
#include "util/log.h"
#include "util/offset_allocator.h"

namespace xfer::rdma {

struct Bounce {
    uint8_t *address = nullptr;
    uint32_t lkey = 0;
};

class BounceBuffers final : Worker::Job {
public:
    static constexpr uint64_t kBytes = 16 << 20;

    // `port`: any of the device. Of `bytes`, or as many as the device registers at once. May throw.
    BounceBuffers(const Verbs &verbs, const Port &port, Worker &worker, const Log &log,
                  uint64_t bytes = kBytes);
    // No request uses it any more. May block; in the child of a fork nothing is deregistered.
    ~BounceBuffers();
    BounceBuffers(const BounceBuffers &) = delete;
    BounceBuffers &operator=(const BounceBuffers &) = delete;

    // In one registration. Nothing: not now, as it is full or not there yet.
    std::optional<Bounce> take(uint64_t bytes);
    void give_back(const Bounce &bounce);  // what was taken, once no request uses it

    bool fails() const { return state_ == State::failed; }  // nothing is ever there
    uint64_t most() const { return bytes_; }                // that can be taken at once
    uint64_t in_use() const { return ranges_.in_use(); }

private:
    enum class State : uint8_t { unused, coming, ready, failed };

    void run() noexcept override;
    void done(Status status) override;
    std::optional<Failure> make();

    const Verbs &verbs_;
    const Port port_;
    Worker &worker_;
    const Log &log_;
    const pid_t pid_ = ::getpid();
    const uint64_t bytes_;
    State state_ = State::unused;
    uint8_t *base_ = nullptr;
    std::unique_ptr<Registration> registration_;
    OffsetAllocator ranges_;
    std::optional<Failure> why_;
};

}  // namespace xfer::rdma
