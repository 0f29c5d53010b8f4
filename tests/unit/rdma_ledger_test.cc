// SPDX-License-Identifier: Apache-2.0
// The ledger of a send queue, against a model of a device that gives slots back only by completions
// of signaled requests, as adapters do.
#include "transport/rdma/ledger.h"

#include <doctest/doctest.h>

#include <deque>
#include <random>
#include <set>

using namespace xfer::rdma;

namespace {

constexpr uint32_t kGeneration = 7;

void *number(uintptr_t chain) {
    return reinterpret_cast<void *>(chain);
}

// Reserves and posts, all of it.
uint64_t post(Ledger &ledger, uint32_t requests, uintptr_t user = 1) {
    REQUIRE(ledger.reserve(requests) == Ledger::Verdict::reserved);
    const uint64_t id = ledger.id();
    ledger.posted({requests, number(user)}, requests);
    return id;
}

uint32_t pop_failed(Ledger &ledger) {
    uint32_t requests = 0;
    while (const auto chain = ledger.pop_failed())
        requests += chain->requests;
    return requests;
}

}  // namespace

TEST_CASE("a chain is reserved whole, or nothing is") {
    Ledger ledger(25, kGeneration);
    post(ledger, 10);
    post(ledger, 10);
    CHECK(ledger.reserve(10) == Ledger::Verdict::full);
    CHECK(ledger.depth() == 20);
    CHECK(ledger.reserve(26) == Ledger::Verdict::too_large);
    CHECK(ledger.depth() == 20);
    post(ledger, 5);
    CHECK(ledger.free() == 0);
    CHECK(ledger.reserve(1) == Ledger::Verdict::full);
}

TEST_CASE("a completion stands for its chain and all before it, once") {
    Ledger ledger(25, kGeneration);
    const uint64_t first = post(ledger, 10, 1), second = post(ledger, 3, 2);
    const uint64_t third = post(ledger, 4, 3);
    CHECK_FALSE(ledger.pop_done());
    CHECK(ledger.completed(second, true));
    CHECK_FALSE(ledger.completed(second, true));  // told twice
    CHECK_FALSE(ledger.completed(first, true));   // and behind its successor
    CHECK(ledger.pop_done()->user == number(1));
    CHECK(ledger.pop_done()->user == number(2));
    CHECK_FALSE(ledger.pop_done());
    CHECK(ledger.depth() == 4);
    CHECK_FALSE(ledger.completed(first, true));
    CHECK_FALSE(ledger.completed(second, true));
    CHECK_FALSE(ledger.completed(third + 1, true));
    CHECK_FALSE(ledger.pop_done());
    CHECK(ledger.completed(third, true));
    CHECK(ledger.pop_done()->requests == 4);
    CHECK(ledger.depth() == 0);
}

TEST_CASE("numbers of other kinds, generations and chains are known to be none of these") {
    Ledger ledger(8, kGeneration);
    const uint64_t id = post(ledger, 1);
    CHECK(id != 0);
    RequestId other = RequestId::of(id);
    CHECK(other == RequestId{RequestKind::chain, kGeneration, 0});
    CHECK(RequestId::of(other.word()) == other);
    for (const RequestKind kind : {RequestKind{}, RequestKind::marker, RequestKind::receive})
        CHECK_FALSE(ledger.completed(RequestId{kind, kGeneration, 0}.word(), true));
    CHECK_FALSE(ledger.completed(RequestId{RequestKind::chain, kGeneration - 1, 0}.word(), true));
    CHECK_FALSE(ledger.completed(RequestId{RequestKind::chain, kGeneration + 1, 0}.word(), false));
    CHECK_FALSE(ledger.completed(0, false));
    CHECK_FALSE(ledger.degraded());
    CHECK(ledger.completed(id, true));
}

