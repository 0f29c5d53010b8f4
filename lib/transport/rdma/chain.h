// SPDX-License-Identifier: Apache-2.0
// From pieces, or a message, to work requests, which ibv_post_send takes as a list. Neighbours on
// the remote side go by one request with several scatter/gather elements; neighbours on both sides
// by one element.
// The last request is signaled, and no other. No verbs call is made, and no memory is taken.
// Thread: any, one at a time for a chain.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "transport/pieces.h"

namespace xfer::rdma {

struct LocalKey {
    uint32_t lkey = 0;
    uint64_t reach = 0;  // bytes from the address on that it is for; 0: it is not registered
};

// Which registration an address of this process lies in.
class LocalKeys {
public:
    virtual LocalKey find(uint64_t address) const = 0;

protected:
    ~LocalKeys() = default;
};

// A remote region as this path reaches it: in parts that no request crosses, each with a key of its
// own.
struct RemoteMemory {
    uint64_t base = 0;  // the address of offset 0
    std::span<const uint32_t> keys;
    uint64_t part_bytes = UINT64_MAX;  // of each but the last
};

// What was granted, not what was asked for.
struct ChainLimits {
    uint32_t requests = 1;       // of a chain
    uint32_t pieces = 1;         // scatter/gather elements of a write
    uint32_t read_pieces = 1;    // of a read
    uint64_t request_bytes = 1;  // of the port's max_msg_sz; at most 2^31 counts
    uint32_t inline_bytes = 0;   // 0 where the CPU can't read the local memory, as of a GPU
};

// How far pieces are posted.
struct ChainPosition {
    size_t piece = 0;
    uint64_t done = 0;  // bytes of that piece
    bool operator==(const ChainPosition &) const = default;
};

// Work requests in memory of the caller's, which is to live until it is posted. Adapters read the
// bytes of an inlined request while it is posted, and those of others until it has completed.
class Chain {
public:
    // At most as many requests and elements as there are, whatever the limits say.
    Chain(std::span<ibv_send_wr> requests, std::span<ibv_sge> elements)
        : requests_(requests), elements_(elements) {}

    // Builds anew, from `from` on, as much as fits. Returns how far it came: at the end of the
    // pieces or where the limits are reached; at a piece whose address no key is for, which is
    // also told by lacks_key(). Pieces without bytes need no request: of nothing but those the
    // chain is empty. `dir` is put or get. Who calls has checked that the pieces lie in the region.
    ChainPosition build(Dir dir, std::span<const Piece> pieces, ChainPosition from,
                        const RemoteMemory &remote, const LocalKeys &keys,
                        const ChainLimits &limits);
    // Builds anew: a message to a receive of the peer, of at least one byte and at most
    // `request_bytes`, by one request of one element. What is inlined needs no key. Where there is
    // no room the chain is empty.
    void build_send(uint64_t local, uint32_t length, uint32_t lkey, const ChainLimits &limits);

    // This request alone, which moves no bytes.
    void assign(const ibv_send_wr &request);

    bool empty() const { return size_ == 0; }
    uint32_t size() const { return size_; }  // requests
    uint64_t bytes() const { return bytes_; }
    size_t elements() const { return used_; }
    bool lacks_key() const { return lacks_key_; }
    std::span<ibv_send_wr> requests() { return requests_.first(size_); }  // linked by `next`

private:
    // What all requests of one build have in common.
    struct Kind {
        ibv_wr_opcode opcode;
        uint32_t requests, elements;  // of the chain, of a request
        uint64_t request_bytes;
    };
    // A range that is contiguous on both sides, and of one registration on each.
    struct Range {
        uint64_t local, remote, length;
        uint32_t lkey, rkey;
    };
    void clear();
    // Without keys, lkeys are 0.
    ChainPosition fill(const Kind &kind, std::span<const Piece> pieces, ChainPosition from,
                       const RemoteMemory &remote, const LocalKeys *keys);
    uint64_t append(const Kind &kind, const Range &range);
    uint64_t extend(const Kind &kind, const Range &range);
    void finish();

    std::span<ibv_send_wr> requests_;
    std::span<ibv_sge> elements_;
    uint32_t size_ = 0;
    size_t used_ = 0;             // elements
    uint64_t request_bytes_ = 0;  // of the last request
    uint64_t bytes_ = 0;
    bool lacks_key_ = false;
};

}  // namespace xfer::rdma
