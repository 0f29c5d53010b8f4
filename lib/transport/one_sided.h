// SPDX-License-Identifier: Apache-2.0
// The part of a path by which an initiator reaches regions of its peer by itself: memory that both
// have mapped, a copy by the kernel, an adapter that needs a key. The owner's core exports a region
// and sends the key over the channel; the initiator's imports it, and lends it to each op; the
// owner withdraws it when the region ends (core/region/import_table.h). Thread: as Path.
#pragma once

#include <memory>

#include "util/fixed_vector.h"
#include "util/status.h"
#include "wire/bytes.h"
#include "wire/ids.h"
#include "wire/limits.h"

namespace xfer {

// Memory of ours that a peer is to reach by itself.
struct ExportedMemory {
    uint8_t *base = nullptr;
    uint64_t length = 0;
    uint32_t access = 0;
    // An allocation that can be mapped, if it lies in one: its number, its descriptor, and where in
    // it.
    MemoryId memory;
    int fd = -1;
    uint64_t offset = 0;
};

// An allocation that was made with a region has its number, and ends with it.
inline MemoryId memory_of(RegionId region) {
    return {region.value};
}

// What the peer needs to reach it, in the terms of the path alone.
using ExportKey = FixedVector<uint8_t, kMaxExportKey>;

// A region of the peer's that an op of this path may reach.
class Import {
public:
    virtual ~Import() = default;
};

class OneSided {
public:
    // The owner. The key is good until the region is retired; asked again, it is the same one.
    // XFER_EAGAIN: not now.
    virtual Result<ExportKey> export_region(RegionId region, const ExportedMemory &memory) = 0;
    // The initiator, of a key from the peer, whatever that may say. Null: it can't be reached so.
    virtual std::unique_ptr<Import> import(ConstBytes key) = 0;
    // No op is posted with it any more; those that were are done without, or before this returns.
    virtual void drop(std::unique_ptr<Import> import) = 0;
    // The peer says that this region has ended, and so has an allocation that was made with it.
    virtual void withdrawn(RegionId region) = 0;

protected:
    ~OneSided() = default;
};

}  // namespace xfer
