// SPDX-License-Identifier: Apache-2.0
// What the library finds in the driver, by its table (table.cc). A call of a driver `cuXxx` stands
// in the file of what it is about.
#pragma once

#include <cudaTypedefs.h>

namespace fake_cuda {

// ---- memory.cc
CUresult pointer_get_attributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr pointer);
CUresult host_register(void *memory, size_t length, unsigned flags);
CUresult host_device_pointer(CUdeviceptr *device, void *host, unsigned flags);

// ---- context.cc
CUresult device_get(CUdevice *device, int ordinal);
CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult primary_state(CUdevice device, unsigned *flags, int *active);
CUresult primary_retain(CUcontext *context, CUdevice device);
CUresult primary_release(CUdevice device);
CUresult push_current(CUcontext context);
CUresult pop_current(CUcontext *context);
CUresult context_id(CUcontext context, unsigned long long *id);
CUresult exchange_capture_mode(CUstreamCaptureMode *mode);

// ---- streams.cc
CUresult stream_create(CUstream *stream, unsigned flags);
CUresult stream_destroy(CUstream stream);
CUresult stream_synchronize(CUstream stream);
CUresult stream_context(CUstream stream, CUcontext *context);
CUresult launch_host(CUstream stream, CUhostFn function, void *data);
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);

// ---- copies.cc
CUresult event_create(CUevent *event, unsigned flags);
CUresult event_destroy(CUevent event);
CUresult event_record(CUevent event, CUstream stream);
CUresult event_synchronize(CUevent event);
CUresult copy_to_host(void *host, CUdeviceptr device, size_t length, CUstream stream);
CUresult copy_to_device(CUdeviceptr device, const void *host, size_t length, CUstream stream);
#if CUDA_VERSION >= 12080
CUresult batch_copy(CUdeviceptr *to, CUdeviceptr *from, size_t *lengths, size_t count,
                    CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
                    size_t *failed, CUstream stream);
#endif

// ---- graphs.cc
CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                      CUgraph *graph, const CUgraphNode **nodes, size_t *count);
CUresult user_object_create(CUuserObject *made, void *data, CUhostFn destroy, unsigned references,
                            unsigned flags);
CUresult user_object_release(CUuserObject object, unsigned count);
CUresult graph_retain(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);

}  // namespace fake_cuda
