// SPDX-License-Identifier: Apache-2.0
// A put, a get, an atomic or a notification of one call: from the engine's pool and back to it.
#pragma once

#include <vector>

#include "core/transfer/transfer.h"

namespace xfer {

class Single final : public Transfer {
public:
    explicit Single(Engine &owner);
    void released() override;  // back to the engine's pool
    // The bytes at `data`, which are the caller's again: where they are until then.
    const uint8_t *copy(const uint8_t *data, uint64_t length);
    void clear();  // for the next one
    Engine &engine;

private:
    std::vector<uint8_t> copied_;
    const CancelCover cover_;
};

}  // namespace xfer
