// SPDX-License-Identifier: Apache-2.0
// Requests, one after the other, as an initiator and its target do them.
#include "fake_verbs_run.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace xfer::rdma {
namespace {

constexpr uint32_t kPsnMask = (1 << 24) - 1;

uint32_t packets(uint64_t bytes, ibv_mtu mtu) {
    const uint64_t unit = uint64_t{128} << mtu;
    return static_cast<uint32_t>(std::max<uint64_t>(1, (bytes + unit - 1) / unit));
}

ibv_wc_opcode opcode_of(ibv_wr_opcode opcode) {
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return IBV_WC_SEND;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_RDMA_WRITE;
    }
}

// Of a completion that is no success only four fields are valid: the others mislead.
ibv_wc failed_entry(uint64_t wr_id, uint32_t number, ibv_wc_status status) {
    ibv_wc entry;
    std::memset(&entry, 0xeb, sizeof entry);
    entry.wr_id = wr_id;
    entry.status = status;
    entry.qp_num = number;
    entry.vendor_err = 0x80u + static_cast<uint32_t>(status);
    return entry;
}

ibv_wc entry_of(uint64_t wr_id, uint32_t number, ibv_wc_opcode opcode, uint64_t bytes) {
    ibv_wc entry{};
    entry.wr_id = wr_id;
    entry.status = IBV_WC_SUCCESS;
    entry.opcode = opcode;
    entry.qp_num = number;
    entry.byte_len = static_cast<uint32_t>(bytes);
    return entry;
}

}  // namespace

bool FakeExecution::run_one() {
    if (pair_.mute) return false;
    if (pair_.phase == IBV_QPS_ERR) return flush_one();
    if (pair_.phase != IBV_QPS_RTS || pair_.reported == pair_.posted) return false;
    const uint64_t at = next();
    if (!execute(at)) return false;
    // The target has seen all that lies before a failure.
    if (pair_.slot(at).status != IBV_WC_SUCCESS)
        for (uint64_t i = pair_.reported; i < at; ++i)
            if (!pair_.slot(i).done) execute(i);
    report();
    if (target_failed_) fail_target();
    return true;
}

// Late reads let others pass, until a fence or the last credit.
uint64_t FakeExecution::next() const {
    uint64_t late = pair_.posted, waiting = 0;
    for (uint64_t i = pair_.reported; i < pair_.posted; ++i) {
        const FakeRequest &request = pair_.slot(i);
        if (request.done) continue;
        const bool may_wait = fabric_.personality_.late_reads && request.is_read();
        const bool fenced = request.request.send_flags & IBV_SEND_FENCE;
        if (waiting > 0 && fenced) return late;
        if (!may_wait) return i;
        if (waiting == 0) late = i;
        if (++waiting >= pair_.attributes.max_rd_atomic) return late;
    }
    return late;
}

bool FakeExecution::flush_one() {
    if (pair_.reported < pair_.posted) {
        FakeRequest &request = pair_.slot(pair_.reported);
        if (fabric_.personality_.late_writes && !request.done) send_late(request);
        request.done = true;
        request.status = IBV_WC_WR_FLUSH_ERR;
        report();
        return true;
    }
    if (pair_.receives.empty()) return false;
    end_receive(pair_,
                failed_entry(pair_.receives.front().wr_id, pair_.qp_num, IBV_WC_WR_FLUSH_ERR),
                false);
    return true;
}

// Its bytes have left. In order: nothing lands behind what does not.
void FakeExecution::send_late(const FakeRequest &request) {
    FakeAdapter *const there = adapter_at(pair_.attributes.ah_attr);
    const bool is_write = request.request.opcode == IBV_WR_RDMA_WRITE;
    pair_.failed |= !is_write;
    if (pair_.failed || !there) return;
    FakePacket packet{&adapter_,
                      there,
                      pair_.qp_num,
                      pair_.attributes.dest_qp_num,
                      pair_.send_psn,
                      request.request.wr.rdma.rkey,
                      request.request.wr.rdma.remote_addr,
                      std::vector<uint8_t>(request.bytes)};
    gather(request, packet.bytes.data());
    pair_.send_psn =
        (pair_.send_psn + packets(request.bytes, pair_.attributes.path_mtu)) & kPsnMask;
    fabric_.on_way_.push_back(std::move(packet));
    ++fabric_.late_writes_;
}

