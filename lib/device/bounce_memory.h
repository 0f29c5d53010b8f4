// SPDX-License-Identifier: Apache-2.0
// Host memory that copies from and to devices go by. Once it is pinned it stays with the process,
// for the next engine: who unpins it waits for every kernel of the process, also one that never
// ends, and who pins it keeps the copies of the process waiting (design/0051).
#pragma once

#include <cstdint>
#include <utility>

namespace xfer {

class CopyStreams;

class BounceMemory {
public:
    BounceMemory() = default;
    BounceMemory(BounceMemory &&other) noexcept { swap(other); }
    BounceMemory &operator=(BounceMemory &&other) noexcept {
        BounceMemory taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~BounceMemory();  // nobody copies

    // Any thread. Without data where memory lacks.
    static BounceMemory take(uint64_t length);

    uint8_t *data() const { return data_; }
    // By streams that begin to use it. Where the driver refuses, copies are slower, and right.
    void pin(CopyStreams &streams) const;

private:
    struct Kept;

    void swap(BounceMemory &other) noexcept {
        std::swap(data_, other.data_);
        std::swap(length_, other.length_);
    }

    uint8_t *data_ = nullptr;
    uint64_t length_ = 0;
};

}  // namespace xfer
