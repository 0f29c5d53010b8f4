// SPDX-License-Identifier: Apache-2.0
// The offset allocator beside a model that knows each byte, and where memory lacks.
#include "util/offset_allocator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <vector>

using namespace xfer;

namespace {

int allocations_left = -1;  // below 0: no limit

}  // namespace

[[gnu::noinline]] void *operator new(size_t size) {
    if (allocations_left == 0) throw std::bad_alloc();
    if (allocations_left > 0) --allocations_left;
    if (void *memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void *memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}

namespace {

// Owner of each byte, 0: nobody.
struct Model {
    explicit Model(uint64_t capacity) : bytes(capacity) {}
    bool is_free(uint64_t offset, uint64_t size) const {
        if (offset > bytes.size() || size > bytes.size() - offset) return false;
        for (uint64_t i = 0; i < size; ++i)
            if (bytes[offset + i]) return false;
        return true;
    }
    bool has_room(uint64_t size, uint64_t alignment) const {
        for (uint64_t offset = 0; offset < bytes.size(); offset += alignment)
            if (is_free(offset, size)) return true;
        return false;
    }
    void set(uint64_t offset, uint64_t size, bool used) {
        std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(offset), size, used);
    }
    std::vector<char> bytes;
};

// One after the other, so that none is left out.
struct Faults {
    uint64_t overlaps = 0, misaligned = 0, refused = 0, freed = 0, counted = 0;
    bool operator==(const Faults &) const = default;
};

}  // namespace