bool FakeExecution::land(FakeFabric &fabric, const FakePacket &packet) {
    const auto &numbers = packet.to->objects_->by_number;
    const auto found = numbers.find(packet.to_pair);
    if (found == numbers.end() || packet.bytes.empty()) return false;
    FakeQueuePair &target = *found->second;
    if (fabric.cuts_.contains(FakeFabric::link(packet.from, packet.to)) ||
        (target.phase != IBV_QPS_RTR && target.phase != IBV_QPS_RTS) ||
        target.attributes.dest_qp_num != packet.from_pair || target.receive_psn != packet.psn)
        return false;
    FakeExecution arrival(fabric, target);
    arrival.target_ = &target;
    arrival.there_ = packet.to->objects_.get();
    uint8_t *const memory =
        arrival.remote(packet.rkey, packet.address, packet.bytes.size(), IBV_ACCESS_REMOTE_WRITE);
    if (!memory) return false;
    std::memcpy(memory, packet.bytes.data(), packet.bytes.size());
    target.receive_psn =
        (target.receive_psn + packets(packet.bytes.size(), target.attributes.path_mtu)) & kPsnMask;
    return true;
}

// False: it waits, without end or for a receive.
bool FakeExecution::execute(uint64_t at) {
    FakeRequest &request = pair_.slot(at);
    ibv_wc_status status = IBV_WC_SUCCESS;
    if (!std::exchange(request.planned, true)) status = fabric_.planned_status(pair_);
    if (status == IBV_WC_SUCCESS) {
        waits_ = answers_lost_ = false;
        status = perform(request);
        if (waits_) return false;
        if (answers_lost_) status = IBV_WC_RETRY_EXC_ERR;
    }
    request.status = status;
    request.done = true;
    return true;
}

// Of what is done, in order: what is signaled, and every failure.
void FakeExecution::report() {
    while (pair_.reported < pair_.posted && pair_.slot(pair_.reported).done) {
        const FakeRequest &request = pair_.slot(pair_.reported++);
        const uint64_t wr_id = request.request.wr_id;
        if (request.status != IBV_WC_SUCCESS) {
            pair_.phase = IBV_QPS_ERR;
            pair_.failed |= request.status != IBV_WC_WR_FLUSH_ERR;
            fabric_.complete(pair_, false,
                             {failed_entry(wr_id, pair_.qp_num, request.status), &pair_, false,
                              false, pair_.reported});
            return;
        }
        if (!pair_.signals(request)) continue;
        const ibv_wc entry =
            entry_of(wr_id, pair_.qp_num, opcode_of(request.request.opcode), request.bytes);
        fabric_.complete(pair_, false, {entry, &pair_, false, false, pair_.reported});
    }
}

ibv_wc_status FakeExecution::perform(FakeRequest &request) {
    if (request.is_local())
        return request.request.opcode == IBV_WR_BIND_MW ? bind(request) : invalidate(request);
    if (!request.is_inline())
        for (const ibv_sge &piece : request.pieces)
            if (piece.length > 0 && !here_.local(pair_.pd, piece, request.local_access()))
                return IBV_WC_LOC_PROT_ERR;
    if ((request.is_read() || request.is_atomic()) && pair_.attributes.max_rd_atomic == 0)
        return IBV_WC_LOC_QP_OP_ERR;
    if (!find_target()) {
        waits_ = pair_.attributes.retry_cnt == 7 || pair_.attributes.timeout == 0;
        return IBV_WC_RETRY_EXC_ERR;
    }
    const ibv_wc_status status = serve(request);
    if (waits_ || status == IBV_WC_RNR_RETRY_EXC_ERR) return status;
    const uint32_t count = packets(request.bytes, pair_.attributes.path_mtu);
    pair_.send_psn = (pair_.send_psn + count) & kPsnMask;
    target_->receive_psn = (target_->receive_psn + count) & kPsnMask;
    return status;
}

ibv_wc_status FakeExecution::serve(FakeRequest &request) {
    switch (request.request.opcode) {
    case IBV_WR_RDMA_WRITE:
        return write(request);
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write_with_imm(request);
    case IBV_WR_RDMA_READ:
        return read(request);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return send(request);
    default:
        return atomic(request);
    }
}

// Null: nobody answers.
FakeAdapter *FakeExecution::adapter_at(const ibv_ah_attr &route) const {
    for (const auto &adapter : fabric_.adapters_) {
        const PortAddress &address = adapter->address_;
        const bool same = route.is_global ? std::memcmp(address.gid.raw, route.grh.dgid.raw,
                                                        sizeof address.gid.raw) == 0
                                          : address.lid != 0 && address.lid == route.dlid;
        if (same) return adapter.get();
    }
    return nullptr;
}

