// SPDX-License-Identifier: Apache-2.0
// A region of the peer's, as its adapter lets ours reach it.
#pragma once

#include <algorithm>

#include "transport/one_sided.h"
#include "transport/rdma/chain.h"
#include "transport/rdma/export_key.h"

namespace xfer::rdma {

class RemoteRegion final : public Import {
public:
    explicit RemoteRegion(const RegionKeys &of) : Import(of.access, false), keys_(of) {}
    bool holds(const Piece &piece) const {
        return piece.offset <= keys_.length && piece.length <= keys_.length - piece.offset;
    }
    // By one key, and so by one request.
    bool has_in_one_part(const Piece &piece) const {
        const uint64_t last = piece.offset + std::max<uint64_t>(piece.length, 1) - 1;
        return piece.offset / keys_.part_bytes == last / keys_.part_bytes;
    }
    RemoteMemory memory() const {
        return {keys_.base, {keys_.keys.begin(), keys_.keys.size()}, keys_.part_bytes};
    }

private:
    const RegionKeys keys_;
};

}  // namespace xfer::rdma
