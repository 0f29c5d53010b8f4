// SPDX-License-Identifier: Apache-2.0
// xfer_put, xfer_get, xfer_atomic, xfer_ep_flush, xfer_cancel.
#include "api/single.h"
#include "core/transfer/direct_copy.h"
#include "transport/atomic.h"

using namespace xfer;

namespace {

bool copy_now(const DirectCopy &copy, const Place &place, EventNode *told) {
    return copy.piece.length <= kSmall && place == Place{} &&
           copy.ep.shard.load()->copy_now(copy, told);
}

Status start(xfer_ep_t *handle, Dir dir, uint64_t local, const xfer_ref_t *ref, uint64_t offset,
             uint64_t length, uint64_t user, const xfer_op_options_t *given, Failure &why) {
    Endpoint *ep = of(handle);
    if (Status status = check_open(ep); status != XFER_OK) return status;
    if (!ref) return invalid(why, "remote is NULL");
    xfer_op_options_t options;
    const uint32_t known = XFER_FLAG_QUIET | (dir == Dir::put ? XFER_FLAG_COPY : 0);
    if (Status status = copy_operation(given, options, known, why); status != XFER_OK)
        return status;
    if (Status status = check_copy(options.flags, length, why); status != XFER_OK) return status;
    auto remote = decode_ref(*ref);
    if (!remote) {
        why = remote.error();
        return why.status;
    }
    if (Status status = check_owner(*ep, *remote, why); status != XFER_OK) return status;
    if (Status status = check_range(offset, length, remote->length, why); status != XFER_OK)
        return status;
    if (Status status = check_access(*remote, dir, why); status != XFER_OK) return status;
    Memory memory;
    if (Status status = check_local(engine_of(*ep), local, length, memory, why); status != XFER_OK)
        return status;
    if (Status status = check_copied_kind(options.flags, memory, why); status != XFER_OK)
        return status;
    const Place place = place_of(memory);
    const OpKind counted = dir == Dir::put ? OpKind::put : OpKind::get;
    const uint32_t kind = dir == Dir::put ? XFER_EVENT_PUT : XFER_EVENT_GET;
    const bool quiet = (options.flags & XFER_FLAG_QUIET) != 0;
    const DirectCopy copy{
        *ep, counted, dir, remote_of(*remote), {local, remote->offset + offset, length}};
    ep->counters.make_place(counted);
    if (quiet && copy_now(copy, place, nullptr)) return XFER_OK;
    if (!ep->admit(counted)) return ep->refusal();
    Own<Single> single =
        take_operation(engine_of(*ep).singles(), *ep, kind, user, options.timeout_ms);
    single->quiet = quiet;
    if (!quiet && copy_now(copy, place, single.get())) return single.release(), XFER_OK;
    if (options.flags & XFER_FLAG_COPY && length)
        local = reinterpret_cast<uint64_t>(
            copy_bytes(reinterpret_cast<const uint8_t *>(local), length, single->copied));
    set_remote(*single, *remote);
    single->list.add_strided(dir, 0, {local, copy.piece.offset, length}, 0, 0, 1, place);
    return post_operation(std::move(single));
}

Status start_atomic(xfer_ep_t *handle, uint32_t op, uint64_t *result, const xfer_ref_t *ref,
                    uint64_t offset, uint64_t operand, uint64_t compare, uint64_t user,
                    const xfer_op_options_t *given, Failure &why) {
    Endpoint *ep = of(handle);
    if (Status status = check_open(ep); status != XFER_OK) return status;
    if (!ref) return invalid(why, "remote is NULL");
    if (!is_atomic_op(op)) return invalid(why, fmt::format("op is {}, which is no atomic", op));
    const Atomic atomic{static_cast<AtomicOp>(op), operand, compare};
    if (atomic.op == AtomicOp::add && compare)
        return invalid(why, "compare is not 0, but nothing is compared");
    xfer_op_options_t options;
    if (Status status = copy_operation(given, options, XFER_FLAG_QUIET, why); status != XFER_OK)
        return status;
    auto remote = decode_ref(*ref);
    if (!remote) {
        why = remote.error();
        return why.status;
    }
    if (Status status = check_owner(*ep, *remote, why); status != XFER_OK) return status;
    if (!is_aligned(offset)) return invalid(why, "offset is not divisible by 8");
    if (Status status = check_range(offset, kAtomicWidth, remote->length, why); status != XFER_OK)
        return status;
    if (Status status = check_access(*remote, Dir::atomic, why); status != XFER_OK) return status;
    if (remote->kind != XFER_MEM_HOST)
        return refuse(why, XFER_EMEMKIND, "the ref is not of host memory");
    const auto local = reinterpret_cast<uint64_t>(result);
    if (Status status = result ? check_host(engine_of(*ep), local, sizeof *result, why) : XFER_OK;
        status != XFER_OK)
        return status;
    if (!ep->admit(OpKind::atomic)) return ep->refusal();
    Own<Single> single =
        take_operation(engine_of(*ep).singles(), *ep, XFER_EVENT_ATOMIC, user, options.timeout_ms);
    set_remote(*single, *remote);
    const Piece word{local, remote->offset + offset, kAtomicWidth};
    single->list.add_strided(Dir::atomic, 0, word, 0, 0, 1);
    single->quiet = (options.flags & XFER_FLAG_QUIET) != 0;
    single->atomic = atomic;
    single->result = result;
    return post_operation(std::move(single));
}

}  // namespace

