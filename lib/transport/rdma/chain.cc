// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/chain.h"

#include <algorithm>

#include "util/check.h"

namespace xfer::rdma {

namespace {

constexpr uint64_t kMaxRequestBytes = uint64_t{1} << 31;  // by the specification of InfiniBand

// Whether all that remains has at most `limit` bytes.
bool is_small(std::span<const Piece> pieces, ChainPosition from, uint64_t limit) {
    uint64_t bytes = 0;
    for (size_t i = from.piece; i < pieces.size(); ++i) {
        const uint64_t rest = pieces[i].length - (i == from.piece ? from.done : 0);
        if (rest > limit - bytes) return false;
        bytes += rest;
    }
    return bytes > 0;
}

}  // namespace

ChainPosition Chain::build(Dir dir, std::span<const Piece> pieces, ChainPosition from,
                           const RemoteMemory &remote, const LocalKeys &keys,
                           const ChainLimits &limits) {
    XFER_CHECK(dir != Dir::atomic && limits.request_bytes > 0);
    const bool is_put = dir == Dir::put;
    const Kind kind = {
        .opcode = is_put ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
        .requests = std::min<uint32_t>(limits.requests, static_cast<uint32_t>(requests_.size())),
        .elements = is_put ? limits.pieces : limits.read_pieces,
        .request_bytes = std::min(limits.request_bytes, kMaxRequestBytes),
    };
    if (is_put && is_small(pieces, from, limits.inline_bytes)) {
        const ChainPosition end = fill(kind, pieces, from, remote, nullptr);
        if (end.piece == pieces.size() && size_ == 1) {
            requests_.front().send_flags |= IBV_SEND_INLINE;
            return end;
        }
    }
    return fill(kind, pieces, from, remote, &keys);
}

void Chain::assign(const ibv_send_wr &request) {
    clear();
    requests_[size_++] = request;
    finish();
}

void Chain::build_send(uint64_t local, uint32_t length, uint32_t lkey, const ChainLimits &limits) {
    XFER_CHECK(length > 0 && length <= limits.request_bytes);
    clear();
    if (limits.requests == 0 || requests_.empty() || elements_.empty()) return;
    ibv_sge &element = elements_[used_++];
    element = {local, length, lkey};
    ibv_send_wr &request = requests_[size_++];
    request = {};
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    bytes_ = length;
    finish();
    if (length <= limits.inline_bytes) request.send_flags |= IBV_SEND_INLINE;
}

void Chain::clear() {
    size_ = 0, used_ = 0, request_bytes_ = 0, bytes_ = 0, lacks_key_ = false;
}

ChainPosition Chain::fill(const Kind &kind, std::span<const Piece> pieces, ChainPosition from,
                          const RemoteMemory &remote, const LocalKeys *keys) {
    clear();
    ChainPosition at = from;
    while (at.piece < pieces.size()) {
        const Piece &piece = pieces[at.piece];
        const uint64_t rest = piece.length - at.done;
        if (rest == 0) {
            at = {at.piece + 1, 0};
            continue;
        }
        const uint64_t local = piece.local + at.done;
        const LocalKey key = keys ? keys->find(local) : LocalKey{0, rest};
        lacks_key_ = key.reach == 0;
        if (lacks_key_) break;
        const uint64_t offset = piece.offset + at.done;
        const uint64_t reach = remote.part_bytes - offset % remote.part_bytes;
        const uint64_t taken =
            append(kind, {local, remote.base + offset, std::min({rest, key.reach, reach}), key.lkey,
                          remote.keys[offset / remote.part_bytes]});
        if (taken == 0) break;
        at.done += taken;
        bytes_ += taken;
    }
    finish();
    return at;
}

// The bytes that went into the chain; 0 where it is full.
uint64_t Chain::append(const Kind &kind, const Range &range) {
    if (const uint64_t taken = extend(kind, range)) return taken;
    if (size_ == kind.requests || used_ == elements_.size()) return 0;
    ibv_sge &element = elements_[used_++];
    request_bytes_ = std::min(range.length, kind.request_bytes);
    element = {range.local, static_cast<uint32_t>(request_bytes_), range.lkey};
    ibv_send_wr &request = requests_[size_++];
    request = {};
    request.sg_list = &element;
    request.num_sge = 1;
    request.opcode = kind.opcode;
    request.wr.rdma.remote_addr = range.remote;
    request.wr.rdma.rkey = range.rkey;
    return request_bytes_;
}

// As append(), of what goes by the last request as well.
uint64_t Chain::extend(const Kind &kind, const Range &range) {
    if (size_ == 0) return 0;
    ibv_send_wr &request = requests_[size_ - 1];
    const bool follows = request.wr.rdma.remote_addr + request_bytes_ == range.remote;
    if (!follows || request.wr.rdma.rkey != range.rkey) return 0;
    const uint64_t taken = std::min(range.length, kind.request_bytes - request_bytes_);
    ibv_sge &last = elements_[used_ - 1];
    if (last.addr + last.length == range.local && last.lkey == range.lkey) {
        last.length += static_cast<uint32_t>(taken);
    } else {
        const bool has_room = static_cast<uint32_t>(request.num_sge) < kind.elements;
        if (taken == 0 || !has_room || used_ == elements_.size()) return 0;
        elements_[used_++] = {range.local, static_cast<uint32_t>(taken), range.lkey};
        ++request.num_sge;
    }
    request_bytes_ += taken;
    return taken;
}

void Chain::finish() {
    if (size_ == 0) return;
    for (uint32_t i = 0; i + 1 < size_; ++i)
        requests_[i].next = &requests_[i + 1];
    requests_[size_ - 1].send_flags = IBV_SEND_SIGNALED;
}

}  // namespace xfer::rdma
