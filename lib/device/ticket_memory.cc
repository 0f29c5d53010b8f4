// SPDX-License-Identifier: Apache-2.0
#include "device/ticket_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <mutex>
#include <new>
#include <vector>

#include "util/memory.h"

namespace xfer {

namespace {

constexpr uint64_t kTicketPage = 4096;  // 64 lines: a bit each. Larger pages of a system are cut
constexpr uint64_t kTicketLines = kTicketPage / sizeof(TicketLine);
// A page keeps lines free, so that one that was given back is not used again at once: the stream
// before may not have looked yet.
constexpr int kMostTaken = 48;

}  // namespace

struct TicketMemory::Page {
    TicketLine *lines;
    uint64_t context;
    uint64_t used = 0;  // by bits
    int next = 0;       // the next search begins here, so that a line is used again late

    TicketLine *take() {  // there is one
        const uint64_t from_next = std::rotr(used, next);
        const int at = (next + std::countr_one(from_next)) % static_cast<int>(kTicketLines);
        used |= uint64_t{1} << at;
        next = (at + 1) % static_cast<int>(kTicketLines);
        return &lines[at];
    }
    bool holds(const TicketLine *line) const {
        return line >= lines && line < lines + kTicketLines;
    }
};

// Never destroyed: engines, and graphs, may end behind statics.
struct TicketMemory::Kept {
    const pid_t pid = ::getpid();
    std::mutex mutex;
    std::vector<Page> pages;

    static Kept &of_process() {
        static Kept *const kept = new Kept;
        return *kept;
    }

    // One of that context that has room; null: there is none.
    Page *find(uint64_t context) {
        for (Page &page : pages)
            if (page.context == context && std::popcount(page.used) < kMostTaken) return &page;
        return nullptr;
    }

    Page *make(uint64_t context) {
        if (!catch_bad_alloc([&] { pages.reserve(pages.size() + 1); })) return nullptr;
        const auto length = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
        void *const made = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (made == MAP_FAILED) return nullptr;
        ::madvise(made, length, MADV_DONTFORK);  // what a device looks at stays the parent's
        auto *const lines = static_cast<TicketLine *>(made);
        for (uint64_t i = 0; i < kTicketLines; ++i)
            new (&lines[i]) TicketLine{{Ticket::over}, 0, {}};
        pages.push_back({lines, context});
        return &pages.back();
    }
};

// It is registered at each take: its context may have gone since, and what is registered already
// costs the driver nothing (to be measured). Never with the lock, which the driver's own threads
// take where they give back.
TicketMemory TicketMemory::take(uint64_t context, Registry &registry) {
    Kept &kept = Kept::of_process();
    TicketMemory taken;
    void *lines = nullptr;
    {
        const std::lock_guard lock(kept.mutex);
        Page *page = kept.find(context);
        if (!page) page = kept.make(context);
        if (!page) return {};
        taken.line_ = page->take();
        lines = page->lines;
    }
    if (!registry.add(lines, kTicketPage)) return {};
    return taken;
}

// The child of a fork has not got it.
TicketMemory::~TicketMemory() {
    if (!line_) return;
    Kept &kept = Kept::of_process();
    if (::getpid() != kept.pid) return;
    line_->word.store(Ticket::over, std::memory_order_release);
    const std::lock_guard lock(kept.mutex);
    for (Page &page : kept.pages)
        if (page.holds(line_)) page.used &= ~(uint64_t{1} << (line_ - page.lines));
}

}  // namespace xfer
