// SPDX-License-Identifier: Apache-2.0
#include "core/engine/event_dispatcher.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include "core/base/limits.h"

namespace xfer {

namespace {

constexpr uint32_t kTurnEvery = 16;  // polls that find something

// Changes every few milliseconds, and takes a quarter of the time of a clock.
uint64_t coarse_clock() {
    timespec time;
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

EventDispatcher::~EventDispatcher() {
    stop();
    UvLoop::abandon(std::move(embedded_));
}

Failure EventDispatcher::open() {
    if (options_.dispatch == XFER_DISPATCH_POLL) {
        mode_ = Mode::queue;
        bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        return bell_ ? Failure{} : os_failure(errno, "eventfd");
    }
    mode_ = Mode::own_loop;
    if (options_.dispatch == XFER_DISPATCH_LOOP) {
        auto loop = UvLoop::open(options_.loop, options_.unref);
        if (!loop) return loop.error();
        embedded_ = std::move(*loop);
        loop_ = callers_ = embedded_.get();
    } else {
        auto loop = OwnLoop::open(options_.spin());
        if (!loop) return loop.error();
        own_ = std::move(*loop);
        loop_ = own_.get();
    }
    loop_->set_wake_sink(*this);
    return {};
}

Failure EventDispatcher::open(OwnLoop &io) {
    loop_ = &io;
    if (options_.dispatch != XFER_DISPATCH_POLL) return {};
    mode_ = Mode::turns;
    turned_ = &io;
    return {};
}

Failure EventDispatcher::open(UvLoop &io) {
    loop_ = callers_ = &io;
    return {};
}

void EventDispatcher::start() {
    if (own_) thread_ = std::thread([this] { own_->run(); });
}

void EventDispatcher::stop() {
    if (!thread_.joinable()) return;
    own_->stop();
    thread_.join();
}

void EventDispatcher::release() {
    own_.reset();
    embedded_.reset();
}

void EventDispatcher::forked() {
    if (own_) own_->forked();
    if (embedded_) embedded_->forked();
}

// ---- callbacks

void EventDispatcher::dispatch(EventNode &node) {
    if (&node == &last_ && callers_) return callers_->close(*this);
    call(node, loop_ ? loop_->now() : 0);
}

// The caller's loop has let go of ours: the engine's end may be told, and the engine joined from
// the callback's loop.
void EventDispatcher::on_loop_closed() {
    call(last_, CallbackWatch::now());
}

void EventDispatcher::call(EventNode &node, uint64_t turn) {
    if (!node.still_valid()) return node.released();
    const bool last = &node == &last_;
    node.event.sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
    const xfer_event_t event = node.event;
    node.given();
    node.dequeued();
    if (options_.on_event) {
        if (loop_) callbacks_.begin(event.kind, turn);
        options_.on_event(&event, options_.user);
        if (const uint64_t took = loop_ ? callbacks_.end() : 0)
            options_.log.warn("the callback of a {} event took {} ms: other events waited for it{}",
                              event_name(event.kind), took / kNsPerMs,
                              mode_ == Mode::with_io ? ", and so did the sockets" : "");
    }
    node.released();
    if (!last) return;
    std::lock_guard lock(mutex_);
    ended_.store(true, std::memory_order_release);
    ended_cv_.notify_all();
}

void EventDispatcher::hand_over(EventList &events, uint64_t count) {
    if (!queue_.push(events, count)) return;
    if (mode_ == Mode::queue)
        ring();
    else if (mode_ == Mode::own_loop || !gate_.looking())
        loop_->wake();
}

// Who polls looks at the queue first: it needs to be woken if it may have done so already, or waits
// for the descriptor.
void EventDispatcher::hand_in(EventNode &node) {
    EventList one;
    one.push_back(node);
    if (mode_ != Mode::turns) return hand_over(one, 1);
    if (queue_.push(one, 1) && (gate_.entered() || fd_asked_.load())) loop_->wake();
}

void EventDispatcher::on_wake() {
    run();
}

void EventDispatcher::run() {
    for (uint32_t i = 0; i < kEventsPerTurn; ++i) {
        EventNode *node = queue_.pop();
        if (!node) return;
        dispatch(*node);
    }
    loop_->defer(*this);
}

bool EventDispatcher::on_thread() const {
    return options_.dispatch != XFER_DISPATCH_POLL && loop_ && !ended() && loop_->on_thread();
}

bool EventDispatcher::wait_ended(uint32_t timeout_ms) {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return ended(); };
    if (timeout_ms != XFER_NONE)
        return ended_cv_.wait_for(lock, std::chrono::milliseconds(timeout_ms), over);
    ended_cv_.wait(lock, over);
    return true;
}

// ---- polls

void EventDispatcher::ring() {
    const uint64_t one = 1;
    while (::write(bell_.get(), &one, sizeof one) < 0 && errno == EINTR)
        continue;  // full is as good as rung
}

uint32_t EventDispatcher::take(xfer_event_t *events, uint32_t event_size, uint32_t max) {
    uint32_t count = 0;
    while (count < max) {
        EventNode *node = queue_.pop();
        if (!node) break;
        if (!node->still_valid()) {
            node->released();
            continue;
        }
        node->event.sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
        if (events) {  // else a join drops them
            auto *to = reinterpret_cast<uint8_t *>(events) + size_t{count} * event_size;
            const size_t known = std::min<size_t>(event_size, sizeof(xfer_event_t));
            std::memcpy(to, &node->event, known);
            std::memset(to + known, 0, event_size - known);
            node->given();
        }
        ++count;
        const bool last = node == &last_, ends_handle = node->ends_handle();
        const bool later = ends_handle || node->event.data != nullptr;
        node->dequeued();
        if (later)
            unreleased_.push_back(*node);
        else
            node->released();
        // What comes behind depends on whether the handle is kept.
        if (ends_handle) break;
        if (last) ended_.store(true, std::memory_order_release);
    }
    return count;
}

void EventDispatcher::wait(uint32_t timeout_ms) {
    uint64_t rung;
    [[maybe_unused]] ssize_t got = ::read(bell_.get(), &rung, sizeof rung);
    if (queue_.size() || woken_.load() || gate_.interrupted())
        return;  // from before the bell was silenced
    const int wait_ms = timeout_ms > INT32_MAX ? -1 : static_cast<int>(timeout_ms);
    pollfd bell{bell_.get(), POLLIN, 0};
    ::poll(&bell, 1, wait_ms);
}

Status EventDispatcher::poll(xfer_event_t *events, uint32_t event_size, uint32_t max,
                             uint32_t timeout_ms, uint32_t &count) {
    count = 0;
    if (const Status status = gate_.enter(); status != XFER_OK) return status;
    take_for(events, event_size, max, timeout_ms, count);
    return gate_.leave() ? XFER_ECLOSED : XFER_OK;
}

// What is queued is taken without a turn where none is due, and there was one a moment ago: peers
// are served meanwhile.
bool EventDispatcher::passes() {
    if (!turned_ || queue_.size() == 0 || fd_asked_.load()) return false;
    if (turned_->turn_due()) return false;
    const uint64_t moment = coarse_clock();
    passed_ = moment == moment_ ? (passed_ + 1) % kTurnEvery : 0;
    moment_ = moment;
    return passed_ != 0;
}

void EventDispatcher::take_for(xfer_event_t *events, uint32_t event_size, uint32_t max,
                               uint32_t timeout_ms, uint32_t &count) {
    using Clock = std::chrono::steady_clock;
    while (EventNode *node = unreleased_.pop_front())
        node->released();
    if (ended()) return;  // nothing can come any more
    if (passes()) {
        count = take(events, event_size, max);
        if (count) return;
    }
    Clock::time_point end{};
    if (timeout_ms && timeout_ms != XFER_NONE)
        end = Clock::now() + std::chrono::milliseconds(timeout_ms);
    uint32_t left_ms = queue_.size() || woken_.load() ? 0 : timeout_ms;
    for (;;) {
        if (turned_) turned_->turn(left_ms == XFER_NONE ? kNever : left_ms * kNsPerMs);
        count = take(events, event_size, max);
        if (count || left_ms == 0 || ended() || gate_.interrupted() || woken_.load()) break;
        if (mode_ == Mode::queue) wait(left_ms);
        if (timeout_ms == XFER_NONE) continue;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        left_ms = left > 0 ? static_cast<uint32_t>(left) : 0;
    }
    if (woken_.load()) woken_.store(false);
    if (mode_ == Mode::queue && count < max) {
        uint64_t rung;
        [[maybe_unused]] ssize_t got = ::read(bell_.get(), &rung, sizeof rung);
        if (queue_.size() || woken_.load()) ring();
    }
    if (!fd_asked_.load()) return;  // nobody waits for what comes between two polls
    turned_->settle();
    gate_.look_away();
    if (queue_.size() || woken_.load()) loop_->wake();  // the descriptor stays readable
}

// Set before the bell: a poll that ends looks at both in the other order.
Status EventDispatcher::wake() {
    if (options_.dispatch != XFER_DISPATCH_POLL) return XFER_EUNSUPPORTED;
    woken_.store(true);
    if (mode_ == Mode::queue)
        ring();
    else
        loop_->wake();
    return XFER_OK;
}

Status EventDispatcher::fd(int &fd) {
    if (mode_ == Mode::queue) {
        fd = bell_.get();
        return XFER_OK;
    }
    if (mode_ != Mode::turns) return XFER_EUNSUPPORTED;
    auto result = turned_->fd();
    if (!result) return result.error().status;
    fd = *result;
    // A poll that is about to end may not know it yet, and what is queued meanwhile rings no bell.
    // Nor does what a thread that submits has queued before.
    if (!fd_asked_.exchange(true) && (gate_.looking() || queue_.size())) loop_->wake();
    return XFER_OK;
}

void EventDispatcher::end_polls() {
    gate_.close();
    if (mode_ == Mode::queue)
        ring();
    else
        loop_->wake();
    gate_.await_empty();
}

bool EventDispatcher::drain(uint32_t timeout_ms) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
    uint32_t count = 0;
    for (uint32_t left_ms = timeout_ms; !ended();) {
        gate_.look();
        take_for(nullptr, 0, 64, std::min(left_ms, 100u), count);
        if (timeout_ms == XFER_NONE || count || ended()) continue;
        if (left_ms == 0) return false;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        left_ms = left > 0 ? static_cast<uint32_t>(left) : 0;
    }
    while (EventNode *node = unreleased_.pop_front())
        node->released();
    return true;
}

}  // namespace xfer
