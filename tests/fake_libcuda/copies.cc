// SPDX-License-Identifier: Apache-2.0
// Copies, and the events behind them.
#include <cstring>

#include "calls.h"
#include "streams.h"

namespace fake_cuda {

CUresult event_create(CUevent *event, unsigned) {
    ENTER("cuEventCreate");
    auto *const made = new Event;
    static_cast<Made &>(*made) = of_current();
    driver().events.insert(made);
    *event = reinterpret_cast<CUevent>(made);
    return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event) {
    ENTER("cuEventDestroy");
    check_alive(*reinterpret_cast<Event *>(event), "cuEventDestroy");
    driver().events.erase(reinterpret_cast<Event *>(event));
    delete reinterpret_cast<Event *>(event);
    return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream stream) {
    ENTER_ON(stream, "cuEventRecord");
    auto *const mark = reinterpret_cast<Event *>(event);
    check_alive(*mark, "cuEventRecord");
    ++mark->recorded;
    on->add([mark] { ++mark->over; }, Work::Kind::mark);
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

namespace {

CUresult copy(const char *name, CUdeviceptr device, void *host, size_t length, bool to_host,
              CUstream stream) {
    ENTER_ON(stream, name);
    on->add([=] {
        uint8_t *const alias = driver().alias_of(device, length);
        if (!alias)
            wrong("a copy of memory that is not there");
        else
            to_host ? std::memcpy(host, alias, length) : std::memcpy(alias, host, length);
    });
    return CUDA_SUCCESS;
}

}  // namespace

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
    ENTER_ON(stream, "cuMemcpyBatchAsync");
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
        on->add([=] {
            uint8_t *const into = driver().alias_of(target, length);
            const uint8_t *const of = driver().alias_of(source, length);
            if (!into == !of || length == 0)
                wrong("a copy of a batch");
            else
                std::memcpy(into ? into : reinterpret_cast<uint8_t *>(target),
                            of ? of : reinterpret_cast<const uint8_t *>(source), length);
        });
    }
    return CUDA_SUCCESS;
}
#endif

}  // namespace fake_cuda
