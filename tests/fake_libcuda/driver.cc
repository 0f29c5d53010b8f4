// SPDX-License-Identifier: Apache-2.0
// A driver of CUDA without a device: memory that the CPU can't touch, streams that copy in threads
// of their own, events, contexts, and calls that fail when a test says so. Of the driver API only
// what the library asks for.
#include <cudaTypedefs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fake_driver.h"

namespace {

struct Context {
    unsigned long long id;  // another one after each reset
    bool is_there;
};

struct Allocation {
    size_t size;
    uint8_t *alias;  // where the driver itself reads and writes it
    uint64_t id;
    Context *context;
    bool managed = false;
    bool mapped = false;  // by cuMemMap: a reservation with two mappings, half of it each
    bool holes[2] = {};   // where there was one

    bool has(uint64_t offset, uint64_t length) const {
        if (offset + length > size) return false;
        return !(holes[0] && offset < size / 2) && !(holes[1] && offset + length > size / 2);
    }
};

// What was made in a context, and is dead when that has gone.
struct Made {
    const Context *context = nullptr;
    unsigned long long id = 0;

    bool is_dead() const { return !context->is_there || context->id != id; }
};

struct Event : Made {
    unsigned recorded = 0, over = 0;  // how often
};

struct Stream;

struct Driver {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<uint64_t, Allocation> allocations;  // by address
    std::set<const void *>
        objects;  // streams and events: what nobody destroys went with its context
    std::map<std::string, unsigned> calls;
    std::string failing, lacking, refusing;
    int fails_in = 0, error = 0, sticky = 0;
    bool held = false, fails_for_good = false;
    unsigned failures = 0;  // for good: what was begun before one goes no further
    uint64_t last_id = 0;
    Context primary{1, true}, own{0, false};  // own: that of cuCtxCreate
    unsigned long long last_context = 1;
    int retained = 0;         // by the library
    bool has_primary = true;  // the application
    bool without_context = false;
    std::map<const void *, Made> pinned;
    Stream *application = nullptr;
    bool concurrent = true;  // the CPU and kernels in managed memory

    void begin_primary() {
        if (!primary.is_there) primary = {++last_context, true};
    }
    // What the application's memory comes to be of.
    Context *of_application() {
        if (own.is_there) return &own;
        if (has_primary) begin_primary();
        return &primary;
    }
    void end(Context &context) {
        context.is_there = false;
        std::erase_if(allocations, [&](const auto &one) { return one.second.context == &context; });
        changed.notify_all();
    }

    // Null: not all of it is allocated.
    uint8_t *alias_of(uint64_t address, uint64_t length) {
        auto behind = allocations.upper_bound(address);
        if (behind == allocations.begin()) return nullptr;
        const auto &[base, found] = *--behind;
        const uint64_t offset = address - base;
        return found.has(offset, length) ? found.alias + offset : nullptr;
    }
};

Driver &driver() {
    static Driver *const driver = new Driver;  // streams outlive statics
    return *driver;
}

thread_local std::vector<Context *> current;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// A driver may crash here, or do it to what is the application's by now.
[[noreturn]] void die(const char *name, const char *why) {
    std::fprintf(stderr, "%s: %s\n", name, why);
    std::abort();
}

void check_alive(const Made &made, const char *name) {
    if (made.is_dead()) die(name, "the context of this handle has gone");
}

Made of_current() {
    Made made;
    made.context = current.back(), made.id = current.back()->id;
    return made;
}

// Work in order, in a thread.
struct Stream : Made {
    std::chrono::steady_clock::time_point not_before{};  // its work goes on
    std::deque<std::function<void()>> work;
    bool stopping = false, busy = false;
    std::thread thread{[this] { run(); }};

