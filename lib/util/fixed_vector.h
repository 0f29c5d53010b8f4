// SPDX-License-Identifier: Apache-2.0
// A vector of plain values with a bound, in place: it grows without memory, up to there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "util/check.h"

namespace xfer {

template <typename T, size_t kRoom>
class FixedVector {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    FixedVector() {}
    FixedVector(const FixedVector &other) { *this = other; }
    FixedVector &operator=(const FixedVector &other) {
        if (this == &other) return *this;
        size_ = other.size_;
        std::copy(other.begin(), other.end(), begin());
        return *this;
    }

    void push_back(const T &item) {
        XFER_CHECK(!full());
        std::construct_at(items_ + size_++, item);
    }
    template <typename Condition>
    void erase_if(Condition condition) {
        size_ = static_cast<size_t>(std::remove_if(begin(), end(), condition) - begin());
    }
    void clear() { size_ = 0; }

    bool empty() const { return size_ == 0; }
    bool full() const { return size_ == kRoom; }
    size_t size() const { return size_; }
    T *begin() { return items_; }
    T *end() { return items_ + size_; }
    const T *begin() const { return items_; }
    const T *end() const { return items_ + size_; }
    T &operator[](size_t at) { return items_[at]; }
    const T &operator[](size_t at) const { return items_[at]; }

private:
    size_t size_ = 0;
    union {  // nothing is made before it is pushed
        T items_[kRoom];
    };
};

}  // namespace xfer
