// SPDX-License-Identifier: Apache-2.0
#include "device/cuda.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <iterator>

#include "device/cuda_stream_entry.h"
#include "device/cuda_streams.h"
#include "util/mapped.h"

namespace xfer {
namespace {

// What the driver is asked about a pointer, all at once.
constexpr CUpointer_attribute kAttributes[] = {
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_CONTEXT,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
    CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE,
};

// It leaves alone what it does not know.
struct Answer {
    CUmemorytype type{};  // 0: not its memory
    CUcontext context = nullptr;
    CUmemoryPool pool = nullptr;
    int device = -1;
    uint64_t managed = 0, exportable = 0;  // by cuIpcGetMemHandle; it writes one byte, or four
    unsigned long long id = 0;
    CUdeviceptr base = 0;
    size_t size = 0;

    CUresult ask(const CudaTable &table, uint64_t address) {
        void *fields[] = {&type,       &context, &pool, &device, &managed,
                          &exportable, &id,      &base, &size};
        static_assert(std::size(kAttributes) == std::size(fields));
        auto *const attributes = const_cast<CUpointer_attribute *>(kAttributes);  // it only reads
        return table.cuPointerGetAttributes(std::size(fields), attributes, fields, address);
    }

    // What the four ways to get device memory differ in.
    Memory::Origin origin() const {
        if (type == CU_MEMORYTYPE_HOST) return Memory::Origin::pinned;
        if (managed) return Memory::Origin::managed;
        if (pool) return Memory::Origin::pooled;
        if (!context) return Memory::Origin::mapped;
        return exportable ? Memory::Origin::allocated : Memory::Origin::imported;
    }
};

Status past_the_end(const Memory &memory, uint64_t address, uint64_t length, Failure &why) {
    why = {XFER_ERANGE, XFER_ORIGIN_NONE, 0,
           fmt::format("{} bytes at {:#x} go past the end of their {} bytes at {:#x}, {}", length,
                       address, memory.size, memory.base, std::string_view(name_of(memory)))};
    return why.status;
}

Status not_mapped(uint64_t address, Failure &why) {
    why = {XFER_ERANGE, XFER_ORIGIN_NONE, 0,
           fmt::format("{:#x} is reserved for a device, and nothing is mapped", address)};
    return why.status;
}

Status untold(CUresult result, Failure &why) {
    why = {XFER_EMEMKIND, XFER_ORIGIN_CUDA, result,
           fmt::format("the driver cannot tell what the memory is: CUDA error {}",
                       static_cast<int>(result))};
    return why.status;
}

}  // namespace

// There is no device memory before the driver is initialised. Where it fails for another reason,
// host memory goes on, and what the CPU cannot read is a device's.
Status CudaDevice::look(const void *pointer, uint64_t length, Memory &memory, Failure &why) const {
    memory = {};
    const auto address = reinterpret_cast<uint64_t>(pointer);
    Answer answer;
    const CUresult result = answer.ask(table_, address);
    if (result == CUDA_ERROR_NOT_INITIALIZED) return XFER_OK;
    if (result != CUDA_SUCCESS) return is_readable(pointer) ? XFER_OK : untold(result, why);
    if (!answer.type) return answer.size ? not_mapped(address, why) : XFER_OK;
    Memory found;
    found.origin = answer.origin();
    found.device = answer.device;
    found.kind = is_of_host(found) ? XFER_MEM_HOST : XFER_MEM_CUDA;
    found.base = answer.base, found.size = answer.size;
    found.id = answer.id;
    if (found.size && !found.holds(address, length)) {
        // A part of it may be pinned: to the CPU that is all the same.
        if (found.origin == Memory::Origin::pinned) return XFER_OK;
        return past_the_end(found, address, length, why);
    }
    memory = found;
    return XFER_OK;
}

// Managed memory of a device that does not allow concurrent access is not the CPU's as long as any
// kernel runs there, and who touches it gets a signal.
bool CudaDevice::is_of_host(const Memory &found) const {
    if (found.origin != Memory::Origin::managed) return found.origin < Memory::Origin::managed;
    CUdevice device = 0;
    int concurrent = 1;
    if (table_.cuDeviceGetAttribute && table_.cuDeviceGet(&device, found.device) == CUDA_SUCCESS)
        table_.cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                    device);
    return concurrent != 0;
}

