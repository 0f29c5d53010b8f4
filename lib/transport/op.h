// SPDX-License-Identifier: Apache-2.0
// One chunk of an operation, as core gives it to a path.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/pieces.h"
#include "util/list.h"
#include "wire/frame.h"

namespace xfer {

// What a request must know of a region to touch it.
struct Access {
    uint64_t region = 0;  // as on the wire
    uint32_t generation = 0;
    uint64_t key = 0;
    // Of a put whose batch notifies: numbered from 1 on its connection, 0: none.
    uint64_t notification = 0;
    uint64_t notification_key = 0;
    Target target() const { return Target::from_wire(region); }
};

// How the bytes of an operation moved: as frames, or copied by its initiator within one process,
// into memory that it has mapped, by the kernel, or by an adapter.
enum class Moved : uint8_t { frames, process, mapped, kernel, adapter };
constexpr size_t kMovedWays = 5;

class Import;

struct InTransfer;  // list tags of an Op
struct InPath;

// At most kMaxChunk bytes in at most kMaxPieces ranges of one region, fewer if the path takes no
// more; or an atomic, of one piece, of which a path leaves the local side alone: what it brings
// back stands in the op, so that no cancel need keep the path from it. Owned by core, lent to one
// path from post() to on_done().
struct Op : ListNode<InTransfer>, ListNode<InPath> {
    Dir dir = Dir::put;
    bool last = false;  // of its transfer: the answer is wanted at once
    bool sent = false;  // the peer may have seen some of it
    bool left = false;  // the peer gets all of it, as it was, whatever is canceled from now on
    // A put that is all of its notification: its notify follows right behind it, and has left with
    // it. False again if that was withdrawn, or else where a path has no frames.
    bool notifies = false;
    bool canceled = false;  // local memory must not be touched any more
    bool unwanted = false;  // core's: its cancel has found it in use
    bool unmapped = false;  // local memory is not there: whatever the answer, it has failed
    Moved moved = Moved::frames;
    bool checked = false;  // with a checksum, where the path can lose something on the way
    uint32_t bytes = 0;
    uint32_t pieces = 0;
    uint32_t max_bytes = kMaxChunk, max_pieces = kMaxPieces;  // that it was cut to
    Access remote;
    const Import *import = nullptr;  // of a path that is one-sided: by which it is done alone
    const PieceList *list = nullptr;
    // Local memory of a device is copied by way of `bounce`, which is all that a path sees of it.
    int32_t device = kHostMemory;
    uint8_t *bounce = nullptr;
    enum class Staging : uint8_t { none, waiting, copying, failed } staging = Staging::none;
    int32_t device_error = 0;              // its driver's, which makes it `unmapped`
    std::span<const uint8_t> notify_data;  // borrowed until it is sent
    Cursor begin, end;                     // of it in the list
    Atomic atomic;                         // of an atomic: what it does,
    uint64_t before = 0;                   // and once it is done well, what was there
    uint64_t seq = 0;                      // the path's
    void *transfer = nullptr;              // core's: null once nobody waits for the answer
    void *rail = nullptr;                  // core's

    void draw(std::vector<Piece> &out) const {
        Cursor at = begin;
        list->draw(at, max_bytes, max_pieces, out);
        if (!bounce) return;
        auto local = reinterpret_cast<uint64_t>(bounce);
        for (Piece &piece : out) {
            piece.local = local;
            local += piece.length;
        }
    }
    // Where the bytes are in the end.
    void draw_device(std::vector<DeviceRange> &out) const { list->draw_local(begin, bytes, out); }
};

}  // namespace xfer
