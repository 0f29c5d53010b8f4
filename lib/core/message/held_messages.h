// SPDX-License-Identifier: Apache-2.0
// How much memory the messages take that wait for their receive: one sum for the engine, and one
// for each sender, so that no sender takes what is there for all. What a sender left behind counts
// on: it was told that the message is held. Pure.
#pragma once

#include <cstdint>
#include <map>

#include "wire/hello.h"

namespace xfer {

class HeldMessages {
public:
    // Counts a message with that much payload. False: past a bound, nothing was counted. Throws
    // std::bad_alloc, and has counted nothing then.
    bool take(const EngineId &sender, uint64_t payload);
    void give_back(const EngineId &sender, uint64_t payload);
    bool empty() const { return total_ == 0; }
    uint64_t total() const { return total_; }

private:
    uint64_t total_ = 0;
    std::map<EngineId, uint64_t> by_sender_;
};

}  // namespace xfer
