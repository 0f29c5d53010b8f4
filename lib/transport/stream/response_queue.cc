// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/response_queue.h"

#include <numeric>
#include <utility>

namespace xfer::stream {

namespace {

// An acknowledgement waits for so much. Far below what a peer may have unanswered, so that it never
// stops for us.
constexpr uint32_t kAckChunks = 8;
constexpr uint64_t kAckBytes = 1 << 20;

// What a buffer may have room for that others go on with.
constexpr size_t kKeptAnswers = 256;
constexpr size_t kKeptRanges = 1'024;

}  // namespace

bool ResponseQueue::admit(uint64_t seq) {
    if (seq != admitted_ + 1 || seq - answered_ > max_unanswered_) return false;
    admitted_ = seq;
    return true;
}

Answers &ResponseQueue::answers() {
    if (!waiting_) waiting_ = buffers_.answers.take();
    return *waiting_;
}

void ResponseQueue::push(const Response &answer) {
    answers().queue.push_back(answer);
    if (answer.type != FrameType::ack || answer.staged) due_ = true;
}

void ResponseQueue::acknowledge(uint64_t seq, uint32_t bytes, bool at_once) {
    Response *const last = waiting() ? &waiting_->queue.back() : nullptr;
    if (last && last->type == FrameType::ack && !last->staged)
        last->seq = seq;
    else
        push({FrameType::ack, XFER_OK, 0, 0, seq, 0});
    unacked_bytes_ += bytes;
    if (++unacked_ >= kAckChunks || unacked_bytes_ >= kAckBytes || at_once) due_ = true;
}

void ResponseQueue::acknowledge(uint64_t seq, StagedRequest &staged) {
    Response answer{FrameType::ack, XFER_OK, 0, 0, seq, 0};
    answer.staged = &staged;
    push(answer);
}

void ResponseQueue::refuse(uint64_t seq, Status status) {
    push({FrameType::error, status, 0, 0, seq, 0});
}

void ResponseQueue::data(uint64_t seq, uint64_t region, bool checked,
                         std::span<const iovec> ranges) {
    uint64_t bytes =
        std::accumulate(ranges.begin(), ranges.end(), uint64_t{0},
                        [](uint64_t sum, const iovec &range) { return sum + range.iov_len; });
    // First: an answer in the queue has its ranges, also where memory lacks in between.
    std::vector<iovec> &all = answers().ranges;
    all.insert(all.end(), ranges.begin(), ranges.end());
    push({FrameType::data, XFER_OK, static_cast<uint32_t>(bytes),
          static_cast<uint32_t>(ranges.size()), seq, region, checked});
}

void ResponseQueue::data(uint64_t seq, uint64_t region, bool checked, StagedRequest &staged) {
    const auto bytes = static_cast<uint32_t>(staged.bounce.iov_len);
    Response answer{FrameType::data, XFER_OK, bytes, 0, seq, region, checked};
    answer.staged = &staged;
    push(answer);
}

void ResponseQueue::done(uint64_t seq, uint64_t before) {
    push({FrameType::data, XFER_OK, kAtomicWidth, 0, seq, 0, false, true, before});
}

// What a copy has ended as is answered like any other.
void ResponseQueue::settle(Response &answer) {
    if (!answer.staged || !answer.staged->over) return;
    const Status status = answer.staged->status;
    if (status == XFER_OK && answer.type == FrameType::data) return;
    std::exchange(answer.staged, nullptr)->release();
    if (status != XFER_OK) answer = {FrameType::error, status, 0, 0, answer.seq, 0};
}

// Puts whose copies have ended since are acknowledged by one frame, too.
bool ResponseQueue::ready() {
    if (!waiting()) return false;
    settle(waiting_->queue[at_]);
    const auto is_acknowledged = [this](size_t at) {
        const Response &answer = waiting_->queue[at];
        return answer.type == FrameType::ack && !answer.staged;
    };
    while (is_acknowledged(at_) && at_ + 1 < waiting_->queue.size()) {
        settle(waiting_->queue[at_ + 1]);
        if (!is_acknowledged(at_ + 1)) break;
        pop();
    }
    return !front().staged || front().staged->over;
}

void ResponseQueue::pop() {
    const Response &done = front();
    answered_ = done.seq;
    ranges_at_ += done.ranges;
    if (done.type == FrameType::ack) unacked_ = 0, unacked_bytes_ = 0;
    ++at_;
    auto &[queue, ranges] = *waiting_;
    if (at_ == queue.size()) {
        queue.clear();
        ranges.clear();
        if (queue.capacity() <= kKeptAnswers && ranges.capacity() <= kKeptRanges)
            buffers_.answers.give(std::move(waiting_));
        waiting_.reset();
        due_ = false;
    } else if (at_ > queue.size() / 2) {
        // A queue that never runs empty must not grow either.
        queue.erase(queue.begin(), queue.begin() + static_cast<ptrdiff_t>(at_));
        ranges.erase(ranges.begin(), ranges.begin() + static_cast<ptrdiff_t>(ranges_at_));
    } else {
        return;
    }
    at_ = ranges_at_ = 0;
}

void ResponseQueue::retire(Target target, Status why) {
    if (!waiting()) return;
    auto &[queue, ranges] = *waiting_;
    size_t from = ranges_at_;
    for (size_t i = at_; i < queue.size(); ++i) {
        Response &answer = queue[i];
        if (answer.type == FrameType::data && !answer.word && answer.region == target.wire()) {
            auto first = ranges.begin() + static_cast<ptrdiff_t>(from);
            ranges.erase(first, first + answer.ranges);
            if (answer.staged) answer.staged->release();
            answer = {FrameType::error, why, 0, 0, answer.seq, 0};
        }
        from += answer.ranges;
    }
}

void ResponseQueue::abandon() {
    for (size_t i = at_; waiting() && i < waiting_->queue.size(); ++i)
        if (StagedRequest *staged = std::exchange(waiting_->queue[i].staged, nullptr))
            staged->release();
}

}  // namespace xfer::stream
