// SPDX-License-Identifier: Apache-2.0
// What the driver of a real GPU says of every kind of pointer, as the inside of the library sees
// it.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/device.h"
#include "gpu.h"

using namespace xfer;

namespace {

using Origin = Memory::Origin;

std::unique_ptr<Device> device;
Memory memory;
Failure why;

Status look(uint64_t address, uint64_t length) {
    why = {};
    return device->look(reinterpret_cast<const void *>(address), length, memory, why);
}

Status look(const void *address, uint64_t length) {
    return look(reinterpret_cast<uint64_t>(address), length);
}

bool has_gpu() {
    if (!device) device = make_device();
    const char *reason = gpu_open();
    if (reason) MESSAGE("skipped: no GPU: ", std::string(reason));
    return !reason;
}

CUcontext current() {
    CUcontext context = nullptr;
    GPU(cuCtxGetCurrent(&context));
    return context;
}

void check_is(Origin origin, uint32_t kind, uint64_t base, uint64_t size) {
    CHECK(memory.origin == origin);
    CHECK(memory.kind == kind);
    CHECK(memory.device == (origin == Origin::plain ? -1 : 0));
    CHECK(memory.base == base);
    CHECK(memory.size == size);
    CHECK((memory.id != 0) == (base != 0));
}

void check_plain(const void *address, uint64_t length) {
    CHECK(look(address, length) == XFER_OK);
    check_is(Origin::plain, XFER_MEM_HOST, 0, 0);
}

// All of it, a byte inside and its last one; and one byte more than there is.
void check_allocation(Origin origin, const char *name, uint64_t base, uint64_t size) {
    const uint32_t kind = origin > Origin::managed ? XFER_MEM_CUDA : XFER_MEM_HOST;
    CHECK(look(base, size) == XFER_OK);
    CHECK(std::string_view(name_of(memory)) == name);
    check_is(origin, kind, base, size);
    const uint64_t id = memory.id;
    CHECK(look(base + size / 2, 1) == XFER_OK);
    check_is(origin, kind, base, size);
    CHECK(look(base + size - 1, 1) == XFER_OK);
    check_is(origin, kind, base, size);
    CHECK(memory.id == id);
    if (origin == Origin::pinned) return;
    CHECK(look(base, size + 1) == XFER_ERANGE);
    CHECK(look(base + size - 1, 2) == XFER_ERANGE);
}

template <typename Call>
double nanoseconds(Call call) {
    using Clock = std::chrono::steady_clock;
    constexpr int kCalls = 100'000;
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
        const auto began = Clock::now();
        for (int i = 0; i < kCalls; ++i)
            call();
        const std::chrono::duration<double, std::nano> took = Clock::now() - began;
        best = std::min(best, took.count() / kCalls);
    }
    return best;
}

// The nine attributes that the library asks for, and nothing else done.
CUresult ask(CUdeviceptr pointer) {
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    uint64_t values[9];
    void *fields[9];
    for (int i = 0; i < 9; ++i)
        fields[i] = &values[i];
    return gpu.cuPointerGetAttributes(9, attributes, fields, pointer);
}

// A process of lender.c.
struct Lender {
    Lender() {
        int to[2], from[2];
        REQUIRE(::pipe(to) == 0);
        REQUIRE(::pipe(from) == 0);
        char path[4096] = {};
        REQUIRE(::readlink("/proc/self/exe", path, sizeof path - 1) > 0);
        const std::string program =
            std::string(path, std::string_view(path).rfind('/')) + "/cuda_lender";
        pid = ::fork();
        if (pid == 0) {
            ::dup2(to[0], STDIN_FILENO);
            ::dup2(from[1], STDOUT_FILENO);
            for (int fd : {to[0], to[1], from[0], from[1]})
                ::close(fd);
            ::execl(program.c_str(), program.c_str(), nullptr);
            ::_exit(127);
        }
        ::close(to[0]);
        ::close(from[1]);
        input = to[1];
        REQUIRE(::read(from[0], &handle, sizeof handle) == sizeof handle);
        ::close(from[0]);
    }
    ~Lender() {
        int status = 0;
        ::close(input);
        CHECK(::waitpid(pid, &status, 0) == pid);
        CHECK(status == 0);
    }
    pid_t pid;
    int input;
    CUipcMemHandle handle;
};

}  // namespace

