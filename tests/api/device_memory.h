/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of a device's memory share. The driver is a fake (fake_driver.h), whose device
 * memory the CPU can't touch. */
#ifndef XFER_TESTS_API_DEVICE_MEMORY_H
#define XFER_TESTS_API_DEVICE_MEMORY_H

#include <cuda.h>

#include "fake_driver.h"
#include "fixture.h"

enum { kChunk = 256 * 1024, kSlots = 64, kLength = 24 << 20, kHalf = kLength / 2 };

/* Memory of the device, filled as fill() does. */
void *device_memory(uint64_t length, uint64_t seed);
void assert_device_filled(const void *memory, uint64_t length, uint64_t seed, uint64_t skip);
/* Until the driver was asked for so many more copies. */
void await_copies(const char *call, unsigned before, unsigned count);

/* The teardown: fails if the driver was called as it must not be. */
int end_device_test(void **state);

#define DEVICE_TEST(test, at, name) \
    { #test " [" name "]", test, fixture_setup, end_device_test, (void *)&modes[at] }
#define EACH_WAY(test)                                                   \
    DEVICE_TEST(test, 1, "thread/1"), DEVICE_TEST(test, 3, "loop/none"), \
        DEVICE_TEST(test, 6, "poll/none")

#endif