TEST_CASE("a list of which the device took so many, for each number") {
    for (uint32_t requests = 1; requests <= 12; ++requests)
        for (uint32_t taken = 0; taken <= requests; ++taken) {
            CAPTURE(requests);
            CAPTURE(taken);
            Ledger ledger(25, kGeneration);
            const uint64_t before = post(ledger, 5);
            REQUIRE(ledger.reserve(requests) == Ledger::Verdict::reserved);
            const uint64_t id = ledger.id();
            ledger.posted({requests, number(2)}, taken);
            CHECK(ledger.depth() == 5 + taken);
            CHECK(ledger.degraded() == (taken < requests));
            CHECK(ledger.completed(before, true));  // what was there before ends well
            CHECK(ledger.pop_done()->requests == 5);
            if (taken == requests) continue;
            CHECK(ledger.reserve(1) == Ledger::Verdict::degraded);
            CHECK(ledger.free() == 0);
            // Nothing was signaled: a device that says so is not believed.
            CHECK(ledger.completed(id, true) == (taken > 0));
            CHECK_FALSE(ledger.pop_done());
            CHECK_FALSE(ledger.pop_failed());
            ledger.flushed();
            CHECK(pop_failed(ledger) == taken);
            CHECK(ledger.depth() == 0);
            CHECK(ledger.reserve(1) == Ledger::Verdict::degraded);
        }
}

TEST_CASE("behind an error nothing ends well, and nothing ends before the flush") {
    Ledger ledger(25, kGeneration);
    const uint64_t first = post(ledger, 2, 1), second = post(ledger, 2, 2);
    const uint64_t third = post(ledger, 2, 3);
    CHECK(ledger.completed(second, false));
    CHECK(ledger.degraded());
    CHECK(ledger.completed(third, true));
    CHECK_FALSE(ledger.pop_done());
    CHECK(ledger.completed(first, true));  // late, but before it
    CHECK(ledger.pop_done()->user == number(1));
    CHECK_FALSE(ledger.pop_done());
    CHECK_FALSE(ledger.pop_failed());
    ledger.flushed();
    CHECK(ledger.pop_failed()->user == number(2));
    CHECK(ledger.pop_failed()->user == number(3));
    CHECK_FALSE(ledger.pop_failed());
    CHECK(ledger.depth() == 0);
    CHECK_FALSE(ledger.completed(third, false));
}

TEST_CASE("of several faults the earliest counts") {
    Ledger ledger(25, kGeneration);
    const uint64_t first = post(ledger, 2, 1), second = post(ledger, 2, 2);
    const uint64_t third = post(ledger, 2, 3);
    CHECK(ledger.completed(third, false));
    CHECK(ledger.completed(first, false));
    CHECK(ledger.completed(second, true));
    CHECK_FALSE(ledger.pop_done());
    ledger.flushed();
    CHECK(pop_failed(ledger) == 6);
}

// The leaks that are known in another engine's admission (MORI-IO's, PR 188), as far as they are
// the ledger's.
TEST_CASE("leak 1: posted lists of a call of which a later list finds no room are still owed") {
    Ledger ledger(25, kGeneration);
    const uint64_t first = post(ledger, 10), second = post(ledger, 10);
    CHECK(ledger.reserve(10) == Ledger::Verdict::full);
    CHECK(ledger.depth() == 20);
    CHECK(ledger.completed(first, true));
    CHECK(ledger.completed(second, true));
    while (ledger.pop_done()) {}
    CHECK(ledger.depth() == 0);
}

TEST_CASE("leak 2: a list of which nothing was taken leaves what was posted before it owed") {
    Ledger ledger(25, kGeneration);
    const uint64_t before = post(ledger, 10);
    REQUIRE(ledger.reserve(10) == Ledger::Verdict::reserved);
    ledger.posted({10, number(2)}, 0);
    CHECK(ledger.degraded());
    CHECK(ledger.depth() == 10);
    CHECK(ledger.completed(before, true));
    CHECK(ledger.pop_done());
    CHECK(ledger.depth() == 0);
}

TEST_CASE("leak 3: no list waits for slots that no completion will give back") {
    Ledger ledger(25, kGeneration);
    std::deque<uint64_t> under_way;
    for (int list = 0; list < 1'000; ++list) {
        while (ledger.reserve(10) == Ledger::Verdict::full) {
            REQUIRE_FALSE(under_way.empty());  // each list is signaled: something will tell
            CHECK(ledger.completed(under_way.front(), true));
            under_way.pop_front();
            CHECK(ledger.pop_done());
        }
        under_way.push_back(ledger.id());
        ledger.posted({10, number(1)}, 10);
    }
}

TEST_CASE("leak 4: a queue with orphans that succeed is degraded without any completion") {
    Ledger ledger(25, kGeneration);
    REQUIRE(ledger.reserve(10) == Ledger::Verdict::reserved);
    ledger.posted({10, number(1)}, 6);
    CHECK(ledger.degraded());
    ledger.flushed();
    CHECK(pop_failed(ledger) == 6);
    CHECK(ledger.depth() == 0);
}

