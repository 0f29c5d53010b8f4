// SPDX-License-Identifier: Apache-2.0
// Completion channels and completion queues.
#include <sys/eventfd.h>
#include <unistd.h>

#include <poll.h>
#include <algorithm>
#include <cerrno>

#include "fake_verbs_objects.h"

namespace xfer::rdma {

void add_event(int fd) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
}

bool drop_event(int fd) {
    pollfd readable{fd, POLLIN, 0};
    uint64_t one;
    return ::poll(&readable, 1, 0) == 1 && ::read(fd, &one, sizeof one) == sizeof one;
}

ibv_comp_channel *FakeTable::create_comp_channel(ibv_context *context) {
    FakeAdapter &adapter = adapter_of(context);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    auto &opening = *static_cast<FakeContext *>(context);
    if (!adapter.fabric_.alive(&opening)) return nullptr;
    if (adapter.fabric_.fails(FakeCall::create_comp_channel)) return nullptr;
    const int fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    if (fd < 0) return nullptr;
    FakeChannel &channel = adapter.objects_->channels.add();
    channel.context = context;
    channel.fd = fd;
    ++opening.users;
    return &channel;
}

int FakeTable::destroy_comp_channel(ibv_comp_channel *handle) {
    FakeAdapter &adapter = adapter_of(handle->context);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    auto &channel = *static_cast<FakeChannel *>(handle);
    if (!adapter.fabric_.alive(&channel)) return EINVAL;
    if (channel.refcnt > 0) {
        adapter.fabric_.violate(Violation::busy_channel,
                                std::to_string(channel.refcnt) + " completion queues are left");
        return EBUSY;
    }
    ::close(channel.fd);
    --static_cast<FakeContext *>(channel.context)->users;
    adapter.objects_->channels.bury(channel);
    return 0;
}

ibv_cq *FakeTable::create_cq(ibv_context *context, int entries, void *user,
                             ibv_comp_channel *channel, int vector) {
    FakeAdapter &adapter = adapter_of(context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &opening = *static_cast<FakeContext *>(context);
    if (!fabric.alive(&opening)) return nullptr;
    if (channel && channel->context != context) {
        fabric.violate(Violation::context, "a completion queue and its channel");
        errno = EINVAL;
        return nullptr;
    }
    if (fabric.fails(FakeCall::create_cq)) return nullptr;
    const auto most = static_cast<int>(adapter.options_.limits.completions);
    if (entries < 1 || entries > most || vector < 0 || vector >= context->num_comp_vectors) {
        fabric.violate(Violation::capacity, "a completion queue of " + std::to_string(entries) +
                                                " entries on vector " + std::to_string(vector));
        errno = EINVAL;
        return nullptr;
    }
    FakeCompletionQueue &queue = adapter.objects_->queues.add();
    queue.context = context;
    queue.channel = channel;
    queue.cq_context = user;
    queue.cqe = entries;
    ++opening.users;
    if (channel && fabric.alive(static_cast<FakeChannel *>(channel))) ++channel->refcnt;
    return &queue;
}

int FakeTable::destroy_cq(ibv_cq *handle) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &queue = *static_cast<FakeCompletionQueue *>(handle);
    if (!fabric.alive(&queue)) return EINVAL;
    if (queue.users > 0) {
        fabric.violate(Violation::busy_queue, "a completion queue under its queue pairs");
        return EBUSY;
    }
    if (queue.events_taken != queue.events_acked)
        fabric.violate(Violation::unacked, "the call would wait for ever");
    if (queue.channel) {
        auto &channel = *static_cast<FakeChannel *>(queue.channel);
        for (size_t i = std::erase(channel.events, &queue); i > 0; --i)
            drop_event(channel.fd);
        --channel.refcnt;
    }
    forget_events(fabric, queue.context, &queue, queue.async_unacked);
    queue.entries.clear();
    --static_cast<FakeContext *>(queue.context)->users;
    adapter.objects_->queues.bury(queue);
    return 0;
}

// Waits without the mutex, unless the descriptor is O_NONBLOCK.
int FakeTable::get_cq_event(ibv_comp_channel *handle, ibv_cq **queue, void **user) {
    FakeFabric &fabric = adapter_of(handle->context).fabric_;
    auto &channel = *static_cast<FakeChannel *>(handle);
    for (;;) {
        {
            const std::lock_guard lock(fabric.mutex_);
            if (!fabric.alive(&channel)) return -1;
        }
        uint64_t one;
        if (::read(channel.fd, &one, sizeof one) != sizeof one) return -1;
        const std::lock_guard lock(fabric.mutex_);
        if (channel.events.empty()) continue;  // its completion queue is gone
        FakeCompletionQueue *first = channel.events.front();
        channel.events.pop_front();
        ++first->events_taken;
        *queue = first;
        *user = first->cq_context;
        return 0;
    }
}

