// SPDX-License-Identifier: Apache-2.0
// The entries of a batch that did not end well. They are noted in the order in which that was
// learnt, and the first word on an entry counts; they are looked up after the end. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "util/status.h"

namespace xfer {

class EntryRuns {
public:
    EntryRuns() { runs_.reserve(1); }

    void clear() {
        runs_.clear();
        sorted_ = false;
    }
    void add(uint64_t first, uint64_t last, Status status);
    void assign(uint64_t first, uint64_t last, Status status);  // in place of all; never fails
    bool empty() const { return runs_.empty(); }
    uint64_t first() const;  // the lowest one
    // The statuses of `out.size()` entries from `first` on. The first call sorts: n entries and r
    // runs take O((n + r) log r), however many calls ask for them.
    void statuses(uint64_t first, std::span<Status> out);

private:
    struct Run {
        uint64_t first, last;
        Status status;
    };
    void sort();

    std::vector<Run> runs_;
    bool sorted_ = false;  // and without overlaps
};

}  // namespace xfer