// Comes first: nothing of the application has called the driver yet.
TEST_CASE("a driver that nobody has initialised is left so, and all is host memory") {
    device = make_device();
    if (!device) {
        MESSAGE("skipped: no GPU: no libcuda.so.1");
        return;
    }
    std::vector<uint8_t> heap(4096);
    check_plain(heap.data(), heap.size());
    void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    REQUIRE(driver);
    const auto get =
        reinterpret_cast<decltype(&cuCtxGetCurrent)>(::dlsym(driver, "cuCtxGetCurrent"));
    CUcontext context = nullptr;
    CHECK(get(&context) == CUDA_ERROR_NOT_INITIALIZED);
    std::printf("figure: a pointer while the driver is not initialised: %.1f ns\n",
                nanoseconds([&] { look(heap.data(), 64); }));
}

TEST_CASE("host memory") {
    if (!has_gpu()) return;
    std::vector<uint8_t> heap(1 << 16);
    check_plain(heap.data(), heap.size());
    check_plain(&heap, sizeof heap);
    check_plain(reinterpret_cast<const void *>(0x10), 1);

    auto *const part =
        reinterpret_cast<uint8_t *>((reinterpret_cast<uint64_t>(heap.data()) + 8191) & ~4095ull);
    GPU(cuMemHostRegister(part, 8192, 0));
    check_allocation(Origin::pinned, "pinned host memory", reinterpret_cast<uint64_t>(part), 8192);
    const uint64_t first = memory.id;
    check_plain(part, 8193);  // a part of it is not pinned
    check_plain(part - 1, 8192);
    GPU(cuMemHostUnregister(part));
    check_plain(part, 8192);
    GPU(cuMemHostRegister(part, 8192, 0));
    CHECK(look(part, 8192) == XFER_OK);
    CHECK(memory.id != first);
    GPU(cuMemHostUnregister(part));

    void *pinned = nullptr;
    GPU(cuMemHostAlloc(&pinned, 100'000, CU_MEMHOSTALLOC_PORTABLE));
    check_allocation(Origin::pinned, "pinned host memory", reinterpret_cast<uint64_t>(pinned),
                     100'000);
    GPU(cuMemFreeHost(pinned));
    check_plain(pinned, 1);
}

TEST_CASE("managed memory") {
    if (!has_gpu()) return;
    CUdeviceptr managed = 0;
    GPU(cuMemAllocManaged(&managed, 65536, CU_MEM_ATTACH_GLOBAL));
    check_allocation(Origin::managed, "managed memory", managed, 65536);
    GPU(cuMemFree(managed));
    check_plain(reinterpret_cast<void *>(managed), 1);
}

TEST_CASE("device memory") {
    if (!has_gpu()) return;
    CUdeviceptr one = 0, two = 0, large = 0;
    GPU(cuMemAlloc(&one, 1000));
    GPU(cuMemAlloc(&two, 1000));
    GPU(cuMemAlloc(&large, 64 << 20));
    check_allocation(Origin::allocated, "memory of CUDA device 0", one, 1000);
    check_allocation(Origin::allocated, "memory of CUDA device 0", two, 1000);
    check_allocation(Origin::allocated, "memory of CUDA device 0", large, 64 << 20);
    // From one into its neighbour.
    CHECK(look(std::min(one, two), 1024 + 8) == XFER_ERANGE);
    GPU(cuMemFree(one));
    GPU(cuMemFree(two));
    GPU(cuMemFree(large));
}

TEST_CASE("an address that is used again is another allocation") {
    if (!has_gpu()) return;
    int again = 0;
    for (const size_t size : {size_t{1000}, size_t{1} << 20, size_t{64} << 20}) {
        CUdeviceptr before = 0, after = 0;
        GPU(cuMemAlloc(&before, size));
        CHECK(look(before, size) == XFER_OK);
        const uint64_t id = memory.id;
        GPU(cuMemFree(before));
        check_plain(reinterpret_cast<void *>(before), 1);
        GPU(cuMemAlloc(&after, size));
        CHECK(look(after, size) == XFER_OK);
        CHECK(memory.id != id);
        again += before == after;
        GPU(cuMemFree(after));
    }
    CHECK(again > 0);  // else nothing was shown
}

TEST_CASE("memory of a pool") {
    if (!has_gpu()) return;
    CUdeviceptr one = 0, two = 0;
    GPU(cuMemAllocAsync(&one, 1000, nullptr));
    GPU(cuMemAllocAsync(&two, 1000, nullptr));
    check_allocation(Origin::pooled, "memory of CUDA device 0", one, 1000);
    check_allocation(Origin::pooled, "memory of CUDA device 0", two, 1000);
    const uint64_t id = memory.id;
    GPU(cuMemFreeAsync(two, nullptr));
    GPU(cuStreamSynchronize(nullptr));
    check_plain(reinterpret_cast<void *>(two), 1);
    CUdeviceptr after = 0;
    GPU(cuMemAllocAsync(&after, 1000, nullptr));
    GPU(cuStreamSynchronize(nullptr));
    CHECK(after == two);
    CHECK(look(after, 1000) == XFER_OK);
    CHECK(memory.id != id);
    GPU(cuMemFreeAsync(after, nullptr));
    GPU(cuMemFreeAsync(one, nullptr));
}

TEST_CASE("mapped memory: the reservation is the allocation, and a hole in it is an error") {
    if (!has_gpu()) return;
    size_t size = 0;
    const CUdeviceptr reserved = gpu_map(2, &size);
    CHECK(look(reserved, 2 * size) == XFER_OK);  // both mappings
    check_is(Origin::mapped, XFER_MEM_CUDA, reserved, 3 * size);
    const uint64_t first = memory.id;
    CHECK(look(reserved + size, size) == XFER_OK);
    check_is(Origin::mapped, XFER_MEM_CUDA, reserved, 3 * size);
    CHECK(memory.id != first);
    CHECK(look(reserved, 3 * size + 1) == XFER_ERANGE);
    CHECK(look(reserved + 2 * size, 1) == XFER_ERANGE);
    CHECK(std::string_view(why.message).find("nothing is mapped") != std::string_view::npos);
    gpu_unmap(reserved, 2, size);
    check_plain(reinterpret_cast<void *>(reserved), 1);
}

TEST_CASE("memory of another process") {
    if (!has_gpu()) return;
    const Lender lender;
    CUdeviceptr there = 0, again = 0;
    GPU(cuIpcOpenMemHandle(&there, lender.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    check_allocation(Origin::imported, "memory of CUDA device 0, imported from another process",
                     there, 4 << 20);
    const uint64_t id = memory.id;
    GPU(cuIpcCloseMemHandle(there));
    check_plain(reinterpret_cast<void *>(there), 1);
    GPU(cuIpcOpenMemHandle(&again, lender.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(look(again, 1) == XFER_OK);
    CHECK(memory.id != id);
    GPU(cuIpcCloseMemHandle(again));
}

TEST_CASE("a thread needs no current context, and keeps the one that it has") {
    if (!has_gpu()) return;
    CUdeviceptr there = 0;
    GPU(cuMemAlloc(&there, 4096));
    CHECK(current() == gpu.context);
    CHECK(look(there, 4096) == XFER_OK);
    CHECK(current() == gpu.context);
    GPU(cuCtxSetCurrent(nullptr));
    CHECK(look(there, 4096) == XFER_OK);
    check_is(Origin::allocated, XFER_MEM_CUDA, there, 4096);
    CHECK(current() == nullptr);
    std::thread([&] {
        CHECK(look(there, 4096) == XFER_OK);
        check_is(Origin::allocated, XFER_MEM_CUDA, there, 4096);
        CHECK(current() == nullptr);
    }).join();
    GPU(cuCtxSetCurrent(gpu.context));
    GPU(cuMemFree(there));
}

TEST_CASE("a thread whose context was destroyed is no worse off") {
    if (!has_gpu()) return;
    CUdeviceptr there = 0;
    GPU(cuMemAlloc(&there, 4096));
    std::thread([&] {
        CUcontext context = gpu_context();
        std::thread([&] { GPU(cuCtxDestroy(context)); }).join();
        check_plain(&context, sizeof context);
        CHECK(look(there, 4096) == XFER_OK);
        check_is(Origin::allocated, XFER_MEM_CUDA, there, 4096);
    }).join();
    GPU(cuMemFree(there));
}

// That it is one call is counted in tests/unit/device_test.cc; here is what it takes, in this run.
TEST_CASE("a look beside the bare call") {
    if (!has_gpu()) return;
    CUdeviceptr there = 0;
    void *pinned = nullptr;
    GPU(cuMemAlloc(&there, 4096));
    GPU(cuMemHostAlloc(&pinned, 4096, 0));
    const struct {
        const char *what;
        uint64_t address;
    } rows[] = {{"device", there},
                {"pinned", reinterpret_cast<uint64_t>(pinned)},
                {"host", reinterpret_cast<uint64_t>(&there)}};
    for (const auto &row : rows) {
        const double bare = nanoseconds([&] { ask(row.address); });
        const double looked = nanoseconds([&] { look(row.address, 64); });
        std::printf("figure: a %s pointer: %.1f ns, the bare call %.1f\n", row.what, looked, bare);
        CHECK(look(row.address, 64) == XFER_OK);
    }
    GPU(cuMemFreeHost(pinned));
    GPU(cuMemFree(there));
}
