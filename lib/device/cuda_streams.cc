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

std::shared_ptr<CudaStreams> CudaStreams::open(const CudaTable &table, int32_t number,
                                               uint64_t address, uint32_t marks, int32_t &error) {
    auto streams = std::make_shared<CudaStreams>(table);
    streams->marks_.reserve(marks);
    error = streams->context_.find(number, address);
    if (!error) error = streams->make(marks);
    return error ? nullptr : streams;
}

// Neither waits for the application's default stream, nor does that wait for them.
CUresult CudaStreams::make(uint32_t marks) {
    const CudaContext::Current current(context_);
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
    const CudaContext::Current current(context_);
    if (current.result != CUDA_SUCCESS) return;
    for (CUevent event : marks_)
        cuda_.cuEventDestroy(event);
    for (CUstream stream : streams_)
        if (stream) cuda_.cuStreamDestroy(stream);
}

CopyStreams::Begun CudaStreams::begin(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                                      uint32_t mark) {
    if (!ranges.empty() && !context_.serves(ranges.front().address))
        return {CUDA_ERROR_CONTEXT_IS_DESTROYED, false, true};
    const CudaContext::Current current(context_);
    CUresult result = current.result;
    bool any = false;
    if (result == CUDA_SUCCESS) result = begin_all(way, ranges, host, any);
    if (result == CUDA_SUCCESS) result = cuda_.cuEventRecord(marks_[mark], stream(way));
    return {result, any, is_of_context(result)};
}

// A batch that the driver refuses may still go copy by copy, or its error then names the piece.
// What of it has begun comes first on the same stream, and is only repeated. A driver that refuses
// one after the other, and then copies each, is not asked again.
CUresult CudaStreams::begin_all(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                                bool &any) {
    if (ranges.size() > 1 && refusals_ < kMaxRefusals && batch_.fill(way, ranges, host)) {
        const CUresult result = batch_.begin(cuda_, context_.device(), stream(way));
        any = !is_of_context(result);
        if (result == CUDA_SUCCESS) return refusals_ = 0, result;
        const CUresult each = begin_each(way, ranges, host, any);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            refusals_ = kMaxRefusals;
        else if (each == CUDA_SUCCESS)
            ++refusals_;
        return each;
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
        const CudaContext::Current current(context_);
        result = current.result;
        if (result == CUDA_SUCCESS) result = cuda_.cuEventSynchronize(marks_[mark]);
    }
    if (result != CUDA_SUCCESS) wait_all();
    return result;
}

int32_t CudaStreams::wait_all() {
    const CudaContext::Current current(context_);
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
    const CudaContext::Current current(context_);
    if (current.result != CUDA_SUCCESS) return false;
    const CUresult result = cuda_.cuMemHostRegister(host, length, CU_MEMHOSTREGISTER_PORTABLE);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}

}  // namespace xfer
