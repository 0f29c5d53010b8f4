// SPDX-License-Identifier: Apache-2.0
// PieceList against a model that writes every entry down.
#include "transport/pieces.h"

#include <doctest/doctest.h>

#include <random>

using namespace xfer;

namespace {

struct Entry {
    Dir dir;
    uint32_t remote;
    Piece piece;
    Place place;
};

struct Model {
    PieceList list;
    std::vector<Entry> entries;
    std::mt19937 random;

    explicit Model(uint32_t seed) : random(seed) {}
    uint64_t pick(uint64_t below) { return random() % below; }
    Piece piece() {
        // Small numbers, so that neighbours touch now and then.
        return {pick(8) * 64 + 1'000'000, pick(8) * 64, pick(4) * 32};
    }
    void add() {
        const Dir dir = pick(3) ? Dir::put : Dir::get;
        const auto remote = static_cast<uint32_t>(pick(2));
        const Place place = pick(4) ? Place{} : Place{0, 4096 * pick(2)};
        const Piece first = piece();
        const uint64_t count = pick(6);
        switch (pick(4)) {
        case 0: {
            list.add(dir, remote, first, place);
            entries.push_back({dir, remote, first, place});
            return;
        }
        case 1: {  // a run that touches
            Piece next = first;
            for (uint64_t i = 0; i < count; ++i) {
                list.add(dir, remote, next, place);
                entries.push_back({dir, remote, next, place});
                next.local += next.length;
                next.offset += next.length;
            }
            return;
        }
        case 2: {
            const uint64_t local = first.length + pick(2) * 64, far = first.length + pick(2) * 64;
            list.add_strided(dir, remote, first, local, far, count, place);
            for (uint64_t i = 0; i < count; ++i)
                entries.push_back({dir,
                                   remote,
                                   {first.local + i * local, first.offset + i * far, first.length},
                                   place});
            return;
        }
        default: {
            auto table = std::make_shared<PieceList::PageTable>();
            for (uint64_t i = 0; i < count; ++i) {
                table->local.push_back(pick(10));
                table->remote.push_back(pick(3) ? table->local.back() : pick(10));
                entries.push_back({dir,
                                   remote,
                                   {first.local + table->local[i] * first.length,
                                    first.offset + table->remote[i] * first.length, first.length},
                                   place});
            }
            table->length = table->local_stride = table->remote_stride = first.length;
            list.add_pages(dir, remote, first.local, first.offset, std::move(table), place);
        }
        }
    }
};

// Some is added, and taken back.
void add_and_cut(Model &model) {
    const PieceList::Mark mark = model.list.mark();
    const size_t entries = model.entries.size();
    for (uint64_t n = model.pick(4); n > 0; --n)
        model.add();
    model.list.cut(mark);
    model.entries.resize(entries);
}

// Every byte of a piece, or of an entry, as a pair of addresses.
using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;

void append(Pairs &bytes, const Piece &piece) {
    for (uint64_t i = 0; i < piece.length; ++i)
        bytes.push_back({piece.local + i, piece.offset + i});
}

}  // namespace

