// SPDX-License-Identifier: Apache-2.0
#include "sim_loop.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <stdexcept>

#include "loop/worker.h"
#include "util/fd.h"

using namespace xfer;

namespace {

struct OnTimer : TimerSink {
    explicit OnTimer(std::function<void()> to_call) : call(std::move(to_call)) {}
    void on_timer(Timer &) override { call(); }
    std::function<void()> call;
    Timer timer{*this};
};
struct OnTask : Task {
    explicit OnTask(std::function<void()> to_call) : call(std::move(to_call)) {}
    void run() override { call(); }
    std::function<void()> call;
};
struct OnWake : WakeSink {
    void on_wake() override { ++count; }
    int count = 0;
};
struct OnResolved : ResolveSink {
    void on_resolved(Result<std::vector<std::string>> result) override {
        ++count;
        if (result)
            addresses = *result;
        else
            status = result.error().status;
        if (drop) question.reset();
    }
    int count = 0;
    bool drop = false;
    Status status = XFER_OK;
    std::vector<std::string> addresses;
    std::unique_ptr<Resolving> question;
};

// Loops that chat: every message is answered by one to a loop that the dice choose, until the words
// run out.
std::string chat(uint64_t seed, uint64_t *digest = nullptr) {
    SimWorld world(seed);
    std::vector<std::unique_ptr<SimLoop>> loops;
    for (int i = 0; i < 4; ++i)
        loops.push_back(std::make_unique<SimLoop>(world));
    std::string log;
    int words = 200;
    std::function<void(size_t)> hear = [&](size_t who) {
        log += static_cast<char>('a' + who);
        if (--words <= 0) return;
        const size_t next = world.random(loops.size());
        world.post(*loops[next], world.random(3) * kNsPerMs, [&, next] { hear(next); });
    };
    for (size_t i = 0; i < loops.size(); ++i)
        world.post(*loops[i], 0, [&, i] { hear(i); });
    world.run_until([&] { return words <= 0; }, 10'000 * kNsPerMs);
    if (digest) *digest = world.digest();
    return log;
}

}  // namespace

TEST_CASE("equal seeds give equal runs, other seeds other ones") {
    std::set<std::string> runs;
    std::set<uint64_t> digests;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        uint64_t first = 0, second = 0;
        // Something else is allocated between the runs, so that addresses differ.
        const std::string log = chat(seed, &first);
        auto other = std::make_unique<char[]>(1000 + seed * 4096);
        CHECK(chat(seed, &second) == log);
        CHECK(first == second);
        runs.insert(log);
        digests.insert(first);
    }
    CHECK(runs.size() == 20);
    CHECK(digests.size() == 20);
}

TEST_CASE("what is due together comes in every order, what is due apart in one") {
    std::set<std::string> orders;
    for (uint64_t seed = 0; seed < 100; ++seed) {
        SimWorld world(seed);
        SimLoop one(world), two(world);
        std::string log;
        OnTimer first([&] { log += 'a'; }), second([&] { log += 'b'; }), third([&] { log += 'c'; });
        OnTimer last([&] { log += 'z'; });
        const uint64_t due = world.now() + kNsPerMs;
        two.arm(last.timer, due + 1);
        one.arm(first.timer, due);
        one.arm(second.timer, due);
        two.arm(third.timer, due);
        CHECK(!world.run_until([] { return false; }, kNsPerMs * 2));
        CHECK(log.size() == 4);
        CHECK(log.back() == 'z');
        orders.insert(log);
    }
    CHECK(orders.size() == 6);
}

TEST_CASE("timers move, are disarmed, and fire at their time") {
    SimWorld world(1);
    SimLoop loop(world);
    const uint64_t start = world.now();
    int fired = 0;
    OnTimer never([&] { FAIL("disarmed"); });
    OnTimer timer([&] {
        CHECK(loop.now() == start + 20);
        CHECK(!timer.timer.armed());
        loop.disarm(never.timer);
        ++fired;
    });
    loop.arm(timer.timer, start + 10);
    loop.arm(timer.timer, start + 20);
    loop.arm(never.timer, start + 21);
    CHECK(world.run_until([&] { return fired > 0; }, 100));
    CHECK(world.now() == start + 20);
    world.run_for(80);
    CHECK(world.now() == start + 100);
    CHECK(fired == 1);
    OnTimer past([&] { fired += loop.now() == start + 100; });
    loop.arm(past.timer, start);
    world.run_for(0);
    CHECK(fired == 2);
}

TEST_CASE("tasks run in order, before the clock moves, and wakes are one") {
    SimWorld world(7);
    SimLoop loop(world);
    const uint64_t start = world.now();
    std::string log;
    OnTask later([&] { log += 'c'; });
    OnTask gone([&] { log += '!'; });
    OnTask first([&] {
        CHECK(world.now() == start);
        log += 'a';
        gone.unlink();
        loop.defer(later);
    });
    OnTask second([&] { log += 'b'; });
    OnWake wake;
    loop.set_wake_sink(wake);
    loop.defer(first);
    loop.defer(gone);
    loop.defer(second);
    loop.defer(first);
    loop.wake();
    loop.wake();
    CHECK(log.empty());
    world.run_for(kNsPerMs);
    CHECK(log == "abc");
    CHECK(wake.count == 1);
    loop.wake();
    world.run_for(kNsPerMs);
    CHECK(wake.count == 2);
}

