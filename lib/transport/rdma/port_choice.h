// SPDX-License-Identifier: Apache-2.0
// Which port of this host a path takes. Pure; tests/unit/rdma_port_choice_test.cc has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/rdma/port.h"

namespace xfer::rdma {

struct PortCandidate {
    const Port *port;
    size_t paths = 0;    // and links, of all connections, that are on it
    bool taken = false;  // by another path of the same connection
};

// Of those that are active and as fast as any, and not taken: the one whose address has the most
// bits in common with `other`, which rails that are networks of their own share; then those of
// `node`, of which -1 is none; then the one with the fewest paths. After failures it is the next
// one in that order, and so on: networks need not reach each other. `other`: of the end that has
// offered, if one has: an end of the same link layer alone can be its other end. The end that
// offers moves on after every other failure, and takes the fastest of another link layer as well
// where no path of the connection has come about; the end that answers skips one after each round:
// so each pair has its turn.
std::optional<size_t> choose_port(std::span<const PortCandidate> ports, const PortAddress *other,
                                  int node, uint32_t failures);

}  // namespace xfer::rdma
