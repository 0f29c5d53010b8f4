// SPDX-License-Identifier: Apache-2.0
// What the two ends of a path say to each other before it is ready: an offer, its answer, that a
// write of the end which offered has come back, and that one of the other end has, too.
#pragma once

#include <cstdint>

#include "transport/rdma/parameters.h"
#include "util/fixed_vector.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer::rdma {

struct Signal {
    static constexpr size_t kMaxSize = 56;
    enum class Kind : uint8_t { offer = 1, answer = 2, done = 3, ready = 4 };

    Kind kind{};
    // Of an offer and an answer: the queue pair of the end that says it, and where the other one
    // notes what notifications it has begun (begun_table.h).
    QueuePairParameters queue_pair;
    uint64_t begun_address = 0;
    uint32_t begun_key = 0;
};

using SignalBytes = FixedVector<uint8_t, Signal::kMaxSize>;

SignalBytes encode(const Signal &signal);
// Of a peer's bytes, whatever they are: XFER_EVERSION, XFER_EPROTO.
Result<Signal> decode_signal(ConstBytes bytes);

}  // namespace xfer::rdma