xfer_status_t xfer_put(xfer_ep_t *ep, const void *local, const xfer_ref_t *remote, uint64_t offset,
                       uint64_t length, uint64_t user, const xfer_op_options_t *options) {
    return guarded(on(ep), [&](Failure &why) -> Status {
        return start(ep, Dir::put, reinterpret_cast<uint64_t>(local), remote, offset, length, user,
                     options, why);
    });
}

xfer_status_t xfer_get(xfer_ep_t *ep, void *local, const xfer_ref_t *remote, uint64_t offset,
                       uint64_t length, uint64_t user, const xfer_op_options_t *options) {
    return guarded(on(ep), [&](Failure &why) -> Status {
        return start(ep, Dir::get, reinterpret_cast<uint64_t>(local), remote, offset, length, user,
                     options, why);
    });
}

xfer_status_t xfer_atomic(xfer_ep_t *ep, uint32_t op, uint64_t *result, const xfer_ref_t *remote,
                          uint64_t offset, uint64_t operand, uint64_t compare, uint64_t user,
                          const xfer_op_options_t *options) {
    return guarded(on(ep), [&](Failure &why) -> Status {
        return start_atomic(ep, op, result, remote, offset, operand, compare, user, options, why);
    });
}

xfer_status_t xfer_ep_flush(xfer_ep_t *handle, uint32_t *idle, uint64_t user,
                            const xfer_op_options_t *given) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        if (idle) *idle = 0;
        Endpoint *ep = of(handle);
        if (Status status = check_open(ep); status != XFER_OK) return status;
        xfer_op_options_t options;
        if (Status status = copy_operation(given, options, 0, why); status != XFER_OK)
            return status;
        // In this order: an operation notes its failure before it leaves.
        if (idle && ep->outstanding.load() == 0 && !ep->first_failure.any()) {
            *idle = 1;
            return XFER_OK;
        }
        if (!ep->admit_flush()) return ep->refusal();
        Own<Flush> flush = take_operation(engine_of(*ep).flushes(), *ep, XFER_EVENT_FLUSH, user,
                                          options.timeout_ms);
        flush->ordered = true;
        return post_operation(std::move(flush));
    });
}

xfer_status_t xfer_cancel(xfer_engine_t *handle, xfer_ep_t *ep_handle, uint64_t user,
                          uint64_t mask) {
    return guarded(on(handle), [&](Failure &why) -> Status {
        Engine *engine = of(handle);
        Endpoint *ep = of(ep_handle);
        if (Status status = check(engine); status != XFER_OK) return status;
        if (Status status = ep ? check(ep) : XFER_OK; status != XFER_OK) return status;
        if (ep && &ep->engine != engine) return invalid(why, "ep is of another engine");
        engine->cancel_requests().post(ep, user, mask);
        return XFER_OK;
    });
}
