// SPDX-License-Identifier: Apache-2.0
// The memory half of an adapter, for two threads: what is registered, and whether a request that
// names a key may touch an address. What is misused, or left at the end, fails the test.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "transport/rdma/port.h"
#include "transport/rdma/verbs.h"

namespace xfer::rdma {

// One at a time.
class FakeMemory {
public:
    FakeMemory() {
        now_ = this;
        verbs.reg_mr = reg_mr, verbs.dereg_mr = dereg_mr;
        port.name = "mlx5_0:1";
        port.domain = &domain_;
        port.limits.region_bytes = UINT64_MAX;
    }
    ~FakeMemory() {
        CHECK_MESSAGE(regions_.empty(), "memory is left registered");
        CHECK_MESSAGE(on_loop_ == 0, "a call blocked the loop");
    }
    FakeMemory(const FakeMemory &) = delete;
    FakeMemory &operator=(const FakeMemory &) = delete;

    size_t registered() const {
        const std::lock_guard lock(mutex_);
        return regions_.size();
    }
    // Whether the adapter may touch `length` bytes there by this lkey.
    bool allows(uint32_t lkey, uint64_t address, uint64_t length, bool writes) const {
        const std::lock_guard lock(mutex_);
        const auto at = regions_.find(lkey);
        if (at == regions_.end() || (writes && !(at->second->access & IBV_ACCESS_LOCAL_WRITE)))
            return false;
        const auto base = reinterpret_cast<uint64_t>(at->second->addr);
        return address >= base && address - base <= at->second->length &&
               length <= at->second->length - (address - base);
    }
    bool covers(const void *address) const {  // by any registration
        const std::lock_guard lock(mutex_);
        for (const auto &[key, region] : regions_) {
            const auto *base = static_cast<const uint8_t *>(region->addr);
            if (address >= base && address < base + region->length) return true;
        }
        return false;
    }
    // Calls of the worker wait in the device until they are let go.
    void hold() { held_ = true; }
    void let_go() {
        {
            const std::lock_guard lock(mutex_);
            held_ = false;
        }
        changed_.notify_all();
    }
    void await_call() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return waits_; });
    }

    Verbs verbs{};
    Port port;
    std::atomic<int> adds{0}, removes{0};
    std::atomic<int> adds_before_remove{0};  // the last one
    std::atomic<int> fail_adds{0};           // so many from now on fail
    std::atomic<int> fail_removes{0};        // in the same way
    std::atomic<int> error{ENOMEM};
    // At this base memory is mapped for reading alone.
    std::atomic<const void *> read_only{nullptr};
    std::thread::id loop_thread{};  // on which no call may be made, if set

private:
    struct Region : ibv_mr {
        int access;
    };

    static ibv_mr *reg_mr(ibv_pd *domain, void *address, size_t length, int access) {
        CHECK(domain == &now_->domain_);
        return now_->add(address, length, access);
    }
    static int dereg_mr(ibv_mr *region) { return now_->remove(region); }

    void enter(std::unique_lock<std::mutex> &lock) {
        if (std::this_thread::get_id() == loop_thread) ++on_loop_;
        waits_ = held_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !held_; });
        waits_ = false;
    }
    ibv_mr *add(void *address, size_t length, int access) {
        std::unique_lock lock(mutex_);
        enter(lock);
        if (address == read_only && access & IBV_ACCESS_LOCAL_WRITE) return errno = EFAULT, nullptr;
        ++adds;
        if (fail_adds > 0) return --fail_adds, errno = error, nullptr;
        auto region = std::make_unique<Region>();
        region->addr = address, region->length = length;
        region->lkey = ++last_key_, region->rkey = last_key_ + 1'000'000;
        region->access = access;
        return (regions_[last_key_] = std::move(region)).get();
    }
    int remove(ibv_mr *region) {
        std::unique_lock lock(mutex_);
        enter(lock);
        ++removes;
        adds_before_remove = adds.load();
        if (fail_removes > 0) return --fail_removes, EBUSY;
        CHECK(regions_.erase(region->lkey) == 1);
        return 0;
    }

    static inline FakeMemory *now_ = nullptr;
    ibv_pd domain_{};
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<uint32_t, std::unique_ptr<Region>> regions_;
    uint32_t last_key_ = 100;
    bool held_ = false, waits_ = false;
    std::atomic<int> on_loop_{0};
};

}  // namespace xfer::rdma
