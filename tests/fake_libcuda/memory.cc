// SPDX-License-Identifier: Apache-2.0
// Memory of the device, which the CPU can't touch, and memory of the host that the device can.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "calls.h"
#include "fake_driver.h"
#include "state.h"

namespace fake_cuda {

uint8_t *Driver::alias_of(uint64_t address, uint64_t length) {
    auto behind = allocations.upper_bound(address);
    if (behind == allocations.begin()) return nullptr;
    const auto &[base, found] = *--behind;
    const uint64_t offset = address - base;
    return found.has(offset, length) ? found.alias + offset : nullptr;
}

const Pinned *Driver::pinned_at(uint64_t address, size_t length) {
    auto behind = pinned.upper_bound(address);
    if (behind == pinned.begin()) return nullptr;
    const auto &[base, found] = *--behind;
    return !found.is_dead() && address - base + length <= found.size ? &found : nullptr;
}

uint8_t *Driver::seen_by_kernels(const void *memory, size_t length) {
    const auto address = reinterpret_cast<uint64_t>(memory);
    if (uint8_t *const alias = alias_of(address, length)) return alias;
    return pinned_at(address, length) ? reinterpret_cast<uint8_t *>(address) : nullptr;
}

namespace {

void write_attribute(CUpointer_attribute attribute, void *value, uint64_t base,
                     const Allocation &found) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<CUmemorytype *>(value) = CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<void **>(value) =
            driver().without_context || found.mapped ? nullptr : found.context;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int *>(value) = 0;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned char *>(value) = found.managed;
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *static_cast<unsigned char *>(value) = !found.mapped;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *static_cast<unsigned long long *>(value) = found.mapped ? 0 : found.id;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<CUdeviceptr *>(value) = base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t *>(value) = found.size;
        break;
    default:
        break;
    }
}

bool is_of_reservation(CUpointer_attribute attribute) {
    return attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
           attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE;
}

}  // namespace

CUresult pointer_get_attributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr pointer) {
    ENTER("cuPointerGetAttributes", false);
    Driver &all = driver();
    const auto behind = all.allocations.upper_bound(pointer);
    if (behind == all.allocations.begin()) return CUDA_SUCCESS;
    const auto &[base, found] = *std::prev(behind);
    if (pointer - base >= found.size) return CUDA_SUCCESS;
    const bool is_there = found.has(pointer - base, 1);
    for (unsigned i = 0; i < count; ++i)
        if (is_there || is_of_reservation(attributes[i]))
            write_attribute(attributes[i], values[i], base, found);
    return CUDA_SUCCESS;
}

namespace {

bool is_pinned(uint64_t address, size_t length) {
    for (const auto &[base, found] : driver().pinned)
        if (!found.is_dead() && base < address + length && address < base + found.size) return true;
    return false;
}

// All else waits while the driver makes pages, so they are to be there.
bool are_there(void *memory, size_t length) {
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> present(length / page + 1);
    return ::mincore(memory, length, present.data()) == 0 &&
           std::all_of(present.begin(), present.end() - 1,
                       [](unsigned char one) { return one & 1; });
}

}  // namespace

CUresult host_register(void *memory, size_t length, unsigned flags) {
    ENTER("cuMemHostRegister");
    const auto address = reinterpret_cast<uint64_t>(memory);
    if (is_pinned(address, length)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    driver().pinned[address] = {of_current(), length, flags};
    if (!are_there(memory, length)) wrong("pages are not there");
    return CUDA_SUCCESS;
}

CUresult host_device_pointer(CUdeviceptr *device, void *host, unsigned flags) {
    ENTER("cuMemHostGetDevicePointer");
    const Pinned *const found = driver().pinned_at(reinterpret_cast<uint64_t>(host), 1);
    if (!found || flags || !(found->flags & CU_MEMHOSTREGISTER_DEVICEMAP))
        return wrong("host memory that is not mapped for the device");
    if (!(found->flags & CU_MEMHOSTREGISTER_PORTABLE) && found->context != current.back())
        return wrong("host memory of another context");
    *device = reinterpret_cast<CUdeviceptr>(host);
    return CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

// ---- what an application calls by its name

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    return pointer_get_attributes(1, &attribute, &value, pointer);
}

// ---- what a test does

// At `at`, where there is room for it, or anywhere.
static void *allocate(size_t size, void *at, bool managed = false) {
    const int file = ::memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0) return nullptr;
    const int seen_by_cpu = managed && driver().concurrent ? PROT_READ | PROT_WRITE : PROT_NONE;
    void *const seen = ::mmap(at, size, seen_by_cpu, MAP_SHARED | (at ? MAP_FIXED : 0), file, 0);
    void *const alias = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (seen == MAP_FAILED || alias == MAP_FAILED) return nullptr;
    const std::lock_guard lock(driver().mutex);
    driver().allocations[reinterpret_cast<uint64_t>(seen)] = {size, static_cast<uint8_t *>(alias),
                                                              ++driver().last_id,
                                                              driver().of_application(), managed};
    return seen;
}

void *fake_cuda_alloc(size_t size) {
    return allocate(size, nullptr);
}

void *fake_cuda_alloc_managed(size_t size, int concurrent) {
    {
        const std::lock_guard lock(driver().mutex);
        driver().concurrent = concurrent != 0;
    }
    return allocate(size, nullptr, true);
}

// Found by its name by the fake of the adapters' library.
extern "C" void fake_cuda_registered(const void *memory, size_t size) {
    const std::lock_guard lock(driver().mutex);
    const auto begin = reinterpret_cast<uint64_t>(memory);
    for (const auto &[base, found] : driver().allocations) {
        if (!found.managed || base >= begin + size || begin >= base + found.size) continue;
        wrong("an adapter keeps pages of managed memory");
    }
}

void *fake_cuda_map(size_t size) {
    void *const memory = allocate(size, nullptr);
    const std::lock_guard lock(driver().mutex);
    driver().allocations[reinterpret_cast<uint64_t>(memory)].mapped = true;
    return memory;
}

void fake_cuda_unmap(void *memory, int half) {
    const std::lock_guard lock(driver().mutex);
    driver().allocations[reinterpret_cast<uint64_t>(memory)].holes[half] = true;
}

void *fake_cuda_alloc_at(size_t size, void *at) {
    return allocate(size, at);
}

void fake_cuda_alloc_pair(size_t size, void *memory[2]) {
    void *const room = ::mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[0] = allocate(size, room);
    memory[1] = allocate(size, static_cast<uint8_t *>(room) + size);
}

void fake_cuda_free(void *memory) {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().allocations.find(reinterpret_cast<uint64_t>(memory));
    // Its place stays taken, so that nobody else's memory comes to be there.
    ::mmap(memory, found->second.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ::munmap(found->second.alias, found->second.size);
    driver().allocations.erase(found);
}

void fake_cuda_write(void *to, const void *from, size_t size) {
    const std::lock_guard lock(driver().mutex);
    std::memcpy(driver().alias_of(reinterpret_cast<uint64_t>(to), size), from, size);
}

void fake_cuda_read(void *to, const void *from, size_t size) {
    const std::lock_guard lock(driver().mutex);
    std::memcpy(to, driver().alias_of(reinterpret_cast<uint64_t>(from), size), size);
}
