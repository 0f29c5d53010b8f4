// SPDX-License-Identifier: Apache-2.0
// Registered memory: its access, its chunks, and what is undone where a call fails.
#include "transport/rdma/registration.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

using namespace xfer;
using namespace xfer::rdma;

namespace {

constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE, kRead = IBV_ACCESS_REMOTE_READ;
constexpr int kWrite = IBV_ACCESS_REMOTE_WRITE, kAtomic = IBV_ACCESS_REMOTE_ATOMIC;

// The memory half of a device, and nothing else.
struct Memory {
    struct Region : ibv_mr {
        int access;
        bool by_iova;
    };
    Memory() {
        now = this;
        verbs.reg_mr = reg_mr, verbs.reg_mr_iova2 = reg_mr_iova2, verbs.dereg_mr = dereg_mr;
        port.name = "mlx5_0:1";
        port.domain = &domain;
        port.limits.region_bytes = UINT64_MAX;
    }
    ~Memory() { CHECK_MESSAGE(regions.empty(), "memory is left registered"); }

    static ibv_mr *add(ibv_pd *domain, void *address, size_t length, int access, bool by_iova) {
        CHECK(domain == &now->domain);
        CHECK(((access & (kWrite | kAtomic)) == 0 || (access & kLocal)));  // as the standard says
        if (now->read_only && (access & kLocal)) return errno = EFAULT, nullptr;
        if (++now->calls == now->failing) return errno = now->error, nullptr;
        auto region = std::make_unique<Region>();
        region->addr = address, region->length = length;
        region->lkey = 100 + now->calls, region->rkey = 200 + now->calls;
        region->access = access, region->by_iova = by_iova;
        return now->regions.emplace_back(std::move(region)).get();
    }
    static ibv_mr *reg_mr(ibv_pd *domain, void *address, size_t length, int access) {
        CHECK((access & IBV_ACCESS_OPTIONAL_RANGE) == 0);
        return add(domain, address, length, access, false);
    }
    static ibv_mr *reg_mr_iova2(ibv_pd *domain, void *address, size_t length, uint64_t iova,
                                unsigned access) {
        CHECK(iova == reinterpret_cast<uintptr_t>(address));
        return add(domain, address, length, static_cast<int>(access), true);
    }
    static int dereg_mr(ibv_mr *region) {
        if (now->busy == region) return EBUSY;
        CHECK(std::erase_if(now->regions, [&](auto &each) { return each.get() == region; }) == 1);
        return 0;
    }
    Result<Registration> register_range(uint64_t length, uint32_t access, bool relaxed = false) {
        return Registration::add(verbs, port, {base, length, access, relaxed});
    }

    static inline Memory *now = nullptr;
    Verbs verbs{};
    ibv_pd domain{};
    Port port;
    std::vector<std::unique_ptr<Region>> regions;
    uint8_t *base = reinterpret_cast<uint8_t *>(0x10'0010);  // nobody looks there
    bool read_only = false;
    int calls = 0, failing = 0, error = 0;
    const ibv_mr *busy = nullptr;
};

}  // namespace

TEST_CASE("peers may do what the access says, and gets may land") {
    const struct {
        uint32_t access;
        int flags;
    } rows[] = {
        {0, kLocal},
        {XFER_READ, kLocal | kRead},
        {XFER_WRITE, kLocal | kWrite},
        {XFER_ATOMIC, kLocal | kAtomic},
        {XFER_READ | XFER_WRITE | XFER_ATOMIC, kLocal | kRead | kWrite | kAtomic},
    };
    for (const auto &row : rows) {
        CAPTURE(row.access);
        Memory memory;
        memory.port.limits.atomics_with_cpu = true;
        auto registration = memory.register_range(100, row.access);
        REQUIRE(registration);
        REQUIRE(memory.regions.size() == 1);
        const Memory::Region &region = *memory.regions[0];
        CHECK(region.access == row.flags);
        CHECK_FALSE(region.by_iova);
        CHECK(region.addr == memory.base);
        CHECK(region.length == 100);
        CHECK(registration->writable());
        CHECK(registration->chunks() == 1);
        const auto chunk = registration->chunk_at(99);
        CHECK(chunk.offset == 0);
        CHECK(chunk.length == 100);
        CHECK(chunk.lkey == 101);
        CHECK(chunk.rkey == 201);
    }
}

TEST_CASE("peers' atomics are the device's where they are ones to the CPU, else their owner's") {
    for (const bool with_cpu : {true, false}) {
        CAPTURE(with_cpu);
        Memory memory;
        memory.port.limits.atomics_with_cpu = with_cpu;
        auto all = memory.register_range(100, XFER_READ | XFER_ATOMIC);
        REQUIRE(all);
        CHECK(memory.regions[0]->access == (kLocal | kRead | (with_cpu ? kAtomic : 0)));
    }
}

TEST_CASE("ordering is relaxed only where it is asked for, and by the call that knows it") {
    Memory memory;
    {
        auto relaxed = memory.register_range(100, XFER_WRITE, true);
        REQUIRE(relaxed);
        CHECK(memory.regions[0]->by_iova);
        CHECK(memory.regions[0]->access == (kLocal | kWrite | IBV_ACCESS_RELAXED_ORDERING));
    }
    memory.verbs.reg_mr_iova2 = nullptr;
    auto ordered = memory.register_range(100, XFER_WRITE, true);
    REQUIRE(ordered);
    CHECK(memory.regions[0]->access == (kLocal | kWrite));
}

TEST_CASE("memory that can't be written is registered for reading alone") {
    for (const uint32_t access : {0u, uint32_t{XFER_READ}}) {
        Memory memory;
        memory.read_only = true;
        auto registration = memory.register_range(100, access);
        REQUIRE(registration);
        CHECK_FALSE(registration->writable());
        CHECK(memory.regions[0]->access == (access ? kRead : 0));
    }
    for (const uint32_t access : {uint32_t{XFER_WRITE}, uint32_t{XFER_ATOMIC}}) {
        Memory memory;
        memory.read_only = true;
        const auto refused = memory.register_range(100, access);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().native == EFAULT);
    }
}

