// SPDX-License-Identifier: Apache-2.0
// Host memory that other processes can be given: a memfd, mapped here, whose size is sealed, so
// that nobody who maps it meets SIGBUS. It has no name and leaves nothing behind.
#pragma once

#include <cstdint>
#include <memory>

#include "util/fd.h"
#include "util/status.h"

namespace xfer {

class SharedMemory {
public:
    static constexpr int kAnyNode = -1;
    // All zero. `huge` and `node` are wishes: small pages, or those of another node, if the system
    // has no others.
    static Result<std::unique_ptr<SharedMemory>> make(uint64_t length, bool huge, int node);
    ~SharedMemory();

    uint8_t *data() const { return data_; }
    uint64_t mapped() const { return mapped_; }  // whole pages
    int fd() const { return fd_.get(); }

private:
    SharedMemory(Fd fd, uint8_t *data, uint64_t mapped)
        : fd_(std::move(fd)), data_(data), mapped_(mapped) {}

    const Fd fd_;
    uint8_t *const data_;
    const uint64_t mapped_;
};

}  // namespace xfer
