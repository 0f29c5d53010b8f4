// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <string>

#include "fake_cuda.h"
#include "polled_engine.h"

using namespace xfer;

namespace {

using Origin = Memory::Origin;

constexpr uint64_t kSize = 0x1000;
constexpr uint64_t kDevice = 0x10'0000, kBeside = kDevice + kSize, kManaged = 0x20'0000;
constexpr uint64_t kPinned = 0x30'0000, kPooled = 0x40'0000, kImported = 0x50'0000;
constexpr uint64_t kMapped = 0x60'0000, kReserved = 0x70'0000, kNobodys = 0x90'0000;

void *at(uint64_t address) {
    return reinterpret_cast<void *>(address);
}

struct Driver : FakeCuda {
    Driver() {
        allocate(Origin::allocated, kDevice, kSize, 3);
        allocate(Origin::allocated, kBeside, kSize, 3);
        allocate(Origin::managed, kManaged, kSize);
        allocate(Origin::pinned, kPinned, kSize, 1);
        allocate(Origin::pooled, kPooled, kSize, 2);
        allocate(Origin::imported, kImported, kSize);
        allocate(Origin::mapped, kMapped, kSize);
        reserve(kReserved, kSize);
    }
    Status look(uint64_t address, uint64_t length) {
        why = {};
        const Status status = device.look(at(address), length, memory, why);
        CHECK(why.status == status);
        CHECK(why.message.empty() == (status == XFER_OK));
        return status;
    }
    CudaDevice device{table()};
    Memory memory;
    Failure why;
};

// An engine that believes that driver.
struct Fixture {
    Fixture() {
        Seams seams;
        seams.device = &driver.device;
        engine = std::make_unique<PolledEngine>(seams);
    }
    Driver driver;
    std::unique_ptr<PolledEngine> engine;
};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("what a pointer is") {
    const struct {
        uint64_t address, length;
        Origin origin;
        uint32_t kind;
        int32_t device;
        uint64_t base;
        const char *name;
    } rows[] = {
        {kDevice, kSize, Origin::allocated, XFER_MEM_CUDA, 3, kDevice, "memory of CUDA device 3"},
        {kDevice + 17, 1, Origin::allocated, XFER_MEM_CUDA, 3, kDevice, "memory of CUDA device 3"},
        {kBeside - 1, 1, Origin::allocated, XFER_MEM_CUDA, 3, kDevice, "memory of CUDA device 3"},
        {kBeside, 1, Origin::allocated, XFER_MEM_CUDA, 3, kBeside, "memory of CUDA device 3"},
        {kManaged, kSize, Origin::managed, XFER_MEM_HOST, 0, kManaged, "managed memory"},
        {kPinned + 1, kSize - 1, Origin::pinned, XFER_MEM_HOST, 1, kPinned, "pinned host memory"},
        {kPooled, kSize, Origin::pooled, XFER_MEM_CUDA, 2, kPooled, "memory of CUDA device 2"},
        {kImported, kSize, Origin::imported, XFER_MEM_CUDA, 0, kImported,
         "memory of CUDA device 0, imported from another process"},
        {kMapped, kSize, Origin::mapped, XFER_MEM_CUDA, 0, kMapped,
         "memory of CUDA device 0, mapped by cuMemMap"},
        {kNobodys, kSize, Origin::plain, XFER_MEM_HOST, -1, 0, "host memory"},
        {kDevice - 1, 1, Origin::plain, XFER_MEM_HOST, -1, 0, "host memory"},
        // To the CPU it is all the same whether a part of it is pinned.
        {kPinned, kSize + 1, Origin::plain, XFER_MEM_HOST, -1, 0, "host memory"},
    };
    Driver driver;
    for (const auto &row : rows) {
        CAPTURE(row.address);
        CAPTURE(row.length);
        driver.asked = 0;
        REQUIRE(driver.look(row.address, row.length) == XFER_OK);
        CHECK(driver.asked == 1);
        CHECK(driver.memory.origin == row.origin);
        CHECK(driver.memory.kind == row.kind);
        CHECK(driver.memory.device == row.device);
        CHECK(driver.memory.base == row.base);
        CHECK(driver.memory.size == (row.base ? kSize : 0));
        CHECK((driver.memory.id != 0) == (row.base != 0));
        CHECK(std::string_view(name_of(driver.memory)) == row.name);
    }
}

TEST_CASE("a range ends with the allocation that it begins in") {
    const struct {
        uint64_t address, length;
        const char *says;
    } rows[] = {
        {kDevice, kSize + 1, "4097 bytes at 0x100000 go past the end of their 4096 bytes at"},
        {kBeside - 1, 2, "memory of CUDA device 3"},  // though there is some behind it
        {kBeside, UINT64_MAX - kBeside, "go past the end"},
        {kManaged + 16, kSize, "managed memory"},
        {kPooled, kSize + 1, "memory of CUDA device 2"},
        {kImported + kSize - 1, 2, "imported from another process"},
        {kMapped + kSize - 1, 2, "mapped by cuMemMap"},
        {kReserved, 1, "reserved for a device, and nothing is mapped"},
    };
    Driver driver;
    for (const auto &row : rows) {
        CAPTURE(row.address);
        CHECK(driver.look(row.address, row.length) == XFER_ERANGE);
        CHECK_MESSAGE(contains(driver.why.message, row.says), driver.why.message.c_str());
    }
}

TEST_CASE("an address that was freed and is used again is another allocation") {
    Driver driver;
    for (const Origin origin : {Origin::allocated, Origin::pinned, Origin::managed, Origin::pooled,
                                Origin::imported, Origin::mapped}) {
        const uint64_t first = driver.allocate(origin, kNobodys, kSize);
        REQUIRE(driver.look(kNobodys + 8, 8) == XFER_OK);
        CHECK(driver.memory.id == first);
        driver.free(kNobodys);
        REQUIRE(driver.look(kNobodys + 8, 8) == XFER_OK);
        CHECK(driver.memory.origin == Origin::plain);
        const uint64_t second = driver.allocate(origin, kNobodys, kSize);
        REQUIRE(driver.look(kNobodys + 8, 8) == XFER_OK);
        CHECK(driver.memory.id == second);
        CHECK(first != second);
    }
}

TEST_CASE("there is no device memory before the driver is initialised") {
    Driver driver;
    driver.answer = CUDA_ERROR_NOT_INITIALIZED;
    CHECK(driver.look(kDevice, 1) == XFER_OK);
    CHECK(driver.memory.kind == XFER_MEM_HOST);
    driver.answer = CUDA_SUCCESS;
    CHECK(driver.look(kDevice, 1) == XFER_OK);
    CHECK(driver.memory.kind == XFER_MEM_CUDA);
}

TEST_CASE("where the driver fails, host memory goes on, and what the CPU can't read is refused") {
    Driver driver;
    constexpr size_t kPage = 4096;
    void *page = ::mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    const auto device = reinterpret_cast<uint64_t>(page);
    driver.allocate(Origin::allocated, device, kPage);
    uint8_t local[64];
    for (const CUresult result :
         {CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_UNKNOWN}) {
        CAPTURE(result);
        driver.answer = result;
        driver.asked = 0;
        CHECK(driver.look(reinterpret_cast<uint64_t>(local) + 1, 1) == XFER_OK);
        CHECK(driver.memory.origin == Origin::plain);
        CHECK(driver.look(device + kPage - 1, 1) == XFER_EMEMKIND);
        CHECK(driver.why.origin == XFER_ORIGIN_CUDA);
        CHECK(driver.why.native == result);
        CHECK(driver.asked == 2);
    }
    ::munmap(page, kPage);
}

TEST_CASE("host memory is host memory, whatever is installed here") {
    PolledEngine engine;
    uint8_t local[64];
    Memory memory;
    Failure why;
    CHECK(engine.inside->look(local, sizeof local, memory, why) == XFER_OK);
    CHECK(memory.kind == XFER_MEM_HOST);
}

TEST_CASE("an engine refuses device memory with a status of its own") {
    Fixture fixture;
    xfer_ep_t *ep = fixture.engine->ep();
    const xfer_ref_t ref = PolledEngine::ref(4 * kSize);
    CHECK(xfer_put(ep, at(kDevice), &ref, 0, 16, 0, nullptr) == XFER_EMEMKIND);
    CHECK(xfer_get(ep, at(kMapped), &ref, 0, 16, 0, nullptr) == XFER_EMEMKIND);
    CHECK(xfer_send(ep, at(kPooled), 16, 0, 0, nullptr) == XFER_EMEMKIND);
    CHECK(xfer_recv(fixture.engine->handle(), ep, at(kImported), 16, 0, 0, 0, nullptr) ==
          XFER_EMEMKIND);
    CHECK(xfer_put(ep, at(kDevice), &ref, 0, kSize + 1, 0, nullptr) == XFER_ERANGE);

    xfer_batch_t *batch = nullptr;
    REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
    CHECK(xfer_batch_put(batch, at(kDevice), &ref, 0, 16) == XFER_EMEMKIND);
    CHECK(xfer_batch_get(batch, at(kDevice), &ref, 0, 16) == XFER_EMEMKIND);
    const xfer_span_t spans[] = {{kManaged, 0, 16}, {kDevice, 16, 16}};
    xfer_error_t err;
    CHECK(xfer_batch_add_spans(batch, XFER_OP_PUT, &ref, spans, sizeof spans[0], 2, &err) ==
          XFER_EMEMKIND);
    CHECK(
        contains(err.message, "span 1: no transport of this build serves memory of CUDA device 3"));
    xfer_strided_t strided{sizeof strided, 0, kDevice, 32, &ref, 0, 32, 16, 4};
    CHECK(xfer_batch_add_strided(batch, XFER_OP_GET, &strided, nullptr) == XFER_EMEMKIND);
    CHECK(xfer_batch_close(batch) == XFER_OK);
    CHECK(xfer_ep_close(ep) == XFER_OK);
}

TEST_CASE("all blocks and pages of a batch lie in one allocation, from the lowest to the highest") {
    Fixture fixture;
    xfer_ep_t *ep = fixture.engine->ep();
    const xfer_ref_t ref = PolledEngine::ref(4 * kSize);
    xfer_batch_t *batch = nullptr;
    REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
    xfer_strided_t strided{sizeof strided, 0, kManaged, kSize / 4, &ref, 0, 32, 16, 4};
    CHECK(xfer_batch_add_strided(batch, XFER_OP_GET, &strided, nullptr) == XFER_OK);
    strided.count = 5;
    CHECK(xfer_batch_add_strided(batch, XFER_OP_GET, &strided, nullptr) == XFER_ERANGE);
    strided.length = 0;
    CHECK(xfer_batch_add_strided(batch, XFER_OP_GET, &strided, nullptr) == XFER_OK);

    const auto add_pages = [&](uint64_t base, uint64_t first, uint64_t last) {
        const uint64_t local[] = {last, first}, remote[] = {0, 1};
        const xfer_page_base_t pair{base, &ref, 0};
        xfer_pages_t pages{};
        pages.size = sizeof pages, pages.base_size = sizeof pair, pages.index_size = 8;
        pages.length = 64, pages.count = 2, pages.base_count = 1;
        pages.local_pages = local, pages.remote_pages = remote, pages.bases = &pair;
        return xfer_batch_add_pages(batch, XFER_OP_GET, &pages, nullptr);
    };
    CHECK(add_pages(kManaged, 0, kSize / 64 - 1) == XFER_OK);
    CHECK(add_pages(kManaged, 0, kSize / 64) == XFER_ERANGE);
    CHECK(add_pages(kDevice - 64, 1, 2) == XFER_EMEMKIND);
    CHECK(add_pages(kManaged - 64, 1, 2) == XFER_OK);
    CHECK(xfer_batch_close(batch) == XFER_OK);
    CHECK(xfer_ep_close(ep) == XFER_OK);
}

TEST_CASE("the driver is asked once an operation, and once an allocation of a list") {
    Fixture fixture;
    int &asked = fixture.driver.asked;
    xfer_ep_t *ep = fixture.engine->ep();
    const xfer_ref_t ref = PolledEngine::ref(kSize);
    uint8_t local[16];
    asked = 0;
    CHECK(xfer_put(ep, local, &ref, 0, sizeof local, 0, nullptr) == XFER_OK);
    CHECK(asked == 1);
    xfer_batch_t *batch = nullptr;
    REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
    const xfer_span_t spans[] = {{kPinned, 0, 16},        {kPinned + 64, 16, 16},
                                 {kPinned + 32, 32, 16},  {kManaged, 48, 16},
                                 {kManaged + 16, 64, 16}, {kManaged, 0, 0}};
    asked = 0;
    CHECK(xfer_batch_add_spans(batch, XFER_OP_PUT, &ref, spans, sizeof spans[0], 6, nullptr) ==
          XFER_OK);
    CHECK(asked == 2);
    CHECK(xfer_batch_submit(batch, 0, nullptr) == XFER_OK);
    CHECK(asked == 2);
    CHECK(xfer_batch_close(batch) == XFER_OK);
    CHECK(xfer_ep_close(ep) == XFER_OK);
}

TEST_CASE("a region is of the kind that the driver tells") {
    Fixture fixture;
    const struct {
        uint64_t address;
        uint32_t hint;
        Status status;
        const char *says;
    } rows[] = {
        {kDevice, 0, XFER_EMEMKIND, "no transport of this build serves memory of CUDA device 3"},
        {kDevice, XFER_MEM_CUDA, XFER_EMEMKIND, "memory of CUDA device 3"},
        {kDevice, XFER_MEM_HOST, XFER_EMEMKIND,
         "kind is XFER_MEM_HOST, but it is memory of CUDA device 3"},
        {kMapped, XFER_MEM_ZE, XFER_EMEMKIND,
         "kind is XFER_MEM_ZE, but it is memory of CUDA device 0, mapped by cuMemMap"},
        {kPinned, XFER_MEM_CUDA, XFER_EMEMKIND,
         "kind is XFER_MEM_CUDA, but it is pinned host memory"},
        {kManaged, 0, XFER_OK, ""},
        {kManaged, XFER_MEM_HOST, XFER_OK, ""},
        {kPinned, XFER_MEM_HOST, XFER_OK, ""},
        {kPinned + kSize - 8, 0, XFER_OK, ""},  // the rest is not pinned
        {kManaged + kSize - 8, 0, XFER_ERANGE, "go past the end"},
        {kDevice - 8, 0, XFER_ERANGE,
         "it begins in host memory, and ends in memory of CUDA device 3"},
        {kReserved - 8, 0, XFER_ERANGE, "nothing is mapped"},
    };
    for (const auto &row : rows) {
        CAPTURE(row.address);
        CAPTURE(row.hint);
        xfer_region_options_t options{};
        options.size = sizeof options;
        options.kind = row.hint;
        xfer_region_t *region = nullptr;
        xfer_error_t err;
        CHECK(xfer_region_open(fixture.engine->handle(), &options, at(row.address), 64, &region,
                               &err) == row.status);
        CHECK(err.status == row.status);
        CHECK_MESSAGE(contains(err.message, row.says), err.message);
        if (region) CHECK(xfer_region_close(region) == XFER_OK);
    }
}

TEST_CASE("in an open region the driver is not asked, and after its end it is") {
    Fixture fixture;
    int &asked = fixture.driver.asked;
    xfer_ep_t *ep = fixture.engine->ep();
    const xfer_ref_t ref = PolledEngine::ref(4 * kSize);
    xfer_region_options_t options{};
    options.size = sizeof options;
    xfer_region_t *region = nullptr;
    REQUIRE(xfer_region_open(fixture.engine->handle(), &options, at(kPinned), kSize, &region,
                             nullptr) == XFER_OK);
    const auto add = [&](uint64_t local, uint64_t length) {
        xfer_batch_t *batch = nullptr;
        REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
        asked = 0;
        const Status status = xfer_batch_put(batch, at(local), &ref, 0, length);
        CHECK(xfer_batch_close(batch) == XFER_OK);
        return status;
    };
    CHECK(add(kPinned, kSize) == XFER_OK);
    CHECK(add(kPinned + kSize - 1, 1) == XFER_OK);
    CHECK(asked == 0);
    CHECK(add(kPinned + 1, kSize) == XFER_OK);
    CHECK(asked == 1);
    CHECK(xfer_region_close(region) == XFER_OK);
    fixture.driver.free(kPinned);
    fixture.driver.allocate(Origin::allocated, kPinned, kSize);
    CHECK(add(kPinned, 16) == XFER_EMEMKIND);
    CHECK(asked == 1);
    CHECK(xfer_ep_close(ep) == XFER_OK);
}
