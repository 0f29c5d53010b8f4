// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_streams.h"

#include <chrono>
#include <thread>

namespace xfer {

namespace {

// Not of the copies, but of a capture that the application has begun: ask again.
bool is_of_capture(CUresult result) {
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
           result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

bool is_of_context(CUresult result) {
    return result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
           result == CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

// The context, current in this thread for as long as it is there. A graph that another thread of
// the application captures meanwhile neither refuses our calls nor is broken by them.
class CudaStreams::Current {
public:
    explicit Current(const CudaStreams &streams)
        : cuda_(streams.cuda_), result(cuda_.cuCtxPushCurrent(streams.context_)) {
        if (result == CUDA_SUCCESS) cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
    }
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;
    ~Current() {
        CUcontext popped;
        if (result != CUDA_SUCCESS) return;
        cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
        cuda_.cuCtxPopCurrent(&popped);
    }

private:
    const CudaTable &cuda_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;

public:
    const CUresult result;
};

std::shared_ptr<CudaStreams> CudaStreams::open(const CudaTable &table, int32_t number,
                                               uint64_t address, uint32_t marks, int32_t &error) {
    auto streams = std::make_shared<CudaStreams>(table);
    streams->marks_.reserve(marks);
    error = streams->find_context(number, address);
    if (!error) error = streams->make(marks);
    return error ? nullptr : streams;
}

CUresult CudaStreams::find_context(int32_t number, uint64_t address) {
    unsigned flags = 0;
    int active = 0;
    if (const CUresult result = cuda_.cuDeviceGet(&device_, number)) return result;
    if (const CUresult result = cuda_.cuDevicePrimaryCtxGetState(device_, &flags, &active))
        return result;
    if (active) return retain_primary();
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_CONTEXT};
    void *answers[] = {&context_};
    const CUresult result = cuda_.cuPointerGetAttributes(1, asked, answers, address);
    return result == CUDA_SUCCESS && !context_ ? retain_primary() : result;
}

// Memory of a pool, and what cuMemMap has mapped, is of the device and of no context. Where the
// application has none but its own, the primary one is made, which takes a worker a while.
CUresult CudaStreams::retain_primary() {
    const CUresult result = cuda_.cuDevicePrimaryCtxRetain(&context_, device_);
    retained_ = result == CUDA_SUCCESS;
    return result;
}

// Neither waits for the application's default stream, nor does that wait for them.
CUresult CudaStreams::make(uint32_t marks) {
    const Current current(*this);
    if (current.result != CUDA_SUCCESS) return current.result;
    for (CUstream &stream : streams_)
        if (const CUresult result = cuda_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
            return result;
    while (marks_.size() < marks) {
        CUevent event = nullptr;
        const auto flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
        if (const CUresult result = cuda_.cuEventCreate(&event, flags)) return result;
        marks_.push_back(event);
    }
    return CUDA_SUCCESS;
}

// What was of a context that is gone went with it.
CudaStreams::~CudaStreams() {
    if (context_) {
        const Current current(*this);
        const bool is_there = current.result == CUDA_SUCCESS;
        for (CUevent event : marks_)
            if (is_there) cuda_.cuEventDestroy(event);
        for (CUstream stream : streams_)
            if (is_there && stream) cuda_.cuStreamDestroy(stream);
    }
    if (retained_) cuda_.cuDevicePrimaryCtxRelease(device_);
}

CopyStreams::Begun CudaStreams::begin(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                                      uint32_t mark) {
    const Current current(*this);
    CUresult result = current.result;
    bool any = false;
    if (result == CUDA_SUCCESS) result = begin_all(way, ranges, host, any);
    if (result == CUDA_SUCCESS) result = cuda_.cuEventRecord(marks_[mark], stream(way));
    return {result, any, is_of_context(result)};
}

// A batch that the driver refuses may still go copy by copy, or its error then names the piece.
// What of it has begun comes first on the same stream, and is only repeated.
CUresult CudaStreams::begin_all(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                                bool &any) {
    if (ranges.size() > 1 && batches_ && batch_.fill(way, ranges, host)) {
        const CUresult result = batch_.begin(cuda_, device_, stream(way));
        any = !is_of_context(result);
        batches_ = result != CUDA_ERROR_NOT_SUPPORTED;
        if (result == CUDA_SUCCESS) return result;
    }
    return begin_each(way, ranges, host, any);
}

CUresult CudaStreams::begin_each(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                                 bool &any) {
    for (const DeviceRange &range : ranges) {
        if (const CUresult result = copy(way, range, host)) return result;
        any = true;
        host += range.length;
    }
    return CUDA_SUCCESS;
}

CUresult CudaStreams::copy(Way way, const DeviceRange &range, uint8_t *host) const {
    return way == Way::to_host
               ? cuda_.cuMemcpyDtoHAsync(host, range.address, range.length, stream(way))
               : cuda_.cuMemcpyHtoDAsync(range.address, host, range.length, stream(way));
}

// Where the driver can't wait for an event it may still wait for the stream. Of a context that is
// gone, or has failed for good, nothing goes on.
int32_t CudaStreams::wait(uint32_t mark) {
    CUresult result;
    {
        const Current current(*this);
        result = current.result;
        if (result == CUDA_SUCCESS) result = cuda_.cuEventSynchronize(marks_[mark]);
    }
    if (result != CUDA_SUCCESS) wait_all();
    return result;
}

int32_t CudaStreams::wait_all() {
    const Current current(*this);
    CUresult first = current.result;
    for (CUstream stream : streams_) {
        if (current.result != CUDA_SUCCESS) break;
        CUresult result = cuda_.cuStreamSynchronize(stream);
        while (is_of_capture(result)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            result = cuda_.cuStreamSynchronize(stream);
        }
        if (first == CUDA_SUCCESS) first = result;
    }
    return first;
}

bool CudaStreams::pin(uint8_t *host, uint64_t length) {
    const Current current(*this);
    if (current.result != CUDA_SUCCESS) return false;
    const CUresult result = cuda_.cuMemHostRegister(host, length, CU_MEMHOSTREGISTER_PORTABLE);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

}  // namespace xfer
