// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/completion_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "util/memory.h"

namespace xfer::rdma {

namespace {

constexpr int kBatch = 32;  // of completions, in one ibv_poll_cq
// In a turn of the loop, so that what else is ready gets its turn, too.
constexpr int kBatches = 8;
// Acknowledging takes a lock, and a wake-up of who would destroy the queue.
constexpr unsigned kEvents = 64;

bool make_nonblocking(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::create(const Verbs &verbs,
                                                                 const Port &port, uint32_t entries,
                                                                 uint32_t vector, Loop &loop,
                                                                 CompletionQueueSink &sink) {
    std::unique_ptr<CompletionQueue> queue;
    if (!catch_bad_alloc([&] { queue.reset(new CompletionQueue(verbs, loop, sink)); }))
        return no_memory();
    const Failure failure = queue->open(port, entries, vector);
    if (failure.status != XFER_OK) return failure;
    return queue;
}

Failure CompletionQueue::open(const Port &port, uint32_t entries, uint32_t vector) {
    const Text name = port.name;
    channel_ = verbs_.create_comp_channel(port.context);
    if (!channel_) return verbs_failure(verbs_errno(-1), name + ": no completion channel");
    if (!make_nonblocking(channel_->fd))
        return os_failure(errno, name + ": the completion channel can't be watched");
    const auto asked = static_cast<int>(std::min<uint32_t>(entries, INT_MAX));
    const auto vectors = static_cast<uint32_t>(std::max(1, port.context->num_comp_vectors));
    queue_ = verbs_.create_cq(port.context, asked, nullptr, channel_,
                              static_cast<int>(vector % vectors));
    if (!queue_) return verbs_failure(verbs_errno(-1), name + ": no completion queue");
    entries_ = static_cast<uint32_t>(queue_->cqe);
    watch_ = loop_.watch(channel_->fd, *this, kReadable);
    if (!watch_) return no_memory();
    loop_.look_at(*this);
    return {};
}

CompletionQueue::~CompletionQueue() {
    XFER_CHECK(attached_.empty() && reserved_ == 0);
    Poller::unlink();
    watch_.reset();
    if (queue_) {
        take_event();
        acknowledge();
        verbs_.destroy_cq(queue_);
    }
    if (channel_) verbs_.destroy_comp_channel(channel_);
}

bool CompletionQueue::reserve(uint32_t entries) {
    if (entries > entries_ - reserved_) return false;
    reserved_ += entries;
    return true;
}

void CompletionQueue::release(uint32_t entries) {
    XFER_CHECK(entries <= reserved_);
    reserved_ -= entries;
}

uint32_t CompletionQueue::attach(CompletionSink &sink) {
    XFER_CHECK(attached_.size() < RequestId::kQueues / 2);
    do {
        last_number_ = (last_number_ + 1) % RequestId::kQueues;
    } while (last_number_ == 0 || attached_.contains(last_number_));
    if (!catch_bad_alloc([&] { attached_.insert(last_number_, &sink); })) return 0;
    return last_number_;
}

void CompletionQueue::detach(uint32_t number) {
    XFER_CHECK(attached_.erase(number));
}

// ---- turns of the loop

void CompletionQueue::on_ready(uint32_t) {
    const int error = take_event();
    if (error && failure_.status == XFER_OK)
        failure_ = verbs_failure(verbs_errno(error), "the completion channel can't be read");
    if (!failed_) loop_.look_at(*this);
}

bool CompletionQueue::poll() {
    bool found = std::exchange(has_peeked_, false);
    if (found) dispatch(peeked_);
    for (int batch = 0; batch < kBatches && failure_.status == XFER_OK; ++batch) {
        ibv_wc completions[kBatch];
        const int count = poll_into(completions, kBatch);
        for (int i = 0; i < count; ++i)
            dispatch(completions[i]);
        found |= count > 0;
        if (count < kBatch) break;
    }
    if (failure_.status != XFER_OK) tell_failure();
    return found;
}

// What came before the queue was armed raises no event. It is kept for poll(), as nothing is told
// from here.
bool CompletionQueue::doze() {
    if (has_peeked_ || failure_.status != XFER_OK) return false;
    if (!armed_) {
        if (const int error = ibv_req_notify_cq(queue_, 0)) {
            failure_ = verbs_failure(verbs_errno(error), "the completion queue can't be armed");
            return false;
        }
        armed_ = true;
    }
    has_peeked_ = poll_into(&peeked_, 1) > 0;
    return !has_peeked_ && failure_.status == XFER_OK;
}

int CompletionQueue::poll_into(ibv_wc *completions, int room) {
    const int count = ibv_poll_cq(queue_, room, completions);
    if (count < 0)
        failure_ = {XFER_EIO, XFER_ORIGIN_VERBS, count, "the completion queue can't be polled"};
    return count;
}

void CompletionQueue::dispatch(const ibv_wc &completion) {
    const auto id = decode_request_id(completion.wr_id);
    CompletionSink **const sink = id ? attached_.find(id->queue) : nullptr;
    if (sink)
        (*sink)->on_completion(*id, completion);
    else
        ++stale_;
}

// An errno, or 0 when none is there. An arming brings one event, and one that came all the same
// keeps the channel readable.
int CompletionQueue::take_event() {
    ibv_cq *queue;
    void *user;
    if (verbs_.get_cq_event(channel_, &queue, &user) != 0)
        return errno == EAGAIN || errno == EINTR ? 0 : errno;
    armed_ = false;
    if (++events_ >= kEvents) acknowledge();
    return 0;
}

void CompletionQueue::acknowledge() {
    if (events_ > 0) verbs_.ack_cq_events(queue_, events_);
    events_ = 0;
}

void CompletionQueue::tell_failure() {
    if (std::exchange(failed_, true)) return;
    Poller::unlink();
    watch_->want(0);
    sink_.on_queue_failed(failure_);
}

}  // namespace xfer::rdma
