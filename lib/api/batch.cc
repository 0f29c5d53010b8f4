// SPDX-License-Identifier: Apache-2.0
#include "api/transfer_check.h"
#include "core/limits.h"

using namespace xfer;

namespace {

// One thread at a time fills, submits or asks a batch, and none while it is in flight. Only what
// adds to it or submits it needs an endpoint that takes new work.
class Building {
public:
    enum class Use { work, look };

    explicit Building(xfer_batch_t *handle, Use use = Use::work) : batch(of(handle)) {
        status = check(batch);
        if (status != XFER_OK) return;
        if (batch->closed.load()) status = XFER_ECLOSED;
        if (status == XFER_OK && use == Use::work) status = check_open(batch->ep);
        if (status != XFER_OK) return;
        Batch::State expected = Batch::State::idle;
        if (!batch->state.compare_exchange_strong(expected, Batch::State::building)) {
            status = XFER_EBUSY;
            return;
        }
        held_ = true;
    }
    ~Building() {
        if (held_) batch->state.store(Batch::State::idle);
    }
    void keep_busy() { held_ = false; }  // the flight has begun

    Batch *const batch;
    Status status;

private:
    bool held_ = false;
};

bool same(const Remote &a, const Remote &b) {
    return a.owner == b.owner && a.incarnation == b.incarnation &&
           a.access.region == b.access.region && a.access.generation == b.access.generation &&
           a.access.key == b.access.key;
}

// Refs mostly come in runs, or a few take turns: the last ones are looked through, the rest may be
// listed twice.
Status index_of(Batch &batch, const RemoteRegion &region, uint32_t &index) {
    const Remote remote = remote_of(region);
    const size_t count = batch.remotes.size();
    for (size_t back = 1; back <= std::min<size_t>(count, 64); ++back)
        if (same(batch.remotes[count - back], remote)) {
            index = static_cast<uint32_t>(count - back);
            return XFER_OK;
        }
    if (count >= kMaxRemotes) return XFER_ETOOBIG;
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

Status resolve(const char *field, const xfer_ref_t *ref, Dir dir, RemoteRegion &out, Failure &why) {
    if (Status status = decode(field, ref, out, why); status != XFER_OK) return status;
    return check_access(out, dir);
}

Status check_room(const Batch &batch, uint64_t count) {
    return count > kMaxEntries - batch.list.entries() ? XFER_ETOOBIG : XFER_OK;
}

Status check_dir(uint32_t op, Failure &why) {
    if (op == XFER_OP_PUT || op == XFER_OP_GET) return XFER_OK;
    return invalid(why, "op is neither XFER_OP_PUT nor XFER_OP_GET");
}

// One entry, checked.
Status check_piece(const Engine &engine, const RemoteRegion &remote, const Piece &piece) {
    if (Status status = check_range(piece.offset, piece.length, remote.length); status != XFER_OK)
        return status;
    return check_local(engine, piece.local, piece.length);
}

Status add_one(xfer_batch_t *handle, Dir dir, uint64_t local, const xfer_ref_t *ref,
               uint64_t offset, uint64_t length, Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    RemoteRegion remote;
    if (Status status = resolve("remote", ref, dir, remote, why); status != XFER_OK) return status;
    if (Status status = check_piece(batch.ep->engine, remote, {local, offset, length});
        status != XFER_OK)
        return status;
    if (Status status = check_room(batch, 1); status != XFER_OK) return status;
    uint32_t index = 0;
    if (Status status = index_of(batch, remote, index); status != XFER_OK) return status;
    batch.list.add(dir, index, {local, remote.offset + offset, length});
    return XFER_OK;
}

Status add_spans(xfer_batch_t *handle, uint32_t op, const xfer_ref_t *ref, const xfer_span_t *spans,
                 uint32_t span_size, uint64_t count, Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    if (Status status = check_dir(op, why); status != XFER_OK) return status;
    if (!spans && count) return invalid(why, "spans is NULL");
    if (span_size < sizeof(xfer_span_t))
        return invalid(why, "span_size is less than sizeof(xfer_span_t)");
    const Dir dir = static_cast<Dir>(op);
    RemoteRegion remote;
    if (Status status = resolve("remote", ref, dir, remote, why); status != XFER_OK) return status;
    if (Status status = check_room(batch, count); status != XFER_OK) return status;
    const auto *bytes = reinterpret_cast<const uint8_t *>(spans);
    const auto span = [&](uint64_t i) {
        xfer_span_t at;
        std::memcpy(&at, bytes + i * span_size, sizeof at);
        return Piece{at.local, at.offset, at.length};
    };
    for (uint64_t i = 0; i < count; ++i)
        if (Status status = check_piece(batch.ep->engine, remote, span(i)); status != XFER_OK)
            return status;
    uint32_t index = 0;
    if (Status status = index_of(batch, remote, index); status != XFER_OK) return status;
    for (uint64_t i = 0; i < count; ++i) {
        Piece piece = span(i);
        piece.offset += remote.offset;
        batch.list.add(dir, index, piece);
    }
    return XFER_OK;
}

// The last block ends highest: if that is in range without wrapping, so are all.
Status check_stride(uint64_t start, uint64_t stride, uint64_t length, uint64_t count,
                    uint64_t limit) {
    uint64_t last = 0, end = 0;
    if (__builtin_mul_overflow(stride, count - 1, &last) ||
        __builtin_add_overflow(last, start, &last) || __builtin_add_overflow(last, length, &end))
        return XFER_ERANGE;
    return end > limit ? XFER_ERANGE : XFER_OK;
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
    if (Status status = resolve("xfer_strided_t.remote", strided.remote, dir, remote, why);
        status != XFER_OK)
        return status;
    if (Status status = check_room(batch, strided.count); status != XFER_OK) return status;
    if (Status status = check_stride(strided.offset, strided.remote_stride, strided.length,
                                     strided.count, remote.length);
        status != XFER_OK)
        return status;
    if (Status status = check_stride(strided.local, strided.local_stride, strided.length,
                                     strided.count, UINT64_MAX);
        status != XFER_OK)
        return status;
    if (Status status = check_local(batch.ep->engine, strided.local, strided.length);
        status != XFER_OK)
        return status;
    uint32_t index = 0;
    if (Status status = index_of(batch, remote, index); status != XFER_OK) return status;
    batch.list.add_strided(dir, index,
                           {strided.local, remote.offset + strided.offset, strided.length},
                           strided.local_stride, strided.remote_stride, strided.count);
    return XFER_OK;
}

// The bases of a page table, checked against its highest pages.
Status check_bases(const Batch &batch, Dir dir, const xfer_pages_t &pages,
                   std::vector<RemoteRegion> &remotes, Failure &why) {
    const uint64_t top_local =
        *std::max_element(pages.local_pages, pages.local_pages + pages.count);
    const uint64_t top_remote =
        *std::max_element(pages.remote_pages, pages.remote_pages + pages.count);
    const auto *bytes = reinterpret_cast<const uint8_t *>(pages.bases);
    for (uint64_t b = 0; b < pages.base_count; ++b) {
        xfer_page_base_t base;
        std::memcpy(&base, bytes + b * pages.base_size, sizeof base);
        RemoteRegion remote;
        if (Status status = resolve("xfer_page_base_t.remote", base.remote, dir, remote, why);
            status != XFER_OK)
            return status;
        const uint64_t size = pages.page_size;
        if (top_local == UINT64_MAX || top_remote == UINT64_MAX) return XFER_ERANGE;
        if (Status status = check_stride(base.offset, size, size, top_remote + 1, remote.length);
            status != XFER_OK)
            return status;
        if (Status status = check_stride(base.local, size, size, top_local + 1, UINT64_MAX);
            status != XFER_OK)
            return status;
        if (Status status = check_local(batch.ep->engine, base.local, size); status != XFER_OK)
            return status;
        remote.offset += base.offset;
        remotes.push_back(remote);
    }
    return XFER_OK;
}

Status copy_pages(uint32_t op, const xfer_pages_t *given, xfer_pages_t &pages, Failure &why) {
    if (Status status = check_dir(op, why); status != XFER_OK) return status;
    if (!given) return invalid(why, "pages is NULL");
    if (Status status = copy_input(given, pages, why); status != XFER_OK) return status;
    if (pages.page_size == 0) return invalid(why, "xfer_pages_t.page_size is 0");
    if (pages.base_size < sizeof(xfer_page_base_t))
        return invalid(why, "xfer_pages_t.base_size is less than sizeof(xfer_page_base_t)");
    if (pages.count == 0 || pages.base_count == 0) return XFER_OK;
    if (!pages.local_pages) return invalid(why, "xfer_pages_t.local_pages is NULL");
    if (!pages.remote_pages) return invalid(why, "xfer_pages_t.remote_pages is NULL");
    if (!pages.bases) return invalid(why, "xfer_pages_t.bases is NULL");
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
    if (__builtin_mul_overflow(pages.count, pages.base_count, &entries)) return XFER_ETOOBIG;
    if (Status status = check_room(batch, entries); status != XFER_OK) return status;
    const Dir dir = static_cast<Dir>(op);
    std::vector<RemoteRegion> remotes;
    if (Status status = check_bases(batch, dir, pages, remotes, why); status != XFER_OK)
        return status;
    std::vector<uint32_t> indexes(remotes.size());
    for (size_t b = 0; b < remotes.size(); ++b)
        if (Status status = index_of(batch, remotes[b], indexes[b]); status != XFER_OK)
            return status;
    auto table = std::make_shared<PieceList::PageTable>();
    table->local.assign(pages.local_pages, pages.local_pages + pages.count);
    table->remote.assign(pages.remote_pages, pages.remote_pages + pages.count);
    const auto *bytes = reinterpret_cast<const uint8_t *>(pages.bases);
    for (size_t b = 0; b < remotes.size(); ++b) {
        xfer_page_base_t base;
        std::memcpy(&base, bytes + b * pages.base_size, sizeof base);
        batch.list.add_pages(dir, indexes[b], {base.local, remotes[b].offset, pages.page_size},
                             table);
    }
    return XFER_OK;
}

// Offsets count from the start of the region, and the two refs may name parts that begin elsewhere.
Status rebind(xfer_batch_t *handle, const xfer_ref_t *from, const xfer_ref_t *to, Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    RemoteRegion before, after;
    if (Status status = decode("from", from, before, why); status != XFER_OK) return status;
    if (Status status = decode("to", to, after, why); status != XFER_OK) return status;
    if (after.length < before.length) return XFER_ERANGE;
    if (before.access & ~after.access) return XFER_EACCESS;
    const Remote named = remote_of(before);
    Status status = XFER_ENOTFOUND;
    for (uint32_t index = 0; index < batch.remotes.size(); ++index)
        if (same(batch.remotes[index], named)) {
            batch.remotes[index] = remote_of(after);
            batch.list.shift(index, after.offset - before.offset);
            status = XFER_OK;
        }
    return status;
}

Status submit(xfer_batch_t *handle, uint64_t user, const xfer_submit_options_t *given,
              Failure &why) {
    Building building(handle);
    if (building.status != XFER_OK) return building.status;
    Batch &batch = *building.batch;
    xfer_submit_options_t options;
    if (Status status = copy_input(given, options, why); status != XFER_OK) return status;
    constexpr uint32_t known = XFER_SUBMIT_NOTIFY | XFER_SUBMIT_ORDERED | XFER_SUBMIT_CHECKSUM;
    if (Status status = check_flags("xfer_submit_options_t.flags", options.flags, known, why);
        status != XFER_OK)
        return status;
    if (!batch.ep->admit()) return batch.ep->refusal();
    batch.timeout_ms = resolve_timeout(batch.ep->engine, options.timeout_ms);
    batch.notifies = (options.flags & XFER_SUBMIT_NOTIFY) != 0;
    batch.notify_key = options.notify_key;
    batch.ordered = (options.flags & XFER_SUBMIT_ORDERED) != 0;
    batch.checked = (options.flags & XFER_SUBMIT_CHECKSUM) != 0;
    batch.event = {};
    batch.event.kind = XFER_EVENT_BATCH;
    batch.event.user = user;
    batch.event.ep = reinterpret_cast<xfer_ep_t *>(batch.ep);
    batch.event.object = handle;
    batch.submitted = true;
    batch.flight.fetch_add(1);
    batch.retain();  // the flight's
    batch.state.store(Batch::State::inflight);
    building.keep_busy();
    if (batch.ep->shard.load()->post(batch)) return XFER_OK;
    batch.state.store(Batch::State::idle);
    batch.ep->outstanding.fetch_sub(1);
    batch.release();
    return XFER_ECLOSED;
}

void ask_cancel(Batch &batch) {
    if (batch.state.load() != Batch::State::inflight || batch.cancel_wanted.exchange(true)) return;
    batch.cancel.flight = batch.flight.load();
    batch.retain();  // the message's
    if (batch.ep->shard.load()->post(batch.cancel)) return;
    batch.cancel_wanted.store(false);
    batch.release();
}

}  // namespace

xfer_status_t xfer_batch_open(xfer_ep_t *ep, const xfer_batch_options_t *given,
                              xfer_batch_t **batch, xfer_error_t *err) {
    return guarded(on(ep, err), [&]() -> Failure {
        if (Status status = check_open(of(ep)); status != XFER_OK) return {status, 0, 0, ""};
        if (!batch) return {XFER_EINVAL, 0, 0, "batch is NULL"};
        *batch = nullptr;
        xfer_batch_options_t options;
        Failure why;
        if (copy_input(given, options, why) != XFER_OK) return why;
        if (check_flags("xfer_batch_options_t.flags", options.flags, 0, why) != XFER_OK) return why;
        *batch = reinterpret_cast<xfer_batch_t *>(new Batch(*of(ep)));
        return {};
    });
}

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
                                   const xfer_span_t *spans, uint32_t span_size, uint64_t count) {
    return guarded(on(batch), [&](Failure &why) -> Status {
        return add_spans(batch, op, remote, spans, span_size, count, why);
    });
}

