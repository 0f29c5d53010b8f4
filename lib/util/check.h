// SPDX-License-Identifier: Apache-2.0
// Broken invariants of our own end the process, in release builds too. Nothing that a peer, a
// user's argument or the operating system can cause may be checked with this.
#pragma once

#include <cstdio>
#include <cstdlib>

#define XFER_CHECK(condition)                                                                  \
    do {                                                                                       \
        if (!(condition)) [[unlikely]] {                                                       \
            std::fprintf(stderr, "libxfer: %s:%d: broken invariant: %s\n", __FILE__, __LINE__, \
                         #condition);                                                          \
            std::abort();                                                                      \
        }                                                                                      \
    } while (0)
