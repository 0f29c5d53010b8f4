// SPDX-License-Identifier: Apache-2.0
#include "device/ticket_memory.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

using namespace xfer;

namespace {

class Registry final : public TicketMemory::Registry {
public:
    bool add(void *page, uint64_t) override {
        pages.insert(page);
        return !refuses;
    }
    std::set<void *> pages;
    bool refuses = false;
};

void *page_of(const TicketMemory &memory) {
    return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(memory.line()) & ~uintptr_t{4095});
}

}  // namespace

TEST_CASE("each has a line, and lets streams through at first and at last") {
    Registry registry;
    TicketLine *line;
    {
        const TicketMemory one = TicketMemory::take(1, registry),
                           two = TicketMemory::take(1, registry);
        line = one.line();
        CHECK(line != two.line());
        CHECK((line->word.load() & Ticket::kPasses) != 0);
        line->word.store(Ticket::running);
    }
    CHECK((line->word.load() & Ticket::kPasses) != 0);
}

TEST_CASE("a line that was given back is the last to be taken again") {
    Registry registry;
    const TicketLine *const first = TicketMemory::take(2, registry).line();
    int takes = 1;
    while (TicketMemory::take(2, registry).line() != first)
        ++takes;
    CHECK(takes == 64);
}

TEST_CASE("a page is of one context") {
    Registry registry;
    const TicketMemory one = TicketMemory::take(3, registry),
                       other = TicketMemory::take(4, registry);
    CHECK(page_of(one) != page_of(other));
    std::vector<TicketMemory> many;
    for (int i = 0; i < 200; ++i)
        many.push_back(TicketMemory::take(3, registry));
    std::set<const TicketLine *> lines;
    for (const TicketMemory &each : many)
        lines.insert(each.line()), CHECK(page_of(each) != page_of(other));
    CHECK(lines.size() == 200);
    size_t pages = registry.pages.size();
    many.clear();
    const TicketMemory next = TicketMemory::take(5, registry);  // not those that nobody has now
    CHECK(registry.pages.size() == ++pages);
    for (int i = 0; i < 200; ++i)
        many.push_back(TicketMemory::take(3, registry));
    CHECK(registry.pages.size() == pages);
}

TEST_CASE("many takes lie between two of one line, however many are taken") {
    Registry registry;
    std::vector<TicketMemory> many;
    for (int i = 0; i < 64; ++i)
        many.push_back(TicketMemory::take(8, registry));
    const TicketLine *const first = TicketMemory::take(8, registry).line();
    int takes = 1;
    while (TicketMemory::take(8, registry).line() != first)
        ++takes;
    CHECK(takes >= 16);
}

TEST_CASE("what no context can be told of is not had") {
    Registry registry;
    registry.refuses = true;
    CHECK(TicketMemory::take(6, registry).line() == nullptr);
}

TEST_CASE("the child of a fork has none of it, and may end what it has a copy of") {
    Registry registry;
    TicketMemory memory = TicketMemory::take(7, registry);
    memory.line()->word.store(Ticket::running);
    const pid_t child = ::fork();
    if (child == 0) {
        { const TicketMemory gone = std::move(memory); }
        ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(memory.line()->word.load() == Ticket::running);
}

TEST_CASE("threads take and give back") {
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 4; ++i)
        threads.emplace_back([i] {
            Registry registry;
            for (int n = 0; n < 2000; ++n) {
                const TicketMemory memory = TicketMemory::take(10 + i % 2, registry);
                memory.line()->word.store(Ticket::begin(false));
            }
        });
    for (std::thread &each : threads)
        each.join();
}
