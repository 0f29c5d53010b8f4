// SPDX-License-Identifier: Apache-2.0
#include "core/region/region.h"

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/region/registry.h"
#include "core/region/shard_regions.h"
#include "transport/atomic.h"
#include "util/mapped.h"
#include "util/memory.h"

namespace xfer {

void RegionChange::arrive(ShardCore &shard) {
    if (comes)
        shard.regions.add(*region, places);
    else
        shard.regions.remove(*region);
    region->release();  // may destroy this
}

Region::Region(EngineCore &owner, uint64_t number, uint64_t secret, uint8_t *address,
               uint64_t bytes)
    : Handle(Magic::region), engine(owner), id(number), key(secret), base(address), length(bytes) {
    engine.retain();
}

Region::~Region() {
    engine.release();
}

Status Region::check(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                     std::vector<iovec> &out) const {
    if (asked.generation != generation || asked.key != key) return XFER_ESTALE;
    if (!(access & access_for(dir))) return XFER_EACCESS;
    for (const WirePiece &piece : pieces)
        if (piece.offset > length || piece.length > length - piece.offset) return XFER_ERANGE;
    for (const WirePiece &piece : pieces)
        if (dir == Dir::atomic && !is_aligned(reinterpret_cast<uint64_t>(base) + piece.offset))
            return XFER_EINVAL;
    for (const WirePiece &piece : pieces)
        out.push_back({base + piece.offset, piece.length});
    return XFER_OK;
}

Status Region::find_export(const Access &asked, ExportedMemory &out) const {
    if (asked.generation != generation || asked.key != key) return XFER_ESTALE;
    if (memory.kind != XFER_MEM_HOST) return XFER_EUNSUPPORTED;
    out = exported();
    return XFER_OK;
}

// A memory is known by the region that was made of it.
ExportedMemory Region::exported() const {
    ExportedMemory out;
    out.base = base;
    out.length = length;
    out.access = access;
    out.migrates = memory.migrates();
    const Region &whole = is_grant() ? *parent : *this;
    if (is_grant()) out.whole = {whole.id};
    if (!whole.own) return out;
    out.memory = memory_of({whole.id});
    out.fd = whole.own->fd();
    out.offset = static_cast<uint64_t>(base - whole.base);
    return out;
}

bool Region::is_there(uint64_t now) {
    if (memory.kind != XFER_MEM_HOST || seen_mapped_.load(std::memory_order_relaxed) == now)
        return true;
    if (!is_mapped(base, length)) return false;
    seen_mapped_.store(now, std::memory_order_relaxed);
    return true;
}

RemoteRegion Region::describe() const {
    return {
        engine.identity().id, engine.identity().incarnation, id, key, 0, length, generation, access,
        memory.kind};
}

void Region::released() {
    release();
}

void Region::on_timer(Timer &) {
    engine.regions().end_lease(*this);
}

RegionTable::Places::Places(Region &region) {
    ById id;
    id.emplace(region.id, Ref<Region>());  // counted once it is in
    by_id = id.extract(id.begin());
    if (region.name.empty()) return;
    ByName name;
    name.emplace(region.name, &region);
    by_name = name.extract(name.begin());
}

namespace {

// More buckets if there is memory for them, else more in each.
template <typename Map>
void spread(Map &map) {
    if (map.size() < map.bucket_count()) return;
    [[maybe_unused]] const bool spread =
        catch_bad_alloc([&] { map.rehash(2 * map.bucket_count()); });
}

constexpr float kAnyLoad = 1e9f;  // a map that never wants buckets of its own accord

}  // namespace

RegionTable::RegionTable() {
    by_id_.max_load_factor(kAnyLoad);
    by_name_.max_load_factor(kAnyLoad);
}

void RegionTable::add(Region &region, Places &places) {
    places.by_id.mapped() = Ref(region);
    spread(by_id_);
    by_id_.insert(std::move(places.by_id));
    if (places.by_name.empty()) return;
    spread(by_name_);
    by_name_.insert(std::move(places.by_name));
}

void RegionTable::remove(Region &region) {
    if (!region.name.empty()) by_name_.erase(region.name);
    by_id_.erase(region.id);  // may be the last reference
}

void RegionTable::clear() {
    by_name_.clear();
    by_id_.clear();
}

Region *RegionTable::find(uint64_t id) const {
    auto at = by_id_.find(id);
    return at == by_id_.end() ? nullptr : at->second.get();
}

Region *RegionTable::find(std::string_view name) const {
    auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : at->second;
}

}  // namespace xfer
