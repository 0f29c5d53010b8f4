// SPDX-License-Identifier: Apache-2.0
// Memory windows of type 2: a key of their own to a part of a region, for one queue pair. They are
// bound and invalidated by requests of that queue pair.
#include <cerrno>

#include "fake_verbs_run.h"

namespace xfer::rdma {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 31;  // as of an mlx5

}  // namespace

bool FakeQueuePair::binds(const FakeWindow &window) const {
    for (uint64_t i = reported; i < posted; ++i) {
        const ibv_send_wr &request = slot(i).request;
        if (request.opcode == IBV_WR_BIND_MW && request.bind_mw.mw == &window) return true;
    }
    return false;
}

void FakeAdapter::Objects::unbind(FakeWindow &window) {
    bound.erase(window.key);
    window.bound = nullptr;
    window.region = nullptr;
}

void FakeAdapter::Objects::free(FakeWindow &window) {
    if (window.bound) unbind(window);
    key_numbers.give_back(window.number);
    --static_cast<FakeDomain *>(window.pd)->users;
    windows.bury(window);
}

ibv_mw *FakeTable::alloc_mw(ibv_pd *handle, ibv_mw_type type) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &domain = *static_cast<FakeDomain *>(handle);
    if (!fabric.alive(&domain) || type != IBV_MW_TYPE_2) {
        errno = EINVAL;
        return nullptr;
    }
    if (fabric.fails(FakeCall::alloc_mw)) return nullptr;
    FakeWindow &window = adapter.objects_->windows.add();
    window.context = handle->context;
    window.pd = handle;
    window.type = type;
    window.number = adapter.objects_->key_numbers.take();
    window.rkey = window.number << 8;
    ++domain.users;
    return &window;
}

int FakeTable::dealloc_mw(ibv_mw *handle) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &window = *static_cast<FakeWindow *>(handle);
    if (!fabric.alive(&window)) return EINVAL;
    if (fabric.fails(FakeCall::dealloc_mw)) return errno;
    for (const FakeQueuePair *pair : fabric.pairs_)
        if (pair->binds(window))
            fabric.violate(Violation::window, "given back under the request that binds it");
    adapter.objects_->free(window);
    return 0;
}

void FakeFabric::free_windows() {
    const std::lock_guard lock(mutex_);
    for (const auto &adapter : adapters_)
        adapter->objects_->windows.each_live(
            [&](FakeWindow &window) { adapter->objects_->free(window); });
}

// What does not depend on the requests before it.
bool FakeTable::may_bind(FakeQueuePair &pair, const ibv_send_wr &request) {
    FakeFabric &fabric = adapter_of(pair.context).fabric_;
    const auto &window = *static_cast<FakeWindow *>(request.bind_mw.mw);
    const ibv_mw_bind_info &range = request.bind_mw.bind_info;
    const auto &region = *static_cast<FakeRegion *>(range.mr);
    if (!fabric.alive(&window) || !fabric.alive(&region)) return false;
    const bool writes =
        range.mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    return window.pd == pair.pd && region.pd == pair.pd && (region.access & IBV_ACCESS_MW_BIND) &&
           (!writes || (region.access & IBV_ACCESS_LOCAL_WRITE)) && range.length > 0 &&
           range.length <= kMostBytes && region.covers(range.addr, range.length) &&
           request.bind_mw.rkey >> 8 == window.number;
}

ibv_wc_status FakeExecution::bind(const FakeRequest &request) {
    auto &window = *static_cast<FakeWindow *>(request.request.bind_mw.mw);
    const ibv_mw_bind_info &range = request.request.bind_mw.bind_info;
    const auto &region = *static_cast<FakeRegion *>(range.mr);
    if (!window.is_alive || !region.is_alive || window.bound) {
        fabric_.violate(Violation::window, "bound while it is, or of what is no more");
        return IBV_WC_MW_BIND_ERR;
    }
    window.bound = &pair_;
    window.region = &region;
    window.key = request.request.bind_mw.rkey;
    window.range = range;
    here_.bound[window.key] = &window;
    return IBV_WC_SUCCESS;
}

ibv_wc_status FakeExecution::invalidate(const FakeRequest &request) {
    const auto found = here_.bound.find(request.request.invalidate_rkey);
    if (found == here_.bound.end() || found->second->bound != &pair_) {
        fabric_.violate(Violation::window, "invalidated, and not bound by this queue pair");
        return IBV_WC_MW_BIND_ERR;
    }
    here_.unbind(*found->second);
    return IBV_WC_SUCCESS;
}

uint8_t *FakeExecution::by_window(uint32_t rkey, uint64_t address, uint64_t bytes,
                                  unsigned access) const {
    const auto found = there_->bound.find(rkey);
    if (found == there_->bound.end()) return nullptr;
    const FakeWindow &window = *found->second;
    const bool is_loose = adapter_of(target_->context).options_.loose_windows;
    const bool covers =
        is_loose ? window.region->covers(address, bytes) : window.covers(address, bytes);
    const bool open = window.bound == target_ && covers &&
                      (window.range.mw_access_flags & access) &&
                      (target_->attributes.qp_access_flags & access);
    return open ? window.region->at(address) : nullptr;
}

}  // namespace xfer::rdma
