/* SPDX-License-Identifier: Apache-2.0 */
#include "device_memory.h"

#include <stdlib.h>

void *device_memory(uint64_t length, uint64_t seed) {
    uint8_t *bytes = malloc(length);
    void *memory = fake_cuda_alloc(length);
    assert_non_null(memory);
    fill(bytes, length, seed);
    fake_cuda_write(memory, bytes, length);
    free(bytes);
    return memory;
}

void assert_device_filled(const void *memory, uint64_t length, uint64_t seed, uint64_t skip) {
    uint8_t *bytes = malloc(length);
    fake_cuda_read(bytes, memory, length);
    const bool right = filled(bytes, length, seed, skip);
    free(bytes);
    assert_true(right);
}

void await_copies(const char *call, unsigned before, unsigned count) {
    const uint64_t limit = now_ms() + kPatience;
    while (fake_cuda_calls(call) < before + count) {
        assert_true(now_ms() < limit);
        turn(1);
    }
}

int end_device_test(void **state) {
    fake_cuda_hold(0);
    fake_cuda_hold_copies(0);
    fake_cuda_share(0);
    fake_cuda_fail(NULL, 0, 0, 0);
    const int failed = fixture_teardown(state);
    fake_cuda_end_all();
    fake_cuda_own_context(0);
    fake_cuda_lack(NULL);
    if (fake_cuda_calls("wrong") == 0) return failed;
    print_error("ERROR: the driver was called as it must not be\n");
    return -1;
}