    void run() {
        Driver &all = driver();
        std::unique_lock lock(all.mutex);
        for (;;) {
            all.changed.wait(lock, [&] { return stopping || (!work.empty() && !all.held); });
            if (work.empty()) return;
            if (std::chrono::steady_clock::now() < not_before) {
                all.changed.wait_until(lock, not_before);
                continue;
            }
            const auto next = std::move(work.front());
            work.pop_front();
            busy = true;
            if (!is_dead()) next();
            busy = false;
            all.changed.notify_all();
        }
    }
};

// Counts the call, and says what a test has it say.
CUresult entered(const char *name, bool needs_context = true) {
    Driver &all = driver();
    ++all.calls[name];
    const bool looks = std::strcmp(name, "cuPointerGetAttributes") == 0;  // it answers all the same
    if (all.fails_for_good && !looks) return static_cast<CUresult>(all.error);
    if (all.failing == name && --all.fails_in == 0) {
        all.fails_for_good = all.sticky;
        all.failures += all.fails_for_good;
        all.failing.clear();
        return static_cast<CUresult>(all.error);
    }
    if (all.refusing == name) return CUDA_ERROR_INVALID_VALUE;
    // In another mode it could break what the application captures.
    const bool relaxed = capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!needs_context || (relaxed && !current.empty())) return CUDA_SUCCESS;
    {
        ++all.calls["wrong"];
        std::fprintf(stderr, "wrong: %s\n", name);
    }
    return CUDA_ERROR_INVALID_CONTEXT;
}

#define ENTER(...)                         \
    std::unique_lock lock(driver().mutex); \
    if (const CUresult refused = entered(__VA_ARGS__); refused != CUDA_SUCCESS) return refused

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

