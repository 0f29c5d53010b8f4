// SPDX-License-Identifier: Apache-2.0
// A loop's thread for calls that block: the order of its jobs, on which thread each part of them
// runs, and what becomes of them where they are taken back, or the thread can't be made.
#include "loop/worker.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "loop/own_loop.h"

using namespace xfer;

namespace {

constexpr uint64_t kSecond = 1000 * kNsPerMs;

struct OnJob : Worker::Job {
    explicit OnJob(
        std::function<void()> to_run = [] {}, std::function<void(Status)> to_tell = [](Status) {})
        : work(std::move(to_run)), tell(std::move(to_tell)) {}
    void run() noexcept override {
        ++runs;
        work();
    }
    void done(Status how) override {
        ++told;
        status = how;
        tell(how);
    }
    std::function<void()> work;
    std::function<void(Status)> tell;
    std::atomic<int> runs{0};
    int told = 0;
    Status status = XFER_OK;
};

// In two parts, of which both are noted.
struct SplitJob : OnJob {
    SplitJob(int number, std::vector<int> &order)
        : OnJob([number, &order] { order.push_back(number); }),
          begins([number, &order] { order.push_back(-number); }) {}
    void begin() noexcept override { begins(); }
    std::function<void()> begins;
};

// A job that runs until it is let go.
struct HeldJob : OnJob {
    HeldJob() : OnJob([this] { hold(); }) {}
    void hold() {
        begun = true;
        while (!let_go)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    void await_begin() const {
        while (!begun)
            std::this_thread::yield();
    }
    std::atomic<bool> begun{false}, let_go{false};
};

struct LoopAndWorker {
    LoopAndWorker() {
        auto opened = OwnLoop::open(SpinLimit::fixed(0));
        REQUIRE(opened);
        loop = std::move(*opened);
        worker.emplace(*loop);
    }
    ~LoopAndWorker() {
        worker.reset();
        loop->close();
    }
    template <typename Over>
    bool turn_until(Over over) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!over() && std::chrono::steady_clock::now() < end)
            loop->turn(kSecond / 10);
        return over();
    }
    void turns(int count) {
        for (int i = 0; i < count; ++i)
            loop->turn(kNsPerMs);
    }
    std::unique_ptr<OwnLoop> loop;
    std::optional<Worker> worker;
};

auto count_threads() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// The system lists a thread for a moment after it was joined.
auto count_threads_left() {
    auto least = count_threads();
    for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        least = std::min(least, count_threads());
    }
    return least;
}

}  // namespace

TEST_CASE("split jobs all begin before the first of them runs") {
    LoopAndWorker both;
    std::vector<int> order;
    SplitJob first(1, order), second(2, order), third(3, order);
    std::atomic<bool> runs{false}, let_go{false};
    first.work = [&] {
        order.push_back(1);
        runs = true;
        while (!let_go)
            std::this_thread::yield();
    };
    both.worker->submit_split(first);
    while (!runs)
        std::this_thread::yield();
    both.worker->submit_split(second);
    both.worker->submit_split(third);
    let_go = true;
    REQUIRE(both.turn_until([&] { return third.told == 1; }));
    CHECK(order == std::vector{-1, 1, -2, -3, 2, 3});
    CHECK(first.told == 1);
    CHECK(second.told == 1);
}

TEST_CASE("a split job that has begun runs before its worker ends, one that has not never does") {
    for (const bool begun : {true, false}) {
        LoopAndWorker both;
        std::vector<int> order;
        SplitJob first(1, order), second(2, order);
        std::atomic<bool> runs{false}, let_go{false};
        const auto hold = [&] {
            runs = true;
            while (!let_go)
                std::this_thread::yield();
        };
        // Held in its begin, it lets the second begin, too; in its run it does not.
        (begun ? first.begins : first.work) = hold;
        both.worker->submit_split(first);
        while (!runs)
            std::this_thread::yield();
        both.worker->submit_split(second);
        CHECK(both.worker->revoke(first) == false);
        if (!begun) CHECK(both.worker->revoke(second));
        let_go = true;
        if (begun) REQUIRE(both.turn_until([&] { return first.told == 1; }));
        both.worker.reset();
        CHECK(first.runs == 1);
        CHECK(second.runs == int(begun));
    }
}

