// SPDX-License-Identifier: Apache-2.0
// Two engines and every order in which their connections can come about: dials from both ends,
// messages that arrive late or never, connections that are cut, an engine that starts anew. Each
// side runs the library's own state machine; what Peer and Connection do with its answers is
// modelled here. Breadth first, so that what goes wrong is told by a shortest history.
#pragma once

#include <cstdint>
#include <string>

namespace xfer {

// How much may happen on the way. Side 0 has the smaller engine id.
struct TwoPeersLimits {
    uint8_t dials[2] = {0, 0};  // of one incarnation
    uint8_t cuts = 0;
    uint8_t restarts[2] = {0, 0};
};

struct TwoPeersResult {
    uint64_t states = 0;
    uint64_t quiet = 0;      // in which nothing more happens by itself
    uint64_t connected = 0;  // of these
    std::string fault;       // empty, or what is wrong and how it came about
};

TwoPeersResult explore_two_peers(const TwoPeersLimits &limits);

}  // namespace xfer
