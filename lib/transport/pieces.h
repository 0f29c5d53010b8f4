// SPDX-License-Identifier: Apache-2.0
// What a batch moves, kept as compact as the user said it: a hundred thousand pages of sixty layers
// are one page table and sixty pairs of bases. Pieces are computed where they are needed, by the
// planner that cuts chunks and by the channel that fills its vectors; both get the same ones from
// the same cursor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/copy_streams.h"
#include "wire/ref.h"

namespace xfer {

enum class Dir : uint8_t {
    put = XFER_OP_PUT,  // local → remote
    get = XFER_OP_GET,  // remote → local
    atomic = 3,         // changes what is remote, and brings back what was there
};

// What a region must allow for that.
constexpr uint32_t access_for(Dir dir) {
    if (dir == Dir::atomic) return XFER_ATOMIC;
    return dir == Dir::put ? XFER_WRITE : XFER_READ;
}

constexpr int32_t kHostMemory = -1;  // else the number of a device

// Whose memory the local side of an entry is.
struct Place {
    int32_t device = kHostMemory;
    // Of a device's: its id, or, where there may be many, where it begins. No copy runs from one
    // into the next.
    uint64_t allocation = 0;
    uint64_t id = 0;  // 0: many
    bool operator==(const Place &) const = default;
};

// One contiguous range on both sides; offset counts from the start of the remote region.
struct Piece {
    uint64_t local;
    uint64_t offset;
    uint64_t length;
};

// Which entry comes next, and how much of it is done.
struct Cursor {
    uint32_t segment = 0;
    uint64_t entry = 0;  // in the segment
    uint64_t done = 0;   // bytes of that entry
    bool operator==(const Cursor &) const = default;
};

class PieceList {
public:
    // Each adds one or many entries, whose local side lies at `place`; the caller has checked
    // ranges, access and overflow.
    void add(Dir dir, uint32_t remote, const Piece &piece, const Place &place = {});
    void add_strided(Dir dir, uint32_t remote, const Piece &first, uint64_t local_stride,
                     uint64_t remote_stride, uint64_t count, const Place &place = {});
    // Which pages, and how each lies on either side; one for many pairs of bases.
    struct PageTable {
        std::vector<uint64_t> local, remote;
        uint64_t length = 0, rows = 1;  // of a row in bytes, and of a page in rows
        uint64_t local_stride = 0, remote_stride = 0;
        uint64_t local_row_stride = 0, remote_row_stride = 0;
    };
    // `local` and `offset` are those of page 0.
    void add_pages(Dir dir, uint32_t remote, uint64_t local, uint64_t offset,
                   std::shared_ptr<const PageTable> table, const Place &place = {});
    void clear();
    // Where the list ends, and back to there, whatever an addition that threw has left. Needs no
    // memory.
    struct Mark {
        size_t segments = 0;
        uint64_t of_last = 0;  // entries of the last segment
        uint64_t entries = 0, bytes = 0;
    };
    Mark mark() const;
    void cut(const Mark &mark);
    void shift(uint32_t remote, uint64_t by);  // its offsets, modulo 2^64

    uint64_t entries() const { return entries_; }
    uint64_t bytes() const { return bytes_; }
    bool at_end(const Cursor &cursor) const { return cursor.segment >= segments_.size(); }
    Dir dir(const Cursor &cursor) const { return segments_[cursor.segment].dir; }
    uint32_t remote(const Cursor &cursor) const { return segments_[cursor.segment].remote; }
    int32_t device(const Cursor &cursor) const { return segments_[cursor.segment].place.device; }
    uint64_t entry_index(
        const Cursor &cursor) const;  // counted over the whole list; entries() at the end

    // The next pieces of one direction, one remote and one device, at most max_bytes of
    // them (at least one piece, which may be empty); neighbours that touch on both sides are one.
    // Moves the cursor; returns the bytes.
    uint64_t draw(Cursor &cursor, uint64_t max_bytes, size_t max_pieces,
                  std::vector<Piece> &out) const;
    // Where the next `bytes` are on the local side; neighbours in one allocation are one range.
    void draw_local(Cursor cursor, uint64_t bytes, std::vector<DeviceRange> &out) const;
    // Past everything that remains for the remote at the cursor, in this run of segments.
    void skip_remote(Cursor &cursor) const;

private:
    struct Segment {
        Dir dir;
        uint32_t remote;
        uint64_t first_entry;
        uint64_t count;
        Piece first;  // strided: entry 0; pages: page 0, with all its bytes
        uint64_t local_stride, remote_stride;
        std::shared_ptr<const PageTable> table;
        std::vector<Piece> spans;  // entries one by one, if not empty
        Place place;
    };
    static uint64_t length_of(const Segment &segment, uint64_t entry);
    static Piece rest(const Segment &segment, uint64_t entry, uint64_t done);
    Segment &append(Dir dir, uint32_t remote, uint64_t count, const Place &place);
    void advance(Cursor &cursor, uint64_t length) const;  // within an entry, or to its end

    std::vector<Segment> segments_;
    uint64_t entries_ = 0;
    uint64_t bytes_ = 0;
};

}  // namespace xfer
