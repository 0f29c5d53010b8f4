// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/chain.h"

#include <algorithm>

namespace xfer::rdma {

namespace {

constexpr uint64_t kMaxElement = uint64_t{1} << 31;  // bytes: what a device's element can say

bool lies_in(const Piece &piece, const RemoteMemory &remote) {
    return piece.offset <= remote.length && piece.length <= remote.length - piece.offset;
}

}  // namespace

Chain::Chain(const ChainLimits &limits)
    : limits_(limits),
      requests_(limits.requests),
      elements_(size_t{limits.requests} * std::max(limits.pieces, limits.read_pieces)) {}

Chain::Run Chain::run(const Piece &piece, uint64_t done, const LocalKeys &local,
                      const RemoteMemory &remote) const {
    const uint64_t offset = piece.offset + done;
    const uint64_t part = offset / remote.part_bytes;
    Run run;
    run.local = piece.local + done;
    run.remote = remote.base + offset;
    const LocalKeys::Key key = local.look(run.local);
    run.lkey = key.lkey;
    run.rkey = remote.keys[part];
    run.length = std::min({piece.length - done, key.reach, kMaxElement, limits_.bytes,
                           (part + 1) * remote.part_bytes - offset});
    return run;
}

// Behind the last element of the last request.
bool Chain::merge(const Run &run) {
    if (count_ == 0) return false;
    ibv_send_wr &last = requests_[count_ - 1];
    if (last.wr.rdma.rkey != run.rkey || run.length > limits_.bytes - request_bytes_) return false;
    if (last.wr.rdma.remote_addr + request_bytes_ != run.remote) return false;
    ibv_sge &element = last.sg_list[last.num_sge - 1];
    const bool adjoins = element.addr + element.length == run.local && element.lkey == run.lkey &&
                         run.length <= kMaxElement - element.length;
    const uint32_t most = last.opcode == IBV_WR_RDMA_READ ? limits_.read_pieces : limits_.pieces;
    if (!adjoins && static_cast<uint32_t>(last.num_sge) == most) return false;
    if (adjoins)
        element.length += static_cast<uint32_t>(run.length);
    else
        last.sg_list[last.num_sge++] = {run.local, static_cast<uint32_t>(run.length), run.lkey};
    return true;
}

// False: there is no request left for it.
bool Chain::add(Dir dir, const Run &run) {
    const bool merged = merge(run);
    if (!merged && count_ == requests_.size()) return false;
    if (!merged) {
        const size_t per_request = elements_.size() / requests_.size();
        ibv_send_wr &request = requests_[count_];
        request = {};
        request.sg_list = &elements_[count_ * per_request];
        request.sg_list[0] = {run.local, static_cast<uint32_t>(run.length), run.lkey};
        request.num_sge = 1;
        request.opcode = dir == Dir::put ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
        request.wr.rdma.remote_addr = run.remote;
        request.wr.rdma.rkey = run.rkey;
        if (count_++) requests_[count_ - 2].next = &request;
        request_bytes_ = 0;
    }
    request_bytes_ += run.length;
    bytes_ += run.length;
    return true;
}

// A small write alone goes inline: the device need not fetch it, and asks for no key.
void Chain::finish(Dir dir, uint64_t id) {
    for (uint32_t i = 0; i < count_; ++i)
        requests_[i].wr_id = id;
    if (count_ == 0) return;
    ibv_send_wr &last = requests_[count_ - 1];
    last.send_flags = IBV_SEND_SIGNALED;
    if (dir == Dir::put && count_ == 1 && bytes_ <= limits_.inline_bytes)
        last.send_flags |= IBV_SEND_INLINE;
}

Chain::End Chain::build(Dir dir, std::span<const Piece> pieces, const LocalKeys &local,
                        const RemoteMemory &remote, uint64_t id, Progress &from) {
    count_ = 0;
    bytes_ = request_bytes_ = 0;
    for (const Piece &piece : pieces.subspan(from.at))
        if (!lies_in(piece, remote)) return End::outside;
    End end = End::all;
    while (from.at < pieces.size()) {
        const Piece &piece = pieces[from.at];
        if (from.done == piece.length) {
            from = {from.at + 1, 0};
            continue;
        }
        const Run next = run(piece, from.done, local, remote);
        if (next.length == 0 || !add(dir, next)) {
            end = next.length == 0 ? End::local_key : End::full;
            break;
        }
        from.done += next.length;
    }
    finish(dir, id);
    return end;
}

}  // namespace xfer::rdma