TEST_CASE("draw gives every byte once, in order, within its bounds") {
    for (uint32_t seed = 1; seed <= 2000; ++seed) {
        CAPTURE(seed);
        Model model(seed);
        for (uint64_t n = model.pick(12); n > 0; --n)
            model.pick(4) ? model.add() : add_and_cut(model);
        uint64_t total = 0;
        for (const Entry &entry : model.entries)
            total += entry.piece.length;
        REQUIRE(model.list.entries() == model.entries.size());
        REQUIRE(model.list.bytes() == total);

        Cursor cursor;
        size_t entry = 0;   // of the model
        uint64_t done = 0;  // bytes of it
        uint64_t drawn = 0;
        while (!model.list.at_end(cursor)) {
            const uint64_t max_bytes = 1 + model.pick(300), max_pieces = 1 + model.pick(5);
            REQUIRE(model.list.entry_index(cursor) == entry);
            const Dir dir = model.list.dir(cursor);
            const uint32_t remote = model.list.remote(cursor);
            REQUIRE(dir == model.entries[entry].dir);
            const int32_t device = model.list.device(cursor);
            REQUIRE(remote == model.entries[entry].remote);
            REQUIRE(device == model.entries[entry].place.device);

            const Cursor before = cursor;
            std::vector<Piece> pieces, again;
            const uint64_t bytes = model.list.draw(cursor, max_bytes, max_pieces, pieces);
            Cursor repeated = before;
            REQUIRE(model.list.draw(repeated, bytes == 0 ? 1 : bytes, max_pieces, again) == bytes);
            REQUIRE(!pieces.empty());
            REQUIRE(pieces.size() <= max_pieces);
            REQUIRE(bytes <= max_bytes);
            drawn += bytes;

            Pairs got, expected;
            for (const Piece &piece : pieces)
                append(got, piece);
            REQUIRE(got.size() == bytes);
            // The model moves to where the cursor says it is.
            const size_t to = model.list.entry_index(cursor);
            for (;;) {
                const bool last = entry == to;
                if (last && (entry == model.entries.size() || cursor.done == done)) break;
                const Entry &at = model.entries[entry];
                REQUIRE(at.dir == dir);
                REQUIRE(at.remote == remote);
                REQUIRE(at.place.device == device);
                const uint64_t end = last ? cursor.done : at.piece.length;
                append(expected, {at.piece.local + done, at.piece.offset + done, end - done});
                done = last ? end : 0;
                if (last) break;
                ++entry;
            }
            REQUIRE(got == expected);
            std::vector<DeviceRange> ranges;
            model.list.draw_local(before, bytes, ranges);
            REQUIRE(ranges.size() <= pieces.size());
            size_t checked = 0;
            for (const DeviceRange &range : ranges)
                for (uint64_t i = 0; i < range.length; ++i)
                    REQUIRE(got.at(checked++).first == range.address + i);
            REQUIRE(checked == bytes);
        }
        CHECK(drawn == total);
        CHECK(model.list.entry_index(cursor) == model.entries.size());
    }
}

