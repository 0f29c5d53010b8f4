// SPDX-License-Identifier: Apache-2.0
// Protection domains and regions.
#include <cerrno>

#include "fake_verbs_objects.h"

namespace xfer::rdma {
namespace {

template <typename T>
T *refuse(int error) {
    errno = error;
    return nullptr;
}

constexpr unsigned kOptionalAccess = IBV_ACCESS_OPTIONAL_RANGE;

}  // namespace

bool FakeQueuePair::uses(uint32_t lkey) const {
    const auto has = [lkey](const auto &pieces) {
        for (const ibv_sge &piece : pieces)
            if (piece.length > 0 && piece.lkey == lkey) return true;
        return false;
    };
    for (uint64_t i = freed; i < posted; ++i)
        if (has(slot(i).pieces)) return true;
    for (const FakeReceive &receive : receives)
        if (has(receive.pieces)) return true;
    return false;
}

const FakeRegion *FakeAdapter::Objects::local(const ibv_pd *domain, const ibv_sge &piece,
                                              unsigned access) const {
    const auto found = by_lkey.find(piece.lkey);
    if (found == by_lkey.end()) return nullptr;
    const FakeRegion *region = found->second;
    const bool fits = region->pd == domain && region->covers(piece.addr, piece.length) &&
                      (region->access & access) == access;
    return fits ? region : nullptr;
}

ibv_pd *FakeTable::alloc_pd(ibv_context *context) {
    FakeAdapter &adapter = adapter_of(context);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    auto &opening = *static_cast<FakeContext *>(context);
    if (!adapter.fabric_.alive(&opening)) return refuse<ibv_pd>(EINVAL);
    if (adapter.fabric_.fails(FakeCall::alloc_pd)) return nullptr;
    FakeDomain &domain = adapter.objects_->domains.add();
    domain.context = context;
    ++opening.users;
    return &domain;
}

int FakeTable::dealloc_pd(ibv_pd *handle) {
    FakeAdapter &adapter = adapter_of(handle->context);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    auto &domain = *static_cast<FakeDomain *>(handle);
    if (!adapter.fabric_.alive(&domain)) return EINVAL;
    if (domain.users > 0) {
        adapter.fabric_.violate(Violation::busy_domain,
                                std::to_string(domain.users) + " regions and queue pairs are left");
        return EBUSY;
    }
    --static_cast<FakeContext *>(domain.context)->users;
    adapter.objects_->domains.bury(domain);
    return 0;
}

ibv_mr *FakeTable::reg_mr(ibv_pd *domain, void *address, size_t length, int access) {
    return reg_mr_iova2(domain, address, length, reinterpret_cast<uint64_t>(address),
                        static_cast<unsigned>(access));
}

ibv_mr *FakeTable::reg_mr_iova2(ibv_pd *domain, void *address, size_t length, uint64_t iova,
                                unsigned access) {
    const std::lock_guard lock(adapter_of(domain->context).fabric_.mutex_);
    return add_region(*static_cast<FakeDomain *>(domain), address, length, iova, access);
}

ibv_mr *FakeTable::reg_dmabuf_mr(ibv_pd *domain, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access) {
    FakeAdapter &adapter = adapter_of(domain->context);
    const std::lock_guard lock(adapter.fabric_.mutex_);
    if (adapter.dmabufs_.empty()) return refuse<ibv_mr>(EOPNOTSUPP);
    const auto found = adapter.dmabufs_.find(fd);
    if (found == adapter.dmabufs_.end()) return refuse<ibv_mr>(EBADF);
    const auto &[memory, size] = found->second;
    if (offset > size || length > size - offset) return refuse<ibv_mr>(EINVAL);
    return add_region(*static_cast<FakeDomain *>(domain), static_cast<uint8_t *>(memory) + offset,
                      length, iova, static_cast<unsigned>(access));
}

ibv_mr *FakeTable::add_region(FakeDomain &domain, void *address, size_t length, uint64_t iova,
                              unsigned access) {
    FakeAdapter &adapter = adapter_of(domain.context);
    FakeFabric &fabric = adapter.fabric_;
    if (!fabric.alive(&domain)) return refuse<ibv_mr>(EINVAL);
    if (fabric.fails(FakeCall::reg_mr)) return nullptr;
    const bool writes_remotely = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    if (writes_remotely && !(access & IBV_ACCESS_LOCAL_WRITE)) {
        fabric.violate(Violation::access_flags, "a region that is written only remotely");
        return refuse<ibv_mr>(EINVAL);
    }
    const DeviceLimits &limits = adapter.options_.limits;
    if (length == 0 || length > limits.region_bytes) return refuse<ibv_mr>(EINVAL);
    if ((access & IBV_ACCESS_ON_DEMAND) && !limits.on_demand_paging)
        return refuse<ibv_mr>(EOPNOTSUPP);
    FakeAdapter::Objects &objects = *adapter.objects_;
    FakeRegion &region = objects.regions.add();
    region.context = domain.context;
    region.pd = &domain;
    region.addr = address;
    region.length = length;
    region.iova = iova;
    region.access = access & ~kOptionalAccess;
    region.number = objects.key_numbers.take();
    region.lkey = region.number << 8 | 1;
    region.rkey = region.number << 8 | 2;
    objects.by_lkey[region.lkey] = objects.by_rkey[region.rkey] = &region;
    ++domain.users;
    return &region;
}

int FakeTable::dereg_mr(ibv_mr *handle) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &region = *static_cast<FakeRegion *>(handle);
    if (!fabric.alive(&region)) return EINVAL;
    FakeAdapter::Objects &objects = *adapter.objects_;
    for (const FakeQueuePair *pair : fabric.pairs_)
        if (pair->pd == region.pd && pair->uses(region.lkey))
            fabric.violate(Violation::busy_region, "deregistered under a request");
    for (const auto &[key, window] : objects.bound)
        if (window->region == &region) {
            fabric.violate(Violation::busy_region, "deregistered under a bound window");
            return EBUSY;
        }
    objects.by_lkey.erase(region.lkey);
    objects.by_rkey.erase(region.rkey);
    objects.key_numbers.give_back(region.number);
    --static_cast<FakeDomain *>(region.pd)->users;
    objects.regions.bury(region);
    return 0;
}

}  // namespace xfer::rdma
