// SPDX-License-Identifier: Apache-2.0
// What this side owes the peer for its requests, in the order in which they came. Puts that
// follow one another are acknowledged by one frame, and that one waits a little for more.
#pragma once

#include <memory>
#include <span>

#include "transport/stream/buffers.h"
#include "transport/transport.h"

namespace xfer::stream {

class ResponseQueue {
public:
    explicit ResponseQueue(Buffers &buffers) : buffers_(buffers) {}

    void start(uint32_t max_unanswered) { max_unanswered_ = max_unanswered; }
    // The next request of the peer; false if it is out of order or one too many.
    bool admit(uint64_t seq);

    void acknowledge(uint64_t seq, uint32_t bytes, bool at_once);
    void acknowledge(uint64_t seq, StagedRequest &staged);
    void refuse(uint64_t seq, Status status);
    void data(uint64_t seq, uint64_t region, bool checked, std::span<const iovec> ranges);
    void data(uint64_t seq, uint64_t region, bool checked, StagedRequest &staged);
    void done(uint64_t seq, uint64_t before);  // an atomic

    // Something has waited long enough, and what is first may be said: no copy of it goes on.
    bool due() { return due_ && ready(); }
    bool ready();
    void hurry() { due_ = waiting(); }  // whatever is there
    bool waiting() const { return waiting_ && at_ < waiting_->queue.size(); }

    const Response &front() const { return waiting_->queue[at_]; }
    std::span<const iovec> front_ranges() const {
        if (front().staged) return {&front().staged->bounce, 1};
        return {waiting_->ranges.data() + ranges_at_, front().ranges};
    }
    void pop();
    // Answers of the region that still wait become refusals.
    void retire(Target target, Status why);
    void abandon();  // nothing is answered any more

private:
    static void settle(Response &answer);
    Answers &answers();  // to add one
    void push(const Response &answer);

    Buffers &buffers_;
    std::unique_ptr<Answers> waiting_;  // null while there are none
    size_t at_ = 0, ranges_at_ = 0;
    bool due_ = false;
    uint32_t max_unanswered_ = 0;
    uint32_t unacked_ = 0;
    uint64_t unacked_bytes_ = 0;
    uint64_t admitted_ = 0, answered_ = 0;
};

}  // namespace xfer::stream
