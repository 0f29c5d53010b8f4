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
    Ref<Endpoint> clear() {  // for the next one; returns its endpoint
        list.clear();
        notifies = quiet = false;
        notify_data.clear();
        copied.clear();
        atomic = {};
        result = nullptr;
        before = 0;
        return Ref<Endpoint>::adopt(ep);
    }

protected:
    ~Single() = default;
};

}  // namespace xfer
