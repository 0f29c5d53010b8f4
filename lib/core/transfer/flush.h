// SPDX-License-Identifier: Apache-2.0
// An xfer_ep_flush: ordered, so that it waits for all before it, and has nothing to do itself. Its
// event tells the first failure among them.
#pragma once

#include "core/transfer/operation.h"

namespace xfer {

class Flush : public Operation {
public:
    bool start() override { return false; }
    bool begun() const override { return false; }
    bool stays() override { return false; }
    void withdraw() override;
    void connection_lost(Connection &) override {}
    void ended() override;
    void settle(FirstFailure &failures) override;

    Ref<Endpoint> clear() {  // for the next one; returns its endpoint
        ordered = false;
        return Ref<Endpoint>::adopt(ep);
    }

protected:
    ~Flush() = default;
};

}  // namespace xfer
