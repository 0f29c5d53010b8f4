// SPDX-License-Identifier: Apache-2.0
// Where an operation of a connection goes: by a path that reaches its region without the owner, if
// it was imported there, else as a request on a lane.
#pragma once

#include "core/connection/one_sided_rail.h"
#include "core/connection/rail.h"

namespace xfer {

class Route {
public:
    Route(Rail &requests, OneSidedRail &one_sided) : requests_(requests), one_sided_(one_sided) {}

    Lane &lane() const { return requests_.lane; }  // where it is counted
    bool has_room() const {                        // what was declined goes first
        return requests_.has_room() && one_sided_.may_take() && !one_sided_.has_declined();
    }
    Caps caps() const;  // of an operation that goes either way
    void post(Op &op) const;

private:
    Rail &requests_;
    OneSidedRail &one_sided_;
};

}  // namespace xfer
