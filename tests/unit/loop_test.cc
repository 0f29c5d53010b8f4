// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "loop/own_loop.h"
#include "loop/uv_loop.h"
#include "util/fd.h"

using namespace xfer;

namespace {

constexpr uint64_t kMs = kNsPerMs;
constexpr uint64_t kSecond = 1000 * kMs;

// The sinks of a loop, as functions.
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
struct OnReady : WatchSink {
    explicit OnReady(std::function<void(uint32_t)> to_call) : call(std::move(to_call)) {}
    void on_ready(uint32_t readiness) override { call(readiness); }
    std::function<void(uint32_t)> call;
};
struct OnWake : WakeSink {
    explicit OnWake(std::function<void()> to_call) : call(std::move(to_call)) {}
    void on_wake() override { call(); }
    std::function<void()> call;
};
struct OnClosed : LoopClosedSink {
    void on_loop_closed() override { ++count; }
    int count = 0;
};

std::unique_ptr<OwnLoop> own(uint32_t spin_us = 0) {
    auto loop = OwnLoop::open(SpinLimit::fixed(uint64_t{spin_us} * 1000));
    REQUIRE(loop);
    return std::move(*loop);
}

std::array<Fd, 2> pair() {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    return {Fd(fds[0]), Fd(fds[1])};
}

auto count_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

bool readable(int fd, int wait_ms = 0) {
    pollfd entry{fd, POLLIN, 0};
    return poll(&entry, 1, wait_ms) == 1;
}

}  // namespace

TEST_CASE(
    "timers fire in order, not before they are due, and can be moved and disarmed by each other") {
    auto loop = own();
    std::vector<int> order;
    uint64_t start = uv_hrtime();
    OnTimer third([&] {
        CHECK(uv_hrtime() >= start + 30 * kMs);
        order.push_back(3);
        loop->stop();
    });
    OnTimer never([&] { order.push_back(-1); });
    OnTimer second([&] { order.push_back(2); });
    OnTimer first([&] {
        CHECK(loop->now() >= start + 10 * kMs);
        order.push_back(1);
        loop->disarm(never.timer);
        CHECK(!first.timer.armed());
    });
    {
        EngineLoop::Inside inside(*loop);
        loop->arm(third.timer, start + 30 * kMs);
        loop->arm(first.timer, start + 500 * kMs);
        loop->arm(never.timer, start + 10 * kMs);
        loop->arm(second.timer, start + 10 * kMs);
        loop->arm(first.timer, start + 10 * kMs - 1);  // moved before the others
    }
    loop->run();
    CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("a timer that arms itself for now does not starve the loop") {
    auto loop = own();
    auto sockets = pair();
    bool heard = false;
    OnTimer again([&] { loop->arm(again.timer, loop->now()); });
    OnReady ready([&](uint32_t) { heard = true, loop->stop(); });
    std::unique_ptr<Watch> watch;
    {
        EngineLoop::Inside inside(*loop);
        loop->arm(again.timer, 1);
        watch = loop->watch(sockets[0].get(), ready, kReadable);
    }
    REQUIRE(write(sockets[1].get(), "x", 1) == 1);
    loop->run();
    CHECK(heard);
    EngineLoop::Inside inside(*loop);
    loop->disarm(again.timer);
    watch.reset();
}

TEST_CASE(
    "deferred tasks run in order, once, also those deferred by tasks, before the loop sleeps") {
    auto loop = own();
    std::vector<int> order;
    int rounds = 0;
    OnTask last([&] {
        order.push_back(3);
        if (++rounds < 20) return loop->defer(last);  // more than one visit has passes
        loop->stop();
    });
    OnTask second([&] { order.push_back(2), loop->defer(last); });
    OnTask gone([&] { order.push_back(-1); });
    OnTask first([&] { order.push_back(1), gone.unlink(); });
    {
        EngineLoop::Inside inside(*loop);
        loop->defer(first);
        loop->defer(gone);
        loop->defer(second);
        loop->defer(first);  // stays where it is
    }
    loop->run();
    REQUIRE(order.size() == 22);
    CHECK(order[0] == 1);
    CHECK(order[1] == 2);
    CHECK(loop->wakeups() == 0);
}

TEST_CASE("a watch reports what is wanted, level-triggered, and can be paused") {
    auto loop = own();
    auto sockets = pair();
    std::vector<uint32_t> seen;
    OnReady ready([&](uint32_t readiness) { seen.push_back(readiness); });
    std::unique_ptr<Watch> watch;
    {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), ready, kReadable);
        REQUIRE(watch);
    }
    loop->turn(0);
    CHECK(seen.empty());
    REQUIRE(write(sockets[1].get(), "x", 1) == 1);
    loop->turn(kSecond);
    loop->turn(kSecond);
    CHECK(seen == std::vector<uint32_t>{kReadable, kReadable});
    {
        EngineLoop::Inside inside(*loop);
        watch->want(kReadable | kWritable);
    }
    loop->turn(kSecond);
    CHECK(seen.back() == (kReadable | kWritable));
    {
        EngineLoop::Inside inside(*loop);
        watch->want(0);
    }
    loop->turn(0);
    CHECK(seen.size() == 3);
    EngineLoop::Inside inside(*loop);
    watch.reset();
}

