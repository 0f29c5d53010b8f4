// SPDX-License-Identifier: Apache-2.0
// doctest's implementation and `main`: as much work for the compiler as four files of tests, so it
// is done once.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
