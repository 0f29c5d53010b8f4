// SPDX-License-Identifier: Apache-2.0
// What is added to a batch: every piece is checked against its ref and this process's memory.
#include "api/addition.h"
#include "api/building.h"
#include "api/transfer_check.h"
#include "core/base/limits.h"

using namespace xfer;

namespace {

// Elements of arrays are as long as their caller's header says; version 1.0 has these.
constexpr uint32_t kFirstSpan = 24, kFirstPageBase = 24;

Status check_element_size(const char *field, const char *type, uint32_t size, uint32_t first,
                          Failure &why) {
    if (size >= first && size <= kLongestInput) return XFER_OK;
    return refuse(why, size < first ? XFER_EINVAL : XFER_E2BIG,
                  fmt::format("{} is {}: set it to sizeof({})", field, size, type));
}

template <typename T>
T element(const T *array, uint32_t size, uint64_t index) {
    T out{};
    const auto *bytes = reinterpret_cast<const uint8_t *>(array) + index * size;
    std::memcpy(&out, bytes, std::min<size_t>(size, sizeof out));
    return out;
}

// An element of a later version may set what this library does not know: that must not be lost.
template <typename T>
Status check_tail(const char *name, const T *array, uint32_t size, uint64_t index, Failure &why) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(array) + index * size;
    for (size_t at = sizeof(T); at < size; ++at)
        if (bytes[at])
            return refuse(why, XFER_E2BIG,
                          fmt::format("this library knows {} bytes of {}, and byte {} is not 0",
                                      sizeof(T), name, at));
    return XFER_OK;
}

bool same(const Remote &a, const Remote &b) {
    return a.owner == b.owner && a.incarnation == b.incarnation &&
           a.access.region == b.access.region && a.access.generation == b.access.generation &&
           a.access.key == b.access.key;
}

// Refs mostly come in runs, or a few take turns: the last ones are looked through, the rest may be
// listed twice.
Status index_of(Batch &batch, const RemoteRegion &region, uint32_t &index, Failure &why) {
    const Remote remote = remote_of(region);
    const size_t count = batch.remotes.size();
    for (size_t back = 1; back <= std::min<size_t>(count, 64); ++back)
        if (same(batch.remotes[count - back], remote)) {
            index = static_cast<uint32_t>(count - back);
            return XFER_OK;
        }
    if (count >= kMaxRemotes)
        return refuse(why, XFER_ETOOBIG, fmt::format("the batch names {} refs already", count));
    batch.remotes.push_back(remote);
    index = static_cast<uint32_t>(count);
    return XFER_OK;
}

Status decode(const char *field, const xfer_ref_t *ref, RemoteRegion &out, Failure &why) {
    if (!ref) return invalid(why, Text(field) + " is NULL");
    auto remote = decode_ref(*ref);
    if (!remote) {
        why = remote.error();
        return why.status;
    }
    out = *remote;
    return XFER_OK;
}

Status resolve(const Batch &batch, const char *field, const xfer_ref_t *ref, Dir dir,
               RemoteRegion &out, Failure &why) {
    if (Status status = decode(field, ref, out, why); status != XFER_OK) return status;
    if (Status status = check_owner(*batch.ep, out, why); status != XFER_OK) return status;
    return check_access(out, dir, why);
}

// Which one of many it is.
Status name_it(const char *what, uint64_t index, Failure &why) {
    why.message = fmt::format("{} {}: {}", what, index, std::string_view(why.message));
    return why.status;
}

Status check_room(const Batch &batch, uint64_t count, Failure &why) {
    if (count <= kMaxEntries - batch.list.entries()) return XFER_OK;
    return refuse(why, XFER_ETOOBIG,
                  fmt::format("{} entries, and {} that are there: more than {}", count,
                              batch.list.entries(), kMaxEntries));
}

Status check_dir(uint32_t op, Failure &why) {
    if (op == XFER_OP_PUT || op == XFER_OP_GET) return XFER_OK;
    return invalid(why, "op is neither XFER_OP_PUT nor XFER_OP_GET");
}

// One entry, checked.
Status check_piece(const Engine &engine, const RemoteRegion &remote, const Piece &piece,
                   Memory &memory, Failure &why) {
    if (Status status = check_range(piece.offset, piece.length, remote.length, why);
        status != XFER_OK)
        return status;
    return check_local(engine, piece.local, piece.length, memory, why);
}

