// SPDX-License-Identifier: Apache-2.0
#include "device/bounce_memory.h"

#include <sys/mman.h>

#include <mutex>
#include <vector>

#include "device/copy_streams.h"
#include "util/memory.h"

namespace xfer {

namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which a C library may not know yet

}  // namespace

// What nobody has now. Never destroyed: engines may end behind statics. The child of a fork has no
// driver, so it takes none.
struct BounceMemory::Kept {
    std::mutex mutex;
    std::vector<BounceMemory> blocks;

    static Kept &of_process() {
        static Kept *const kept = new Kept;
        return *kept;
    }
};

BounceMemory BounceMemory::take(uint64_t length) {
    BounceMemory taken;
    Kept &kept = Kept::of_process();
    const std::lock_guard lock(kept.mutex);
    for (size_t i = 0; i < kept.blocks.size(); ++i) {
        if (kept.blocks[i].length_ != length) continue;
        taken = std::move(kept.blocks[i]);
        kept.blocks.erase(kept.blocks.begin() + static_cast<ptrdiff_t>(i));
        return taken;
    }
    void *const made =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return taken;
    ::madvise(made, length, MADV_DONTFORK);  // what a device writes stays the parent's
    taken.data_ = static_cast<uint8_t *>(made);
    taken.length_ = length;
    return taken;
}

BounceMemory::~BounceMemory() {
    if (!data_) return;
    Kept &kept = Kept::of_process();
    const std::lock_guard lock(kept.mutex);
    if (catch_bad_alloc([&] { kept.blocks.reserve(kept.blocks.size() + 1); }))
        kept.blocks.push_back(std::move(*this));
}

// Again by each: the context that it was pinned in may be gone. No lock: a loop may want it. All
// copies of the process wait while memory is pinned, and seven times as long if its pages are to be
// made then (design 0051). Before Linux 5.14 they are.
void BounceMemory::pin(CopyStreams &streams) const {
    ::madvise(data_, length_, kPopulateWrite);
    streams.pin(data_, length_);
}

}  // namespace xfer
