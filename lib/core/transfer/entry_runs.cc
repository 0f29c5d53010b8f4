// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/entry_runs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace xfer {

void EntryRuns::add(uint64_t first, uint64_t last, Status status) {
    sorted_ = false;
    if (!runs_.empty()) {
        Run &back = runs_.back();
        if (back.status == status && first <= back.last + 1 && last + 1 >= back.first) {
            back.first = std::min(back.first, first);
            back.last = std::max(back.last, last);
            return;
        }
    }
    runs_.push_back({first, last, status});
}

void EntryRuns::assign(uint64_t first, uint64_t last, Status status) {
    runs_.resize(0);
    runs_.push_back({first, last, status});
}

uint64_t EntryRuns::first() const {
    return std::ranges::min(runs_, {}, &Run::first).first;
}

// A sweep over the entries: of all runs that cover one, that which was noted first.
void EntryRuns::sort() {
    if (sorted_) return;
    std::vector<size_t> order(runs_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return runs_[i].first; });
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> covering;
    std::vector<Run> out;
    out.reserve(2 * runs_.size());
    auto next = order.begin();
    uint64_t at = 0;
    while (next != order.end() || !covering.empty()) {
        if (covering.empty()) at = runs_[*next].first;
        for (; next != order.end() && runs_[*next].first <= at; ++next)
            covering.push(*next);
        const Run &top = runs_[covering.top()];
        if (top.last < at) {
            covering.pop();
            continue;
        }
        const uint64_t end =
            next == order.end() ? top.last : std::min(top.last, runs_[*next].first - 1);
        out.push_back({at, end, top.status});
        at = end + 1;
    }
    runs_.swap(out);
    sorted_ = true;
}

void EntryRuns::statuses(uint64_t first, std::span<Status> out) {
    sort();
    std::ranges::fill(out, XFER_OK);
    auto run = std::ranges::lower_bound(runs_, first, {}, &Run::last);
    for (; run != runs_.end() && run->first < first + out.size(); ++run) {
        const uint64_t from = std::max(run->first, first) - first;
        const uint64_t to = std::min(run->last - first + 1, uint64_t{out.size()});
        std::fill(out.begin() + static_cast<std::ptrdiff_t>(from),
                  out.begin() + static_cast<std::ptrdiff_t>(to), run->status);
    }
}

}  // namespace xfer
