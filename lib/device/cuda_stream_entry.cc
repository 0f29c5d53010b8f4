// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_stream_entry.h"

namespace xfer {

CudaStreamEntry::CudaStreamEntry(const CudaTable &table, void *stream)
    : cuda_(table), stream_(static_cast<CUstream>(stream)) {
    cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
}

CudaStreamEntry::~CudaStreamEntry() {
    CUcontext popped;
    if (pushed_) cuda_.cuCtxPopCurrent(&popped);
    cuda_.cuThreadExchangeStreamCaptureMode(&mode_);
}

// Of a default stream it is the current one.
CUresult CudaStreamEntry::enter() {
    CUcontext context = nullptr;
    if (const CUresult result = cuda_.cuStreamGetCtx(stream_, &context)) return result;
    if (const CUresult result = cuda_.cuCtxPushCurrent(context)) return result;
    pushed_ = true;
    unsigned long long id = 0;
    const bool numbered = cuda_.cuCtxGetId && cuda_.cuCtxGetId(context, &id) == CUDA_SUCCESS;
    context_ = numbered ? id : reinterpret_cast<uint64_t>(context);
    return CUDA_SUCCESS;
}

CUresult CudaStreamEntry::look_at_capture() {
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = nullptr;
    const CUresult result =
        cuda_.cuStreamGetCaptureInfo(stream_, &status, nullptr, &graph, nullptr, nullptr);
    if (result != CUDA_SUCCESS) return result;
    if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) graph_ = graph;
    return CUDA_SUCCESS;
}

bool CudaStreamEntry::add(void *page, uint64_t length) {
    const auto flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    added_ = cuda_.cuMemHostRegister(page, length, flags);
    if (added_ == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) added_ = CUDA_SUCCESS;
    return added_ == CUDA_SUCCESS;
}

int32_t CudaStreamEntry::prepare(StreamCall &call, bool &captures) {
    if (const CUresult result = enter()) return result;
    if (const CUresult result = look_at_capture()) return result;
    captures = graph_ != nullptr;
    call.memory = TicketMemory::take(context_, *this);
    if (added_ != CUDA_SUCCESS) return added_;
    if (!call.memory.line()) return CUDA_ERROR_OUT_OF_MEMORY;
    return cuda_.cuMemHostGetDevicePointer(&word_, &call.word(), 0);
}

// By an object of the graph's, whose end says that no graph, and no instance of one, is left.
CUresult CudaStreamEntry::give_to_graph(StreamCall &call) {
    CUuserObject object = nullptr;
    const CUresult made =
        cuda_.cuUserObjectCreate(&object, &call, forget, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (made != CUDA_SUCCESS) return made;
    call.retain();
    const CUresult given =
        cuda_.cuGraphRetainUserObject(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (given != CUDA_SUCCESS) cuda_.cuUserObjectRelease(object, 1);
    return given;
}

// What was put in before something fails holds nobody: the host function finds its ticket over.
int32_t CudaStreamEntry::put_in(StreamCall &call) {
    if (graph_) {
        if (const CUresult result = give_to_graph(call)) return result;
        if (const CUresult result = cuda_.cuLaunchHostFunc(stream_, arrive, &call)) return result;
    } else {
        call.retain();
        if (const CUresult result = cuda_.cuLaunchHostFunc(stream_, arrive_once, &call)) {
            call.release();
            return result;
        }
    }
    return cuda_.cuStreamWaitValue32(stream_, word_, Ticket::kPasses, CU_STREAM_WAIT_VALUE_AND);
}

void CUDA_CB CudaStreamEntry::arrive(void *call) {
    static_cast<StreamCall *>(call)->arrived();
}

void CUDA_CB CudaStreamEntry::arrive_once(void *call) {
    static_cast<StreamCall *>(call)->arrived();
    static_cast<StreamCall *>(call)->release();
}

void CUDA_CB CudaStreamEntry::forget(void *call) {
    static_cast<StreamCall *>(call)->forgotten();
}

}  // namespace xfer