TEST_CASE("leak 8: a completion that names nothing is of no chain") {
    Ledger ledger(25, kGeneration);
    post(ledger, 10);
    for (const bool ok : {true, false})
        CHECK_FALSE(ledger.completed(0, ok));
    CHECK_FALSE(ledger.degraded());
    CHECK(ledger.depth() == 10);
}

TEST_CASE("leak 10: full, too large and degraded are told apart") {
    Ledger ledger(4, kGeneration);
    CHECK(ledger.reserve(5) == Ledger::Verdict::too_large);
    const uint64_t id = post(ledger, 4);
    CHECK(ledger.reserve(1) == Ledger::Verdict::full);
    CHECK(ledger.completed(id, false));
    CHECK(ledger.reserve(1) == Ledger::Verdict::degraded);
    CHECK(ledger.reserve(5) == Ledger::Verdict::too_large);
}

// A device beside it: slots, what it took, and completions in their order. Each chain ends exactly
// once, as the device has it, the slots never differ, and in the end nothing is owed.
TEST_CASE("a million steps of a device that takes, completes, fails and flushes as it likes") {
    struct Posted {
        uint64_t id;
        uintptr_t user;
        uint32_t requests;
        bool signaled;
    };
    std::mt19937_64 random(20261126);
    uint64_t steps = 0, lives = 0;
    while (steps < 1'000'000) {
        ++lives;
        const uint32_t slots = 1 + static_cast<uint32_t>(random() % 40);
        Ledger ledger(slots, static_cast<uint32_t>(lives));
        std::deque<Posted> device;
        std::deque<Posted> told;  // completions that have been polled, and not popped
        std::set<uintptr_t> ended;
        uint32_t depth = 0;
        uintptr_t chains = 0;
        bool failed = false;
        const auto end = [&](const Ledger::Chain &chain) {
            CHECK(ended.insert(reinterpret_cast<uintptr_t>(chain.user)).second);
            depth -= chain.requests;
        };
        for (uint64_t left = random() % 4'000; left > 0 && !failed; --left, ++steps) {
            if (random() % 2) {
                const uint32_t requests = 1 + static_cast<uint32_t>(random() % (slots + 2));
                const Ledger::Verdict verdict = ledger.reserve(requests);
                CHECK((verdict == Ledger::Verdict::too_large) == (requests > slots));
                CHECK((verdict == Ledger::Verdict::reserved) == (requests + depth <= slots));
                if (verdict != Ledger::Verdict::reserved) continue;
                const bool part = random() % 500 == 0;
                const auto taken = static_cast<uint32_t>(part ? random() % requests : requests);
                const uintptr_t user = ++chains;
                if (taken) device.push_back({ledger.id(), user, taken, !part});
                ledger.posted({requests, number(user)}, taken);
                depth += taken;
                failed = part;
            } else if (!device.empty()) {
                const Posted first = device.front();
                device.pop_front();
                failed = random() % 1'000 == 0;
                CHECK(ledger.completed(first.id, !failed));
                if (failed) {
                    device.push_front(first);
                    break;
                }
                if (random() % 3) continue;  // polled together with the next
                while (const auto chain = ledger.pop_done())
                    end(*chain);
            }
            CHECK(ledger.depth() >= depth);
        }
        // To ERR: signaled requests complete with an error, unsignaled ones as the device likes.
        while (const auto chain = ledger.pop_done())
            end(*chain);
        for (const Posted &posted : device)
            if (posted.signaled || random() % 2) CHECK(ledger.completed(posted.id, false));
        CHECK_FALSE(ledger.pop_failed());
        ledger.flushed();
        while (const auto chain = ledger.pop_failed())
            end(*chain);
        CHECK(depth == 0);
        CHECK(ledger.depth() == 0);
        CHECK(ended.size() <= chains);
        CHECK(chains - ended.size() <= 1);  // one that was not taken at all has no end of its own
    }
    CHECK(lives > 100);
}

TEST_CASE("the ring of chains goes round") {
    Ledger ledger(3, kGeneration);
    uint64_t id = 0;
    for (uint64_t i = 0; i < 5'000; ++i) {
        id = post(ledger, 1 + i % 3);
        CHECK(ledger.completed(id, true));
        CHECK(ledger.pop_done());
    }
    CHECK(RequestId::of(id).index == 4'999);
    CHECK(ledger.depth() == 0);
}
