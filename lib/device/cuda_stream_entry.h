// SPDX-License-Identifier: Apache-2.0
// Puts calls into streams of the application: a host function, and a wait for memory, which 11.7
// and later capture as nodes of a graph.
#pragma once

#include "device/cuda.h"
#include "device/stream_call.h"

namespace xfer {

class CudaStreamEntry final : public StreamEntry, TicketMemory::Registry {
public:
    CudaStreamEntry(const CudaTable &table, void *stream);
    CudaStreamEntry(const CudaStreamEntry &) = delete;
    CudaStreamEntry &operator=(const CudaStreamEntry &) = delete;
    ~CudaStreamEntry() override;

    int32_t prepare(StreamCall &call, bool &captures) override;
    int32_t put_in(StreamCall &call) override;

private:
    bool add(void *page, uint64_t length) override;
    CUresult enter();
    CUresult look_at_capture();
    CUresult give_to_graph(StreamCall &call);
    static void CUDA_CB arrive_once(void *call);
    static void CUDA_CB arrive(void *call);
    static void CUDA_CB forget(void *call);

    const CudaTable &cuda_;
    const CUstream stream_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then that of the thread before
    bool pushed_ = false;
    CUresult added_ = CUDA_SUCCESS;
    uint64_t context_ = 0;  // of the stream: its number, or its address where it has none
    CUdeviceptr word_ = 0;
    CUgraph graph_ = nullptr;  // null: the stream does not capture
};

}  // namespace xfer
