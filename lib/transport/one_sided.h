// SPDX-License-Identifier: Apache-2.0
// A path by which an initiator reaches regions of its peer by itself: memory that both have mapped,
// a copy by the kernel, an adapter that needs a key. The owner's core exports a region and sends
// the key over the channel; the initiator's imports it, and lends it to each op; the owner
// withdraws it when the region ends (core/connection/import_table.h). What can't be done so goes as
// a request, by another path. Thread: as Path.
#pragma once

#include <memory>
#include <optional>

#include "transport/op.h"
#include "transport/path.h"
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
    RegionId whole = {};    // of a grant: the region that it is a part of
    bool migrates = false;  // between host and device: no adapter may keep its pages
    bool lent = false;      // to peers, for a time: operations of this side use no key of it
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
    Import(uint64_t allowed, bool knows_atomics) : access(allowed), atomics(knows_atomics) {}
    virtual ~Import() = default;
    const uint64_t access;
    const bool atomics;
    RegionId region;  // core's
};

class OneSidedSink {
public:
    // In place of on_done: the path can't do it after all, and another may. `sent` stays as it is.
    virtual void on_declined(Op &op) = 0;
    virtual void on_dropped(RegionId region) = 0;  // what withdrawn() had to wait for has ended
    // export_region() may answer otherwise what it has answered with XFER_EAGAIN. Called by the
    // loop alone.
    virtual void on_exportable() {}

protected:
    ~OneSidedSink() = default;
};

// Each op that is posted has an import, which allows it. The path may end alone, while its channel
// goes on: nothing of what it had posted lands any more when on_done has told it.
class OneSidedPath : public Path {
public:
    virtual void start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) = 0;

    // The owner. The key is good until the region is retired; asked again, it is the same one.
    // XFER_EAGAIN: not now.
    virtual Result<ExportKey> export_region(RegionId region, const ExportedMemory &memory) = 0;
    // The initiator, of a key from the peer, whatever that may say. Null: it can't be reached so.
    virtual std::unique_ptr<Import> import(ConstBytes key) = 0;
    // No op is posted with it any more; what was posted and is not done yet is declined.
    virtual void drop(std::unique_ptr<Import> import) = 0;
    // The peer says that this region has ended, and so has an allocation that was made with it.
    // False: something that was posted by it is under way still; on_dropped follows, or on_down.
    virtual bool withdrawn(RegionId region) = 0;
    // Whether the owner's end sees who still uses a key. Else the end of a region waits for the
    // initiator's word, and retire() for nothing.
    virtual bool sees_use() const = 0;
    // The initiator, before the call returns, if that needs no more than a copy: a put or get that
    // the import allows. Nothing: it was not done, or not all of it, and is to be posted.
    virtual std::optional<Moved> copy_now(const Import &, Dir, const Piece &) {
        return std::nullopt;
    }

protected:
    ~OneSidedPath() = default;
};

}  // namespace xfer
