// SPDX-License-Identifier: Apache-2.0
// What is being added to a batch: all of it, or nothing.
#pragma once

#include "core/transfer/batch.h"

namespace xfer {

// Takes back what has been added since, unless it is kept: also where memory lacked half-way.
class Addition {
public:
    explicit Addition(Batch &batch)
        : batch_(batch), remotes_(batch.remotes.size()), mark_(batch.list.mark()) {}
    Addition(const Addition &) = delete;
    Addition &operator=(const Addition &) = delete;
    ~Addition() {
        if (kept_) return;
        batch_.remotes.resize(remotes_);
        batch_.list.cut(mark_);
    }
    Status keep() {
        kept_ = true;
        return XFER_OK;
    }

private:
    Batch &batch_;
    const size_t remotes_;
    const PieceList::Mark mark_;
    bool kept_ = false;
};

}  // namespace xfer
