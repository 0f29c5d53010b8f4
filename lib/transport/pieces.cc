// SPDX-License-Identifier: Apache-2.0
#include "transport/pieces.h"

#include <algorithm>
#include <utility>

namespace xfer {

PieceList::Segment &PieceList::append(Dir dir, uint32_t remote, uint64_t count,
                                      const Place &place) {
    segments_.push_back({dir, remote, entries_, count, {}, 0, 0, nullptr, {}, place});
    entries_ += count;
    return segments_.back();
}

void PieceList::add(Dir dir, uint32_t remote, const Piece &piece, const Place &place) {
    bytes_ += piece.length;
    if (!segments_.empty()) {
        Segment &last = segments_.back();
        const bool alike = last.dir == dir && last.remote == remote && last.place == place;
        if (alike && !last.spans.empty()) {
            last.spans.push_back(piece);
            ++last.count;
            ++entries_;
            return;
        }
    }
    append(dir, remote, 1, place).spans.push_back(piece);
}

void PieceList::add_strided(Dir dir, uint32_t remote, const Piece &first, uint64_t local_stride,
                            uint64_t remote_stride, uint64_t count, const Place &place) {
    if (count == 0) return;
    bytes_ += first.length * count;
    Segment &segment = append(dir, remote, count, place);
    segment.first = first;
    segment.local_stride = local_stride;
    segment.remote_stride = remote_stride;
}

void PieceList::add_pages(Dir dir, uint32_t remote, uint64_t local, uint64_t offset,
                          std::shared_ptr<const PageTable> table, const Place &place) {
    const uint64_t count = table->local.size(), length = table->length * table->rows;
    if (count == 0) return;
    bytes_ += length * count;
    Segment &segment = append(dir, remote, count, place);
    segment.first = {local, offset, length};
    segment.table = std::move(table);
}

void PieceList::clear() {
    segments_.clear();
    entries_ = bytes_ = 0;
}

PieceList::Mark PieceList::mark() const {
    return {segments_.size(), segments_.empty() ? 0 : segments_.back().count, entries_, bytes_};
}

// The last one may have grown by single pieces since.
void PieceList::cut(const Mark &mark) {
    segments_.erase(segments_.begin() + static_cast<ptrdiff_t>(mark.segments), segments_.end());
    entries_ = mark.entries;
    bytes_ = mark.bytes;
    if (segments_.empty()) return;
    Segment &last = segments_.back();
    last.count = mark.of_last;
    if (last.spans.size() > last.count) last.spans.resize(last.count);
}

void PieceList::shift(uint32_t remote, uint64_t by) {
    for (Segment &segment : segments_) {
        if (segment.remote != remote) continue;
        segment.first.offset += by;
        for (Piece &span : segment.spans)
            span.offset += by;
    }
}

uint64_t PieceList::entry_index(const Cursor &cursor) const {
    return at_end(cursor) ? entries_ : segments_[cursor.segment].first_entry + cursor.entry;
}

uint64_t PieceList::length_of(const Segment &segment, uint64_t entry) {
    return segment.spans.empty() ? segment.first.length : segment.spans[entry].length;
}

// What is left of an entry, up to where it is not contiguous.
Piece PieceList::rest(const Segment &segment, uint64_t entry, uint64_t done) {
    Piece piece = segment.spans.empty() ? segment.first : segment.spans[entry];
    if (const PageTable *table = segment.table.get()) {
        const uint64_t row = table->rows > 1 ? done / table->length : 0;
        piece.local += table->local[entry] * table->local_stride + row * table->local_row_stride;
        piece.offset +=
            table->remote[entry] * table->remote_stride + row * table->remote_row_stride;
        piece.length = table->length;
        done -= row * table->length;
    } else if (segment.spans.empty()) {
        piece.local += entry * segment.local_stride;
        piece.offset += entry * segment.remote_stride;
    }
    return {piece.local + done, piece.offset + done, piece.length - done};
}

uint64_t PieceList::draw(Cursor &cursor, uint64_t max_bytes, size_t max_pieces,
                         std::vector<Piece> &out) const {
    uint64_t bytes = 0;
    const Dir dir = this->dir(cursor);
    const uint32_t remote = this->remote(cursor);
    const int32_t device = this->device(cursor);
    uint64_t allocation = 0;  // of the last piece
    while (!at_end(cursor) && (bytes < max_bytes || out.empty())) {
        const Segment &segment = segments_[cursor.segment];
        if (segment.dir != dir || segment.remote != remote || segment.place.device != device) break;
        Piece next = rest(segment, cursor.entry, cursor.done);
        next.length = std::min(next.length, max_bytes - bytes);
        Piece *last = out.empty() ? nullptr : &out.back();
        const bool same =
            segment.place.allocation == std::exchange(allocation, segment.place.allocation);
        if (last && same && last->local + last->length == next.local &&
            last->offset + last->length == next.offset)
            last->length += next.length;
        else if (out.size() == max_pieces)
            break;
        else
            out.push_back(next);
        bytes += next.length;
        advance(cursor, next.length);
    }
    return bytes;
}

void PieceList::advance(Cursor &cursor, uint64_t length) const {
    const Segment &segment = segments_[cursor.segment];
    cursor.done += length;
    if (cursor.done < length_of(segment, cursor.entry)) return;  // a row, or all that was asked
    cursor.done = 0;
    if (++cursor.entry == segment.count) cursor = {cursor.segment + 1, 0, 0};
}

void PieceList::draw_local(Cursor cursor, uint64_t bytes, std::vector<DeviceRange> &out) const {
    uint64_t allocation = 0;  // of the last range
    while (bytes > 0) {
        const Segment &segment = segments_[cursor.segment];
        const Piece next = rest(segment, cursor.entry, cursor.done);
        const uint64_t length = std::min(next.length, bytes);
        bytes -= length;
        advance(cursor, length);
        if (length == 0) continue;
        const Place &place = segment.place;
        const bool same = place.allocation == std::exchange(allocation, place.allocation);
        if (!out.empty() && same && out.back().address + out.back().length == next.local)
            out.back().length += length;
        else
            out.push_back({next.local, length, place.id});
    }
}

void PieceList::skip_remote(Cursor &cursor) const {
    const uint32_t remote = this->remote(cursor);
    while (!at_end(cursor) && segments_[cursor.segment].remote == remote)
        cursor = {cursor.segment + 1, 0, 0};
}

}  // namespace xfer
