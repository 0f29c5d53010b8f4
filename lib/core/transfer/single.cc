// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/single.h"

#include "core/engine/engine.h"

namespace xfer {

Single::Single(Engine &owner) : engine(owner), cover_(owner.cancel_requests()) {}

void Single::released() {
    engine.give_single(*this);
}

const uint8_t *Single::copy(const uint8_t *data, uint64_t length) {
    copied_.assign(data, data + length);
    return copied_.data();
}

void Single::clear() {
    list.clear();
    notifies = ordered = quiet = false;
    notify_data.clear();
    copied_.clear();
    role = Role::moves;
    letter = {};
    atomic = {};
    result = nullptr;
    before = 0;
}

}  // namespace xfer
