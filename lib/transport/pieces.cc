// SPDX-License-Identifier: Apache-2.0
#include "transport/pieces.h"

#include <algorithm>

namespace xfer {

PieceList::Segment &PieceList::append(Dir dir, uint32_t remote, uint64_t count) {
    segments_.push_back({dir, remote, entries_, count, {}, 0, 0, nullptr, {}});
    entries_ += count;
    return segments_.back();
}

void PieceList::add(Dir dir, uint32_t remote, const Piece &piece) {
    bytes_ += piece.length;
    if (!segments_.empty()) {
        Segment &last = segments_.back();
        if (last.dir == dir && last.remote == remote && !last.spans.empty()) {
            last.spans.push_back(piece);
            ++last.count;
            ++entries_;
            return;
        }
    }
    append(dir, remote, 1).spans.push_back(piece);
}

void PieceList::add_strided(Dir dir, uint32_t remote, const Piece &first, uint64_t local_stride,
                            uint64_t remote_stride, uint64_t count) {
    if (count == 0) return;
    bytes_ += first.length * count;
    Segment &segment = append(dir, remote, count);
    segment.first = first;
    segment.local_stride = local_stride;
    segment.remote_stride = remote_stride;
}

void PieceList::add_pages(Dir dir, uint32_t remote, const Piece &page_zero,
                          std::shared_ptr<const PageTable> table) {
    uint64_t count = table->local.size();
    if (count == 0) return;
    bytes_ += page_zero.length * count;
    Segment &segment = append(dir, remote, count);
    segment.first = page_zero;
    segment.table = std::move(table);
}

void PieceList::clear() {
    segments_.clear();
    entries_ = bytes_ = 0;
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

Piece PieceList::piece(const Segment &segment, uint64_t entry) {
    if (!segment.spans.empty()) return segment.spans[entry];
    Piece piece = segment.first;
    if (segment.table) {
        piece.local += segment.table->local[entry] * piece.length;
        piece.offset += segment.table->remote[entry] * piece.length;
    } else {
        piece.local += entry * segment.local_stride;
        piece.offset += entry * segment.remote_stride;
    }
    return piece;
}

uint64_t PieceList::draw(Cursor &cursor, uint64_t max_bytes, size_t max_pieces,
                         std::vector<Piece> &out) const {
    uint64_t bytes = 0;
    const Dir dir = this->dir(cursor);
    const uint32_t remote = this->remote(cursor);
    while (!at_end(cursor) && (bytes < max_bytes || out.empty())) {
        const Segment &segment = segments_[cursor.segment];
        if (segment.dir != dir || segment.remote != remote) break;
        const Piece whole = piece(segment, cursor.entry);
        const Piece rest{whole.local + cursor.done, whole.offset + cursor.done,
                         std::min(whole.length - cursor.done, max_bytes - bytes)};
        Piece *last = out.empty() ? nullptr : &out.back();
        if (last && last->local + last->length == rest.local &&
            last->offset + last->length == rest.offset)
            last->length += rest.length;
        else if (out.size() == max_pieces)
            break;
        else
            out.push_back(rest);
        bytes += rest.length;
        cursor.done += rest.length;
        if (cursor.done < whole.length) break;  // max_bytes reached inside an entry
        cursor.done = 0;
        if (++cursor.entry == segment.count) {
            cursor.entry = 0;
            ++cursor.segment;
        }
    }
    return bytes;
}

void PieceList::skip_remote(Cursor &cursor) const {
    const uint32_t remote = this->remote(cursor);
    while (!at_end(cursor) && segments_[cursor.segment].remote == remote)
        cursor = {cursor.segment + 1, 0, 0};
}

}  // namespace xfer