TEST_CASE("names are answered later, or forgotten") {
    SimWorld world(3);
    SimLoop loop(world);
    world.names["node"] = {"10.0.0.7"};
    OnResolved numeric, named, unknown, forgotten;
    numeric.drop = true;
    numeric.question = loop.resolve("127.0.0.1", numeric);
    named.question = loop.resolve("node", named);
    unknown.question = loop.resolve("nowhere", unknown);
    loop.resolve("::1", forgotten).reset();
    CHECK(numeric.count + named.count + unknown.count == 0);
    world.run_for(1000 * kNsPerMs);
    CHECK(numeric.addresses == std::vector<std::string>{"127.0.0.1"});
    CHECK(named.addresses == std::vector<std::string>{"10.0.0.7"});
    CHECK(unknown.status == XFER_ENAME);
    CHECK(numeric.count + named.count + unknown.count == 3);
    CHECK(forgotten.count == 0);
}

TEST_CASE("a loop that is gone hears nothing more, the others do") {
    SimWorld world(5);
    auto loop = std::make_unique<SimLoop>(world);
    SimLoop other(world);
    OnWake wake;
    int heard = 0;
    loop->set_wake_sink(wake);
    loop->wake();
    world.post(*loop, 5, [&] { FAIL("gone"); });
    world.post(other, 5, [&] { ++heard; });
    world.post(1, [&] { loop.reset(); });
    world.run_for(kNsPerMs);
    CHECK(heard == 1);
}

TEST_CASE("a world that cannot go on says so") {
    SimWorld world(11);
    SimLoop loop(world);
    OnTask again([&] { loop.defer(again); });
    loop.defer(again);
    CHECK_THROWS_AS(world.run_for(1000 * kNsPerMs), std::logic_error);
}

namespace {

struct OnJob final : Worker::Job {
    OnJob(std::string with, std::vector<std::string> &to, SimWorld &in)
        : name(std::move(with)), lines(to), world(in) {}
    void run() noexcept override {
        lines.push_back("run " + name);
        ran_at = world.now();
    }
    void done(Status status) override {
        CHECK(status == XFER_OK);
        lines.push_back("done " + name);
        CHECK(world.now() >= ran_at);
        took_time = world.now() > ran_at;
        if (then) then();
    }
    const std::string name;
    std::vector<std::string> &lines;
    SimWorld &world;
    uint64_t ran_at = 0;
    bool took_time = false;
    std::function<void()> then;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a worker runs its jobs in virtual time, one by one, urgent ones first") {
    uint64_t took_time = 0;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        SimWorld world(seed);
        SimLoop loop(world);
        Worker worker(loop);
        Lines lines;
        OnJob one("1", lines, world), two("2", lines, world), three("3", lines, world),
            urgent("urgent", lines, world), revoked("revoked", lines, world),
            dropped("dropped", lines, world);
        one.then = [&] { worker.submit(three); };
        for (OnJob *job : {&one, &revoked, &dropped, &two})
            worker.submit(*job);
        worker.submit_urgent(urgent);
        CHECK(lines.empty());
        CHECK(worker.revoke(revoked));
        worker.drop(dropped);
        world.run_for(kNsPerMs);
        CHECK(lines == Lines{"run urgent", "done urgent", "run 1", "done 1", "run 2", "done 2",
                             "run 3", "done 3"});
        CHECK_FALSE(worker.revoke(one));
        took_time += one.took_time;
    }
    CHECK(took_time > 15);
}

TEST_CASE("a worker that is gone runs and tells nothing more") {
    SimWorld world(1);
    SimLoop loop(world);
    Lines lines;
    OnJob one("1", lines, world), two("2", lines, world);
    auto worker = std::make_unique<Worker>(loop);
    worker->submit(one);
    worker->submit(two);
    REQUIRE(world.run_until([&] { return lines.size() == 1; }, kNsPerMs));
    worker.reset();
    world.run_for(kNsPerMs);
    CHECK(lines == Lines{"run 1"});
}

namespace {

struct OnReady : WatchSink {
    void on_ready(uint32_t) override {
        ++count;
        if (drop) watch.reset();
    }
    int count = 0;
    bool drop = false;
    std::unique_ptr<Watch> watch;
};

struct OnPoll : Poller {
    bool poll() override {
        ++polls;
        return to_find > 0 && to_find-- > 0;
    }
    bool doze() override { return ++dozes > 1; }
    int polls = 0, dozes = 0, to_find = 3;
};

}  // namespace

TEST_CASE("a descriptor is told as long as it is readable and watched") {
    SimWorld world(1);
    SimLoop loop(world);
    const Fd fd(::eventfd(2, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK));
    OnReady again, once, paused;
    once.drop = true;
    again.watch = loop.watch(fd.get(), again, kReadable);
    once.watch = loop.watch(fd.get(), once, kReadable);
    paused.watch = loop.watch(fd.get(), paused, 0);
    CHECK(world.run_until([&] { return again.count == 5 && !once.watch; }, kNsPerMs));
    CHECK(once.count == 1);
    CHECK(paused.count == 0);
    uint64_t one;
    while (::read(fd.get(), &one, sizeof one) == sizeof one) {}
    world.run_for(kNsPerMs);
    CHECK(again.count == 5);
    REQUIRE(::write(fd.get(), &one, sizeof one) == sizeof one);
    world.look_at_descriptors();
    paused.watch->want(kReadable);
    CHECK(world.run_until([&] { return again.count > 5 && paused.count > 0; }, kNsPerMs));
}

TEST_CASE("memory is looked at until nothing is found there and its poller dozes") {
    SimWorld world(1);
    SimLoop loop(world);
    OnPoll poller, gone;
    loop.look_at(poller);
    loop.look_at(gone);
    gone.unlink();
    CHECK(poller.polls == 0);
    world.run_for(kNsPerMs);
    CHECK(poller.polls == 5);
    CHECK(poller.dozes == 2);
    CHECK(gone.polls == 0);
    loop.look_at(poller);
    world.run_for(kNsPerMs);
    CHECK(poller.polls == 6);
}
