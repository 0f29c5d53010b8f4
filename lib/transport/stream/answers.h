// SPDX-License-Identifier: Apache-2.0
// What is owed to a peer for its requests, and the memory that it takes while some is.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "transport/path.h"
#include "util/status.h"
#include "wire/frame.h"

namespace xfer::stream {

struct Response {
    FrameType type;  // ack, error, data
    Status status;
    uint32_t bytes, ranges;  // of data
    uint64_t seq;
    uint64_t region;
    bool checked = false;  // data: with a checksum
    bool word = false;     // data: of an atomic, which has no ranges,
    uint64_t before = 0;   // but this
    // Until it is over, the answer waits; data is at its bounce until it has left.
    StagedRequest *staged = nullptr;
};

struct Answers {
    std::vector<Response> queue;
    std::vector<iovec> ranges;  // of all queued answers, one after the other
};

}  // namespace xfer::stream