void FakeTable::ack_cq_events(ibv_cq *handle, unsigned count) {
    FakeFabric &fabric = adapter_of(handle->context).fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &queue = *static_cast<FakeCompletionQueue *>(handle);
    if (!fabric.alive(&queue)) return;
    queue.events_acked += count;
    if (queue.events_acked > queue.events_taken)
        fabric.violate(Violation::event_acks, "more than events were taken");
}

int FakeTable::req_notify_cq(ibv_cq *handle, int solicited_only) {
    FakeFabric &fabric = adapter_of(handle->context).fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &queue = *static_cast<FakeCompletionQueue *>(handle);
    if (!fabric.alive(&queue)) return EINVAL;
    if (fabric.fails(FakeCall::req_notify_cq)) return errno;
    if (!queue.channel) {
        fabric.violate(Violation::notify, "asked of a completion queue without a channel");
        return EINVAL;
    }
    using Armed = FakeCompletionQueue::Armed;
    if (!solicited_only)
        queue.armed = Armed::all;
    else if (queue.armed == Armed::no)
        queue.armed = Armed::solicited;
    return 0;
}

void FakeTable::count_polled(const FakeCompletion &completion) {
    FakeQueuePair &pair = *completion.pair;
    --pair.unpolled;
    if (completion.receive)
        --pair.receives_out;
    else
        pair.freed = std::max(pair.freed, completion.end);
}

int FakeTable::poll_cq(ibv_cq *handle, int count, ibv_wc *entries) {
    FakeFabric &fabric = adapter_of(handle->context).fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &queue = *static_cast<FakeCompletionQueue *>(handle);
    if (!fabric.alive(&queue)) return -1;
    int taken = 0;
    for (; taken < count && !queue.entries.empty(); ++taken) {
        const FakeCompletion &completion = queue.entries.front();
        entries[taken] = completion.entry;
        if (completion.pair) count_polled(completion);
        queue.entries.pop_front();
    }
    return taken == 0 && queue.overrun ? -1 : taken;
}

// What does not fit is lost, and what used the queue fails.
void FakeFabric::deliver(const FakeCompletion &completion) {
    FakeQueuePair &pair = *completion.pair;
    auto &queue =
        *static_cast<FakeCompletionQueue *>(completion.receive ? pair.recv_cq : pair.send_cq);
    if (queue.overrun || queue.entries.size() >= static_cast<size_t>(queue.cqe)) {
        --pair.unpolled;
        if (queue.overrun) return;
        queue.overrun = true;
        violate(Violation::overrun, "of a completion queue of " + std::to_string(queue.cqe));
        FakeAdapter &adapter = adapter_of(queue.context);
        ibv_async_event event{};
        event.event_type = IBV_EVENT_CQ_ERR;
        event.element.cq = &queue;
        tell(adapter, event, queue.context);
        for (FakeQueuePair *user : pairs_)
            if (user->send_cq == &queue || user->recv_cq == &queue)
                enter_error(*user, IBV_EVENT_QP_FATAL);
        return;
    }
    queue.entries.push_back(completion);
    if (!queue.fires(completion)) return;
    queue.armed = FakeCompletionQueue::Armed::no;
    auto &channel = *static_cast<FakeChannel *>(queue.channel);
    channel.events.push_back(&queue);
    add_event(channel.fd);
}

void FakeFabric::complete(FakeQueuePair &pair, bool receive, const FakeCompletion &completion) {
    ++pair.unpolled;
    if (!hold_) return deliver(completion);
    meet(FakeHold::completion);
    (receive ? pair.held_receives : pair.held_sends).push_back(completion);
}

bool FakeFabric::release(FakeQueuePair &pair, bool receive) {
    auto &held = receive ? pair.held_receives : pair.held_sends;
    if (held.empty()) return false;
    const FakeCompletion first = held.front();
    held.pop_front();
    deliver(first);
    return true;
}

void FakeFabric::hold_completions(bool hold) {
    const std::lock_guard lock(mutex_);
    hold_ = hold;
    if (hold) return;
    for (FakeQueuePair *pair : pairs_)
        while (release(*pair, false) || release(*pair, true)) {}
}

bool FakeFabric::release_send(ibv_qp *pair) {
    const std::lock_guard lock(mutex_);
    return release(*static_cast<FakeQueuePair *>(pair), false);
}

bool FakeFabric::release_receive(ibv_qp *pair) {
    const std::lock_guard lock(mutex_);
    return release(*static_cast<FakeQueuePair *>(pair), true);
}

size_t FakeFabric::held(ibv_qp *handle) {
    const std::lock_guard lock(mutex_);
    const auto &pair = *static_cast<FakeQueuePair *>(handle);
    return pair.held_sends.size() + pair.held_receives.size();
}

}  // namespace xfer::rdma
