// SPDX-License-Identifier: Apache-2.0
#include "api/transfer_check.h"
#include "core/base/limits.h"
#include "transport/atomic.h"
#include "xfer/text.h"

using namespace xfer;

namespace {

constexpr uint32_t kAccesses = XFER_READ | XFER_WRITE | XFER_ATOMIC;

// Of memory that is lent for atomics, among others.
Status check_start(uint32_t access, const uint8_t *start, uint32_t kind, Failure &why) {
    if (!(access & XFER_ATOMIC)) return XFER_OK;
    if (kind != XFER_MEM_HOST)
        return refuse(why, XFER_EMEMKIND, "access has XFER_ATOMIC: of host memory only");
    if (is_aligned(reinterpret_cast<uint64_t>(start))) return XFER_OK;
    return invalid(why, "access has XFER_ATOMIC, but the start is not divisible by 8");
}

Status check_open(const Region *region) {
    if (Status status = check(region); status != XFER_OK) return status;
    return region->closed.load() || region->ended.load() ? XFER_ECLOSED : XFER_OK;
}

Status copy_checked(const xfer_region_options_t *given, xfer_region_options_t &options,
                    Failure &why) {
    if (Status status = copy_input(given, options, why); status != XFER_OK) return status;
    if (Status status =
            check_flags("xfer_region_options_t.flags", options.flags, XFER_REGION_HUGE_PAGES, why);
        status != XFER_OK)
        return status;
    if (Status status = check_flags("xfer_region_options_t.access", options.access, kAccesses, why);
        status != XFER_OK)
        return status;
    if (options.name)
        if (Status status = check_name("xfer_region_options_t.name", options.name, why);
            status != XFER_OK)
            return status;
    if (options.blob_length > kMaxBlob)
        return invalid(why, "xfer_region_options_t.blob_length is more than 1024");
    if (options.blob_length && !options.blob)
        return invalid(why, "xfer_region_options_t.blob is NULL, but blob_length is not 0");
    return XFER_OK;
}

// Both ends are looked at: it is lent once, and used often.
Status look_at(const Engine &engine, uint32_t hint, const uint8_t *start, uint64_t length,
               Memory &memory, Failure &why) {
    Memory last;
    if (Status status = engine.look(start, length, memory, why); status != XFER_OK) return status;
    if (hint && hint != memory.kind)
        return refuse(why, XFER_EMEMKIND,
                      Text("xfer_region_options_t.kind is ") + xfer_memory_name(hint) +
                          ", but it is " + name_of(memory));
    if (Status status = check_served(engine, memory, why); status != XFER_OK) return status;
    if (Status status = engine.look(start + length - 1, 1, last, why); status != XFER_OK)
        return status;
    if (last.kind == memory.kind) return XFER_OK;
    return refuse(why, XFER_ERANGE,
                  Text("it begins in ") + name_of(memory) + ", and ends in " + name_of(last));
}

Failure open_region(xfer_engine_t *handle, const xfer_region_options_t *given, void *address,
                    uint64_t length, xfer_region_t **region) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return {status, 0, 0, ""};
    if (!region) return {XFER_EINVAL, 0, 0, "region is NULL"};
    *region = nullptr;
    xfer_region_options_t options;
    Failure why;
    if (copy_checked(given, options, why) != XFER_OK) return why;
    if (!address) return {XFER_EINVAL, 0, 0, "address is NULL"};
    if (!length) return {XFER_EINVAL, 0, 0, "length is 0"};
    if (reinterpret_cast<uint64_t>(address) + length < length)
        return {XFER_ERANGE, 0, 0, "the range wraps around"};
    auto *const base = static_cast<uint8_t *>(address);
    Memory memory;
    if (look_at(*engine, options.kind, base, length, memory, why) != XFER_OK) return why;
    if (check_start(options.access, base, memory.kind, why) != XFER_OK) return why;
    auto opened = engine->regions().open(options, base, length, memory);
    if (!opened) return opened.error();
    *region = reinterpret_cast<xfer_region_t *>(*opened);
    return {};
}

Failure alloc_region(xfer_engine_t *handle, const xfer_region_options_t *given, uint64_t length,
                     void **address, xfer_region_t **region) {
    Engine *engine = of(handle);
    if (Status status = check(engine); status != XFER_OK) return {status, 0, 0, ""};
    if (!region || !address) return {XFER_EINVAL, 0, 0, "region or address is NULL"};
    *region = nullptr;
    *address = nullptr;
    xfer_region_options_t options;
    Failure why;
    if (copy_checked(given, options, why) != XFER_OK) return why;
    if (!length) return {XFER_EINVAL, 0, 0, "length is 0"};
    if (options.kind && options.kind != XFER_MEM_HOST)
        return {XFER_EMEMKIND, 0, 0, "xfer_region_options_t.kind: only host memory is allocated"};
    const int node = static_cast<int>(options.numa_node) - 1;
    auto shared = SharedMemory::make(length, options.flags & XFER_REGION_HUGE_PAGES, node);
    if (!shared) return shared.error();
    uint8_t *const base = (*shared)->data();
    auto opened = engine->regions().open(options, base, length, {}, std::move(*shared));
    if (!opened) return opened.error();
    *region = reinterpret_cast<xfer_region_t *>(*opened);
    *address = base;
    return {};
}

}  // namespace

