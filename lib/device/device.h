// SPDX-License-Identifier: Apache-2.0
// What memory is this? The driver is asked, the caller's label is only a hint. Thread: any.
#pragma once

#include <cstdint>
#include <memory>

namespace xfer {

class Device {
public:
    virtual ~Device() = default;
    virtual uint32_t kind_of(const void *address, uint64_t length) const = 0;  // XFER_MEM_*
};

// Asks CUDA where its driver is installed; everything is host memory where none is.
std::unique_ptr<Device> make_device();

}  // namespace xfer
