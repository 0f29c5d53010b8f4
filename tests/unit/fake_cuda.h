// SPDX-License-Identifier: Apache-2.0
// A CUDA driver that there is only the table of. It tells of allocations that nobody made, in the
// words of a driver 580 with an H100 (lib/design/0051).
#pragma once

#include <map>

#include "device/cuda.h"

namespace xfer {

class FakeCuda {
public:
    FakeCuda() { now_ = this; }
    ~FakeCuda() { now_ = nullptr; }
    FakeCuda(const FakeCuda &) = delete;
    FakeCuda &operator=(const FakeCuda &) = delete;

    static CudaTable table() {
        CudaTable table;
        table.cuPointerGetAttributes = get_attributes;
        return table;
    }

    // Of any origin but plain. Its id.
    uint64_t allocate(Memory::Origin origin, uint64_t base, uint64_t size, int device = 0) {
        allocations_[base] = {origin, size, device, ++last_id_, true};
        return last_id_;
    }
    // By cuMemAddressReserve.
    void reserve(uint64_t base, uint64_t size) {
        allocations_[base] = {Memory::Origin::mapped, size, 0, 0, false};
    }
    void free(uint64_t base) { allocations_.erase(base); }

    CUresult answer = CUDA_SUCCESS;  // of every call
    int asked = 0;

private:
    struct Allocation {
        Memory::Origin origin;
        uint64_t size;
        int device;
        uint64_t id;
        bool there;
    };
    using Found = std::map<uint64_t, Allocation>::const_iterator;

    template <typename T>
    static void write(void *to, T value) {
        *static_cast<T *>(to) = value;
    }

    // What is unknown has neither a base nor a size: those stay as they are.
    static CUresult write_unknown(CUpointer_attribute attribute, void *to) {
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            return write(to, 0u), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return write(to, -2), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            return write(to, 0u), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return write(to, uint64_t{0}), CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }

    static CUresult write_known(CUpointer_attribute attribute, void *to, uint64_t base,
                                const Allocation &found) {
        using Origin = Memory::Origin;
        const Origin origin = found.origin;
        const bool context = origin != Origin::pooled && origin != Origin::mapped;
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            write<unsigned>(to,
                            origin == Origin::pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            return write(to, base), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            return write(to, found.size), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            return write(to, found.device), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            return write(to, found.id), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            return write(to, unsigned{origin == Origin::managed}), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            return write(to, unsigned{origin == Origin::allocated}), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            return write(to, uint64_t{context}), CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
            return write(to, uint64_t{origin == Origin::pooled}), CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }

    // What lies in a reservation without memory has its base and size, and no type.
    static CUresult write_attribute(CUpointer_attribute attribute, void *to, Found found) {
        if (found == now_->allocations_.end()) return write_unknown(attribute, to);
        const auto &[base, allocation] = *found;
        if (allocation.there || attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR ||
            attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
            return write_known(attribute, to, base, allocation);
        return write_unknown(attribute, to);
    }

    Found find(uint64_t address) const {
        auto behind = allocations_.upper_bound(address);
        if (behind == allocations_.begin()) return allocations_.end();
        const Found found = --behind;
        return address - found->first < found->second.size ? found : allocations_.end();
    }

    static CUresult get_attributes(unsigned count, CUpointer_attribute *attributes, void **data,
                                   CUdeviceptr pointer) {
        ++now_->asked;
        if (now_->answer != CUDA_SUCCESS) return now_->answer;
        const Found found = now_->find(pointer);
        for (unsigned i = 0; i < count; ++i)
            if (CUresult result = write_attribute(attributes[i], data[i], found)) return result;
        return CUDA_SUCCESS;
    }

    static inline FakeCuda *now_ = nullptr;
    std::map<uint64_t, Allocation> allocations_;
    uint64_t last_id_ = 0;
};

}  // namespace xfer
