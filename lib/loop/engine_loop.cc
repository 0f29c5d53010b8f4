// SPDX-License-Identifier: Apache-2.0
#include "loop/engine_loop.h"

#include <ctime>
#include <new>
#include <utility>

#include "loop/resolver.h"

namespace xfer {

namespace {

// Bounds of one visit: what is left is done in the next turn, after the loop looked at its
// descriptors.
constexpr int kPasses = 4;
constexpr int kTimersPerPass = 256;

}  // namespace

EngineLoop::EngineLoop() = default;

EngineLoop::~EngineLoop() = default;

void EngineLoop::forget_names() {
    resolver_.reset();
}

void EngineLoop::forked() {
    new (&lock_) std::mutex;  // threads of the parent that held it do not exist here
    owner_.store(std::thread::id());
    watched_.forked();
}

// ---- what is due

void EngineLoop::drain() {
    for (int pass = 0; pass < kPasses && !over_; ++pass) {
        bool ran = take_wake();
        ran |= fire_timers();
        ran |= run_tasks();
        ran |= poll_memory();
        if (!ran) return;
        ran_ = true;
    }
}

bool EngineLoop::take_wake() {
    if (!woken_.load(std::memory_order_relaxed) || !woken_.exchange(false)) return false;
    now_ = clock();  // what was submitted meanwhile has its time from now on
    if (wake_sink_) wake_sink_->on_wake();
    return true;
}

bool EngineLoop::fire_timers() {
    int fired = 0;
    for (; fired < kTimersPerPass; ++fired) {
        Timer *timer = timers_.pop(now_);
        if (!timer) break;
        timer->sink.on_timer(*timer);
    }
    return fired > 0;
}

void EngineLoop::run_deferred() {
    for (int pass = 0; pass < kPasses && !over_ && run_tasks(); ++pass) {}
}

bool EngineLoop::run_tasks() {
    deferred_.store(false, std::memory_order_relaxed);
    if (tasks_.empty()) return false;
    List<Task> batch;
    batch.append(tasks_);
    while (Task *task = batch.pop_front())
        task->run();
    return true;
}

// Each may end itself, and others. Most often there is one.
bool EngineLoop::poll_memory() {
    if (polled_.empty()) return false;
    if (polled_.single()) return polled_.front().poll();
    bool ran = false;
    List<Poller, InPolled> batch;
    batch.append(polled_);
    while (Poller *poller = batch.pop_front()) {
        polled_.push_back(*poller);
        ran |= poller->poll();
    }
    return ran;
}

void EngineLoop::doze() {
    while (!polled_.empty() && polled_.front().doze())
        polled_.pop_front();
}

bool EngineLoop::pending() const {
    return woken_.load() || !tasks_.empty() || !polled_.empty();
}

bool EngineLoop::must_wake_sleeper() {
    watched_.apply_changes();
    return pending() || timers_.next_due() < sleeps_until_;
}

// ---- what the engine asks

uint64_t EngineLoop::clock() {
    timespec time;
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

std::unique_ptr<Watch> EngineLoop::watch(int fd, WatchSink &sink, uint32_t wanted) {
    return watched_.watch(fd, sink, wanted);
}

void EngineLoop::defer(Task &task) {
    if (task.linked()) return;
    tasks_.push_back(task);
    deferred_.store(true, std::memory_order_relaxed);
}

void EngineLoop::look_at(Poller &poller) {
    if (!poller.linked()) polled_.push_back(poller);
}

std::unique_ptr<Resolving> EngineLoop::resolve(const std::string &host, ResolveSink &sink) {
    if (!resolver_) resolver_ = std::make_unique<Resolver>(*this);
    return resolver_->ask(host, sink);
}

// No wake-up is lost: this sets woken_, then looks at asleep_; who goes to sleep sets asleep_, then
// looks at woken_ (in pending()). All four are sequentially consistent, so at least one side sees
// the other: either this rings, or the loop does not sleep. A wake that finds woken_ set needs
// nothing: whoever set it is doing the same, and the loop's exchange in take_wake(), coming after
// ours, also shows it all that happened before ours.
void EngineLoop::wake() {
    if (woken_.exchange(true)) return;
    if (asleep_.load()) ring();
}

}  // namespace xfer
