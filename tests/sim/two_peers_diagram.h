// SPDX-License-Identifier: Apache-2.0
// The state diagram of one contact in Mermaid's words, from what the machine was seen to do.
#pragma once

#include <set>
#include <string>

#include "two_peers_world.h"

namespace xfer {

std::string diagram_of(const std::set<Transition> &transitions);

}  // namespace xfer
