// SPDX-License-Identifier: Apache-2.0
// Events that are pushed by several threads are popped once each, in the order of each thread, and
// none is forgotten by who sleeps when there is nothing.
#include <doctest/doctest.h>

#include <semaphore>
#include <thread>
#include <vector>

#include "core/base/event.h"
#include "interleave.h"

using namespace xfer;
using test::Interleavings;
using test::Stepped;

namespace {

struct Numbered final : EventNode {
    size_t thread = 0;
    uint64_t number = 0;
};

// A queue without its lists between two programs.
struct Model {
    EventCounts<Stepped> counts;
    Stepped<uint32_t> free, bell;  // the lock, which the pusher makes

    void push(uint64_t events) {
        free.store(1);
        for (; events > 0; --events) {
            Interleavings::wait(&free);
            const bool rings = counts.came(1);
            free.store(1);
            if (rings) bell.store(1);
        }
    }
    void pop(uint64_t events) {
        for (uint64_t taken = 0; events > 0; --events, --taken) {
            while (taken == 0) {
                if (counts.has_come()) {
                    Interleavings::wait(&free);
                    taken = counts.size();
                    counts.take();
                    free.store(1);
                } else if (counts.size() == 0) {
                    Interleavings::wait(&bell);
                }
            }
            counts.popped();
        }
    }
};

}  // namespace

TEST_CASE("no wake-up is lost, in any interleaving") {
    Model model;
    Interleavings all;
    CHECK(all.all_end({[&] { model.push(3); }, [&] { model.pop(3); }}));
    CHECK(all.states() > 1'000);  // it did go through them
}

TEST_CASE("what is pushed is popped in order, and counted") {
    EventQueue queue;
    std::vector<Numbered> nodes(6);
    CHECK(queue.pop() == nullptr);
    const auto push = [&](size_t first, size_t count) {
        EventList list;
        for (size_t i = first; i < first + count; ++i)
            list.push_back(nodes[i]);
        return queue.push(list, count);
    };
    CHECK(push(0, 2));
    CHECK_FALSE(push(2, 1));
    CHECK(queue.size() == 3);
    CHECK(queue.pop() == &nodes[0]);
    CHECK(queue.size() == 2);
    CHECK_FALSE(push(3, 2));  // some of what was taken is left
    CHECK(queue.size() == 4);
    for (size_t i = 1; i < 5; ++i)
        CHECK(queue.pop() == &nodes[i]);
    CHECK(queue.size() == 0);
    CHECK(queue.pop() == nullptr);
    CHECK(push(5, 1));
    CHECK(queue.pop() == &nodes[5]);
}

TEST_CASE("who sleeps when the queue is empty is woken") {
    constexpr size_t kThreads = 3, kEach = 100'000;
    EventQueue queue;
    std::counting_semaphore<> bell(0);
    std::vector<std::vector<Numbered>> nodes(kThreads);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
        nodes[t] = std::vector<Numbered>(kEach);
        threads.emplace_back([&, t] {
            for (size_t i = 0; i < kEach;) {
                EventList list;
                const size_t some = std::min<size_t>(1 + i % 3, kEach - i);
                for (const size_t end = i + some; i < end; ++i) {
                    nodes[t][i].thread = t;
                    nodes[t][i].number = i;
                    list.push_back(nodes[t][i]);
                }
                if (queue.push(list, some)) bell.release();
            }
        });
    }
    std::vector<uint64_t> next(kThreads);
    for (size_t popped = 0; popped < kThreads * kEach;) {
        while (EventNode *node = queue.pop()) {
            const auto &one = static_cast<Numbered &>(*node);
            REQUIRE(one.number == next[one.thread]++);
            ++popped;
        }
        if (popped < kThreads * kEach && queue.size() == 0)
            REQUIRE(bell.try_acquire_for(std::chrono::seconds(30)));
    }
    for (std::thread &thread : threads)
        thread.join();
    CHECK(queue.size() == 0);
}