TEST_CASE("the end of the other side is reported, whatever was wanted") {
    for (uint32_t wanted : {uint32_t{kReadable}, uint32_t{kWritable}}) {
        auto loop = own();
        auto sockets = pair();
        int seen = 0;
        OnReady ready([&](uint32_t) { ++seen; });
        std::unique_ptr<Watch> watch;
        {
            EngineLoop::Inside inside(*loop);
            watch = loop->watch(sockets[0].get(), ready, wanted);
        }
        REQUIRE(write(sockets[0].get(), "x", 1) == 1);
        sockets[1].reset();  // with a byte unread: ECONNRESET
        loop->turn(kSecond);
        CHECK(seen == 1);
        loop->turn(kSecond);  // still
        CHECK(seen == 2);
        EngineLoop::Inside inside(*loop);
        watch.reset();
    }
}

TEST_CASE("a paused watch does not keep the loop awake when the other side ends") {
    auto loop = own();
    auto sockets = pair();
    OnReady ready([&](uint32_t) { CHECK(false); });
    std::unique_ptr<Watch> watch;
    {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), ready, 0);
    }
    REQUIRE(write(sockets[0].get(), "x", 1) == 1);
    sockets[1].reset();
    loop->turn(20 * kMs);
    CHECK(loop->wakeups() <= 3);
    EngineLoop::Inside inside(*loop);
    watch.reset();
}

TEST_CASE("a watch may be destroyed by its own callback, its number be watched again at once") {
    auto loop = own();
    auto sockets = pair();
    auto others = pair();
    std::unique_ptr<Watch> watch;
    int again = 0;
    OnReady second([&](uint32_t) { ++again, loop->stop(); });
    OnReady first([&](uint32_t) {
        watch.reset();
        int number = sockets[0].get();
        sockets[0].reset();
        REQUIRE(dup2(others[0].get(), number) == number);
        sockets[0] = Fd(number);
        watch = loop->watch(number, second, kReadable);
        REQUIRE(watch);
    });
    {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), first, kReadable);
    }
    REQUIRE(write(sockets[1].get(), "x", 1) == 1);
    REQUIRE(write(others[1].get(), "x", 1) == 1);
    loop->run();
    CHECK(again == 1);
    EngineLoop::Inside inside(*loop);
    watch.reset();
}

TEST_CASE("what cannot be watched is not") {
    auto loop = own();
    OnReady ready([](uint32_t) {});
    Fd file(memfd_create("file", MFD_CLOEXEC));  // epoll refuses regular files
    std::unique_ptr<Watch> watch;
    OnTask task([&] { watch = loop->watch(file.get(), ready, kReadable), loop->stop(); });
    {
        EngineLoop::Inside inside(*loop);
        loop->defer(task);
    }
    loop->run();
    CHECK(!watch);
}

TEST_CASE("no wake is lost among many threads, with and without spinning") {
    for (uint32_t spin_us : {0u, 50u}) {
        constexpr int kThreads = 4, kEach = 20'000;
        auto loop = own(spin_us);
        std::atomic<int> mailbox = 0;
        int taken = 0, wakes = 0;
        OnWake woken([&] {
            CHECK(loop->on_thread());
            ++wakes;
            taken += mailbox.exchange(0);
            if (taken == kThreads * kEach) loop->stop();
        });
        loop->set_wake_sink(woken);
        std::vector<std::thread> threads;
        for (int i = 0; i < kThreads; ++i)
            threads.emplace_back([&] {
                for (int n = 0; n < kEach; ++n) {
                    mailbox.fetch_add(1);
                    loop->wake();
                    if (n % 64 == 0) std::this_thread::yield();
                }
            });
        loop->run();
        for (auto &thread : threads)
            thread.join();
        CHECK(taken == kThreads * kEach);
        CHECK(wakes <= taken);
        CHECK(!loop->on_thread());
    }
}

