// SPDX-License-Identifier: Apache-2.0
// What memory is this? Its driver is asked, the caller's label is only a hint. Thread: any.
#pragma once

#include <cstdint>
#include <memory>

#include "util/status.h"

namespace xfer {

struct Memory {
    enum class Origin : uint8_t {
        plain,      // no driver knows it
        pinned,     // the host's, and a device reaches it
        managed,    // moves between host and device; the CPU may touch it where devices allow
        allocated,  // by cuMemAlloc, and so on: what follows is a device's
        pooled,     // cuMemAllocAsync
        imported,   // cuIpcOpenMemHandle: it is another process's
        mapped      // cuMemMap
    };

    uint32_t kind = XFER_MEM_HOST;  // XFER_MEM_*: whose it is to touch
    Origin origin = Origin::plain;
    int32_t device = -1;  // as the driver counts, of all but plain memory
    // The allocation. Of mapped memory: what was reserved, in which there may be many mappings.
    uint64_t base = 0, size = 0;  // 0 where no driver knows them
    uint64_t id = 0;              // another one once the address was freed and is used again

    // Of its allocation; 0 where there may be many.
    uint64_t one_id() const { return origin == Origin::mapped ? 0 : id; }
    // Its pages are other ones each time that it moves: an adapter would keep those it has left.
    bool migrates() const { return origin == Origin::managed; }
    bool holds(uint64_t address, uint64_t length) const {
        const uint64_t offset = address - base;
        return offset <= size && length <= size - offset;
    }
};

// "memory of CUDA device 0", for who reads an error.
Text name_of(const Memory &memory);

class CopyStreams;
class StreamEntry;

class Device {
public:
    virtual ~Device() = default;
    // Of `length` bytes, at least one, that do not wrap around. XFER_ERANGE: they go past the end
    // of the allocation that they begin in.
    virtual Status look(const void *address, uint64_t length, Memory &memory,
                        Failure &why) const = 0;
    // Whether its driver has all that copies take.
    virtual bool copies() const = 0;
    // Between host memory and the device of that number, by its primary context; where it has none,
    // by that of the allocation at `address`, if that has one. Up to `marks` copies are told apart.
    // Null: `error` is the driver's. May block.
    virtual std::shared_ptr<CopyStreams> open_streams(int32_t number, uint64_t address,
                                                      uint32_t marks, int32_t &error) const = 0;
    // To put calls into a stream of the application (device/stream_call.h). Null: its driver has
    // not all that this takes.
    virtual std::unique_ptr<StreamEntry> enter_stream(void *stream) const = 0;
};

// Asks CUDA. Null where its driver is not installed: everything is host memory.
std::unique_ptr<Device> make_device();

}  // namespace xfer
