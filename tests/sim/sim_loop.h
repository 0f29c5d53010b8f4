// SPDX-License-Identifier: Apache-2.0
// A world with a clock and a dice of its own, and the loops that live in it, one for each simulated
// engine. Nothing in it depends on real time, on addresses or on the order of a hash table: the
// seed decides everything, and the same seed gives the same run. Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "loop/loop.h"
#include "util/list.h"

namespace xfer {

class SimLoop;
class SimWatch;

class SimWorld {
public:
    explicit SimWorld(uint64_t seed) : seed_(seed), dice_(seed), preempting_(~seed) {}
    SimWorld(const SimWorld &) = delete;
    SimWorld &operator=(const SimWorld &) = delete;

    uint64_t seed() const { return seed_; }
    uint64_t now() const { return now_; }
    uint64_t random() { return dice_(); }
    uint64_t random(uint64_t below) { return dice_() % below; }

    // Calls `event` on the loop after `delay`; never if the loop is gone by then. What is due at
    // the same time is called in any order.
    void post(SimLoop &loop, uint64_t delay, std::function<void()> event);
    // The same for the script of a test, which is on no loop.
    void post(uint64_t delay, std::function<void()> event);

    // A process that is stopped: what is due on the loop waits until it goes on.
    void freeze(SimLoop &loop);
    void thaw(SimLoop &loop);
    // Once in so many turns the thread of a loop that may be is put off the processor before the
    // turn ends, by dice of its own; 0: never.
    uint64_t preempt_one_in = 0;
    // A call that blocks takes up to so long, once in so many; 0: never.
    uint64_t slow_call_one_in = 0, slow_call_ns_max = 0;
    uint64_t call_ns();

    // Lets things happen until `done`, or for `limit` of virtual time; whether it is done. Throws
    // when the clock stands still for a million events.
    bool run_until(const std::function<bool()> &done, uint64_t limit);
    void run_for(uint64_t time);

    // Descriptors that are watched may have become readable: only here it is noticed, and told to
    // their loops a while later.
    void look_at_descriptors();

    // Whether a loop was used while another one ran: with threads that is a race.
    bool raced() const { return raced_; }

    // Of all that happened so far, in order: equal for equal runs.
    uint64_t digest() const { return digest_; }
    uint64_t events() const { return events_; }

    // What resolve() knows besides numbers and "localhost".
    std::map<std::string, std::vector<std::string>> names;

private:
    friend class SimLoop;
    friend class SimWatch;
    using Key = std::tuple<uint64_t, uint64_t, uint64_t>;  // due, a throw of the dice, count
    struct Event {
        uint32_t loop;  // 0: none
        std::function<void()> call;
    };
    struct Held {  // a loop that does nothing, and what came due on it
        bool frozen = false, preempted = false;
        std::map<Key, Event> events;
    };
    void let_go(uint32_t loop, bool Held::*reason);
    void preempt(SimLoop &loop);
    Key add(uint32_t loop, uint64_t due, std::function<void()> call);
    void cancel(uint32_t loop, const Key &key);
    void step();
    uint64_t turn();

    const uint64_t seed_;
    std::mt19937_64 dice_, preempting_;
    uint64_t now_ = 3'600'000 * kNsPerMs;  // no clock of ours starts at zero
    uint64_t posted_ = 0;
    uint64_t events_ = 0;
    uint64_t standing_ = 0;  // events since the clock moved
    uint64_t spins_ = 0;     // how often a loop that spins was given time
    uint64_t digest_ = 0;
    uint32_t loops_ = 0;
    uint32_t running_ = 0;  // the loop whose event is called, 0: none
    bool raced_ = false;
    std::map<Key, Event> queue_;
    std::map<uint32_t, Held> held_;
    std::map<uint64_t, SimWatch *> watches_;  // in the order in which they were made
    uint64_t last_watch_ = 0;
};

class SimLoop final : public Loop {
public:
    explicit SimLoop(SimWorld &world) : world_(world), number_(++world.loops_) {}
    bool one_of_several = false;  // loops of its engine: it may be preempted
    // What was posted to it never happens.
    ~SimLoop() override;
    SimWorld &world() { return world_; }

    uint64_t now() override { return world_.now(); }
    uint64_t clock() override { return world_.now(); }
    void arm(Timer &timer, uint64_t due) override;
    void disarm(Timer &timer) override;
    void defer(Task &task) override;
    std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted) override;
    void look_at(Poller &poller) override;
    bool simulate_thread(Task &task) override;
    std::unique_ptr<Resolving> resolve(const std::string &host, ResolveSink &sink) override;
    void expect(uint64_t) override {}
    void set_wake_sink(WakeSink &sink) override { wake_sink_ = &sink; }
    void wake() override;

private:
    friend class SimWorld;
    friend class SimWatch;
    class Question;
    void run_tasks();
    void turn_pollers();
    void poll_all();
    void used() { world_.raced_ |= world_.running_ && world_.running_ != number_; }

    SimWorld &world_;
    const uint32_t number_;
    std::map<uint64_t, SimWorld::Key> timers_;  // by Timer::slot
    uint64_t armed_ = 0;
    List<Task> tasks_;
    bool will_run_tasks_ = false;
    List<Task> beside_;  // of simulated threads
    List<Poller, InPolled> polled_;
    bool will_poll_ = false;
    bool woken_ = false;
    WakeSink *wake_sink_ = nullptr;
};

}  // namespace xfer