bool FakeExecution::find_target() {
    FakeAdapter *there = adapter_at(pair_.attributes.ah_attr);
    if (!there || there->options_.layer != adapter_.options_.layer) return false;
    const auto cut = fabric_.cuts_.find(FakeFabric::link(&adapter_, there));
    if (cut != fabric_.cuts_.end()) {
        fabric_.meet(cut->second);
        if (cut->second == FakeCut::requests) return false;
        answers_lost_ = true;
    }
    const auto &numbers = there->objects_->by_number;
    const auto found = numbers.find(pair_.attributes.dest_qp_num);
    if (found == numbers.end()) return false;
    FakeQueuePair &target = *found->second;
    if (target.mute ||
        (target.phase != IBV_QPS_RTR && target.phase != IBV_QPS_RTS && target.phase != IBV_QPS_SQD))
        return false;
    if (target.receive_psn != pair_.send_psn) return false;
    if (target.attributes.dest_qp_num != pair_.qp_num ||
        adapter_at(target.attributes.ah_attr) != &adapter_) {
        fabric_.violate(Violation::crossed, "a request reached the queue pair of another");
        return false;
    }
    if (target.attributes.path_mtu != pair_.attributes.path_mtu) {
        fabric_.violate(Violation::mtu, "the two ends differ");
        return false;
    }
    target_ = &target;
    there_ = there->objects_.get();
    return true;
}

ibv_wc_status FakeExecution::refuse(ibv_wc_status status) {
    target_failed_ = true;
    return status;
}

void FakeExecution::fail_target() {
    fabric_.enter_error(*target_, IBV_EVENT_QP_ACCESS_ERR);
}

// Null: refused.
uint8_t *FakeExecution::remote(uint32_t rkey, uint64_t address, uint64_t bytes,
                               unsigned access) const {
    const auto found = there_->by_rkey.find(rkey);
    if (found == there_->by_rkey.end()) return by_window(rkey, address, bytes, access);
    const FakeRegion *region = found->second;
    const bool open = region->pd == target_->pd && region->covers(address, bytes) &&
                      (region->access & access) && (target_->attributes.qp_access_flags & access);
    return open ? region->at(address) : nullptr;
}

// From the pieces, or what was inline, to one place.
void FakeExecution::gather(const FakeRequest &request, uint8_t *to) const {
    if (request.is_inline() && !request.inlined.empty())
        std::memcpy(to, request.inlined.data(), request.inlined.size());
    for (const ibv_sge &piece : request.pieces) {
        if (piece.length == 0) continue;
        std::memmove(to, here_.local(pair_.pd, piece, 0)->at(piece.addr), piece.length);
        to += piece.length;
    }
}

void FakeExecution::scatter(const FakeAdapter::Objects &objects, const ibv_pd *domain,
                            const std::vector<ibv_sge> &pieces, const uint8_t *from,
                            uint64_t bytes) {
    for (const ibv_sge &piece : pieces) {
        const uint64_t part = std::min<uint64_t>(piece.length, bytes);
        if (part == 0) continue;
        std::memmove(objects.local(domain, piece, 0)->at(piece.addr), from, part);
        from += part;
        bytes -= part;
    }
}

ibv_wc_status FakeExecution::write(const FakeRequest &request) {
    if (request.bytes == 0) return IBV_WC_SUCCESS;
    const auto &to = request.request.wr.rdma;
    uint8_t *memory = remote(to.rkey, to.remote_addr, request.bytes, IBV_ACCESS_REMOTE_WRITE);
    if (!memory) return refuse(IBV_WC_REM_ACCESS_ERR);
    gather(request, memory);
    return IBV_WC_SUCCESS;
}

// That the target is not ready is an answer, too.
ibv_wc_status FakeExecution::not_ready() {
    waits_ = pair_.attributes.rnr_retry == 7 && !answers_lost_;
    return IBV_WC_RNR_RETRY_EXC_ERR;
}

ibv_wc_status FakeExecution::write_with_imm(const FakeRequest &request) {
    if (target_->receives.empty()) return not_ready();
    const ibv_wc_status status = write(request);
    if (status != IBV_WC_SUCCESS) return status;
    ibv_wc entry = entry_of(target_->receives.front().wr_id, target_->qp_num,
                            IBV_WC_RECV_RDMA_WITH_IMM, request.bytes);
    entry.wc_flags = IBV_WC_WITH_IMM;
    entry.imm_data = request.request.imm_data;
    end_receive(*target_, entry, request.request.send_flags & IBV_SEND_SOLICITED);
    return IBV_WC_SUCCESS;
}