Status add_one(xfer_batch_t *handle, Dir dir, uint64_t local, const xfer_ref_t *ref,
               uint64_t offset, uint64_t length, Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    RemoteRegion remote;
    if (Status status = resolve(batch, "remote", ref, dir, remote, why); status != XFER_OK)
        return status;
    Memory memory;
    if (Status status = check_piece(engine_of(batch), remote, {local, offset, length}, memory, why);
        status != XFER_OK)
        return status;
    if (Status status = check_room(batch, 1, why); status != XFER_OK) return status;
    Addition addition(batch);
    uint32_t index = 0;
    if (Status status = index_of(batch, remote, index, why); status != XFER_OK) return status;
    batch.list.add(dir, index, {local, remote.offset + offset, length}, place_of(memory));
    return addition.keep();
}

Status add_spans(xfer_batch_t *handle, uint32_t op, const xfer_ref_t *ref, const xfer_span_t *spans,
                 uint32_t span_size, uint64_t count, Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    if (Status status = check_dir(op, why); status != XFER_OK) return status;
    if (!spans && count) return invalid(why, "spans is NULL");
    if (Status status = check_element_size("span_size", "xfer_span_t", span_size, kFirstSpan, why);
        status != XFER_OK)
        return status;
    const Dir dir = static_cast<Dir>(op);
    RemoteRegion remote;
    if (Status status = resolve(batch, "remote", ref, dir, remote, why); status != XFER_OK)
        return status;
    if (Status status = check_room(batch, count, why); status != XFER_OK) return status;
    Addition addition(batch);
    uint32_t index = 0;
    if (Status status = index_of(batch, remote, index, why); status != XFER_OK) return status;
    Memory memory;
    for (uint64_t i = 0; i < count; ++i) {
        const xfer_span_t span = element(spans, span_size, i);
        Piece piece{span.local, span.offset, span.length};
        if (check_tail("xfer_span_t", spans, span_size, i, why) != XFER_OK ||
            check_piece(engine_of(batch), remote, piece, memory, why) != XFER_OK)
            return name_it("span", i, why);
        piece.offset += remote.offset;
        batch.list.add(dir, index, piece, place_of(memory));
    }
    return addition.keep();
}

// The last block ends highest, at `end`: if that is in range without wrapping, so are all.
Status check_stride(const char *side, uint64_t start, uint64_t stride, uint64_t length,
                    uint64_t count, uint64_t limit, uint64_t &end, Failure &why) {
    uint64_t last = 0;
    if (__builtin_mul_overflow(stride, count - 1, &last) ||
        __builtin_add_overflow(last, start, &last) || __builtin_add_overflow(last, length, &end))
        return refuse(why, XFER_ERANGE, fmt::format("the {} range wraps around", side));
    if (end <= limit) return XFER_OK;
    return refuse(why, XFER_ERANGE,
                  fmt::format("the last of {} ends at {}, past {}", count, end, limit));
}

Status add_strided(xfer_batch_t *handle, uint32_t op, const xfer_strided_t *given, Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    if (Status status = check_dir(op, why); status != XFER_OK) return status;
    if (!given) return invalid(why, "strided is NULL");
    xfer_strided_t strided;
    if (Status status = copy_input(given, strided, why); status != XFER_OK) return status;
    if (strided.count == 0) return XFER_OK;
    const Dir dir = static_cast<Dir>(op);
    RemoteRegion remote;
    if (Status status = resolve(batch, "xfer_strided_t.remote", strided.remote, dir, remote, why);
        status != XFER_OK)
        return status;
    if (Status status = check_room(batch, strided.count, why); status != XFER_OK) return status;
    uint64_t end = 0;
    if (Status status = check_stride("remote", strided.offset, strided.remote_stride,
                                     strided.length, strided.count, remote.length, end, why);
        status != XFER_OK)
        return status;
    if (Status status = check_stride("local", strided.local, strided.local_stride, strided.length,
                                     strided.count, UINT64_MAX, end, why);
        status != XFER_OK)
        return status;
    const uint64_t reach = strided.length ? end - strided.local : 0;
    Memory memory;
    if (Status status = check_local(engine_of(batch), strided.local, reach, memory, why);
        status != XFER_OK)
        return status;
    Addition addition(batch);
    uint32_t index = 0;
    if (Status status = index_of(batch, remote, index, why); status != XFER_OK) return status;
    batch.list.add_strided(
        dir, index, {strided.local, remote.offset + strided.offset, strided.length},
        strided.local_stride, strided.remote_stride, strided.count, place_of(memory));
    return addition.keep();
}

using PageTable = PieceList::PageTable;

// From `size` bytes each; false: one is all ones, as -1 is.
bool copy_numbers(const void *pages, uint32_t size, uint64_t count, std::vector<uint64_t> &out) {
    const auto *bytes = static_cast<const uint8_t *>(pages);
    const uint64_t none = size == 4 ? UINT32_MAX : UINT64_MAX;
    out.resize(count);
    bool good = true;
    for (uint64_t i = 0; i < count; ++i) {
        out[i] = size == 4 ? load<uint32_t>(bytes + i * 4) : load<uint64_t>(bytes + i * 8);
        good &= out[i] != none;
    }
    return good;
}

