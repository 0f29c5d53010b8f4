// SPDX-License-Identifier: Apache-2.0
// Memory that the engine may touch. A grant is a region of its own inside another one: it has its
// own number, key and access, no name, and an end of its own. Every shard has its own table, so
// that a request is checked without a lock.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/event.h"
#include "core/base/handle.h"
#include "core/base/mailbox.h"
#include "device/device.h"
#include "device/shared_memory.h"
#include "loop/loop.h"
#include "transport/transport.h"
#include "util/ref.h"

namespace xfer {

class EngineCore;
class Region;
class ShardCore;
struct InGrants;
struct InRetiring;

class RegionTable {
public:
    using ById = std::unordered_map<uint64_t, Ref<Region>>;
    using ByName = std::unordered_map<std::string_view, Region *>;  // keys live in the regions
    // A region's places in one table, made before it comes, so that coming can't fail.
    struct Places {
        explicit Places(Region &region);
        Places() = default;
        ById::node_type by_id;
        ByName::node_type by_name;
    };

    RegionTable();
    void add(Region &region, Places &places);
    void remove(Region &region);
    void clear();
    Region *find(uint64_t id) const;
    Region *find(std::string_view name) const;
    template <typename Visit>
    void each(Visit visit) const {
        for (const auto &[id, region] : by_id_)
            visit(*region);
    }

private:
    ById by_id_;
    ByName by_name_;
};

// Its coming to one shard, and its going: nodes inside the region, so that neither can fail.
class RegionChange final : public Message, public ListNode<InRetiring> {
public:
    void arrive(ShardCore &shard) override;
    Region *region = nullptr;  // counted while this is on its way, or lanes are waited for
    bool comes = false;
    uint32_t lanes = 0;          // of one that goes: those that still send from it
    bool waits = false;          // of one that goes: for the adapters
    bool lent = false;           // of one that came: to the loop's adapters
    uint32_t adapters = 0;       // of one that came: those that have not let go of it yet
    RegionTable::Places places;  // of one that comes
};

class Region final : public Handle,
                     public RefCounted<Region>,
                     public EventNode,
                     public TimerSink,
                     public ListNode<InGrants> {
public:
    Region(EngineCore &engine, uint64_t id, uint64_t key, uint8_t *base, uint64_t length);
    ~Region() override;

    // Whether a peer may do this; fills `out` only if so.
    Status check(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                 std::vector<iovec> &out) const;
    Status find_export(const Access &access, ExportedMemory &out) const;
    ExportedMemory exported() const;
    RemoteRegion describe() const;  // what its ref says
    // False: the application has unmapped it. The system is asked once in each turn of a loop.
    bool is_there(uint64_t now);
    bool is_grant() const { return parent.get() != nullptr; }
    void released() override;
    void on_timer(Timer &timer) override;  // the lease has ended

    EngineCore &engine;
    const uint64_t id;
    const uint64_t key;
    uint8_t *const base;
    const uint64_t length;
    const uint32_t generation = 1;
    uint32_t access = 0;
    Memory memory;  // as it was when it was opened
    std::string name;
    std::vector<uint8_t> blob;
    std::unique_ptr<SharedMemory> own;  // of one that was made here

    std::atomic<bool> closed{false};    // the user called close
    std::atomic<bool> ended{false};     // closing has begun, by the user or by the engine's end
    std::atomic<bool> reported{false};  // that it is not mapped any more
    // What may still touch the memory: shards, lanes that send from it, and grants.
    std::atomic<uint32_t> users{0};

    Ref<Region> parent;                               // of a grant
    List<Region, InGrants> grants;                    // under the lock of the engine's registry
    std::atomic<uint32_t> lease_ms{0};                // 0: none; the first shard renews it
    std::atomic<uint32_t> renewals{0};                // accepted, and on their way to it
    Timer lease{*this};                               // on the first shard's loop
    std::unique_ptr<RegionChange[]> comings, goings;  // for each shard

private:
    std::atomic<uint64_t> seen_mapped_{0};  // in the turn of that time
};

}  // namespace xfer
