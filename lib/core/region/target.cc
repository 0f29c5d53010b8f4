// SPDX-License-Identifier: Apache-2.0
#include "core/region/target.h"

#include <algorithm>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/region/shard_regions.h"
#include "util/memory.h"
#include "wire/short_name.h"

namespace xfer {

Status TargetSide::access(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                          std::vector<iovec> &out, Memory &memory) {
    Region *region = connection_.shard.regions.find(RegionId{asked.region});
    Status status = region                     ? region->check(dir, asked, pieces, out)
                    : asked.region & kGrantBit ? XFER_EREVOKED
                                               : XFER_ESTALE;
    if (status == XFER_OK && !region->is_there(connection_.shard.now())) {
        unmapped(asked.target());
        status = XFER_EIO;
    }
    if (status == XFER_OK) memory = region->memory;
    return status;
}

Status TargetSide::find_export(const Access &asked, ExportedMemory &out) {
    const auto id = asked.target().region();
    Region *region = id ? connection_.shard.regions.find(*id) : nullptr;
    return region ? region->find_export(asked, out) : XFER_ESTALE;
}

// The region to be told of: null if there is none, or it was. How often peers ask for it is theirs
// to say.
Region *TargetSide::note_failure(Target target, Status status) {
    ShardCore &shard = connection_.shard;
    shard.counters.errors[-status].add();
    const auto id = target.region();
    Region *region = id ? shard.regions.find(*id) : nullptr;
    if (!region) return nullptr;
    Region &whole = region->is_grant() ? *region->parent : *region;
    return whole.reported.exchange(true) ? nullptr : &whole;
}

void TargetSide::unmapped(Target target) {
    const Region *const region = note_failure(target, XFER_EIO);
    if (!region) return;
    connection_.shard.log().warn(
        "region \"{}\": memory of it, {} bytes at {:#x}, is not mapped any more though "
        "it "
        "is open; what peers ask of it fails with XFER_EIO",
        region->name, region->length, reinterpret_cast<uint64_t>(region->base));
}

void TargetSide::copy_failed(Target target, Status status, int32_t error) {
    const Region *const region = note_failure(target, status);
    if (!region) return;
    const Log &log = connection_.shard.log();
    if (status != XFER_EIO || error)
        return log.warn("region \"{}\": a copy of {} failed: {}, CUDA error {}", region->name,
                        name_of(region->memory), xfer_status_text(status), error);
    log.warn(
        "region \"{}\": {} at {:#x} was freed though it is open; what peers ask of it fails with "
        "XFER_EIO",
        region->name, name_of(region->memory), reinterpret_cast<uint64_t>(region->base));
}

void TargetSide::lookup(uint64_t seq, std::string_view name, bool wait) {
    Region *region = connection_.shard.regions.find(name);
    if (region) return found(seq, region, XFER_OK);
    if (!wait) return found(seq, nullptr, XFER_ENOTFOUND);
    if (waiters_.size() >= kMaxWaiting) return found(seq, nullptr, XFER_EAGAIN);
    if (!catch_bad_alloc([&] { waiters_.push_back({seq, std::string(name)}); }))
        found(seq, nullptr, XFER_ENOMEM);
}

void TargetSide::found(uint64_t seq, const Region *region, Status status) {
    uint8_t body[sizeof(xfer_ref_t) + kMaxBlob];
    size_t length = 0;
    if (region && !watch(*region)) {
        region = nullptr;
        status = XFER_ENOMEM;
    }
    if (region) {
        const xfer_ref_t ref = encode_ref(region->describe());
        std::copy(std::begin(ref.bytes), std::end(ref.bytes), body);
        std::copy(region->blob.begin(), region->blob.end(), body + sizeof ref.bytes);
        length = sizeof ref.bytes + region->blob.size();
    }
    Frame frame;
    frame.type = FrameType::found;
    frame.seq = seq;
    frame.status = status;
    frame.length = static_cast<uint32_t>(length);
    connection_.send(frame, {body, length});
}

// False: its end could not be told to the peer. Past the bound the peer is not told, rather than
// refused: a ref that is stale shows at its first use in any case.
bool TargetSide::watch(const Region &region) {
    if (watched_.size() >= kMaxWatched) return true;
    return catch_bad_alloc([&] { watched_.insert(region.id); });
}

void TargetSide::forget(uint64_t seq) {
    std::erase_if(waiters_, [&](const Waiter &waiter) { return waiter.seq == seq; });
}

void TargetSide::added(Region &region) {
    if (!region.access) return;
    for (const Waiter &waiter : waiters_)
        if (waiter.name == region.name) found(waiter.seq, &region, XFER_OK);
    std::erase_if(waiters_, [&](const Waiter &waiter) { return waiter.name == region.name; });
}

void TargetSide::removed(Region &region) {
    if (!watched_.erase(region.id)) return;
    const xfer_ref_t ref = encode_ref(region.describe());
    Frame frame;
    frame.type = FrameType::gone;
    frame.region = region.id;
    frame.generation = region.generation;
    frame.length = sizeof ref.bytes;
    connection_.send(frame, ref.bytes);
}

}  // namespace xfer