TEST_CASE("neighbours that touch on both sides are one piece") {
    PieceList list;
    list.add_strided(Dir::put, 0, {1000, 0, 10}, 10, 10, 100);
    std::vector<Piece> pieces;
    Cursor cursor;
    CHECK(list.draw(cursor, 10'000, 512, pieces) == 1000);
    REQUIRE(pieces.size() == 1);
    CHECK(pieces[0].length == 1000);
    CHECK(list.at_end(cursor));
}

TEST_CASE("what touches across two allocations of a device stays two pieces") {
    for (const uint64_t second : {4096u, 5120u}) {
        PieceList list;
        list.add(Dir::put, 0, {4096, 0, 1024}, {0, 4096, 4096});
        list.add(Dir::put, 0, {5120, 1024, 1024}, {0, second, second});
        std::vector<Piece> pieces;
        Cursor cursor;
        CHECK(list.draw(cursor, 10'000, 512, pieces) == 2048);
        CHECK(pieces.size() == (second == 4096 ? 1 : 2));
        CHECK(list.at_end(cursor));
        std::vector<DeviceRange> ranges;
        list.draw_local({}, 2048, ranges);
        REQUIRE(ranges.size() == (second == 4096 ? 1 : 2));
        CHECK(ranges.front().id == 4096);
        CHECK(ranges.back().id == second);
    }
}

TEST_CASE("what touches on the local side is one range, wherever it goes") {
    PieceList list;
    list.add_strided(Dir::put, 0, {4096, 0, 64}, 64, 512, 10, {0, 4096});
    list.add(Dir::put, 0, {4736, 9000, 0}, {0, 8192});  // nothing, elsewhere
    list.add(Dir::put, 0, {4736, 9000, 64}, {0, 4096});
    list.add(Dir::put, 0, {4864, 9064, 64}, {0, 4096});
    std::vector<DeviceRange> ranges;
    Cursor cursor;
    cursor.done = 32;
    list.draw_local(cursor, 704, ranges);
    REQUIRE(ranges.size() == 2);
    CHECK(ranges[0].address == 4128);
    CHECK(ranges[0].length == 672);
    CHECK(ranges[1].address == 4864);
    CHECK(ranges[1].length == 32);
}

TEST_CASE("skip_remote goes past what one remote has, and no further") {
    PieceList list;
    list.add(Dir::put, 0, {0, 0, 10});
    list.add_strided(Dir::get, 0, {0, 0, 10}, 10, 10, 5);
    list.add(Dir::put, 1, {0, 0, 10});
    list.add(Dir::put, 0, {0, 0, 10});
    Cursor cursor;
    list.skip_remote(cursor);
    CHECK(list.entry_index(cursor) == 6);
    CHECK(list.remote(cursor) == 1);
    list.skip_remote(cursor);
    CHECK(list.remote(cursor) == 0);
    list.skip_remote(cursor);
    CHECK(list.at_end(cursor));
}

TEST_CASE("pages are drawn row by row, each side with strides of its own") {
    for (const uint64_t local_row_stride : {10u, 16u})
        for (const uint64_t remote_row_stride : {10u, 100u})
            for (uint64_t max_bytes = 1; max_bytes < 70; ++max_bytes)
                for (size_t max_pieces = 1; max_pieces < 5; ++max_pieces) {
                    CAPTURE(local_row_stride);
                    CAPTURE(remote_row_stride);
                    CAPTURE(max_bytes);
                    auto table = std::make_shared<PieceList::PageTable>();
                    table->local = {2, 0, 1}, table->remote = {1, 3, 0};
                    table->length = 10, table->rows = 3;
                    table->local_stride = 64, table->remote_stride = 300;
                    table->local_row_stride = local_row_stride;
                    table->remote_row_stride = remote_row_stride;
                    Pairs wanted, drawn;
                    for (size_t page = 0; page < 3; ++page)
                        for (uint64_t row = 0; row < 3; ++row)
                            append(wanted,
                                   {5'000 + table->local[page] * 64 + row * local_row_stride,
                                    7 + table->remote[page] * 300 + row * remote_row_stride, 10});
                    PieceList list;
                    list.add_pages(Dir::get, 0, 5'000, 7, table);
                    CHECK(list.entries() == 3);
                    CHECK(list.bytes() == 90);
                    for (Cursor cursor; !list.at_end(cursor);) {
                        std::vector<Piece> pieces;
                        const uint64_t bytes = list.draw(cursor, max_bytes, max_pieces, pieces);
                        REQUIRE(bytes > 0);
                        REQUIRE(bytes <= max_bytes);
                        REQUIRE(pieces.size() <= max_pieces);
                        for (const Piece &piece : pieces)
                            append(drawn, piece);
                        REQUIRE(list.entry_index(cursor) == drawn.size() / 30);
                    }
                    REQUIRE(drawn == wanted);
                }
}

TEST_CASE("shift moves the offsets of one remote, of every kind of entry") {
    PieceList list;
    auto table = std::make_shared<PieceList::PageTable>();
    table->local = {0}, table->remote = {3};
    table->length = table->local_stride = table->remote_stride = 10;
    list.add(Dir::put, 0, {0, 50, 10});
    list.add(Dir::put, 1, {100, 60, 10});
    list.add_strided(Dir::put, 0, {200, 70, 10}, 20, 20, 1);
    list.add_pages(Dir::put, 0, 300, 80, table);
    list.shift(0, 1'000);
    list.shift(1, uint64_t{0} - 40);
    std::vector<uint64_t> offsets;
    for (Cursor cursor; !list.at_end(cursor);) {
        std::vector<Piece> pieces;
        list.draw(cursor, 10, 1, pieces);
        offsets.push_back(pieces.at(0).offset);
    }
    CHECK(offsets == std::vector<uint64_t>{1050, 20, 1070, 1110});
}

TEST_CASE("a cleared list is empty and can be filled again") {
    PieceList list;
    list.add(Dir::put, 0, {0, 0, 10});
    list.clear();
    CHECK(list.entries() == 0);
    CHECK(list.bytes() == 0);
    CHECK(list.at_end(Cursor{}));
    list.add(Dir::get, 3, {5, 6, 7});
    std::vector<Piece> pieces;
    Cursor cursor;
    CHECK(list.draw(cursor, 100, 1, pieces) == 7);
    CHECK(pieces[0].local == 5);
    CHECK(pieces[0].offset == 6);
}
