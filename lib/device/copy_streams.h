// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies between host memory and one device: a stream each way, so that both go on
// beside each other and beside those of the application. Thread: one at a time, which may block;
// the context that is current in it is the same afterwards.
#pragma once

#include <cstdint>
#include <span>

namespace xfer {

struct DeviceRange {
    uint64_t address, length;  // at least one byte
    uint64_t id = 0;           // of its allocation; 0: unknown, or there may be many
};

class CopyStreams {
public:
    enum class Way : uint8_t { to_host, to_device };
    struct Begun {
        int32_t error;  // 0, or the driver's
        bool any;       // copies go on, although there is an error
        bool gone;      // so is the context: other streams may do
    };

    virtual ~CopyStreams() = default;
    // Between these ranges and as many bytes at `host`; where ranges overlap, what the last one
    // says stays. wait(mark) is for their end.
    virtual Begun begin(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                        uint32_t mark) = 0;
    // Until they have ended, asleep: 0, or the driver's error, with which they have ended, too.
    virtual int32_t wait(uint32_t mark) = 0;
    // The same of all that was begun.
    virtual int32_t wait_all() = 0;
    // Copies from and to it are asynchronous from then on. False: the driver refuses.
    virtual bool pin(uint8_t *host, uint64_t length) = 0;
};

}  // namespace xfer