xfer_status_t xfer_batch_add_strided(xfer_batch_t *batch, uint32_t op,
                                     const xfer_strided_t *strided) {
    return guarded(on(batch),
                   [&](Failure &why) -> Status { return add_strided(batch, op, strided, why); });
}

xfer_status_t xfer_batch_add_pages(xfer_batch_t *batch, uint32_t op, const xfer_pages_t *pages) {
    return guarded(on(batch),
                   [&](Failure &why) -> Status { return add_pages(batch, op, pages, why); });
}

xfer_status_t xfer_batch_rebind(xfer_batch_t *batch, const xfer_ref_t *from, const xfer_ref_t *to) {
    return guarded(on(batch), [&](Failure &why) -> Status { return rebind(batch, from, to, why); });
}

xfer_status_t xfer_batch_submit(xfer_batch_t *batch, uint64_t user,
                                const xfer_submit_options_t *options) {
    return guarded(on(batch),
                   [&](Failure &why) -> Status { return submit(batch, user, options, why); });
}

xfer_status_t xfer_batch_cancel(xfer_batch_t *handle) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Batch *batch = of(handle);
        if (Status status = check(batch); status != XFER_OK) return status;
        if (batch->closed.load()) return XFER_ECLOSED;
        if (batch->state.load() != Batch::State::inflight)
            return invalid(why, "the batch is not in flight");
        ask_cancel(*batch);
        return XFER_OK;
    });
}

