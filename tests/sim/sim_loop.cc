// SPDX-License-Identifier: Apache-2.0
#include "sim_loop.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace xfer {

namespace {

constexpr uint64_t kStandstill = 1'000'000;
constexpr uint64_t kSpinning = 10'000;  // events at one time
constexpr uint64_t kSpinsMax = 1'000;
constexpr uint64_t kWakeNsMax = 20'000;  // from one thread to another
constexpr uint64_t kTurnNsMax = 2'000;   // of a loop that has memory to look at
constexpr uint64_t kCallNsMax = 50'000;  // of a thread that makes calls that block
constexpr uint64_t kPreemptedNsMax = 5 * kNsPerMs;
constexpr uint64_t kNameNsMax = 20 * kNsPerMs;

bool is_numeric(const std::string &host) {
    in6_addr bytes;
    return inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
           inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

}  // namespace

// ---- the world ----

void SimWorld::post(SimLoop &loop, uint64_t delay, std::function<void()> event) {
    add(loop.number_, now_ + delay, std::move(event));
}

void SimWorld::post(uint64_t delay, std::function<void()> event) {
    add(0, now_ + delay, std::move(event));
}

SimWorld::Key SimWorld::add(uint32_t loop, uint64_t due, std::function<void()> call) {
    const Key key{due > now_ ? due : now_, random(), ++posted_};
    queue_.emplace(key, Event{loop, std::move(call)});
    return key;
}

void SimWorld::step() {
    auto node = queue_.extract(queue_.begin());
    const uint64_t due = std::get<0>(node.key());
    standing_ = due > now_ ? 0 : standing_ + 1;
    if (standing_ > kStandstill)
        throw std::logic_error("simulation: the clock stands still, seed " + std::to_string(seed_));
    now_ = std::max(now_, due);  // what was held back is due since long
    if (const auto held = held_.find(node.mapped().loop); held != held_.end())
        return void(held->second.events.insert(std::move(node)));
    ++events_;
    for (uint64_t part : {due, uint64_t{node.mapped().loop}, std::get<2>(node.key())})
        digest_ = (digest_ ^ part) * 0x100000001b3 + 1;
    running_ = node.mapped().loop;
    node.mapped().call();
    running_ = 0;
}

// Turns take no time, but for those of a loop that spins until it hears from another one.
uint64_t SimWorld::turn() {
    if (standing_ < kSpinning) return 0;
    if (++spins_ > kSpinsMax)
        throw std::logic_error("simulation: a loop spins, seed " + std::to_string(seed_));
    return kWakeNsMax;
}

void SimWorld::cancel(uint32_t loop, const Key &key) {
    if (queue_.erase(key)) return;
    const auto held = held_.find(loop);
    if (held != held_.end()) held->second.events.erase(key);
}

void SimWorld::freeze(SimLoop &loop) {
    held_[loop.number_].frozen = true;
}

void SimWorld::thaw(SimLoop &loop) {
    let_go(loop.number_, &Held::frozen);
}

// All of it at once, in the order in which it came due.
void SimWorld::let_go(uint32_t loop, bool Held::*reason) {
    const auto at = held_.find(loop);
    if (at == held_.end()) return;
    at->second.*reason = false;
    if (at->second.frozen || at->second.preempted) return;
    for (auto &[key, event] : at->second.events)
        queue_.emplace(key, std::move(event));
    held_.erase(at);
}

void SimWorld::preempt(SimLoop &loop) {
    if (!preempt_one_in || preempting_() % preempt_one_in) return;
    held_[loop.number_].preempted = true;
    const uint64_t until = now_ + preempting_() % kPreemptedNsMax;
    const Key key{until, preempting_(), ++posted_};
    queue_.emplace(key,
                   Event{0, [this, number = loop.number_] { let_go(number, &Held::preempted); }});
}

bool SimWorld::run_until(const std::function<bool()> &done, uint64_t limit) {
    const uint64_t end = now_ + limit;
    while (!done()) {
        if (queue_.empty() || std::get<0>(queue_.begin()->first) > end) {
            now_ = end;
            standing_ = 0;
            return done();
        }
        step();
    }
    return true;
}

void SimWorld::run_for(uint64_t time) {
    run_until([] { return false; }, time);
}

// ---- a loop ----

SimLoop::~SimLoop() {
    world_.held_.erase(number_);
    std::erase_if(world_.queue_, [this](const auto &item) { return item.second.loop == number_; });
}

void SimLoop::arm(Timer &timer, uint64_t due) {
    used();
    disarm(timer);
    timer.due = due;
    timer.slot = ++armed_;
    timers_[timer.slot] = world_.add(number_, due, [this, &timer] {
        timers_.erase(std::exchange(timer.slot, Timer::kFree));
        timer.sink.on_timer(timer);
    });
}

void SimLoop::disarm(Timer &timer) {
    if (!timer.armed()) return;
    used();
    auto at = timers_.find(std::exchange(timer.slot, Timer::kFree));
    world_.cancel(number_, at->second);
    timers_.erase(at);
}

// Tasks of one loop run in order, as on the real one, and at the time they were deferred; what else
// is due then may come before or after.
void SimLoop::defer(Task &task) {
    used();
    if (!task.linked()) tasks_.push_back(task);
    if (std::exchange(will_run_tasks_, true)) return;
    world_.add(number_, now() + world_.turn(), [this] { run_tasks(); });
    if (one_of_several) world_.preempt(*this);
}

void SimLoop::run_tasks() {
    will_run_tasks_ = false;
    List<Task> batch;
    batch.append(tasks_);
    while (Task *task = batch.pop_front())
        task->run();
}

// ---- what others write

class SimWatch final : public Watch {
public:
    SimWatch(SimLoop &loop, int fd, WatchSink &sink, uint32_t wanted)
        : world_(loop.world_),
          loop_(loop.number_),
          number_(++world_.last_watch_),
          fd_(fd),
          sink_(sink),
          wanted_(wanted) {
        world_.watches_[number_] = this;
        look();
    }
    ~SimWatch() override {
        world_.watches_.erase(number_);
        if (told_) world_.cancel(loop_, key_);
    }
    void want(uint32_t readiness) override {
        wanted_ = readiness;
        look();
    }
    void look() {
        if (told_ || !is_ready()) return;
        told_ = true;
        key_ = world_.add(loop_, world_.now() + world_.random(kWakeNsMax), [this] { tell(); });
    }

private:
    bool is_ready() const {
        pollfd asked{fd_, POLLIN, 0};
        return (wanted_ & kReadable) && ::poll(&asked, 1, 0) == 1;
    }
    // It may be destroyed inside.
    void tell() {
        told_ = false;
        SimWorld &world = world_;
        if (is_ready()) sink_.on_ready(kReadable);
        world.look_at_descriptors();
    }

