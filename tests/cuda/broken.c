/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel of the application that fails takes its context with it, for good: host memory goes on,
 * and device memory is no way into the process. */
#include "fixture.h"
#include "gpu.h"

enum { kSize = 1 << 20 };

static const char trap[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry fails() { trap; }\n";

static void test_broken_context(void **state) {
    const char *why = gpu_open();
    CUmodule module;
    CUfunction fails;
    CUdeviceptr device;
    Pair pair;
    if (why != NULL) {
        print_message("skipped: no GPU: %s\n", why);
        skip();
    }
    GPU(cuMemAlloc(&device, kSize));
    GPU(cuModuleLoadData(&module, trap));
    GPU(cuModuleGetFunction(&fails, module, "fails"));
    pair_open(&pair, *state, kSize);
    GPU(cuLaunchKernel(fails, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    assert_int_not_equal(gpu.cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_not_equal(gpu.cuMemsetD8(device, 0, kSize), CUDA_SUCCESS); /* it stays so */

    uint8_t *local = test_memory(kSize);
    fill(local, kSize, 1);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kSize), XFER_OK);
    assert_true(filled(pair.memory, kSize, 1, 0));
    const uint64_t sizes[] = {8, 4096, kSize};
    for (int i = 0; i < 3; i++)
        assert_true(put_now(pair.client, pair.ep, (void *)device, &pair.ref, 0, sizes[i]) !=
                    XFER_OK);
}

static const struct CMUnitTest tests[] = {ONE_MODE(test_broken_context)};

TEST_MAIN(tests)