TEST_CASE("ranges never overlap, no room is missed, and what is freed coalesces") {
    for (const uint64_t capacity : {uint64_t{1}, uint64_t{97}, uint64_t{256}}) {
        CAPTURE(capacity);
        OffsetAllocator allocator(capacity);
        Model model(capacity);
        std::map<uint64_t, uint64_t> live;
        std::mt19937_64 random(capacity);
        uint64_t in_use = 0, high_water = 0, given = 0, full = 0;
        Faults faults;
        // Filling and emptying take turns.
        for (int step = 0; step < 1'000'000; ++step) {
            const bool filling = step / 1000 % 2;
            if (random() % 4 < (filling ? 3 : 1)) {
                const uint64_t size = 1 + random() % (random() % 8 ? 16 : capacity + 1);
                const uint64_t alignment = uint64_t{1} << random() % 6;
                auto offset = allocator.allocate(size, alignment);
                if (!offset) {
                    ++full;
                    faults.refused += model.has_room(size, alignment);
                    faults.refused += offset.error().status != XFER_ENOMEM;
                    continue;
                }
                ++given;
                faults.overlaps += !model.is_free(*offset, size);
                faults.misaligned += *offset % alignment != 0;
                model.set(*offset, size, true);
                live[*offset] = size;
                in_use += size;
                high_water = std::max(high_water, *offset + size);
            } else {
                // Sometimes one that is in use, sometimes any.
                const uint64_t offset = random() % (capacity + 2);
                const auto found = live.find(offset);
                const Status status = allocator.free(offset);
                faults.freed += status != (found == live.end() ? XFER_ENOTFOUND : XFER_OK);
                if (found == live.end()) continue;
                model.set(offset, found->second, false);
                in_use -= found->second;
                live.erase(found);
            }
            faults.counted += allocator.in_use() != in_use;
            faults.counted += allocator.high_water() != high_water;
            if (step % 100'000 != 99'999) continue;
            for (const auto &[offset, size] : live)
                faults.freed += allocator.free(offset) != XFER_OK;
            model.set(0, capacity, false);
            live.clear();
            in_use = 0;
            auto all = allocator.allocate(capacity, uint64_t{1} << 63);
            REQUIRE(all);
            REQUIRE(*all == 0);
            high_water = capacity;
            REQUIRE(allocator.free(0) == XFER_OK);
        }
        CHECK(faults == Faults{});
        CHECK(given > 10'000);
        CHECK(full > 1'000);
    }
}

TEST_CASE("what makes no sense is refused") {
    OffsetAllocator allocator(1 << 20);
    for (const uint64_t alignment : {uint64_t{0}, uint64_t{3}, uint64_t{4095}, UINT64_MAX})
        CHECK(allocator.allocate(1, alignment).error().status == XFER_EINVAL);
    CHECK(allocator.allocate(0).error().status == XFER_EINVAL);
    CHECK(allocator.allocate((1 << 20) + 1).error().status == XFER_ENOMEM);
    CHECK(allocator.allocate(UINT64_MAX, 4096).error().status == XFER_ENOMEM);
    CHECK(allocator.allocate(UINT64_MAX - 4095, uint64_t{1} << 63).error().status == XFER_ENOMEM);
    CHECK(allocator.in_use() == 0);
    CHECK(allocator.high_water() == 0);
    CHECK(allocator.free(0) == XFER_ENOTFOUND);

    auto offset = allocator.allocate(64);
    REQUIRE(offset);
    CHECK(allocator.free(*offset + 1) == XFER_ENOTFOUND);  // inside
    CHECK(allocator.free(64) == XFER_ENOTFOUND);           // the gap behind
    CHECK(allocator.free(UINT64_MAX) == XFER_ENOTFOUND);
    CHECK(allocator.free(*offset) == XFER_OK);
    CHECK(allocator.free(*offset) == XFER_ENOTFOUND);
    CHECK(allocator.high_water() == 64);
    CHECK(allocator.in_use() == 0);
}

TEST_CASE("a space may be empty, and as large as numbers go") {
    OffsetAllocator empty(0);
    CHECK(empty.allocate(1).error().status == XFER_ENOMEM);
    OffsetAllocator whole(UINT64_MAX);
    auto first = whole.allocate(1);
    CHECK(whole.allocate(UINT64_MAX - 1, 4096).error().status == XFER_ENOMEM);
    auto aligned = whole.allocate(uint64_t{1} << 62, uint64_t{1} << 63);
    REQUIRE(aligned);
    CHECK(*aligned == uint64_t{1} << 63);
    CHECK(whole.allocate(1, uint64_t{1} << 63).error().status == XFER_ENOMEM);
    auto last = whole.allocate(UINT64_MAX - (uint64_t{3} << 62));
    REQUIRE(last);
    CHECK(whole.high_water() == UINT64_MAX);
    CHECK(whole.allocate(uint64_t{1} << 63).error().status == XFER_ENOMEM);
    for (const uint64_t offset : {*first, *aligned, *last})
        CHECK(whole.free(offset) == XFER_OK);
    CHECK(whole.allocate(UINT64_MAX));
}

TEST_CASE("records are as many as there are ranges") {
    constexpr uint64_t kMany = 300'000;
    OffsetAllocator allocator(kMany);
    uint64_t refused = 0;
    for (uint64_t i = 0; i < kMany; ++i)
        refused += !allocator.allocate(1);
    CHECK(allocator.allocate(1).error().status == XFER_ENOMEM);
    for (uint64_t i = 0; i < kMany; i += 2)
        refused += allocator.free(i) != XFER_OK;
    CHECK(allocator.in_use() == kMany / 2);
    CHECK(allocator.allocate(2).error().status == XFER_ENOMEM);
    for (uint64_t i = 1; i < kMany; i += 2)
        refused += allocator.free(i) != XFER_OK;
    CHECK(refused == 0);
    CHECK(allocator.allocate(kMany));
}

TEST_CASE("where memory lacks nothing has changed, and freeing needs none") {
    OffsetAllocator allocator(1024);
    REQUIRE(allocator.allocate(8));  // so that there is padding
    int failed = 0;
    for (int limit = 0;; ++limit) {
        allocations_left = limit;
        try {
            const auto offset = allocator.allocate(100, 64);
            allocations_left = 0;
            REQUIRE(offset);
            break;
        } catch (const std::bad_alloc &) {
            allocations_left = -1;
            ++failed;
            CHECK(allocator.in_use() == 8);
            auto rest = allocator.allocate(1016);
            REQUIRE(rest);
            CHECK(allocator.free(*rest) == XFER_OK);
        }
    }
    const Status freed[] = {allocator.free(64), allocator.free(0)};
    allocations_left = -1;
    CHECK(failed == 4);  // two nodes of each of two ranges
    CHECK(freed[0] == XFER_OK);
    CHECK(freed[1] == XFER_OK);
    CHECK(allocator.allocate(1024));
}
