// SPDX-License-Identifier: Apache-2.0
// The path of a channel that could not start: it takes nothing.
#pragma once

#include "transport/path.h"

namespace xfer::shm {

class NoPath final : public Path {
public:
    Caps caps() const override { return {Scope::host, 0, kMaxChunk, kMaxPieces}; }
    bool post(Op &) override { return false; }
    void flush() override {}
    bool cancel(Op &) override { return true; }
    bool retire(Target, Status) override { return true; }
    void discard(NotificationId) override {}
};

}  // namespace xfer::shm
