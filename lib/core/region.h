// SPDX-License-Identifier: Apache-2.0
// Memory that the engine may touch. Every shard has its own table, so that a request is checked
// without a lock.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/event.h"
#include "core/handle.h"
#include "transport/transport.h"
#include "util/ref.h"

namespace xfer {

class Engine;

class Region final : public Handle, public RefCounted<Region>, public EventNode {
public:
    Region(Engine &engine, uint64_t id, uint64_t key, uint8_t *base, uint64_t length);
    ~Region();

    // Whether a peer may do this; fills `out` only if so.
    Status check(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                 std::vector<iovec> &out) const;
    RemoteRegion describe() const;  // what its ref says
    void told() override;

    Engine &engine;
    const uint64_t id;
    const uint64_t key;
    uint8_t *const base;
    const uint64_t length;
    const uint32_t generation = 1;
    uint32_t access = 0;
    uint32_t kind = XFER_MEM_HOST;
    std::string name;
    std::vector<uint8_t> blob;

    std::atomic<bool> closed{false};  // the user called close
    std::atomic<bool> ended{false};   // closing has begun, by the user or by the engine's end
    std::atomic<uint32_t> shards{0};  // that may still touch the memory
};

class RegionTable {
public:
    void add(Region &region);
    void remove(Region &region);
    void clear();
    Region *find(uint64_t id) const;
    Region *find(std::string_view name) const;

private:
    std::unordered_map<uint64_t, Ref<Region>> by_id_;
    std::unordered_map<std::string_view, Region *> by_name_;  // keys live in the regions
};

}  // namespace xfer
