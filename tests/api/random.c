/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs on two engines of one process. */
#include "random.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

static int open_descriptors(void) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

static void test_random(void **state) {
    (void)state;
    static Board here;
    const uint64_t first = first_seed(), count = scripts(200, 1000);
    uv_loop_t first_loop; /* what libuv keeps for a process is there after it */
    assert_int_equal(uv_loop_init(&first_loop), 0);
    assert_int_equal(uv_loop_close(&first_loop), 0);
    const int descriptors = open_descriptors();
    board = &here;
    for (seed = first; seed < first + count; seed++) {
        memset(&here, 0, sizeof here);
        run_script(kBoth);
        if (open_descriptors() != descriptors) broken("descriptors are left open");
        if (here.is_broken) {
            fail_msg("seed %llu: %s; XFER_TEST_SEED=%llu runs it alone", (unsigned long long)seed,
                     here.first_broken, (unsigned long long)seed);
        }
    }
}

static const struct CMUnitTest tests[] = {TEST(test_random)};

TEST_MAIN(tests)
