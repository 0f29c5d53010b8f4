// SPDX-License-Identifier: Apache-2.0
// The edge where a lack of memory ends: see lib/design/0011-memory-on-the-loops.md.
#pragma once

#include <new>

namespace xfer {

// False if memory lacked on the way. Who asks ends what the step was for; that needs none.
template <typename Step>
[[nodiscard]] bool catch_bad_alloc(Step step) {
    try {
        step();
        return true;
    } catch (const std::bad_alloc &) {
        return false;
    }
}

}  // namespace xfer