CUresult device_get(CUdevice *device, int ordinal) {
    ENTER("cuDeviceGet", false);
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice) {
    ENTER("cuDeviceGetAttribute", false);
    if (attribute != CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    *value = driver().concurrent;
    return CUDA_SUCCESS;
}

CUresult primary_state(CUdevice, unsigned *flags, int *active) {
    ENTER("cuDevicePrimaryCtxGetState", false);
    *flags = 0;
    *active = driver().primary.is_there && (driver().has_primary || driver().retained > 0);
    return CUDA_SUCCESS;
}

CUresult primary_retain(CUcontext *context, CUdevice) {
    ENTER("cuDevicePrimaryCtxRetain", false);
    ++driver().retained;
    driver().begin_primary();
    *context = reinterpret_cast<CUcontext>(&driver().primary);
    return CUDA_SUCCESS;
}

CUresult primary_release(CUdevice) {
    ENTER("cuDevicePrimaryCtxRelease", false);
    if (driver().retained == 0) die("cuDevicePrimaryCtxRelease", "no more was retained");
    --driver().retained;
    return CUDA_SUCCESS;
}

CUresult push_current(CUcontext context) {
    ENTER("cuCtxPushCurrent", false);
    auto *const pushed = reinterpret_cast<Context *>(context);
    if (!pushed->is_there) die("cuCtxPushCurrent", "the context has gone");
    current.push_back(pushed);
    return CUDA_SUCCESS;
}

// Of the primary one as long as the process is there, and of another one until its end.
CUresult context_id(CUcontext context, unsigned long long *id) {
    ENTER("cuCtxGetId", false);
    const auto *const asked = reinterpret_cast<const Context *>(context);
    if (!asked->is_there && asked != &driver().primary) die("cuCtxGetId", "the context has gone");
    *id = asked->id;
    return CUDA_SUCCESS;
}

CUresult pop_current(CUcontext *context) {
    *context = reinterpret_cast<CUcontext>(current.empty() ? nullptr : current.back());
    if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    current.pop_back();
    return CUDA_SUCCESS;
}

CUresult exchange_capture_mode(CUstreamCaptureMode *mode) {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
}

CUresult stream_create(CUstream *stream, unsigned flags) {
    ENTER("cuStreamCreate");
    if (flags != CU_STREAM_NON_BLOCKING) {
        ++driver().calls["wrong"];
        std::fprintf(stderr, "wrong at %d\n", __LINE__);
    }
    auto *const made = new Stream;
    static_cast<Made &>(*made) = of_current();
    driver().objects.insert(made);
    *stream = reinterpret_cast<CUstream>(made);
    return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream stream) {
    auto *const ended = reinterpret_cast<Stream *>(stream);
    {
        ENTER("cuStreamDestroy");
        check_alive(*ended, "cuStreamDestroy");
        if (!ended->work.empty() || ended->busy) {
            ++driver().calls["wrong"];
            std::fprintf(stderr, "wrong at %d\n", __LINE__);
        }
        ended->stopping = true;
        driver().objects.erase(ended);
        driver().changed.notify_all();
    }
    ended->thread.join();
    delete ended;
    return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream stream) {
    ENTER("cuStreamSynchronize");
    auto *const waited = reinterpret_cast<Stream *>(stream);
    check_alive(*waited, "cuStreamSynchronize");
    driver().changed.wait(
        lock, [&] { return waited->is_dead() || (waited->work.empty() && !waited->busy); });
    return waited->is_dead() ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult event_create(CUevent *event, unsigned) {
    ENTER("cuEventCreate");
    auto *const made = new Event;
    static_cast<Made &>(*made) = of_current();
    driver().objects.insert(made);
    *event = reinterpret_cast<CUevent>(made);
    return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event) {
    ENTER("cuEventDestroy");
    check_alive(*reinterpret_cast<Event *>(event), "cuEventDestroy");
    driver().objects.erase(event);
    delete reinterpret_cast<Event *>(event);
    return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream stream) {
    ENTER("cuEventRecord");
    auto *const mark = reinterpret_cast<Event *>(event);
    check_alive(*mark, "cuEventRecord");
    check_alive(*reinterpret_cast<Stream *>(stream), "cuEventRecord");
    ++mark->recorded;
    reinterpret_cast<Stream *>(stream)->work.emplace_back([mark] { ++mark->over; });
    driver().changed.notify_all();
    return CUDA_SUCCESS;
}

CUresult event_synchronize(CUevent event) {
    ENTER("cuEventSynchronize");
    auto *const mark = reinterpret_cast<Event *>(event);
    check_alive(*mark, "cuEventSynchronize");
    driver().changed.wait(
        lock, [&, last = mark->recorded] { return mark->is_dead() || mark->over >= last; });
    if (mark->is_dead()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return driver().fails_for_good ? static_cast<CUresult>(driver().error) : CUDA_SUCCESS;
}

CUresult copy(const char *name, CUdeviceptr device, void *host, size_t length, bool to_host,
              CUstream stream) {
    ENTER(name);
    check_alive(*reinterpret_cast<Stream *>(stream), name);
    reinterpret_cast<Stream *>(stream)->work.emplace_back([=, failures = driver().failures] {
        if (failures != driver().failures) return;
        uint8_t *const alias = driver().alias_of(device, length);
        if (!alias) {
            ++driver().calls["wrong"];
            std::fprintf(stderr, "wrong at %d\n", __LINE__);
        } else
            to_host ? std::memcpy(host, alias, length) : std::memcpy(alias, host, length);
    });
    driver().changed.notify_all();
    return CUDA_SUCCESS;
}

CUresult copy_to_host(void *host, CUdeviceptr device, size_t length, CUstream stream) {
    return copy("cuMemcpyDtoHAsync", device, host, length, true, stream);
}

CUresult copy_to_device(CUdeviceptr device, const void *host, size_t length, CUstream stream) {
    return copy("cuMemcpyHtoDAsync", device, const_cast<void *>(host), length, false, stream);
}

#if CUDA_VERSION >= 12080
// In no order that was asked for: the last one first.
CUresult batch_copy(CUdeviceptr *to, CUdeviceptr *from, size_t *lengths, size_t count,
                    CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
                    size_t *failed, CUstream stream) {
    ENTER("cuMemcpyBatchAsync");
    check_alive(*reinterpret_cast<Stream *>(stream), "cuMemcpyBatchAsync");
    const bool to_host = attributes->dstLocHint.type == CU_MEM_LOCATION_TYPE_HOST;
    const CUmemLocation &far = to_host ? attributes->srcLocHint : attributes->dstLocHint;
    const CUmemLocation &near = to_host ? attributes->dstLocHint : attributes->srcLocHint;
    const bool hinted = far.type == CU_MEM_LOCATION_TYPE_DEVICE && far.id == 0 &&
                        near.type == CU_MEM_LOCATION_TYPE_HOST;
    if (!hinted || count < 2 || driver().alias_of(to_host ? *to : *from, 1) ||
        attribute_count != 1 || *first != 0 || !failed || !stream ||
        attributes->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = count; i-- > 0;) {
        const CUdeviceptr target = to[i], source = from[i];
        const size_t length = lengths[i];
        reinterpret_cast<Stream *>(stream)->work.emplace_back([=, failures = driver().failures] {
            if (failures != driver().failures) return;
            uint8_t *const into = driver().alias_of(target, length);
            const uint8_t *const of = driver().alias_of(source, length);
            if (!into == !of || length == 0) {
                ++driver().calls["wrong"];
                std::fprintf(stderr, "wrong at %d\n", __LINE__);
            } else
                std::memcpy(into ? into : reinterpret_cast<uint8_t *>(target),
                            of ? of : reinterpret_cast<const uint8_t *>(source), length);
        });
    }
    driver().changed.notify_all();
    return CUDA_SUCCESS;
}
#endif

// All else waits while it makes pages, so they are to be there.
CUresult host_register(void *memory, size_t length, unsigned) {
    ENTER("cuMemHostRegister");
    const auto before = driver().pinned.find(memory);
    if (before != driver().pinned.end() && !before->second.is_dead())
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    driver().pinned[memory] = of_current();
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> present(length / page + 1);
    const bool told = ::mincore(memory, length, present.data()) == 0;
    if (!told || std::any_of(present.begin(), present.end() - 1,
                             [](unsigned char one) { return !(one & 1); })) {
        ++driver().calls["wrong"];
        std::fprintf(stderr, "wrong: pages are not there\n");
    }
    return CUDA_SUCCESS;
}

using CtxGetId = CUresult (*)(CUcontext, unsigned long long *);  // of headers since 12.0

template <typename Function>
void *address_of(Function function) {
    void *address;
    static_assert(sizeof address == sizeof function);
    std::memcpy(&address, &function, sizeof address);
    return address;
}

struct Row {
    const char *name;
    int version;
    void *function;
};

const Row *find(const char *name) {
    static const Row rows[] = {
        {"cuPointerGetAttributes", 7000,
         address_of<PFN_cuPointerGetAttributes_v7000>(pointer_get_attributes)},
        {"cuDeviceGet", 2000, address_of<PFN_cuDeviceGet_v2000>(device_get)},
        {"cuDeviceGetAttribute", 2000,
         address_of<PFN_cuDeviceGetAttribute_v2000>(device_attribute)},
        {"cuDevicePrimaryCtxGetState", 7000,
         address_of<PFN_cuDevicePrimaryCtxGetState_v7000>(primary_state)},
        {"cuDevicePrimaryCtxRetain", 7000,
         address_of<PFN_cuDevicePrimaryCtxRetain_v7000>(primary_retain)},
        {"cuDevicePrimaryCtxRelease", 11000,
         address_of<PFN_cuDevicePrimaryCtxRelease_v11000>(primary_release)},
        {"cuCtxPushCurrent", 4000, address_of<PFN_cuCtxPushCurrent_v4000>(push_current)},
        {"cuCtxPopCurrent", 4000, address_of<PFN_cuCtxPopCurrent_v4000>(pop_current)},
        {"cuCtxGetId", 12000, address_of<CtxGetId>(context_id)},
        {"cuThreadExchangeStreamCaptureMode", 10010,
         address_of<PFN_cuThreadExchangeStreamCaptureMode_v10010>(exchange_capture_mode)},
        {"cuStreamCreate", 2000, address_of<PFN_cuStreamCreate_v2000>(stream_create)},
        {"cuStreamDestroy", 4000, address_of<PFN_cuStreamDestroy_v4000>(stream_destroy)},
        {"cuStreamSynchronize", 2000,
         address_of<PFN_cuStreamSynchronize_v2000>(stream_synchronize)},
        {"cuEventCreate", 2000, address_of<PFN_cuEventCreate_v2000>(event_create)},
        {"cuEventDestroy", 4000, address_of<PFN_cuEventDestroy_v4000>(event_destroy)},
        {"cuEventRecord", 2000, address_of<PFN_cuEventRecord_v2000>(event_record)},
        {"cuEventSynchronize", 2000, address_of<PFN_cuEventSynchronize_v2000>(event_synchronize)},
        {"cuMemcpyDtoHAsync", 3020, address_of<PFN_cuMemcpyDtoHAsync_v3020>(copy_to_host)},
        {"cuMemcpyHtoDAsync", 3020, address_of<PFN_cuMemcpyHtoDAsync_v3020>(copy_to_device)},
#if CUDA_VERSION >= 12080
        {"cuMemcpyBatchAsync", 12080, address_of<PFN_cuMemcpyBatchAsync_v12080>(batch_copy)},
#endif
        {"cuMemHostRegister", 6050, address_of<PFN_cuMemHostRegister_v6050>(host_register)},
    };
    for (const Row &row : rows)
        if (std::strcmp(row.name, name) == 0) return &row;
    return nullptr;
}

bool lacks(const char *name) {
    const std::lock_guard lock(driver().mutex);
    return driver().lacking == name;
}

}  // namespace

// Exported by its first name, which the header gives to the second version.
#undef cuGetProcAddress
extern "C" CUresult cuGetProcAddress(const char *symbol, void **function, int version,
                                     cuuint64_t flags) {
    const Row *const row = find(symbol);
    if (!row || lacks(symbol) || row->version != version || flags != CU_GET_PROC_ADDRESS_DEFAULT)
        return CUDA_ERROR_NOT_FOUND;
    *function = row->function;
    return CUDA_SUCCESS;
}

// ---- what an application calls by its name

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr pointer) {
    return pointer_get_attributes(1, &attribute, &value, pointer);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    return primary_retain(context, device);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return primary_release(device);
}

CUresult cuCtxPushCurrent(CUcontext context) {
    return push_current(context);
}

CUresult cuCtxPopCurrent(CUcontext *context) {
    return pop_current(context);
}

// Both default streams are its one stream.
CUresult cuStreamSynchronize(CUstream stream) {
    std::unique_lock lock(driver().mutex);
    ++driver().calls["cuStreamSynchronize"];
    if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    const bool is_default = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    auto *const waited = is_default ? driver().application : reinterpret_cast<Stream *>(stream);
    if (!waited || driver().objects.count(waited) == 0) return CUDA_ERROR_INVALID_HANDLE;
    driver().changed.wait(lock, [&] { return waited->work.empty() && !waited->busy; });
    return CUDA_SUCCESS;
}

// ---- what a test does

void *fake_cuda_write_later(void *to, const void *from, size_t size, unsigned ms) {
    const std::lock_guard lock(driver().mutex);
    Driver &all = driver();
    if (!all.application) {
        all.application = new Stream;
        static_cast<Made &>(*all.application) = {&all.primary, all.primary.id};
        all.objects.insert(all.application);
    }
    const auto *const bytes = static_cast<const uint8_t *>(from);
    const std::vector<uint8_t> content(bytes, bytes + size);
    all.application->not_before = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    all.application->work.emplace_back([=] {
        std::memcpy(driver().alias_of(reinterpret_cast<uint64_t>(to), size), content.data(), size);
    });
    all.changed.notify_all();
    return all.application;
}

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
        ++driver().calls["wrong"];
        std::fprintf(stderr, "wrong: an adapter keeps pages of managed memory\n");
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

void fake_cuda_hold(int held) {
    const std::lock_guard lock(driver().mutex);
    driver().held = held;
    driver().changed.notify_all();
}

void fake_cuda_fail(const char *call, int nth, int error, int sticky) {
    const std::lock_guard lock(driver().mutex);
    Driver &all = driver();
    all.failing = call ? call : "";
    all.fails_in = nth, all.error = error, all.sticky = sticky;
    all.fails_for_good = false;
}

void fake_cuda_refuse(const char *call) {
    const std::lock_guard lock(driver().mutex);
    driver().refusing = call ? call : "";
}

void fake_cuda_lack(const char *call) {
    const std::lock_guard lock(driver().mutex);
    driver().lacking = call ? call : "";
}

void fake_cuda_without_context(int without) {
    const std::lock_guard lock(driver().mutex);
    driver().has_primary = !without;
    driver().without_context = without != 0;
}

void fake_cuda_reset(void) {
    const std::lock_guard lock(driver().mutex);
    driver().end(driver().primary);
}

int fake_cuda_retained(void) {
    const std::lock_guard lock(driver().mutex);
    return driver().retained;
}

void fake_cuda_own_context(int own) {
    const std::lock_guard lock(driver().mutex);
    Driver &all = driver();
    if (all.own.is_there) all.end(all.own);
    if (own) all.own = {++all.last_context, true};
    all.has_primary = !own;
}

unsigned fake_cuda_calls(const char *call) {
    const std::lock_guard lock(driver().mutex);
    return driver().calls[call];
}