// How far the bytes of one page reach, and the strides that were not given.
Status lay_out(const char *side, const PageTable &table, uint64_t &row_stride, uint64_t &stride,
               uint64_t &reach, Failure &why) {
    if (row_stride == 0) row_stride = table.length;
    uint64_t all = 0, moved = 0;
    if (__builtin_mul_overflow(row_stride, table.rows - 1, &reach) ||
        __builtin_add_overflow(reach, table.length, &reach) ||
        __builtin_mul_overflow(table.length, table.rows, &moved) ||
        __builtin_mul_overflow(row_stride, table.rows, &all))
        return refuse(why, XFER_ERANGE, fmt::format("the {} side of a page wraps around", side));
    if (stride == 0) stride = all;
    return XFER_OK;
}

Status check_bases(const Batch &batch, Dir dir, const xfer_pages_t &pages, const PageTable &table,
                   uint64_t local_reach, uint64_t remote_reach, std::vector<RemoteRegion> &remotes,
                   std::vector<Place> &places, Failure &why) {
    const auto [bottom_local, top_local] =
        std::minmax_element(table.local.begin(), table.local.end());
    const uint64_t top_remote = *std::max_element(table.remote.begin(), table.remote.end());
    Memory memory;
    for (uint64_t b = 0; b < pages.base_count; ++b) {
        const xfer_page_base_t base = element(pages.bases, pages.base_size, b);
        RemoteRegion remote;
        uint64_t end = 0;
        if (check_tail("xfer_page_base_t", pages.bases, pages.base_size, b, why) != XFER_OK ||
            resolve(batch, "xfer_page_base_t.remote", base.remote, dir, remote, why) != XFER_OK ||
            check_stride("remote", base.offset, table.remote_stride, remote_reach, top_remote + 1,
                         remote.length, end, why) != XFER_OK ||
            check_stride("local", base.local, table.local_stride, local_reach, *top_local + 1,
                         UINT64_MAX, end, why) != XFER_OK)
            return name_it("base", b, why);
        const uint64_t start = base.local + *bottom_local * table.local_stride;
        if (check_local(engine_of(batch), start, end - start, memory, why) != XFER_OK)
            return name_it("base", b, why);
        remote.offset += base.offset;
        remotes.push_back(remote);
        places.push_back(place_of(memory));
    }
    return XFER_OK;
}

Status copy_pages(uint32_t op, const xfer_pages_t *given, xfer_pages_t &pages, Failure &why) {
    if (Status status = check_dir(op, why); status != XFER_OK) return status;
    if (!given) return invalid(why, "pages is NULL");
    if (Status status = copy_input(given, pages, why); status != XFER_OK) return status;
    if (pages.length == 0) return invalid(why, "xfer_pages_t.length is 0");
    if (pages.index_size != 4 && pages.index_size != 8)
        return invalid(why, "xfer_pages_t.index_size is neither 4 nor 8");
    if (Status status = check_element_size("xfer_pages_t.base_size", "xfer_page_base_t",
                                           pages.base_size, kFirstPageBase, why);
        status != XFER_OK)
        return status;
    if (pages.rows == 0) pages.rows = 1;
    if (pages.count == 0 || pages.base_count == 0) return XFER_OK;
    if (!pages.local_pages) return invalid(why, "xfer_pages_t.local_pages is NULL");
    if (!pages.remote_pages) return invalid(why, "xfer_pages_t.remote_pages is NULL");
    if (!pages.bases) return invalid(why, "xfer_pages_t.bases is NULL");
    return XFER_OK;
}

Status copy_table(const xfer_pages_t &pages, PageTable &table, uint64_t &local_reach,
                  uint64_t &remote_reach, Failure &why) {
    table.length = pages.length, table.rows = pages.rows;
    table.local_stride = pages.local_stride, table.remote_stride = pages.remote_stride;
    table.local_row_stride = pages.local_row_stride;
    table.remote_row_stride = pages.remote_row_stride;
    if (Status status =
            lay_out("local", table, table.local_row_stride, table.local_stride, local_reach, why);
        status != XFER_OK)
        return status;
    if (Status status = lay_out("remote", table, table.remote_row_stride, table.remote_stride,
                                remote_reach, why);
        status != XFER_OK)
        return status;
    if (!copy_numbers(pages.local_pages, pages.index_size, pages.count, table.local) ||
        !copy_numbers(pages.remote_pages, pages.index_size, pages.count, table.remote))
        return refuse(why, XFER_ERANGE, "a page has the number -1");
    return XFER_OK;
}

