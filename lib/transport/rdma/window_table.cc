// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/window_table.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "loop/worker.h"
#include "transport/rdma/adapter.h"
#include "transport/rdma/memory_window.h"
#include "util/memory.h"

namespace xfer::rdma {

namespace {

constexpr uint32_t kAllowed = XFER_READ | XFER_WRITE;

Failure no_window(Text why) {
    return {XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, why};
}

}  // namespace

// A region or grant, and what is under way of it on the worker or the queue pair.
class WindowTable::Entry final : public Worker::Job, public ListNode<InOrder> {
public:
    enum class State : uint8_t { making, waits, posted, bound, refused, closing, kept };
    struct Part {
        ibv_mr *place;
        uint64_t address, length;
    };

    Entry(WindowTable &of, RegionId number, const RegionKeys &asked)
        : table(of), region(number), keys(asked) {
        const uint64_t count = (keys.length - 1) / keys.part_bytes + 1;
        parts.reserve(count);
        windows.reserve(count);
    }

    void run() noexcept override {
        if (state == State::closing) return close();
        for (size_t i = 0; i < parts.size() && !why; ++i) {
            auto made = MemoryWindow::make(table.adapter_.device().ports().front());
            if (made)
                windows.push_back(std::move(*made));
            else
                why = made.error();
        }
    }
    void done(Status status) override {
        if (status != XFER_OK) why = {status, XFER_ORIGIN_OS, 0, "no thread makes memory windows"};
        if (state == State::making) return table.on_made(*this);
        if (status != XFER_OK) close();
        table.on_given_back(*this);
    }

