// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "device/cuda.h"
#include "polled_engine.h"

using namespace xfer;

namespace {

// A driver that knows three ranges of addresses: device memory, managed memory, and pinned host
// memory. It is never asked for bytes.
constexpr unsigned long long kDevice = 0x10'0000, kManaged = 0x20'0000, kPinned = 0x30'0000;
constexpr unsigned long long kSize = 0x1000;
int asked = 0;

bool in(unsigned long long pointer, unsigned long long range) {
    return pointer >= range && pointer < range + kSize;
}

int fake_attribute(void *data, int attribute, unsigned long long pointer) {
    ++asked;
    const bool device = in(pointer, kDevice), managed = in(pointer, kManaged);
    if (!device && !managed && !in(pointer, kPinned)) return 1;  // CUDA_ERROR_INVALID_VALUE
    auto *out = static_cast<unsigned *>(data);
    if (attribute == CudaTable::kMemoryType)
        *out = in(pointer, kPinned) ? 1 : CudaTable::kDeviceMemory;
    else if (attribute == CudaTable::kIsManaged)
        *out = managed;
    else
        return 1;
    return 0;
}

int failing_attribute(void *, int, unsigned long long) {
    return 3;  // CUDA_ERROR_NOT_INITIALIZED
}

// Knows the memory type, but not whether memory is managed, as an old driver.
int old_attribute(void *data, int attribute, unsigned long long pointer) {
    return attribute == CudaTable::kIsManaged ? 1 : fake_attribute(data, attribute, pointer);
}

uint32_t kind_of(int (*table)(void *, int, unsigned long long), unsigned long long address,
                 uint64_t length) {
    CudaTable driver;
    driver.cuPointerGetAttribute = table;
    return CudaDevice(driver).kind_of(reinterpret_cast<const void *>(address), length);
}

void *at(unsigned long long address) {
    return reinterpret_cast<void *>(address);
}

// An engine that believes that driver.
struct Fixture {
    Fixture() {
        table.cuPointerGetAttribute = fake_attribute;
        device = std::make_unique<CudaDevice>(table);
        Seams seams;
        seams.device = device.get();
        engine = std::make_unique<PolledEngine>(seams);
    }
    CudaTable table;
    std::unique_ptr<CudaDevice> device;
    std::unique_ptr<PolledEngine> engine;
};

}  // namespace

TEST_CASE("what a pointer is") {
    const struct {
        const char *what;
        int (*driver)(void *, int, unsigned long long);
        unsigned long long address;
        uint64_t length;
        uint32_t kind;
    } rows[] = {
        {"device", fake_attribute, kDevice, kSize, XFER_MEM_CUDA},
        {"inside device memory", fake_attribute, kDevice + 17, 1, XFER_MEM_CUDA},
        {"device, of no length", fake_attribute, kDevice, 0, XFER_MEM_CUDA},
        {"managed", fake_attribute, kManaged, kSize, XFER_MEM_HOST},
        {"pinned", fake_attribute, kPinned, kSize, XFER_MEM_HOST},
        {"unknown to the driver", fake_attribute, 0x90'0000, kSize, XFER_MEM_HOST},
        {"ends in device memory", fake_attribute, kDevice - 16, 17, XFER_MEM_CUDA},
        {"ends before device memory", fake_attribute, kDevice - 16, 16, XFER_MEM_HOST},
        {"begins in device memory", fake_attribute, kDevice + kSize - 1, 64, XFER_MEM_CUDA},
        {"begins after device memory", fake_attribute, kDevice + kSize, 64, XFER_MEM_HOST},
        {"a driver that is not initialised", failing_attribute, kDevice, 1, XFER_MEM_HOST},
        {"a driver that knows no managed memory", old_attribute, kDevice, 1, XFER_MEM_CUDA},
    };
    for (const auto &row : rows) {
        CAPTURE(std::string(row.what));
        CHECK(kind_of(row.driver, row.address, row.length) == row.kind);
    }
}

TEST_CASE("host memory is host memory, whatever is installed here") {
    uint8_t memory[64];
    CHECK(make_device()->kind_of(memory, sizeof memory) == XFER_MEM_HOST);
}

TEST_CASE("an engine refuses device memory with a status of its own") {
    Fixture fixture;
    xfer_ep_t *ep = fixture.engine->ep();
    const xfer_ref_t ref = PolledEngine::ref(kSize);
    CHECK(xfer_put(ep, at(kDevice), &ref, 0, 16, 0, nullptr) == XFER_EMEMKIND);
    CHECK(xfer_get(ep, at(kDevice), &ref, 0, 16, 0, nullptr) == XFER_EMEMKIND);
    CHECK(xfer_get(ep, at(kDevice - 8), &ref, 0, 16, 0, nullptr) == XFER_EMEMKIND);

    xfer_batch_t *batch = nullptr;
    REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
    CHECK(xfer_batch_put(batch, at(kDevice), &ref, 0, 16) == XFER_EMEMKIND);
    CHECK(xfer_batch_get(batch, at(kDevice), &ref, 0, 16) == XFER_EMEMKIND);
    const xfer_span_t spans[] = {{kManaged, 0, 16}, {kDevice, 16, 16}};
    CHECK(xfer_batch_add_spans(batch, XFER_OP_PUT, &ref, spans, sizeof spans[0], 2, nullptr) ==
          XFER_EMEMKIND);
    xfer_strided_t strided{sizeof strided, 0, kDevice, 32, &ref, 0, 32, 16, 4};
    CHECK(xfer_batch_add_strided(batch, XFER_OP_GET, &strided, nullptr) == XFER_EMEMKIND);
    const uint64_t pages[] = {0, 1};
    const xfer_page_base_t base{kDevice, &ref, 0};
    xfer_pages_t table{};
    table.size = sizeof table, table.base_size = sizeof base, table.index_size = 8;
    table.length = 64, table.count = 2, table.base_count = 1;
    table.local_pages = table.remote_pages = pages, table.bases = &base;
    CHECK(xfer_batch_add_pages(batch, XFER_OP_GET, &table, nullptr) == XFER_EMEMKIND);
    CHECK(xfer_batch_put(batch, at(kManaged), &ref, 0, 16) == XFER_OK);
    CHECK(xfer_batch_close(batch) == XFER_OK);
    CHECK(xfer_ep_close(ep) == XFER_OK);
}

TEST_CASE("a region is of the kind that the driver tells") {
    Fixture fixture;
    xfer_region_options_t options{};
    options.size = sizeof options;
    options.access = XFER_READ;
    options.name = "r";
    const auto open = [&](unsigned long long address, uint32_t kind) {
        options.kind = kind;
        xfer_region_t *region = nullptr;
        xfer_error_t err;
        const Status status =
            xfer_region_open(fixture.engine->handle(), &options, at(address), 64, &region, &err);
        CHECK(err.status == status);
        CHECK((err.message[0] != '\0') == (status != XFER_OK));
        if (region) CHECK(xfer_region_close(region) == XFER_OK);
        return status;
    };
    asked = 0;
    CHECK(open(kDevice, 0) == XFER_EMEMKIND);
    CHECK(asked > 0);
    CHECK(open(kDevice, XFER_MEM_CUDA) == XFER_EMEMKIND);
    CHECK(open(kDevice, XFER_MEM_HOST) == XFER_EMEMKIND);
    CHECK(open(kManaged, 0) == XFER_OK);
    CHECK(open(kManaged, XFER_MEM_HOST) == XFER_OK);
    CHECK(open(kPinned, XFER_MEM_CUDA) == XFER_EMEMKIND);
}
