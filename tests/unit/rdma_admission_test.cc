// SPDX-License-Identifier: Apache-2.0
// Who is admitted to a send queue: whole chains, in the order of their coming.
#include "transport/rdma/admission.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

using namespace xfer::rdma;
using Verdict = Admission::Verdict;

namespace {

struct Asked : Ticket {
    Asked(uint32_t wanted, uint64_t size, uint64_t order = 0) : number(order) {
        slots = wanted;
        bytes = size;
    }
    const uint64_t number;
};

}  // namespace

TEST_CASE("a chain is admitted whole, and nobody is overtaken by one that would fit") {
    Admission admission(25, 1000);
    Asked large(20, 10), larger(10, 10), small(1, 1);
    CHECK(admission.ask(large) == Verdict::granted);
    CHECK(admission.ask(larger) == Verdict::waits);
    CHECK(admission.slots_taken() == 20);  // nothing is held while it waits
    CHECK(admission.ask(small) == Verdict::waits);
    CHECK(admission.next() == nullptr);
    admission.give_back(4, 10);
    CHECK(admission.next() == nullptr);
    admission.give_back(1, 0);
    CHECK(admission.next() == &larger);
    CHECK(admission.next() == nullptr);
    admission.give_back(15, 0);
    CHECK(admission.next() == &small);
    CHECK(admission.slots_taken() == 11);
    CHECK_FALSE(admission.waiting());
}

TEST_CASE("bytes are bounded, and a chain that is larger than all of them goes alone") {
    Admission admission(25, 1000);
    Asked half(1, 600), other(1, 500), huge(1, 5000);
    CHECK(admission.ask(half) == Verdict::granted);
    CHECK(admission.ask(other) == Verdict::waits);
    CHECK(admission.ask(huge) == Verdict::waits);
    admission.give_back(1, 600);
    CHECK(admission.next() == &other);
    CHECK(admission.next() == nullptr);
    admission.give_back(1, 500);
    CHECK(admission.next() == &huge);
    CHECK(admission.bytes_taken() == 5000);
    CHECK(admission.ask(half) == Verdict::waits);
    admission.withdraw(half);
}

TEST_CASE("too large, waiting and closed are told apart, and hold nothing") {
    Admission admission(4, 1000);
    Asked large(5, 1), first(4, 1), second(1, 1);
    CHECK(admission.ask(large) == Verdict::too_large);
    CHECK_FALSE(large.linked());
    CHECK(admission.ask(first) == Verdict::granted);
    CHECK(admission.ask(second) == Verdict::waits);
    admission.close();
    CHECK(admission.next() == nullptr);
    Asked late(1, 1);
    CHECK(admission.ask(late) == Verdict::closed);
    CHECK(admission.ask(large) == Verdict::too_large);
    admission.give_back(4, 1);
    CHECK(admission.next() == nullptr);
    CHECK(admission.next_refused() == &second);
    CHECK(admission.next_refused() == nullptr);
    admission.open(2);
    CHECK(admission.ask(late) == Verdict::granted);
    CHECK(admission.ask(first) == Verdict::too_large);
}

// What waited while a queue pair was made anew stays, unless the new one is too small for it.
TEST_CASE("who waits is admitted by the next queue pair, or told that it never is") {
    Admission admission(8, 1000);
    Asked first(8, 1), second(8, 1), third(2, 1);
    CHECK(admission.ask(first) == Verdict::granted);
    CHECK(admission.ask(second) == Verdict::waits);
    CHECK(admission.ask(third) == Verdict::waits);
    admission.close();
    admission.give_back(8, 1);
    admission.open(4);
    CHECK(admission.next() == nullptr);
    CHECK(admission.next_refused() == &second);
    CHECK(admission.next_refused() == nullptr);
    CHECK(admission.next() == &third);
}

TEST_CASE("who withdraws, at any place, lets those behind it in") {
    for (int place = 0; place < 3; ++place) {
        CAPTURE(place);
        Admission admission(10, 1000);
        Asked taken(6, 1);
        CHECK(admission.ask(taken) == Verdict::granted);
        Asked waiting[] = {{8, 1, 0}, {3, 1, 1}, {1, 1, 2}};
        for (Asked &asked : waiting)
            CHECK(admission.ask(asked) == Verdict::waits);
        admission.withdraw(waiting[place]);
        std::vector<uint64_t> let_in;
        while (const Ticket *ticket = admission.next())
            let_in.push_back(static_cast<const Asked *>(ticket)->number);
        CHECK(let_in == (place == 0 ? std::vector<uint64_t>{1, 2} : std::vector<uint64_t>{}));
        for (Asked &asked : waiting)
            if (asked.linked()) admission.withdraw(asked);
    }
}

// Requirement E1: depth 25, chains of 10, 30 (as 25 + 5) and 200 requests from 8 sources. Whoever
// asks first is admitted first, all of them end, and the queue never takes more than it has.
TEST_CASE("eight sources of chains of all lengths: none starves, none is overtaken, all end") {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        std::mt19937_64 random(seed);
        Admission admission(25, 1 << 20);
        struct Source {
            uint32_t left;  // requests
            std::unique_ptr<Asked> asked;
        };
        std::vector<Source> sources(8);
        for (Source &source : sources)
            source.left = std::vector<uint32_t>{1, 10, 30, 200}[random() % 4];
        std::deque<Asked> posted;
        uint64_t order = 0, let_in = 0, most_waited = 0;
        std::vector<std::pair<uint32_t, uint64_t>> under_way;
        const auto post = [&](Source &source) {
            CHECK(source.asked->number == ++let_in);
            under_way.emplace_back(source.asked->slots, source.asked->bytes);
            source.left -= source.asked->slots;
            source.asked.reset();
        };
        const auto all_over = [&] {
            return under_way.empty() &&
                   std::all_of(sources.begin(), sources.end(),
                               [](const Source &source) { return source.left == 0; });
        };
        for (int steps = 0; !all_over(); ++steps) {
            REQUIRE(steps < 100'000);
            Source &source = sources[random() % sources.size()];
            if (!source.asked && source.left) {
                source.asked = std::make_unique<Asked>(std::min(source.left, 25u),
                                                       random() % 300'000, ++order);
                source.asked->user = &source;
                if (admission.ask(*source.asked) == Verdict::granted) post(source);
                most_waited = std::max(most_waited, order - let_in);
            } else if (!under_way.empty()) {
                const size_t which = random() % under_way.size();
                admission.give_back(under_way[which].first, under_way[which].second);
                under_way.erase(under_way.begin() + static_cast<ptrdiff_t>(which));
                while (Ticket *ticket = admission.next())
                    post(*static_cast<Source *>(ticket->user));
            }
            CHECK(admission.slots_taken() <= 25);
        }
        CHECK(most_waited <= sources.size());  // at most one of each other source is before it
        CHECK(admission.slots_taken() == 0);
        CHECK(admission.bytes_taken() == 0);
    }
}