    WindowTable &table;
    const RegionId region;
    RegionKeys keys;  // of those that are bound
    std::vector<Part> parts;
    std::vector<MemoryWindow> windows;  // the worker's while a job is under way
    std::optional<Failure> why;         // of the last step
    MemoryDomain::Hold hold = nullptr;
    State state = State::making;
    bool removed = false;

private:
    void close() {
        why.reset();
        for (MemoryWindow &window : windows) {
            auto failure = table.keeps_windows_ ? window.close() : window.close_patiently();
            if (!failure) continue;
            table.keeps_windows_ = true;  // that one was waited for is enough
            why = failure;
        }
    }
};

WindowTable::WindowTable(Adapter &adapter, WindowTableSink &sink)
    : adapter_(adapter), sink_(sink) {}

WindowTable::~WindowTable() {
    XFER_CHECK(entries_.empty());
}

// ---- asked for

Result<RegionKeys> WindowTable::find(RegionId region, const ExportedMemory &memory, RegionId whole,
                                     const Registration &registration) {
    const Failure not_yet{XFER_EAGAIN, XFER_ORIGIN_NONE, 0, "its windows are not bound yet"};
    if (const auto at = entries_.find(region.value); at != entries_.end()) {
        const Entry &entry = *at->second;
        if (entry.state == Entry::State::refused) return no_window("it has no windows");
        if (entry.state == Entry::State::bound) return entry.keys;
        return not_yet;
    }
    if (!pair_) return not_yet;
    if (!adapter_.has_windows()) return no_window("the device's windows fail");
    if (!memory.length || !(memory.access & kAllowed))
        return no_window("peers may neither read nor write it");
    RegionKeys keys;
    keys.base = reinterpret_cast<uint64_t>(memory.base), keys.length = memory.length;
    keys.part_bytes = std::min(memory.length, registration.window_bytes());
    keys.access = memory.access;
    if ((keys.length - 1) / keys.part_bytes >= kMaxParts) return no_window("it has too many parts");
    auto made = std::make_unique<Entry>(*this, region, keys);
    const uint64_t begin = keys.base - registration.base();
    for (uint64_t done = 0; done < keys.length; done += keys.part_bytes) {
        const uint64_t length = std::min(keys.part_bytes, keys.length - done);
        ibv_mr *const place = registration.window_place(begin + done, length);
        if (!place) return no_window("it lies in several registrations");
        made->parts.push_back({place, keys.base + done, length});
    }
    Entry &entry = *made;
    entries_.emplace(region.value, std::move(made));
    entry.hold = adapter_.memory().hold(whole);
    adapter_.worker().submit(entry);
    return not_yet;
}

// Where not all could be made, those that were stay unbound, until it ends: it is not tried again.
void WindowTable::on_made(Entry &entry) {
    if (entry.why) adapter_.on_window_failed(*entry.why);
    if (entry.removed || closing_) return give_back(entry);
    entry.state = entry.why ? Entry::State::refused : Entry::State::waits;
    if (entry.why) return sink_.on_settled();
    waiting_.push_back(entry);
    post();
}

// ---- bound

// One window after the other: so a region of many takes no more than a slot of the queue.
void WindowTable::post() {
    while (pair_ && !waiting_.empty() && pair_->free_slots() > 0)
        if (!post(waiting_.front())) return;
}

// False: it waits for a slot after all.
bool WindowTable::post(Entry &entry) {
    const size_t next = entry.keys.keys.size();
    const auto &[place, address, length] = entry.parts[next];
    PostList &list = adapter_.scratch().list;
    list.clear();
    list.chain().assign(
        entry.windows[next].bind_request(place, address, length, entry.keys.access));
    list.add(kBind);
    const Posted posted = pair_->post(list);
    if (posted.admitted != Admitted::granted) return false;
    if (posted.taken == 0 && posted.why.status == XFER_EAGAIN) return false;
    entry.ListNode<InOrder>::unlink();
    if (posted.taken == 0) {
        entry.state = Entry::State::refused;
        adapter_.on_window_failed(posted.why);
        sink_.on_settled();
        return true;
    }
    entry.state = Entry::State::posted;
    posted_.push_back(entry);
    if (posted.why.status == XFER_OK) return true;
    adapter_.on_bind_failed(posted.why);
    sink_.on_broken(posted.why);
    return true;
}

void WindowTable::on_bind_ended(const ChainEnd &end) {
    Entry *const entry = posted_.pop_front();
    if (!entry) return;  // closed before its queue pair was
    const bool is_bound = end.how == ChainEnd::How::done;
    if (is_bound) {
        entry->keys.keys.push_back(entry->windows[entry->keys.keys.size()].key());
        if (pair_) adapter_.on_bind_done();
    } else if (end.how == ChainEnd::How::failed && end.native != IBV_WC_WR_FLUSH_ERR) {
        adapter_.on_bind_failed(
            {XFER_EIO, XFER_ORIGIN_VERBS, end.native, "a memory window is not bound"});
    }
    if (entry->removed || closing_) return give_back(*entry);
    const bool is_last = entry->keys.keys.size() == entry->parts.size();
    entry->state = !is_bound ? Entry::State::refused
                   : is_last ? Entry::State::bound
                             : Entry::State::waits;
    if (entry->state != Entry::State::waits) return sink_.on_settled();
    waiting_.push_back(*entry);
}

// ---- ends

bool WindowTable::remove(RegionId region) {
    const auto at = entries_.find(region.value);
    if (at == entries_.end()) return true;
    Entry &entry = *at->second;
    entry.removed = true;
    switch (entry.state) {
    case Entry::State::making:
        if (!adapter_.worker().revoke(entry)) return false;
        forget(entry);
        return true;
    case Entry::State::posted:  // what is under way on the queue pair names its windows
    case Entry::State::closing:
    case Entry::State::kept:
        return false;
    default:
        give_back(entry);
        return false;
    }
}

void WindowTable::give_back(Entry &entry) {
    entry.ListNode<InOrder>::unlink();
    entry.state = Entry::State::closing;
    adapter_.worker().submit_urgent(entry);
}

void WindowTable::on_given_back(Entry &entry) {
    entry.why ? keep(entry) : release(entry);
    if (closing_ && entries_.size() == kept_) sink_.on_windows_closed();
}

// A device that keeps a window is broken, or has failed. Its key ends with the queue pair, which
// lets nothing in once it is in ERR: that takes the window's peer its path, and nothing else does.
void WindowTable::keep(Entry &entry) {
    entry.state = Entry::State::kept;
    ++kept_;
    if (!closing_) sink_.on_broken(*entry.why);
}

void WindowTable::end() {
    while (!entries_.empty()) {
        Entry &entry = *entries_.begin()->second;
        adapter_.log().error("{}: the windows of {} bytes of memory at {:#x} stay: {}",
                             adapter_.device().name(), entry.keys.length, entry.keys.base,
                             entry.why->message);
        release(entry);
    }
}

void WindowTable::release(Entry &entry) {
    const RegionId region = entry.region;
    const bool removed = entry.removed;
    forget(entry);
    if (removed) sink_.on_removed(region);
}

void WindowTable::forget(Entry &entry) {
    adapter_.memory().let_go(entry.hold);
    entries_.erase(entry.region.value);
}

bool WindowTable::close() {
    closing_ = true;
    pair_ = nullptr;
    kept_ = 0;
    for (auto at = entries_.begin(); at != entries_.end();) {
        Entry &entry = *at++->second;
        if (entry.state == Entry::State::closing) continue;
        if (entry.state == Entry::State::making) {
            if (adapter_.worker().revoke(entry)) forget(entry);
            continue;
        }
        give_back(entry);  // also what was kept, once more
    }
    return entries_.empty();
}

}  // namespace xfer::rdma
