// SPDX-License-Identifier: Apache-2.0
// Two engines, A and B, and every order in which their connections can come about: dials from both
// ends, messages that arrive late or never, connections that are cut, an engine that starts anew;
// and a third engine, Z, that is taken for B. Each side runs the library's own state machine; what
// Peer and Connection do with its answers is modelled in two_peers_move.cc. Breadth first, so that
// what goes wrong is told by a shortest history.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "two_peers_world.h"

namespace xfer {

struct TwoPeersResult {
    uint64_t states = 0;
    uint64_t quiet = 0;      // in which nothing more happens by itself
    uint64_t connected = 0;  // of these
    uint64_t again = 0;      // states on the way from the others to a connection
    std::set<Transition> transitions;
    std::string fault;  // empty, or what is wrong and how it came about
};

TwoPeersResult explore_two_peers(const TwoPeersLimits &limits);

}  // namespace xfer