TEST_CASE("jobs run on one other thread, in their order, and are told on the loop's") {
    LoopAndWorker both;
    const auto here = std::this_thread::get_id();
    const auto threads = count_threads_left();
    std::vector<std::thread::id> ran;
    std::vector<int> order, told;
    std::deque<OnJob> jobs;
    for (int i = 0; i < 200; ++i)
        jobs.emplace_back(
            [&, i] {
                ran.push_back(std::this_thread::get_id());
                order.push_back(i);
            },
            [&, i](Status status) {
                CHECK(status == XFER_OK);
                CHECK(std::this_thread::get_id() == here);
                told.push_back(i);
            });
    CHECK(count_threads() == threads);  // the first job makes it
    for (OnJob &job : jobs)
        both.worker->submit(job);
    CHECK(count_threads() > threads);
    CHECK(told.empty());
    REQUIRE(both.turn_until([&] { return told.size() == jobs.size(); }));
    for (size_t i = 0; i < jobs.size(); ++i) {
        CHECK(order[i] == static_cast<int>(i));
        CHECK(told[i] == static_cast<int>(i));
        CHECK(ran[i] == ran[0]);
        CHECK(ran[i] != here);
    }
}

TEST_CASE("urgent jobs go ahead of those that have not begun, each kind in its order") {
    LoopAndWorker both;
    HeldJob running;
    both.worker->submit(running);
    running.await_begin();
    std::vector<int> ran, told;
    std::deque<OnJob> jobs;
    for (int i = 0; i < 8; ++i) {
        OnJob &job =
            jobs.emplace_back([&, i] { ran.push_back(i); }, [&, i](Status) { told.push_back(i); });
        i % 2 ? both.worker->submit_urgent(job) : both.worker->submit(job);
    }
    CHECK(both.worker->revoke(jobs[3]));
    both.worker->drop(jobs[4]);
    running.let_go = true;
    REQUIRE(both.turn_until([&] { return told.size() == 6; }));
    CHECK(ran == std::vector<int>{1, 5, 7, 0, 2, 6});
    CHECK(told == ran);
}

TEST_CASE("a loop that sleeps wakes up for the end of a job") {
    LoopAndWorker both;
    HeldJob job;
    both.worker->submit(job);
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        job.let_go = true;
    });
    both.loop->turn(20 * kSecond);
    later.join();
    CHECK(both.turn_until([&] { return job.told == 1; }));
}

TEST_CASE("a job that is told may give in itself and others") {
    LoopAndWorker both;
    OnJob other;
    OnJob job([] {},
              [&](Status) {
                  if (job.told < 50) both.worker->submit(job);
                  if (job.told == 50) both.worker->submit(other);
              });
    both.worker->submit(job);
    REQUIRE(both.turn_until([&] { return other.told == 1; }));
    CHECK(job.runs == 50);
    CHECK(job.told == 50);
}

TEST_CASE("what has not begun is taken back, and what has is told") {
    LoopAndWorker both;
    HeldJob first;
    OnJob second, third;
    both.worker->submit(first);
    both.worker->submit(second);
    both.worker->submit(third);
    first.await_begin();
    CHECK(both.worker->revoke(second));
    CHECK_FALSE(both.worker->revoke(first));
    first.let_go = true;
    REQUIRE(both.turn_until([&] { return third.told == 1; }));
    CHECK(first.told == 1);
    CHECK(second.runs == 0);
    CHECK(second.told == 0);
    both.worker->submit(second);
    CHECK(both.turn_until([&] { return second.told == 1; }));
}

TEST_CASE("a job that is dropped is not told, and runs no more") {
    LoopAndWorker both;
    HeldJob running;
    OnJob queued, over, behind;
    both.worker->submit(over);
    both.worker->submit(running);
    both.worker->submit(queued);
    running.await_begin();
    both.worker->drop(over);
    both.worker->drop(queued);
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        running.let_go = true;
    });
    both.worker->drop(running);
    CHECK(running.let_go);
    later.join();
    OnJob never;
    both.worker->drop(never);
    both.worker->submit(behind);
    REQUIRE(both.turn_until([&] { return behind.told == 1; }));
    CHECK(running.runs == 1);
    CHECK(queued.runs == 0);
    CHECK(over.told + running.told + queued.told == 0);
}