xfer_status_t xfer_batch_entries(xfer_batch_t *handle, uint64_t first, uint64_t count,
                                 xfer_status_t *statuses) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Building building(handle, Building::Use::look);
        if (building.status != XFER_OK) return building.status;
        Batch &batch = *building.batch;
        if (!batch.submitted) return invalid(why, "the batch was never submitted");
        if (!statuses && count) return invalid(why, "statuses is NULL");
        if (check_range(first, count, batch.list.entries()) != XFER_OK) return XFER_ERANGE;
        batch.runs.statuses(first, {statuses, count});
        return XFER_OK;
    });
}

xfer_status_t xfer_batch_reset(xfer_batch_t *handle) {
    return guarded(on(handle), [&]() -> Status {
        Building building(handle, Building::Use::look);
        if (building.status != XFER_OK) return building.status;
        building.batch->list.clear();
        building.batch->remotes.clear();
        building.batch->runs.clear();
        building.batch->submitted = false;
        return XFER_OK;
    });
}

xfer_status_t xfer_batch_close(xfer_batch_t *handle) {
    if (!handle) return XFER_OK;
    Batch *batch = of(handle);
    const Status status = check(batch);
    if (status != XFER_OK && status != XFER_EFORKED) return status;
    if (batch->closed.exchange(true)) return XFER_ECLOSED;
    return guarded([&]() -> xfer_status_t {
        const bool over = batch->ep->engine.delivery().ended();
        if (status == XFER_OK) ask_cancel(*batch);
        batch->release();
        return status != XFER_OK ? status : over ? XFER_ECLOSED : XFER_OK;
    });
}
