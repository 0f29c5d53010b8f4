// SPDX-License-Identifier: Apache-2.0
#include "core/connection/route.h"

#include <algorithm>

namespace xfer {

Caps Route::caps() const {
    Caps caps = requests_.caps;
    if (!one_sided_.path) return caps;
    caps.max_bytes = std::min(caps.max_bytes, one_sided_.caps.max_bytes);
    caps.max_pieces = std::min(caps.max_pieces, one_sided_.caps.max_pieces);
    return caps;
}

void Route::post(Op &op) const {
    op.sent = op.left = op.canceled = op.unwanted = op.unmapped = false;
    op.device_error = 0;
    op.moved = Moved::frames;
    op.import = one_sided_.path ? one_sided_.import_for(op) : nullptr;
    op.import ? one_sided_.post(op) : requests_.post(op);
}

}  // namespace xfer