    SimWorld &world_;
    const uint32_t loop_;
    const uint64_t number_;
    const int fd_;
    WatchSink &sink_;
    uint32_t wanted_;
    bool told_ = false;  // by an event that is on its way
    SimWorld::Key key_;
};

void SimWorld::look_at_descriptors() {
    for (auto &[number, watch] : watches_)
        watch->look();
}

std::unique_ptr<Watch> SimLoop::watch(int fd, WatchSink &sink, uint32_t wanted) {
    return std::make_unique<SimWatch>(*this, fd, sink, wanted);
}

void SimLoop::look_at(Poller &poller) {
    used();
    if (!poller.linked()) polled_.push_back(poller);
    turn_pollers();
}

void SimLoop::turn_pollers() {
    if (polled_.empty() || std::exchange(will_poll_, true)) return;
    world_.add(number_, now() + world_.random(kTurnNsMax), [this] { poll_all(); });
}

// Each may end itself, and others.
void SimLoop::poll_all() {
    will_poll_ = false;
    bool found = false;
    List<Poller, InPolled> batch;
    batch.append(polled_);
    while (Poller *poller = batch.pop_front()) {
        polled_.push_back(*poller);
        found |= poller->poll();
    }
    while (!found && !polled_.empty() && polled_.front().doze())
        polled_.pop_front();
    turn_pollers();
}

uint64_t SimWorld::call_ns() {
    const bool slow = slow_call_one_in && random(slow_call_one_in) == 0;
    return random(slow ? slow_call_ns_max : kCallNsMax);
}

bool SimLoop::simulate_thread(Task &task) {
    used();
    if (task.linked()) return true;
    beside_.push_back(task);
    world_.add(number_, now() + world_.call_ns(), [this] {
        if (Task *next = beside_.pop_front()) next->run();
    });
    return true;
}

void SimLoop::wake() {
    if (std::exchange(woken_, true)) return;
    world_.add(number_, now() + world_.random(kWakeNsMax), [this] {
        woken_ = false;
        if (wake_sink_) wake_sink_->on_wake();
    });
}

class SimLoop::Question final : public Resolving {
public:
    Question(SimLoop &loop, std::string host, ResolveSink &sink)
        : loop_(loop), host_(std::move(host)), sink_(sink) {
        SimWorld &world = loop.world_;
        key_ = world.add(loop.number_, world.now() + world.random(kNameNsMax),
                         [this] { sink_.on_resolved(answer()); });  // may destroy this
    }
    ~Question() override { loop_.world_.cancel(loop_.number_, key_); }

private:
    Result<std::vector<std::string>> answer() const {
        if (is_numeric(host_)) return std::vector<std::string>{host_};
        if (host_ == "localhost") return std::vector<std::string>{"127.0.0.1", "::1"};
        auto known = loop_.world_.names.find(host_);
        if (known != loop_.world_.names.end()) return known->second;
        return Failure{XFER_ENAME, XFER_ORIGIN_NONE, 0, host_ + ": not a name of this world"};
    }

    SimLoop &loop_;
    const std::string host_;
    ResolveSink &sink_;
    SimWorld::Key key_;
};

std::unique_ptr<Resolving> SimLoop::resolve(const std::string &host, ResolveSink &sink) {
    return std::make_unique<Question>(*this, host, sink);
}

}  // namespace xfer
