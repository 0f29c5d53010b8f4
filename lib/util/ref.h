// SPDX-License-Identifier: Apache-2.0
// Shared ownership of the shells behind handles. Per operation nothing is counted but the batch
// itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace xfer {

template <typename T>
class RefCounted {
public:
    void retain() { refs_.fetch_add(1, std::memory_order_relaxed); }
    void release() {
        if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<T *>(this);
    }

private:
    std::atomic<uint32_t> refs_{1};  // the maker's
};

template <typename T>
class Ref {
public:
    Ref() = default;
    explicit Ref(T &object) : object_(&object) { object_->retain(); }
    Ref(const Ref &other) : object_(other.object_) {
        if (object_) object_->retain();
    }
    Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref &operator=(Ref other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() {
        if (object_) object_->release();
    }
    // Takes over the maker's count.
    static Ref adopt(T *object) {
        Ref ref;
        ref.object_ = object;
        return ref;
    }
    T *get() const { return object_; }
    T *operator->() const { return object_; }
    T &operator*() const { return *object_; }
    explicit operator bool() const { return object_ != nullptr; }

private:
    T *object_ = nullptr;
};

}  // namespace xfer