TEST_CASE("a range of which a part can't be written is registered for reading as a whole") {
    Memory memory;
    memory.port.limits.region_bytes = 4096;
    memory.failing = 2, memory.error = EFAULT;
    auto registration = memory.register_range(3 * 4096, XFER_READ);
    REQUIRE(registration);
    CHECK_FALSE(registration->writable());
    CHECK(registration->chunks() == 3);
    CHECK(memory.regions.size() == 3);
    for (const auto &region : memory.regions)
        CHECK(region->access == kRead);
}

TEST_CASE("what is larger than a region of the device is several") {
    Memory memory;
    memory.port.limits.region_bytes = 3 * 4096 + 5;
    for (const uint64_t length : {uint64_t{1}, uint64_t{12288}, uint64_t{12293}, uint64_t{12294},
                                  uint64_t{3 * 12288}, uint64_t{3 * 12288 + 1}}) {
        CAPTURE(length);
        auto registration = memory.register_range(length, XFER_READ);
        REQUIRE(registration);
        REQUIRE(registration->chunks() == memory.regions.size());
        uint64_t at = 0;
        for (uint64_t i = 0; i < registration->chunks(); ++i) {
            const auto chunk = registration->chunk(i);
            CHECK(chunk.offset == at);
            CHECK(chunk.offset % 4096 == 0);
            CHECK(chunk.length <= memory.port.limits.region_bytes);
            CHECK(memory.regions[i]->addr == memory.base + at);
            CHECK(memory.regions[i]->length == chunk.length);
            for (const uint64_t offset : {at, at + chunk.length - 1})
                CHECK(registration->chunk_at(offset).rkey == memory.regions[i]->rkey);
            at += chunk.length;
        }
        CHECK(at == length);
        CHECK(registration->chunks() == (length <= 12293 ? 1 : (length + 12287) / 12288));
    }
}

TEST_CASE("whichever chunk fails, nothing stays registered, and the errno is told") {
    for (int k = 1; k <= 4; ++k) {
        CAPTURE(k);
        Memory memory;
        memory.port.limits.region_bytes = 4096;
        memory.failing = k, memory.error = ENOMEM;
        const auto failed = memory.register_range(4 * 4096, XFER_WRITE);
        REQUIRE_FALSE(failed);
        CHECK(failed.error().status == XFER_ENOMEM);
        CHECK(failed.error().origin == XFER_ORIGIN_VERBS);
        CHECK(failed.error().native == ENOMEM);
        CHECK(std::string(failed.error().message.c_str()).find("mlx5_0:1: memory") == 0);
        CHECK(memory.calls == k);
        CHECK(memory.regions.empty());
    }
}

TEST_CASE("ranges that make no sense reach no device") {
    Memory memory;
    CHECK(memory.register_range(0, XFER_READ).error().status == XFER_EINVAL);
    CHECK(memory.register_range(UINT64_MAX, XFER_READ).error().status == XFER_ERANGE);
    memory.port.limits.region_bytes = 4095;
    CHECK(memory.register_range(4096, XFER_READ).error().status == XFER_ETOOBIG);
    CHECK(memory.calls == 0);
    // Up to the last byte that there is.
    memory.base = reinterpret_cast<uint8_t *>(UINTPTR_MAX - 99);
    CHECK(memory.register_range(100, XFER_READ));
    CHECK(memory.register_range(101, XFER_READ).error().status == XFER_ERANGE);
}

TEST_CASE("a registration ends once, and what the device keeps is told and tried again") {
    Memory memory;
    memory.port.limits.region_bytes = 4096;
    auto registration = memory.register_range(3 * 4096, XFER_WRITE);
    REQUIRE(registration);
    memory.busy = memory.regions[1].get();
    const auto why = registration->close();
    REQUIRE(why);
    CHECK(why->native == EBUSY);
    CHECK(memory.regions.size() == 1);
    memory.busy = nullptr;
    CHECK_FALSE(registration->close());
    CHECK(memory.regions.empty());
    CHECK_FALSE(registration->close());
}

TEST_CASE("a registration that is moved is one still") {
    Memory memory;
    auto first = memory.register_range(100, XFER_READ);
    REQUIRE(first);
    const Registration second = std::move(*first);
    CHECK(first->chunks() == 0);
    CHECK(second.chunk(0).rkey == 201);
    CHECK(memory.regions.size() == 1);
}