TEST_CASE("two loops that wake each other in turn always hear it") {
    auto one = own(), two = own();
    int left = 20'000;
    OnWake ping([&] { two->wake(); });
    OnWake pong([&] {
        if (--left > 0) return one->wake();  // stop() is a wake too
        one->stop();
        two->stop();
    });
    one->set_wake_sink(ping);
    two->set_wake_sink(pong);
    std::thread other([&] { two->run(); });
    one->wake();
    one->run();
    other.join();
    CHECK(left <= 0);
    CHECK(one->wakeups() > 0);
}

TEST_CASE("stop ends a loop that sleeps, and one that has not begun") {
    auto loop = own();
    std::thread thread([&] { loop->run(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    loop->stop();
    thread.join();
    loop->stop();
    loop->run();
}

TEST_CASE("what other threads ask for inside takes effect although the loop sleeps") {
    auto loop = own();
    auto sockets = pair();
    std::atomic<int> seen = 0;
    OnReady ready([&](uint32_t) {
        char byte;
        seen += read(sockets[0].get(), &byte, 1) == 1;
    });
    OnTimer timer([&] { ++seen; });
    OnTask task([&] { ++seen; });
    std::unique_ptr<Watch> watch;
    std::thread thread([&] { loop->run(); });
    auto await = [&](int count) {
        for (int i = 0; i < 5000 && seen < count; ++i)
            usleep(1000);
        CHECK(seen == count);
    };
    usleep(5000);
    {
        EngineLoop::Inside inside(*loop);
        CHECK(loop->on_thread());
        EngineLoop::Inside nested(*loop);
        CHECK(nested);
        watch = loop->watch(sockets[0].get(), ready, 0);
    }
    usleep(5000);
    {
        EngineLoop::Inside inside(*loop);
        watch->want(kReadable);
    }
    REQUIRE(write(sockets[1].get(), "x", 1) == 1);
    await(1);
    for (bool entered = false; !entered;) {
        EngineLoop::Inside inside(*loop, std::try_to_lock);
        entered = static_cast<bool>(inside);
        if (entered) loop->arm(timer.timer, loop->now() + 5 * kMs);
    }
    await(2);
    {
        EngineLoop::Inside inside(*loop);
        loop->defer(task);
    }
    await(3);
    {
        EngineLoop::Inside inside(*loop);
        watch.reset();
        sockets[0].reset();
    }
    loop->stop();
    thread.join();
}

TEST_CASE("a loop that was closed can be entered, and has nothing to do") {
    auto loop = own();
    std::atomic<bool> stop = false;
    std::atomic<int> entered = 0;
    std::thread visitor([&] {
        while (!stop) {
            EngineLoop::Inside inside(*loop, std::try_to_lock);
            entered += static_cast<bool>(inside);
        }
    });
    std::thread thread([&] { loop->run(); });
    while (entered < 1000)
        usleep(100);
    loop->stop();
    thread.join();
    const auto descriptors = count_descriptors();
    loop->close();
    CHECK(count_descriptors() < descriptors);
    const int before = entered;
    while (entered < before + 1000)
        usleep(100);
    loop->wake();  // rings no bell that there is
    stop = true;
    visitor.join();
}

TEST_CASE("a descriptor may be closed by any thread as soon as its watch is gone") {
    auto loop = own();
    std::thread thread([&] { loop->run(); });
    OnReady ready([](uint32_t) {});
    OnReady never([](uint32_t) { CHECK(false); });
    constexpr size_t kWatches = 200;  // the kernel is told of them for a while
    for (int round = 0; round < 100; ++round) {
        std::vector<std::array<Fd, 2>> sockets;
        std::vector<std::unique_ptr<Watch>> watches;
        for (size_t i = 0; i < kWatches; ++i) {
            sockets.push_back(pair());
            REQUIRE(write(sockets[i][1].get(), "x", 1) == 1);
        }
        {
            EngineLoop::Inside inside(*loop);
            for (auto &one : sockets)
                watches.push_back(loop->watch(one[0].get(), ready, kReadable));
        }
        auto quiet = pair();
        if (round % 2) std::this_thread::yield();
        for (size_t i = kWatches; i-- > 0;) {
            EngineLoop::Inside inside(*loop);
            watches[i].reset();
            const int number = sockets[i][0].get();
            if (i % 2) {
                sockets[i][0].reset();
                continue;
            }
            // Another socket of the same number, which never becomes readable.
            REQUIRE(dup2(quiet[0].get(), number) == number);
            watches[i] = loop->watch(number, never, kReadable);
            REQUIRE(watches[i]);
        }
        EngineLoop::Inside inside(*loop);
        watches.clear();
    }
    loop->stop();
    thread.join();
}

TEST_CASE("what one callback ends is not called any more, though it was ready, too") {
    auto loop = own();
    constexpr size_t kPairs = 100;  // more than are collected at once
    std::vector<std::array<Fd, 2>> sockets;
    std::vector<std::unique_ptr<Watch>> watches(kPairs);
    int called = 0;
    OnReady first([&](uint32_t) {
        ++called;
        for (auto &watch : watches)
            watch.reset();
    });
    {
        EngineLoop::Inside inside(*loop);
        for (auto &watch : watches) {
            sockets.push_back(pair());
            REQUIRE(write(sockets.back()[1].get(), "x", 1) == 1);
            watch = loop->watch(sockets.back()[0].get(), first, kReadable);
            REQUIRE(watch);
        }
    }
    loop->turn(kSecond);
    loop->turn(0);
    CHECK(called == 1);
}

TEST_CASE("however many are ready, each has its turn") {
    auto loop = own();
    constexpr int kPairs = 200;
    std::vector<std::array<Fd, 2>> sockets;
    std::vector<std::unique_ptr<OnReady>> sinks;
    std::vector<std::unique_ptr<Watch>> watches;
    std::vector<int> called(kPairs);
    {
        EngineLoop::Inside inside(*loop);
        for (int i = 0; i < kPairs; ++i) {
            sockets.push_back(pair());
            REQUIRE(write(sockets.back()[1].get(), "x", 1) == 1);
            sinks.push_back(std::make_unique<OnReady>([&called, i](uint32_t) { ++called[i]; }));
            watches.push_back(loop->watch(sockets.back()[0].get(), *sinks.back(), kReadable));
        }
    }
    for (int turns = 0; turns < 10; ++turns)
        loop->turn(kSecond);
    for (int times : called)
        CHECK(times > 0);
    EngineLoop::Inside inside(*loop);
    watches.clear();
}

TEST_CASE("an idle loop does not wake up, and a busy one that spins does not sleep") {
    auto loop = own();
    std::thread thread([&] { loop->run(); });
    usleep(60'000);
    CHECK(loop->wakeups() <= 1);
    loop->stop();
    thread.join();

    auto spinning = own(200'000);
    int left = 50;
    OnTimer tick([&] {
        if (--left == 0) return spinning->stop();
        spinning->arm(tick.timer, spinning->now() + kMs / 5);
    });
    {
        EngineLoop::Inside inside(*spinning);
        spinning->arm(tick.timer, spinning->now());
    }
    spinning->run();
    CHECK(left == 0);
    CHECK(spinning->wakeups() == 0);
}

TEST_CASE("a loop that expects something does not sleep, until it is due") {
    auto loop = own();
    {
        EngineLoop::Inside inside(*loop);
        loop->expect(uv_hrtime() + kSecond);
    }
    loop->turn(20 * kMs);
    CHECK(loop->wakeups() == 0);
    std::thread thread([&] { loop->run(); });
    usleep(20'000);
    loop->stop();
    thread.join();
    CHECK(loop->wakeups() == 0);

    auto other = own();
    other->expect(uv_hrtime() + 2 * kMs);
    other->turn(20 * kMs);
    CHECK(other->wakeups() >= 1);
}

TEST_CASE("a turn waits as long as it may, and returns at the first thing that ran") {
    auto loop = own();
    uint64_t start = uv_hrtime();
    loop->turn(20 * kMs);
    CHECK(uv_hrtime() - start >= 20 * kMs);
    OnTimer timer([] {});
    {
        EngineLoop::Inside inside(*loop);
        loop->arm(timer.timer, loop->now() + 10 * kMs);
    }
    loop->turn(kNever);
    CHECK(!timer.timer.armed());
    std::thread waker([&] {
        usleep(5000);
        loop->wake();
    });
    loop->turn(kNever);
    waker.join();
    start = uv_hrtime();
    loop->turn(0);
    CHECK(uv_hrtime() - start < kSecond);
}

TEST_CASE("the descriptor of a loop is readable when, and only when, a turn would do something") {
    auto loop = own();
    int woken = 0, fired = 0, ran = 0, ready_count = 0;
    OnWake wake([&] { ++woken; });
    loop->set_wake_sink(wake);
    auto fd = loop->fd();
    REQUIRE(fd);
    CHECK(*loop->fd() == *fd);
    CHECK(!readable(*fd));

    SUBCASE("timer") {
        OnTimer timer([&] { ++fired; });
        {
            EngineLoop::Inside inside(*loop);
            loop->arm(timer.timer, loop->now() + 1000 * kMs);
        }
        CHECK(!readable(*fd));
        CHECK(readable(*fd, 5000));
        CHECK(loop->now() + 1000 * kMs <= uv_hrtime());
        loop->turn(0);
        loop->settle();
        CHECK(fired == 1);
    }
    SUBCASE("watch") {
        auto sockets = pair();
        OnReady ready([&](uint32_t) {
            char byte;
            CHECK(read(sockets[0].get(), &byte, 1) == 1);
            ++ready_count;
        });
        std::unique_ptr<Watch> watch;
        {
            EngineLoop::Inside inside(*loop);
            watch = loop->watch(sockets[0].get(), ready, kReadable);
        }
        CHECK(!readable(*fd));
        REQUIRE(write(sockets[1].get(), "x", 1) == 1);
        CHECK(readable(*fd));
        loop->turn(0);
        loop->settle();
        CHECK(ready_count == 1);
        CHECK(!readable(*fd));
        {
            EngineLoop::Inside inside(*loop);
            watch->want(0);
        }
        REQUIRE(write(sockets[1].get(), "x", 1) == 1);
        CHECK(!readable(*fd));
        {
            EngineLoop::Inside inside(*loop);
            watch->want(kReadable);
        }
        CHECK(readable(*fd));
        EngineLoop::Inside inside(*loop);
        watch.reset();
        sockets[0].reset();
    }
    SUBCASE("wake") {
        std::thread([&] { loop->wake(), loop->wake(); }).join();
        CHECK(readable(*fd));
        loop->turn(0);
        loop->settle();
        CHECK(woken == 1);
    }
    SUBCASE("wake before settle") {
        OnTask task([&] { loop->wake(); });
        {
            EngineLoop::Inside inside(*loop);
            loop->defer(task);
        }
        CHECK(readable(*fd));
        for (int i = 0; i < 10 && readable(*fd); ++i)
            loop->turn(0), loop->settle();
        CHECK(woken == 1);
    }
    SUBCASE("deferred") {
        OnTask task([&] { ++ran; });
        {
            EngineLoop::Inside inside(*loop);
            loop->defer(task);
        }
        CHECK(readable(*fd));
        loop->turn(0);
        loop->settle();
        CHECK(ran == 1);
    }
    CHECK(!readable(*fd, 30));
}

TEST_CASE("a descriptor that is asked for late knows of what was there before") {
    auto loop = own();
    int woken = 0;
    OnWake wake([&] { ++woken; });
    loop->set_wake_sink(wake);
    auto sockets = pair();
    OnTimer timer([] {});
    OnTask task([] {});
    OnReady ready([](uint32_t) {});
    std::unique_ptr<Watch> watch;
    loop->turn(0);
    SUBCASE("a wake-up") {
        loop->wake();
    }
    SUBCASE("a task") {
        EngineLoop::Inside inside(*loop);
        loop->defer(task);
    }
    SUBCASE("a timer") {
        EngineLoop::Inside inside(*loop);
        loop->arm(timer.timer, loop->now());
    }
    SUBCASE("a socket") {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), ready, kReadable);
        REQUIRE(write(sockets[1].get(), "x", 1) == 1);
    }
    auto fd = loop->fd();
    REQUIRE(fd);
    CHECK(readable(*fd, 100));
    loop->turn(0);
    EngineLoop::Inside inside(*loop);
    watch.reset();
    loop->disarm(timer.timer);
}

TEST_CASE("a loop that always has work of its own looks at its descriptors all the same") {
    auto loop = own();
    auto sockets = pair();
    bool heard = false;
    OnReady ready([&](uint32_t) { heard = true; });
    OnTask *again = nullptr;
    int ran = 0;
    OnTask task([&] { ++ran, loop->defer(*again); });
    again = &task;
    std::unique_ptr<Watch> watch;
    {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), ready, kReadable);
        loop->defer(task);
    }
    REQUIRE(write(sockets[1].get(), "x", 1) == 1);
    const uint64_t start = uv_hrtime();
    while (!heard && uv_hrtime() - start < kSecond) {
        const int before = ran;
        loop->turn(kNever);
        CHECK(ran > before);
    }
    CHECK(heard);
    EngineLoop::Inside inside(*loop);
    task.unlink();
    watch.reset();
}

TEST_CASE(
    "on the caller's loop we run beside its handles, keep it alive, and leave without a trace") {
    uv_loop_t uv;
    REQUIRE(uv_loop_init(&uv) == 0);
    auto made = UvLoop::open(&uv);
    REQUIRE(made);
    auto loop = std::move(*made);
    auto sockets = pair();
    int others = 0, woken = 0;
    uv_timer_t theirs;
    uv_timer_init(&uv, &theirs);
    theirs.data = &others;
    uv_timer_start(
        &theirs, [](uv_timer_t *timer) { ++*static_cast<int *>(timer->data); }, 1, 1);

    OnClosed closed;
    std::unique_ptr<Watch> watch;
    std::thread waker;
    OnWake wake([&] {
        ++woken;
        CHECK(loop->on_thread());
        watch.reset();
        loop->close(closed);
    });
    OnReady ready([&](uint32_t) {
        watch->want(0);
        waker = std::thread([&] {
            usleep(5000);
            loop->wake();
        });
    });
    OnTimer timer([&] { REQUIRE(write(sockets[1].get(), "x", 1) == 1); });
    loop->set_wake_sink(wake);
    {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), ready, kReadable);
        loop->arm(timer.timer, loop->now() + 5 * kMs);
    }
    while (closed.count == 0)
        uv_run(&uv, UV_RUN_ONCE);
    waker.join();
    CHECK(woken == 1);
    CHECK(others > 0);
    CHECK(closed.count == 1);
    loop->wake();  // too late, and harmless
    loop.reset();
    uv_close(reinterpret_cast<uv_handle_t *>(&theirs), nullptr);
    uv_run(&uv, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&uv) == 0);
}

