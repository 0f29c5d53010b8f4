// SPDX-License-Identifier: Apache-2.0
// Which entries of a batch failed, against a list of all entries that is filled one by one.
#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "core/transfer/entry_runs.h"

using namespace xfer;

namespace {

constexpr uint64_t kEntries = 60;

std::vector<Status> ask(EntryRuns &runs, uint64_t first, uint64_t count) {
    std::vector<Status> out(count, 12345);
    runs.statuses(first, out);
    return out;
}

}  // namespace

TEST_CASE("no entry failed") {
    EntryRuns runs;
    CHECK(runs.empty());
    CHECK(ask(runs, 0, 3) == std::vector<Status>{XFER_OK, XFER_OK, XFER_OK});
    CHECK(ask(runs, 0, 0).empty());
}

TEST_CASE("the first word on an entry counts, in whatever order runs overlap") {
    std::mt19937 random(1);
    const auto below = [&](uint64_t n) { return random() % n; };
    for (int round = 0; round < 3000; ++round) {
        EntryRuns runs;
        std::vector<Status> wanted(kEntries, XFER_OK);
        const uint64_t count = 1 + below(12);
        for (uint64_t i = 0; i < count; ++i) {
            const uint64_t first = below(kEntries);
            const uint64_t last = std::min(kEntries - 1, first + below(8));
            const Status status = -1 - static_cast<Status>(below(3));
            runs.add(first, last, status);
            for (uint64_t e = first; e <= last; ++e)
                if (wanted[e] == XFER_OK) wanted[e] = status;
        }
        uint64_t lowest = 0;
        while (wanted[lowest] == XFER_OK)
            ++lowest;
        CHECK(runs.first() == lowest);
        const uint64_t from = below(kEntries);
        const std::vector<Status> part(wanted.begin() + static_cast<std::ptrdiff_t>(from),
                                       wanted.end());
        CHECK(ask(runs, from, kEntries - from) == part);
        CHECK(ask(runs, 0, kEntries) == wanted);
    }
}

TEST_CASE("a million of entries, each asked for by itself after each has failed by itself") {
    constexpr uint64_t many = 1'000'000;
    EntryRuns runs;
    for (uint64_t i = 0; i < many; ++i)
        runs.add(many - 1 - i, many - 1 - i, i % 2 ? XFER_ESTALE : XFER_ERANGE);
    uint64_t stale = 0;
    for (uint64_t i = 0; i < many; ++i) {
        Status status = XFER_OK;
        runs.statuses(i, {&status, 1});
        stale += status == XFER_ESTALE;
    }
    CHECK(stale == many / 2);
}

TEST_CASE("in place of all") {
    EntryRuns runs;
    runs.add(3, 4, XFER_ESTALE);
    runs.assign(0, 9, XFER_ECANCELED);
    CHECK(ask(runs, 0, 10) == std::vector<Status>(10, XFER_ECANCELED));
    runs.clear();
    CHECK(runs.empty());
}
