// SPDX-License-Identifier: Apache-2.0
// The operations of one loop that are not in use. They are made in blocks and go with the pool.
#pragma once

#include <memory>
#include <vector>

#include "core/base/limits.h"
#include "transport/transport.h"
#include "util/list.h"

namespace xfer {

class OpPool {
public:
    Op &take() {
        if (free_.empty()) {
            blocks_.push_back(std::make_unique<Op[]>(kLaneOps));
            for (uint32_t i = 0; i < kLaneOps; ++i)
                free_.push_back(blocks_.back()[i]);
        }
        return *free_.pop_front();
    }
    void give(Op &op) { free_.push_back(op); }

private:
    std::vector<std::unique_ptr<Op[]>> blocks_;
    List<Op, InTransfer> free_;
};

}  // namespace xfer
