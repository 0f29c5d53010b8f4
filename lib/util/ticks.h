// SPDX-License-Identifier: Apache-2.0
// A counter of the processor: what it says of two moments is compared, and never taken for a time.
#pragma once

#include <cstdint>

namespace xfer {

#if defined(__x86_64__)
// Goes at 1 to 5 GHz, whatever the processor's own clock does, and is read in less than half the
// time of clock_gettime, as nothing waits for it.
constexpr bool kHasTicks = true;
inline uint64_t ticks() {
    return __builtin_ia32_rdtsc();
}
#else
constexpr bool kHasTicks = false;
inline uint64_t ticks() {
    return 0;
}
#endif

}  // namespace xfer