ibv_wc_status FakeExecution::send(const FakeRequest &request) {
    if (target_->receives.empty()) return not_ready();
    const FakeReceive &receive = target_->receives.front();
    uint64_t room = 0;
    bool covered = true;
    for (const ibv_sge &piece : receive.pieces) {
        room += piece.length;
        if (piece.length > 0 && !there_->local(target_->pd, piece, IBV_ACCESS_LOCAL_WRITE))
            covered = false;
    }
    const auto fail = [&](ibv_wc_status here, ibv_wc_status there) {
        end_receive(*target_, failed_entry(receive.wr_id, target_->qp_num, there), false);
        return refuse(here);
    };
    if (request.bytes > room) return fail(IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
    if (!covered) return fail(IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
    std::vector<uint8_t> bytes(request.bytes);
    gather(request, bytes.data());
    scatter(*there_, target_->pd, receive.pieces, bytes.data(), bytes.size());
    ibv_wc entry = entry_of(receive.wr_id, target_->qp_num, IBV_WC_RECV, request.bytes);
    if (request.request.opcode == IBV_WR_SEND_WITH_IMM) {
        entry.wc_flags = IBV_WC_WITH_IMM;
        entry.imm_data = request.request.imm_data;
    }
    end_receive(*target_, entry, request.request.send_flags & IBV_SEND_SOLICITED);
    return IBV_WC_SUCCESS;
}

void FakeExecution::end_receive(FakeQueuePair &pair, const ibv_wc &entry, bool solicited) {
    pair.receives.pop_front();
    fabric_.complete(pair, true, {entry, &pair, true, solicited, 0});
}

// Reads and atomics: whether the target takes as many as the initiator may have under way.
bool FakeExecution::has_credits() {
    if (pair_.attributes.max_rd_atomic <= target_->attributes.max_dest_rd_atomic) return true;
    fabric_.violate(Violation::reads, "more at once than the other end takes");
    return false;
}

ibv_wc_status FakeExecution::read(const FakeRequest &request) {
    if (!has_credits()) return refuse(IBV_WC_REM_INV_REQ_ERR);
    if (request.bytes == 0) return IBV_WC_SUCCESS;
    const auto &from = request.request.wr.rdma;
    const uint8_t *memory =
        remote(from.rkey, from.remote_addr, request.bytes, IBV_ACCESS_REMOTE_READ);
    if (!memory) return refuse(IBV_WC_REM_ACCESS_ERR);
    if (!answers_lost_) scatter(here_, pair_.pd, request.pieces, memory, request.bytes);
    return IBV_WC_SUCCESS;
}

ibv_wc_status FakeExecution::atomic(const FakeRequest &request) {
    const auto &at = request.request.wr.atomic;
    if (!has_credits() || request.bytes != 8 || at.remote_addr % 8 != 0)
        return refuse(IBV_WC_REM_INV_REQ_ERR);
    uint8_t *memory = remote(at.rkey, at.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (!memory || adapter_of(target_->context).options_.atomics == IBV_ATOMIC_NONE)
        return refuse(IBV_WC_REM_ACCESS_ERR);
    std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t *>(memory));
    uint64_t old = at.compare_add;
    if (request.request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        old = word.fetch_add(at.compare_add);
    else
        word.compare_exchange_strong(old, at.swap);
    if (!answers_lost_)
        scatter(here_, pair_.pd, request.pieces, reinterpret_cast<const uint8_t *>(&old), 8);
    return IBV_WC_SUCCESS;
}

ibv_wc_status FakeFabric::planned_status(FakeQueuePair &pair) {
    ibv_wc_status status = IBV_WC_SUCCESS;
    for (RequestPlan &plan : request_plans_)
        if ((!plan.pair || plan.pair == &pair) && plan.after > 0 && --plan.after == 0)
            meet(status = plan.status);
    std::erase_if(request_plans_, [](const RequestPlan &plan) { return plan.after == 0; });
    return status;
}

void FakeFabric::land() {
    const std::lock_guard lock(mutex_);
    if (on_way_.empty()) return;
    landed_ += FakeExecution::land(*this, on_way_.front());
    on_way_.pop_front();
}

uint64_t FakeFabric::late_writes() {
    const std::lock_guard lock(mutex_);
    return late_writes_;
}

uint64_t FakeFabric::landed() {
    const std::lock_guard lock(mutex_);
    return landed_;
}

bool FakeFabric::step_next() {
    for (size_t i = 0; i < pairs_.size(); ++i) {
        turn_ = (turn_ + 1) % pairs_.size();
        if (FakeExecution(*this, *pairs_[turn_]).run_one()) return true;
    }
    return false;
}

size_t FakeFabric::run_all() {
    size_t count = 0;
    while (step_next())
        ++count;
    return count;
}

bool FakeFabric::step() {
    const std::lock_guard lock(mutex_);
    return step_next();
}

bool FakeFabric::step(ibv_qp *pair) {
    const std::lock_guard lock(mutex_);
    return FakeExecution(*this, *static_cast<FakeQueuePair *>(pair)).run_one();
}

size_t FakeFabric::run() {
    const std::lock_guard lock(mutex_);
    return run_all();
}

}  // namespace xfer::rdma
