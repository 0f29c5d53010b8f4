// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/registration.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace xfer::rdma {

namespace {

constexpr uint64_t kChunkUnit = 4096;

// Before a device that keeps a registration is left alone with it.
constexpr int kTries = 10;
constexpr auto kBetweenTries = std::chrono::milliseconds(2);

uint64_t chunk_bytes_of(const DeviceLimits &limits, uint64_t length) {
    if (length <= limits.region_bytes) return length;
    const bool is_large = limits.region_bytes >= Registration::kWindowBytes;
    const uint64_t unit = is_large ? Registration::kWindowBytes : kChunkUnit;
    return limits.region_bytes / unit * unit;
}

// Of peers' atomics, those that are ones to the CPU as well; the others go by the memory's owner.
int verbs_access(uint32_t access, const DeviceLimits &limits) {
    int flags = 0;
    if (access & XFER_READ) flags |= IBV_ACCESS_REMOTE_READ;
    if (access & XFER_WRITE) flags |= IBV_ACCESS_REMOTE_WRITE;
    if ((access & XFER_ATOMIC) && limits.atomics_with_cpu) flags |= IBV_ACCESS_REMOTE_ATOMIC;
    return flags;
}

Failure not_registered(int error, const Port &port) {
    return verbs_failure(error, Text(port.name) + ": memory can't be registered");
}

}  // namespace

Registration::Registration(const Verbs &verbs, const Port &port, const RegisteredRange &range)
    : verbs_(verbs), range_(range), chunk_bytes_(chunk_bytes_of(port.limits, range.length)) {}

Registration::Registration(Registration &&other) noexcept
    : verbs_(other.verbs_),
      range_(other.range_),
      chunk_bytes_(other.chunk_bytes_),
      writable_(other.writable_),
      takes_windows_(other.takes_windows_),
      regions_(std::exchange(other.regions_, {})) {}

Registration::~Registration() {
    close();
}

Result<Registration> Registration::add(const Verbs &verbs, const Port &port,
                                       const RegisteredRange &range) {
    if (!range.length) return Failure{XFER_EINVAL, XFER_ORIGIN_NONE, 0, "no bytes to register"};
    if (range.length - 1 > UINTPTR_MAX - reinterpret_cast<uintptr_t>(range.base))
        return Failure{XFER_ERANGE, XFER_ORIGIN_NONE, 0, "the range to register wraps"};
    Registration made(verbs, port, range);
    if (!made.chunk_bytes_)
        return Failure{XFER_ETOOBIG, XFER_ORIGIN_VERBS, 0,
                       Text(port.name) + ": the device registers less than a page"};
    const int remote = verbs_access(range.access, port.limits);
    made.takes_windows_ = range.windows && port.limits.windows;
    if (made.takes_windows_) {
        const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND |
                           (made.is_too_long_for_windows() ? remote : 0);
        const int error = made.register_all(port.domain, rights);
        if (!error) return made;
        if (error != EFAULT) return not_registered(error, port);
        made.takes_windows_ = false;
    }
    int error = made.register_all(port.domain, remote | IBV_ACCESS_LOCAL_WRITE);
    // Memory that is mapped for reading alone. What peers write must be writable here as well.
    if (error == EFAULT && !(range.access & ~uint32_t{XFER_READ})) {
        error = made.register_all(port.domain, remote);
        made.writable_ = false;
    }
    if (error) return not_registered(error, port);
    return made;
}

// All, or none and the errno.
int Registration::register_all(ibv_pd *domain, int access) {
    const uint64_t count = (range_.length - 1) / chunk_bytes_ + 1;
    regions_.reserve(count);  // so that none that is registered lacks its place
    for (uint64_t i = 0; i < count; ++i) {
        ibv_mr *const region = register_chunk(domain, i, access);
        if (!region) {
            const int error = errno;
            close();
            return error;
        }
        regions_.push_back(region);
    }
    return 0;
}

// Only the newer call has the optional flags: where it is missing, order is kept.
ibv_mr *Registration::register_chunk(ibv_pd *domain, uint64_t index, int access) const {
    uint8_t *const base = range_.base + index * chunk_bytes_;
    const uint64_t length = length_of(index);
    if (!range_.relaxed_ordering || !verbs_.reg_mr_iova2)
        return verbs_.reg_mr(domain, base, length, access);
    const auto flags = static_cast<unsigned>(access | IBV_ACCESS_RELAXED_ORDERING);
    return verbs_.reg_mr_iova2(domain, base, length, reinterpret_cast<uintptr_t>(base), flags);
}

uint64_t Registration::length_of(uint64_t index) const {
    return std::min(chunk_bytes_, range_.length - index * chunk_bytes_);
}

Registration::Chunk Registration::chunk(uint64_t index) const {
    const ibv_mr &region = *regions_[index];
    return {index * chunk_bytes_, length_of(index), region.lkey, region.rkey};
}

ibv_mr *Registration::window_place(uint64_t offset, uint64_t length) const {
    const uint64_t index = offset / chunk_bytes_;
    return (offset + length - 1) / chunk_bytes_ == index ? regions_[index] : nullptr;
}

std::optional<Failure> Registration::close() {
    std::optional<Failure> why;
    std::erase_if(regions_, [&](ibv_mr *region) {
        const int result = verbs_.dereg_mr(region);
        if (result) why = verbs_failure(verbs_errno(result), "memory can't be deregistered");
        return !result;
    });
    return why;
}

std::optional<Failure> Registration::close_patiently() {
    std::optional<Failure> why = close();
    for (int i = 1; why && i < kTries; ++i) {
        std::this_thread::sleep_for(kBetweenTries);
        why = close();
    }
    return why;
}

}  // namespace xfer::rdma
