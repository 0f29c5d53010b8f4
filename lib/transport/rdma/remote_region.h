// SPDX-License-Identifier: Apache-2.0
// A region of the peer's, as its adapter lets ours reach it.
#pragma once

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
    RemoteMemory memory() const {
        return {keys_.base, {keys_.keys.begin(), keys_.keys.size()}, keys_.part_bytes};
    }

private:
    const RegionKeys keys_;
};

}  // namespace xfer::rdma