TEST_CASE("those that are told together may drop each other") {
    LoopAndWorker both;
    std::deque<OnJob> jobs;
    for (int i = 0; i < 4; ++i)
        jobs.emplace_back([] {},
                          [&](Status) {
                              both.worker->drop(jobs[2]);
                              both.worker->drop(jobs[3]);
                          });
    CHECK_FALSE(both.worker->has_over());
    for (OnJob &job : jobs)
        both.worker->submit(job);
    HeldJob behind;
    both.worker->submit(behind);
    behind.await_begin();  // so all others are over, and not told
    CHECK(both.worker->has_over());
    behind.let_go = true;
    REQUIRE(both.turn_until([&] { return behind.told == 1; }));
    CHECK_FALSE(both.worker->has_over());
    CHECK(jobs[0].told == 1);
    CHECK(jobs[1].told == 1);
    CHECK(jobs[2].told == 0);
    CHECK(jobs[3].told == 0);
}

TEST_CASE("its end waits for the job that runs, and tells nobody") {
    LoopAndWorker both;
    HeldJob running;
    OnJob queued, over;
    both.worker->submit(over);
    both.worker->submit(running);
    both.worker->submit(queued);
    running.await_begin();
    std::thread later([&] {  // late enough for the end to have begun on a busy machine
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        running.let_go = true;
    });
    both.worker.reset();
    CHECK(running.let_go);
    later.join();
    both.turns(3);
    CHECK(running.runs == 1);
    CHECK(queued.runs == 0);
    CHECK(over.told + running.told + queued.told == 0);
}

TEST_CASE("signals go to other threads") {
    LoopAndWorker both;
    sigset_t blocked, before, after;
    REQUIRE(::pthread_sigmask(SIG_SETMASK, nullptr, &before) == 0);
    OnJob job([&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked); });
    both.worker->submit(job);
    REQUIRE(both.turn_until([&] { return job.told == 1; }));
    REQUIRE(::pthread_sigmask(SIG_SETMASK, nullptr, &after) == 0);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD, SIGPROF}) {
        CHECK(::sigismember(&blocked, signal) == 1);
        CHECK(::sigismember(&after, signal) == ::sigismember(&before, signal));
    }
}

TEST_CASE("without a thread each job is told why, later, and the next one tries again") {
    LoopAndWorker both;
    pthread_attr_t usual, huge;
    REQUIRE(::pthread_getattr_default_np(&usual) == 0);
    REQUIRE(::pthread_getattr_default_np(&huge) == 0);
    REQUIRE(::pthread_attr_setstacksize(&huge, size_t{1} << 46) == 0);
    REQUIRE(::pthread_setattr_default_np(&huge) == 0);
    OnJob first, second;
    both.worker->submit(first);
    both.worker->submit(second);
    CHECK(first.told == 0);
    both.turns(3);
    CHECK(first.told == 1);
    CHECK(second.told == 1);
    CHECK(first.status == XFER_EAGAIN);
    CHECK(second.status == XFER_EAGAIN);
    OnJob insists([] {}, [&](Status) { both.worker->submit(insists); });
    both.worker->submit(insists);
    both.turns(3);
    CHECK(insists.told > 0);
    both.worker->drop(insists);
    REQUIRE(::pthread_setattr_default_np(&usual) == 0);
    both.worker->submit(first);
    REQUIRE(both.turn_until([&] { return first.told == 2; }));
    CHECK(first.status == XFER_OK);
    CHECK(first.runs == 1);
    CHECK(second.runs + insists.runs == 0);
}

TEST_CASE("without descriptors each job is told why") {
    LoopAndWorker both;
    rlimit usual{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
    const rlimit none{0, usual.rlim_max};
    OnJob job;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    both.worker->submit(job);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
    both.turns(3);
    CHECK(job.told == 1);
    CHECK(job.status == XFER_ENOFILES);
    CHECK(job.runs == 0);
}

TEST_CASE("in the child of a fork its end waits for nothing") {
    LoopAndWorker both;
    HeldJob running;
    OnJob queued;
    both.worker->submit(running);
    both.worker->submit(queued);
    running.await_begin();
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        both.loop->forked();
        both.worker.reset();
        ::_exit(queued.runs + queued.told);
    }
    int how = -1;
    REQUIRE(::waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how));
    CHECK(WEXITSTATUS(how) == 0);
    running.let_go = true;
    REQUIRE(both.turn_until([&] { return queued.told == 1; }));
}
