// SPDX-License-Identifier: Apache-2.0
// What this side owes the peer for its requests, in the order in which they came. Puts that
// follow one another are acknowledged by one frame, and that one waits a little for more.
#pragma once

#include <span>
#include <vector>

#include "transport/transport.h"

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
};

class ResponseQueue {
public:
    void start(uint32_t max_unanswered) { max_unanswered_ = max_unanswered; }
    // The next request of the peer; false if it is out of order or one too many.
    bool admit(uint64_t seq);

    void acknowledge(uint64_t seq, uint32_t bytes, bool at_once);
    void refuse(uint64_t seq, Status status);
    void data(uint64_t seq, uint64_t region, bool checked, std::span<const iovec> ranges);
    void done(uint64_t seq, uint64_t before);  // an atomic

    bool due() const { return due_; }   // something has waited long enough
    void hurry() { due_ = waiting(); }  // whatever is there
    bool waiting() const { return at_ < queue_.size(); }

    const Response &front() const { return queue_[at_]; }
    std::span<const iovec> front_ranges() const {
        return {ranges_.data() + ranges_at_, front().ranges};
    }
    void pop();
    // Answers of the region that still wait become refusals.
    void retire(Target target, Status why);

private:
    void push(const Response &answer);

    std::vector<Response> queue_;
    std::vector<iovec> ranges_;  // of all queued answers, one after the other
    size_t at_ = 0, ranges_at_ = 0;
    bool due_ = false;
    uint32_t max_unanswered_ = 0;
    uint32_t unacked_ = 0;
    uint64_t unacked_bytes_ = 0;
    uint64_t admitted_ = 0, answered_ = 0;
};

}  // namespace xfer::stream