TEST_CASE("a child of fork parts with the loop without harm to the parent's") {
    auto loop = own();
    auto sockets = pair();
    int seen = 0;
    OnReady ready([&](uint32_t) { ++seen; });
    std::unique_ptr<Watch> watch;
    {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), ready, kReadable);
    }
    loop->turn(0);
    pid_t child = fork();
    if (child == 0) {
        loop->forked();
        watch.reset();
        loop.reset();
        _exit(0);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    REQUIRE(write(sockets[1].get(), "x", 1) == 1);
    loop->turn(kSecond);
    CHECK(seen == 1);
    EngineLoop::Inside inside(*loop);
    watch.reset();
}

TEST_CASE("the caller's loop in a child of fork hears nothing of the parent's descriptors") {
    uv_loop_t uv;
    REQUIRE(uv_loop_init(&uv) == 0);
    auto made = UvLoop::open(&uv);
    REQUIRE(made);
    auto loop = std::move(*made);
    auto sockets = pair();
    int seen = 0;
    OnReady ready([&](uint32_t) { ++seen; });
    std::unique_ptr<Watch> watch;
    {
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(sockets[0].get(), ready, kReadable);
    }
    uv_run(&uv, UV_RUN_NOWAIT);
    pid_t child = fork();
    if (child == 0) {
        loop->forked();
        bool good = uv_loop_fork(&uv) == 0 && write(sockets[1].get(), "x", 1) == 1;
        for (int i = 0; i < 3; ++i)
            uv_run(&uv, UV_RUN_NOWAIT);
        good &= seen == 0 && !readable(uv_backend_fd(&uv));
        watch.reset();
        _exit(good ? 0 : 1);
    }
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    uv_run(&uv, UV_RUN_NOWAIT);
    CHECK(seen > 0);
    OnClosed closed;
    {
        EngineLoop::Inside inside(*loop);
        watch.reset();
        loop->close(closed);
    }
    while (closed.count == 0)
        uv_run(&uv, UV_RUN_ONCE);
    loop.reset();
    CHECK(uv_loop_close(&uv) == 0);
}