std::shared_ptr<CopyStreams> CudaDevice::open_streams(int32_t number, uint64_t address,
                                                      uint32_t marks, int32_t &error) const {
    return CudaStreams::open(table_, number, address, marks, error);
}

std::unique_ptr<StreamEntry> CudaDevice::enter_stream(void *stream) const {
    if (!table_.stream_calls) return nullptr;
    return std::make_unique<CudaStreamEntry>(table_, stream);
}

namespace {

// Asks the driver for its calls, by their names and versions.
class CallFinder {
public:
    explicit CallFinder(PFN_cuGetProcAddress_v11030 find) : find_(find) {}

    template <typename Function>
    bool operator()(const char *name, int version, Function &function) const {
        void *found = nullptr;
        const CUresult result = find_(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT);
        function = reinterpret_cast<Function>(found);
        return result == CUDA_SUCCESS && found;
    }

private:
    const PFN_cuGetProcAddress_v11030 find_;
};

bool resolve_copies(const CallFinder &resolve, CudaTable &table) {
    return resolve("cuDeviceGet", 2000, table.cuDeviceGet) &&
           resolve("cuDevicePrimaryCtxGetState", 7000, table.cuDevicePrimaryCtxGetState) &&
           resolve("cuDevicePrimaryCtxRetain", 7000, table.cuDevicePrimaryCtxRetain) &&
           resolve("cuDevicePrimaryCtxRelease", 11000, table.cuDevicePrimaryCtxRelease) &&
           resolve("cuCtxPushCurrent", 4000, table.cuCtxPushCurrent) &&
           resolve("cuCtxPopCurrent", 4000, table.cuCtxPopCurrent) &&
           resolve("cuThreadExchangeStreamCaptureMode", 10010,
                   table.cuThreadExchangeStreamCaptureMode) &&
           resolve("cuStreamCreate", 2000, table.cuStreamCreate) &&
           resolve("cuStreamDestroy", 4000, table.cuStreamDestroy) &&
           resolve("cuStreamSynchronize", 2000, table.cuStreamSynchronize) &&
           resolve("cuEventCreate", 2000, table.cuEventCreate) &&
           resolve("cuEventDestroy", 4000, table.cuEventDestroy) &&
           resolve("cuEventRecord", 2000, table.cuEventRecord) &&
           resolve("cuEventSynchronize", 2000, table.cuEventSynchronize) &&
           resolve("cuMemcpyDtoHAsync", 3020, table.cuMemcpyDtoHAsync) &&
           resolve("cuMemcpyHtoDAsync", 3020, table.cuMemcpyHtoDAsync) &&
           resolve("cuMemHostRegister", 6050, table.cuMemHostRegister);
}

bool resolve_stream_calls(const CallFinder &resolve, CudaTable &table) {
    return resolve("cuStreamGetCtx", 9020, table.cuStreamGetCtx) &&
           resolve("cuStreamGetCaptureInfo", 11030, table.cuStreamGetCaptureInfo) &&
           resolve("cuLaunchHostFunc", 10000, table.cuLaunchHostFunc) &&
           resolve("cuStreamWaitValue32", 11070, table.cuStreamWaitValue32) &&
           resolve("cuMemHostGetDevicePointer", 3020, table.cuMemHostGetDevicePointer) &&
           resolve("cuUserObjectCreate", 11030, table.cuUserObjectCreate) &&
           resolve("cuUserObjectRelease", 11030, table.cuUserObjectRelease) &&
           resolve("cuGraphRetainUserObject", 11030, table.cuGraphRetainUserObject);
}

}  // namespace

// The handle stays open: other parts of the process may hold what comes from it.
bool load_cuda(CudaTable &table) {
    void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return false;
    const auto find =
        reinterpret_cast<PFN_cuGetProcAddress_v11030>(::dlsym(driver, "cuGetProcAddress"));
    if (!find) return false;
    const CallFinder resolve(find);
    if (!resolve("cuPointerGetAttributes", 7000, table.cuPointerGetAttributes)) return false;
    table.copies = resolve_copies(resolve, table);
    if (table.copies) resolve("cuDeviceGetAttribute", 2000, table.cuDeviceGetAttribute);
    resolve("cuCtxGetId", 12000, table.cuCtxGetId);
#if CUDA_VERSION >= 12080
    table.batches = resolve("cuMemcpyBatchAsync", 12080, table.cuMemcpyBatchAsync);
#endif
    table.stream_calls = table.copies && resolve_stream_calls(resolve, table);
    return true;
}

}  // namespace xfer
