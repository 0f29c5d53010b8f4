// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/bounce_buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "util/check.h"
#include "util/memory.h"

namespace xfer::rdma {

namespace {

constexpr uint64_t kCacheLine = 64;

}  // namespace

BounceBuffers::BounceBuffers(const Verbs &verbs, const Port &port, Worker &worker, const Log &log,
                             uint64_t bytes)
    : verbs_(verbs),
      port_(port),
      worker_(worker),
      log_(log),
      bytes_(std::min(bytes, port.limits.region_bytes)),
      ranges_(bytes_) {}

// The child of a fork has no such memory: it is the parent's, like what the device knows of it.
BounceBuffers::~BounceBuffers() {
    if (::getpid() != pid_) {
        [[maybe_unused]] auto *const parents = registration_.release();
        return;
    }
    worker_.drop(*this);
    registration_.reset();
    if (base_) ::munmap(base_, bytes_);
}

std::optional<Bounce> BounceBuffers::take(uint64_t bytes) {
    if (state_ == State::unused) {
        state_ = State::coming;
        worker_.submit(*this);
    }
    if (state_ != State::ready) return std::nullopt;
    std::optional<Bounce> taken;
    [[maybe_unused]] const bool tried = catch_bad_alloc([&] {
        auto offset = ranges_.allocate(bytes, kCacheLine);
        if (offset) taken = {base_ + *offset, registration_->chunk(0).lkey};
    });
    return taken;
}

void BounceBuffers::give_back(const Bounce &bounce) {
    XFER_CHECK(ranges_.free(static_cast<uint64_t>(bounce.address - base_)) == XFER_OK);
}

// ---- made on the worker

void BounceBuffers::run() noexcept {
    why_ = no_memory();
    [[maybe_unused]] const bool tried = catch_bad_alloc([this] { why_ = make(); });
}

std::optional<Failure> BounceBuffers::make() {
    void *const base =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return os_failure(errno, "bounce buffers can't be mapped");
    base_ = static_cast<uint8_t *>(base);
    // Else a write of ours after a fork would be to a copy, which the device does not see.
    ::madvise(base, bytes_, MADV_DONTFORK);
    auto made = Registration::add(verbs_, port_, {base_, bytes_, 0, false});
    if (!made) return made.error();
    registration_ = std::make_unique<Registration>(std::move(*made));
    return std::nullopt;
}

void BounceBuffers::done(Status status) {
    if (status != XFER_OK) why_ = {status, XFER_ORIGIN_NONE, 0, "no thread registers memory"};
    state_ = why_ ? State::failed : State::ready;
    if (why_) log_.warn("{}: no bounce buffers: {}", port_.name, why_->message);
}

}  // namespace xfer::rdma