xfer_status_t xfer_region_open(xfer_engine_t *engine, const xfer_region_options_t *options,
                               void *address, uint64_t length, xfer_region_t **region,
                               xfer_error_t *err) {
    return guarded(on(engine, err),
                   [&] { return open_region(engine, options, address, length, region); });
}

xfer_status_t xfer_region_alloc(xfer_engine_t *engine, const xfer_region_options_t *options,
                                uint64_t length, void **address, xfer_region_t **region,
                                xfer_error_t *err) {
    return guarded(on(engine, err),
                   [&] { return alloc_region(engine, options, length, address, region); });
}

xfer_status_t xfer_region_ref(xfer_region_t *handle, xfer_ref_t *ref) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Region *region = of(handle);
        if (Status status = check_open(region); status != XFER_OK) return status;
        if (!ref) return invalid(why, "ref is NULL");
        if (!region->access) return XFER_EACCESS;
        *ref = encode_ref(region->describe());
        return XFER_OK;
    });
}

namespace {

Status grant(Region &region, const xfer_grant_options_t *given, xfer_ref_t *ref, Failure &why) {
    xfer_grant_options_t options;
    if (Status status = copy_input(given, options, why); status != XFER_OK) return status;
    if (!ref) return invalid(why, "ref is NULL");
    if (!options.access)
        return invalid(why, "xfer_grant_options_t.access is 0: a grant lends something");
    if (!options.length)
        return invalid(why, "xfer_grant_options_t.length is 0: a grant lends something");
    if (Status status = check_flags("xfer_grant_options_t.access", options.access, kAccesses, why);
        status != XFER_OK)
        return status;
    if (Status status = check_range(options.offset, options.length, region.length, why);
        status != XFER_OK)
        return status;
    if (Status status =
            check_start(options.access, region.base + options.offset, region.memory.kind, why);
        status != XFER_OK)
        return status;
    RemoteRegion granted;
    const Status status = region.engine.regions().grant(region, options, granted);
    if (status == XFER_OK) *ref = encode_ref(granted);
    return status;
}

// Runs `call` with the grant that `ref` names, if it is one of this region.
template <typename Call>
Status with_grant(Region *region, const xfer_ref_t *ref, Failure &why, Call call) {
    if (Status status = check_open(region); status != XFER_OK) return status;
    if (!ref) return invalid(why, "grant is NULL");
    auto grant = decode_ref(*ref);
    if (!grant) {
        why = grant.error();
        return why.status;
    }
    const EngineCore::Name &self = region->engine.identity();
    const bool ours = grant->id == self.id && grant->incarnation == self.incarnation;
    if (!ours || !(grant->region & kGrantBit))
        return invalid(why, "the ref is no grant of this engine");
    return call(*grant);
}

}  // namespace

xfer_status_t xfer_region_grant(xfer_region_t *region, const xfer_grant_options_t *options,
                                xfer_ref_t *ref, xfer_error_t *err) {
    return guarded(on(region, err), [&](Failure &why) -> Status {
        if (Status status = check_open(of(region)); status != XFER_OK) return status;
        return grant(*of(region), options, ref, why);
    });
}

xfer_status_t xfer_region_renew(xfer_region_t *handle, const xfer_ref_t *ref, uint32_t lease_ms) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Region *region = of(handle);
        return with_grant(region, ref, why, [&](const RemoteRegion &grant) {
            return region->engine.regions().renew(*region, grant, lease_ms);
        });
    });
}

xfer_status_t xfer_region_revoke(xfer_region_t *handle, const xfer_ref_t *ref) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Region *region = of(handle);
        return with_grant(region, ref, why, [&](const RemoteRegion &grant) {
            return region->engine.regions().revoke(*region, grant);
        });
    });
}

xfer_status_t xfer_region_info(xfer_region_t *handle, xfer_region_info_t *info,
                               uint32_t info_size) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Region *region = of(handle);
        if (Status status = check(region); status != XFER_OK) return status;
        xfer_region_info_t now{};
        now.address = reinterpret_cast<uint64_t>(region->base);
        now.length = region->length;
        now.id = region->id;
        now.generation = region->generation;
        now.access = region->access;
        now.kind = region->memory.kind;
        return copy_out(now, info, info_size, why);
    });
}

xfer_status_t xfer_region_close(xfer_region_t *handle) {
    if (!handle) return XFER_OK;
    Region *region = of(handle);
    const Status status = check(region);
    if (status != XFER_OK && status != XFER_EFORKED) return status;
    const Call call = on(handle);
    if (region->closed.exchange(true)) return report(call, kClosedBefore);
    return guarded([&]() -> xfer_status_t {
        const Status ended = status == XFER_OK ? region->engine.regions().end(*region) : status;
        region->release();
        return ended;
    });
}

xfer_status_t xfer_ref_info(const xfer_ref_t *ref, xfer_ref_info_t *info, uint32_t info_size) {
    return guarded([&](Failure &why) -> Status {
        if (!ref) return XFER_EINVAL;
        auto remote = decode_ref(*ref);
        if (!remote) return remote.error().status;
        xfer_ref_info_t now{};
        std::memcpy(now.owner.bytes, remote->id.data(), sizeof now.owner.bytes);
        now.owner.incarnation = remote->incarnation;
        now.region = remote->region;
        now.offset = remote->offset;
        now.length = remote->length;
        now.generation = remote->generation;
        now.access = remote->access;
        now.kind = remote->kind;
        return copy_out(now, info, info_size, why);
    });
}
