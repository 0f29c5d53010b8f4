// SPDX-License-Identifier: Apache-2.0
// A put, a get, an atomic or a notification of one call.
#pragma once

#include <vector>

#include "core/transfer/transfer.h"

namespace xfer {

class Single : public Transfer {
public:
    std::vector<uint8_t> copied;  // what it puts, if the caller's bytes are his again

    void ended() override {
        Transfer::ended();
        explain(reason);
    }
    void clear() {  // for the next one
        list.clear();
        notifies = quiet = false;
        notify_data.clear();
        copied.clear();
        atomic = {};
        result = nullptr;
        before = 0;
    }

protected:
    ~Single() = default;
};

}  // namespace xfer
