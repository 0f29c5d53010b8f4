// SPDX-License-Identifier: Apache-2.0
// The live connections of one loop by number, and why the latest others ended: a receive may have
// matched a message of theirs on another loop.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "core/base/limits.h"
#include "xfer/xfer.h"

namespace xfer {

class Connection;

class ConnectionTable {
public:
    struct End {
        uint32_t origin = XFER_ORIGIN_NONE;
        int32_t native = 0;
    };

    void add(Connection &connection);
    void remove(const Connection &connection);  // it has ended, and says why
    Connection *find(uint64_t number) const;
    End end_of(uint64_t number) const;

private:
    struct Ended {
        uint64_t number = 0;
        End end;
    };
    std::unordered_map<uint64_t, Connection *> live_;
    std::array<Ended, kRecentEnds> ended_;  // by number
};

}  // namespace xfer
