// SPDX-License-Identifier: Apache-2.0
// What is posted: judged, and taken into a slot.
#include <cerrno>

#include "fake_verbs_objects.h"

namespace xfer::rdma {
namespace {

constexpr unsigned kSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

bool is_known(ibv_wr_opcode opcode) {
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_BIND_MW:
    case IBV_WR_LOCAL_INV:
        return true;
    default:
        return false;
    }
}

uint64_t length_of(const ibv_send_wr &request) {
    uint64_t bytes = 0;
    for (int i = 0; i < request.num_sge; ++i)
        bytes += request.sg_list[i].length;
    return bytes;
}

}  // namespace

// The errno that refuses it; 0: none. A piece without a region is taken, and fails when executed.
int FakeTable::check_send(FakeQueuePair &pair, const ibv_send_wr &request) {
    FakeAdapter &adapter = adapter_of(pair.context);
    FakeFabric &fabric = adapter.fabric_;
    const auto refuse = [&](Violation violation, std::string what, int error = EINVAL) {
        fabric.violate(violation, std::move(what));
        return error;
    };
    if (pair.is_full())
        return refuse(Violation::send_full,
                      "more than " + std::to_string(pair.cap.max_send_wr) + " requests", ENOMEM);
    if (!is_known(request.opcode) || (request.send_flags & ~kSendFlags))
        return refuse(Violation::request, "an opcode or flag that RC does not have");
    if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > pair.cap.max_send_sge)
        return refuse(Violation::pieces, std::to_string(request.num_sge) + " of " +
                                             std::to_string(pair.cap.max_send_sge));
    FakeRequest seen;
    seen.request = request;
    const uint32_t read_pieces = adapter.options_.limits.read_pieces;
    if (seen.is_read() && static_cast<uint32_t>(request.num_sge) > read_pieces)
        return refuse(Violation::pieces, std::to_string(request.num_sge) + " of a read");
    if (seen.is_local() && (request.num_sge > 0 || seen.is_inline()))
        return refuse(Violation::request, "a window has no pieces");
    if (request.opcode == IBV_WR_BIND_MW && !may_bind(pair, request))
        return refuse(Violation::window, "beyond its region, or under a key of another");
    const uint64_t bytes = length_of(request);
    if (bytes > adapter.options_.message_bytes)
        return refuse(Violation::request, std::to_string(bytes) + " bytes in one request");
    if (seen.is_inline()) {
        if (seen.is_read() || seen.is_atomic())
            return refuse(Violation::request, "nothing comes back inline");
        if (bytes > pair.cap.max_inline_data)
            return refuse(Violation::inline_length, std::to_string(bytes) + " bytes");
        return 0;
    }
    for (int i = 0; i < request.num_sge; ++i)
        if (request.sg_list[i].length > 0 &&
            !adapter.objects_->local(pair.pd, request.sg_list[i], seen.local_access()))
            fabric.violate(Violation::lkey, "of piece " + std::to_string(i) + " of a send");
    if (seen.is_atomic() && (bytes != 8 || request.wr.atomic.remote_addr % 8 != 0))
        fabric.violate(Violation::misaligned_atomic, std::to_string(bytes) + " bytes");
    if ((seen.is_read() || seen.is_atomic()) && pair.attributes.max_rd_atomic == 0)
        fabric.violate(Violation::reads, "the queue pair may have none under way");
    return 0;
}

// Inline bytes are taken at once, others when it is executed.
void FakeTable::take_send(FakeQueuePair &pair, const ibv_send_wr &request) {
    FakeRequest &slot = pair.slot(pair.posted++);
    slot.request = request;
    slot.request.next = nullptr;
    slot.request.sg_list = nullptr;
    slot.bytes = length_of(request);
    slot.planned = slot.done = false;
    slot.status = IBV_WC_SUCCESS;
    slot.pieces.clear();
    slot.inlined.clear();
    if (!slot.is_inline()) {
        slot.pieces.assign(request.sg_list, request.sg_list + request.num_sge);
        return;
    }
    for (int i = 0; i < request.num_sge; ++i) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(request.sg_list[i].addr);
        slot.inlined.insert(slot.inlined.end(), bytes, bytes + request.sg_list[i].length);
    }
}

int FakeTable::post_send(ibv_qp *handle, ibv_send_wr *request, ibv_send_wr **bad) {
    FakeFabric &fabric = adapter_of(handle->context).fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &pair = *static_cast<FakeQueuePair *>(handle);
    const bool planned = FakeFabric::fires(fabric.post_plan_);
    int error = fabric.alive(&pair) ? 0 : EINVAL;
    if (!error &&
        (pair.phase == IBV_QPS_RESET || pair.phase == IBV_QPS_INIT || pair.phase == IBV_QPS_RTR)) {
        fabric.violate(Violation::post_state, "a send in state " + std::to_string(pair.phase));
        error = EINVAL;
    }
    ++fabric.posts_.calls;
    unsigned taken = 0;
    for (; request && !error; ++taken) {
        if (planned && (taken == fabric.post_plan_.taken || pair.phase == IBV_QPS_ERR)) break;
        if ((error = check_send(pair, *request))) break;
        ++fabric.posts_.requests;
        fabric.posts_.signaled += (request->send_flags & IBV_SEND_SIGNALED) != 0;
        take_send(pair, *request);
        request = request->next;
    }
    if (planned && !error) {
        error = fabric.post_plan_.error;
        fabric.meet(!request          ? FakePost::all
                    : taken           ? FakePost::some
                    : error == ENOMEM ? FakePost::no_room
                                      : FakePost::none);
    }
    if (error) *bad = fabric.personality_.null_bad_wr ? nullptr : request;
    fabric.posted();
    return error;
}

int FakeTable::post_recv(ibv_qp *handle, ibv_recv_wr *request, ibv_recv_wr **bad) {
    FakeAdapter &adapter = adapter_of(handle->context);
    FakeFabric &fabric = adapter.fabric_;
    const std::lock_guard lock(fabric.mutex_);
    auto &pair = *static_cast<FakeQueuePair *>(handle);
    int error = fabric.alive(&pair) ? 0 : EINVAL;
    if (!error && pair.phase == IBV_QPS_RESET) {
        fabric.violate(Violation::post_state, "a receive in RESET");
        error = EINVAL;
    }
    if (!error && fabric.fails(FakeCall::post_recv)) error = errno;
    for (; request && !error; request = request->next) {
        if (pair.receives_out == pair.cap.max_recv_wr) {
            fabric.violate(Violation::receive_full,
                           "more than " + std::to_string(pair.cap.max_recv_wr));
            error = ENOMEM;
            break;
        }
        if (request->num_sge < 0 ||
            static_cast<uint32_t>(request->num_sge) > pair.cap.max_recv_sge) {
            fabric.violate(Violation::pieces, std::to_string(request->num_sge) + " of a receive");
            error = EINVAL;
            break;
        }
        for (int i = 0; i < request->num_sge; ++i)
            if (request->sg_list[i].length > 0 &&
                !adapter.objects_->local(pair.pd, request->sg_list[i], IBV_ACCESS_LOCAL_WRITE))
                fabric.violate(Violation::lkey, "of piece " + std::to_string(i) + " of a receive");
        pair.receives.push_back(
            {request->wr_id, {request->sg_list, request->sg_list + request->num_sge}});
        ++pair.receives_out;
    }
    if (error) *bad = fabric.personality_.null_bad_wr ? nullptr : request;
    fabric.posted();
    return error;
}

}  // namespace xfer::rdma