Status add_pages(xfer_batch_t *handle, uint32_t op, const xfer_pages_t *given, Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    xfer_pages_t pages;
    if (Status status = copy_pages(op, given, pages, why); status != XFER_OK) return status;
    if (pages.count == 0 || pages.base_count == 0) return XFER_OK;
    uint64_t entries = 0;
    if (__builtin_mul_overflow(pages.count, pages.base_count, &entries)) entries = UINT64_MAX;
    if (Status status = check_room(batch, entries, why); status != XFER_OK) return status;
    const Dir dir = static_cast<Dir>(op);
    auto table = std::make_shared<PageTable>();
    uint64_t local_reach = 0, remote_reach = 0;
    if (Status status = copy_table(pages, *table, local_reach, remote_reach, why);
        status != XFER_OK)
        return status;
    std::vector<RemoteRegion> remotes;
    std::vector<Place> places;
    if (Status status =
            check_bases(batch, dir, pages, *table, local_reach, remote_reach, remotes, places, why);
        status != XFER_OK)
        return status;
    std::vector<uint32_t> indexes(remotes.size());
    Addition addition(batch);
    for (size_t b = 0; b < remotes.size(); ++b)
        if (Status status = index_of(batch, remotes[b], indexes[b], why); status != XFER_OK)
            return status;
    for (size_t b = 0; b < remotes.size(); ++b)
        batch.list.add_pages(dir, indexes[b], element(pages.bases, pages.base_size, b).local,
                             remotes[b].offset, table, places[b]);
    return addition.keep();
}

// Offsets count from the start of the region, and the two refs may name parts that begin elsewhere.
Status rebind(xfer_batch_t *handle, const xfer_ref_t *from, const xfer_ref_t *to, Failure &why) {
    Building building(handle, Building::Use::work_between_runs);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    RemoteRegion before, after;
    if (Status status = decode("from", from, before, why); status != XFER_OK) return status;
    if (Status status = decode("to", to, after, why); status != XFER_OK) return status;
    if (after.length < before.length)
        return refuse(
            why, XFER_ERANGE,
            fmt::format("`to` names {} bytes, and `from` {}", after.length, before.length));
    if (before.access & ~after.access & (XFER_READ | XFER_WRITE))
        return refuse(why, XFER_EACCESS, "`to` allows less than `from`");
    if (Status status = check_owner(*batch.ep, after, why); status != XFER_OK) return status;
    const Remote named = remote_of(before);
    Status status = XFER_ENOTFOUND;
    for (uint32_t index = 0; index < batch.remotes.size(); ++index)
        if (same(batch.remotes[index], named)) {
            batch.remotes[index] = remote_of(after);
            batch.list.shift(index, after.offset - before.offset);
            status = XFER_OK;
        }
    return status ? refuse(why, status, "no entry names `from`") : XFER_OK;
}

}  // namespace

xfer_status_t xfer_batch_put(xfer_batch_t *batch, const void *local, const xfer_ref_t *remote,
                             uint64_t offset, uint64_t length) {
    return guarded(on(batch), [&](Failure &why) -> Status {
        return add_one(batch, Dir::put, reinterpret_cast<uint64_t>(local), remote, offset, length,
                       why);
    });
}

xfer_status_t xfer_batch_get(xfer_batch_t *batch, void *local, const xfer_ref_t *remote,
                             uint64_t offset, uint64_t length) {
    return guarded(on(batch), [&](Failure &why) -> Status {
        return add_one(batch, Dir::get, reinterpret_cast<uint64_t>(local), remote, offset, length,
                       why);
    });
}

xfer_status_t xfer_batch_add_spans(xfer_batch_t *batch, uint32_t op, const xfer_ref_t *remote,
                                   const xfer_span_t *spans, uint32_t span_size, uint64_t count,
                                   xfer_error_t *err) {
    return guarded(on(batch, err), [&](Failure &why) -> Status {
        return add_spans(batch, op, remote, spans, span_size, count, why);
    });
}

xfer_status_t xfer_batch_add_strided(xfer_batch_t *batch, uint32_t op,
                                     const xfer_strided_t *strided, xfer_error_t *err) {
    return guarded(on(batch, err),
                   [&](Failure &why) -> Status { return add_strided(batch, op, strided, why); });
}

xfer_status_t xfer_batch_add_pages(xfer_batch_t *batch, uint32_t op, const xfer_pages_t *pages,
                                   xfer_error_t *err) {
    return guarded(on(batch, err),
                   [&](Failure &why) -> Status { return add_pages(batch, op, pages, why); });
}

xfer_status_t xfer_batch_rebind(xfer_batch_t *batch, const xfer_ref_t *from, const xfer_ref_t *to,
                                xfer_error_t *err) {
    return guarded(on(batch, err),
                   [&](Failure &why) -> Status { return rebind(batch, from, to, why); });
}
