/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the engine makes: a region like any other, and the memory goes with it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fixture.h"

enum { kLength = 300000, kPage = 4096 };

static xfer_status_t alloc(Host *host, const xfer_region_options_t *options, uint64_t length,
                           uint8_t **memory, xfer_region_t **region) {
    void *address = &address;
    *region = (xfer_region_t *)&address;
    xfer_error_t err;
    xfer_status_t status = xfer_region_alloc(host->engine, options, length, &address, region, &err);
    assert_int_equal(err.status, status);
    if (status != XFER_OK) {
        assert_null(address);
        assert_null(*region);
        assert_true(err.message[0] != '\0');
    }
    *memory = address;
    return status;
}

static xfer_region_options_t named(const char *name, uint32_t access) {
    return (xfer_region_options_t){
        .size = sizeof(xfer_region_options_t), .access = access, .name = name};
}

static bool is_mapped(const void *page) {
    unsigned char in_core;
    return mincore((void *)(uintptr_t)page, kPage, &in_core) == 0 || errno != ENOMEM;
}

/* Open descriptors of such memory; the last of them in *one. */
static int memfds_and(int *one) {
    static const char wanted[] = "/memfd:xfer";
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char target[sizeof wanted - 1];
        const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target);
        if (length != sizeof target || memcmp(target, wanted, sizeof target) != 0) continue;
        count++;
        *one = atoi(entry->d_name);
    }
    closedir(folder);
    return count;
}

static int memfds(void) {
    int one;
    return memfds_and(&one);
}

/* The kernel's flags of the mapping that begins there. */
static bool has_flag(const void *memory, const char *flag) {
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    char line[512], begin[32];
    snprintf(begin, sizeof begin, "%lx-", (unsigned long)(uintptr_t)memory);
    bool here = false, found = false;
    while (fgets(line, sizeof line, maps)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            here = strncmp(line, begin, strlen(begin)) == 0;
        if (here && strncmp(line, "VmFlags:", 8) == 0) found = strstr(line, flag) != NULL;
    }
    fclose(maps);
    return found;
}

static void test_life(void **state) {
    Pair pair;
    pair_open(&pair, *state, kLength);
    xfer_region_options_t options = named("made", XFER_READ | XFER_WRITE);
    uint8_t *memory;
    xfer_region_t *region;
    assert_status(alloc(pair.server, &options, kLength, &memory, &region), XFER_OK);
    assert_int_equal(memfds(), 1);
    assert_int_equal((uintptr_t)memory % kPage, 0);
    for (int i = 0; i < kLength; i++)
        assert_int_equal(memory[i], 0);
    xfer_region_info_t info;
    assert_status(xfer_region_info(region, &info, sizeof info), XFER_OK);
    assert_int_equal(info.address, (uintptr_t)memory);
    assert_int_equal(info.length, kLength);
    assert_int_equal(info.kind, XFER_MEM_HOST);

    uint8_t *local = test_memory(kLength);
    fill(local, kLength, 1);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "made");
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, kLength), XFER_OK);
    assert_true(filled(memory, kLength, 1, 0));
    /* Its last page is whole, but what is behind the length is nobody's. */
    assert_status(put_now(pair.client, pair.ep, local, &ref, 1, kLength), XFER_ERANGE);
    fill(memory, kLength, 2);
    assert_status(get_now(pair.client, pair.ep, local, &ref, 0, kLength), XFER_OK);
    assert_true(filled(local, kLength, 2, 0));

    assert_status(xfer_region_close(region), XFER_OK);
    wait_closed(pair.server, region);
    assert_status(get_now(pair.client, pair.ep, local, &ref, 0, 1), XFER_ESTALE);
    const uint64_t end = now_ms() + kPatience;
    while (is_mapped(memory) || memfds()) { /* with its event, not before */
        assert_true(now_ms() < end);
        pass_ms(1);
    }
}

static void test_hints_are_wishes(void **state) {
    Host *host = host_open(*state);
    static const struct {
        uint32_t flags, node;
        uint64_t length;
    } table[] = {
        {XFER_REGION_HUGE_PAGES, 0, 3 << 20},
        {XFER_REGION_HUGE_PAGES, 0, 1},
        {0, 1, kLength},
        {0, 1000, kLength},
        {XFER_REGION_HUGE_PAGES, UINT32_MAX, kLength},
        {0, 0, 1},
        {0, 0, kPage},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_region_options_t options = named("made", XFER_READ);
        options.flags = table[i].flags;
        options.numa_node = table[i].node;
        uint8_t *memory;
        xfer_region_t *region;
        assert_status(alloc(host, &options, table[i].length, &memory, &region), XFER_OK);
        fill(memory, table[i].length, i);
        assert_true(filled(memory, table[i].length, i, 0));
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(host, region);
    }
}

/* What was wished is asked of the kernel; and nobody whom it is given to can cut it short. */
static void test_made_as_wished(void **state) {
    Host *host = host_open(*state);
    xfer_region_options_t options = named("made", XFER_READ);
    options.flags = XFER_REGION_HUGE_PAGES;
    options.numa_node = 1;
    uint8_t *memory;
    xfer_region_t *region;
    assert_status(alloc(host, &options, 4 << 20, &memory, &region), XFER_OK);
    assert_true(has_flag(memory, " ht") || has_flag(memory, " hg")); /* hugetlb, or advised */
    int mode = -1;
    unsigned long nodes[16] = {0};
    const long asked =
        syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, memory, MPOL_F_ADDR);
    if (asked == 0) {
        assert_int_equal(mode, MPOL_PREFERRED);
        assert_int_equal(nodes[0], 1);
    } else {
        assert_int_equal(errno, ENOSYS); /* a kernel that knows one node */
    }
    int fd = -1;
    assert_int_equal(memfds_and(&fd), 1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 8 << 20), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* What can't be made leaves nothing behind. */
static void test_refusals(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory;
    xfer_region_t *first, *region;
    xfer_region_options_t good = named("made", XFER_READ);
    assert_status(alloc(host, &good, kPage, &memory, &first), XFER_OK);
    xfer_region_options_t wrong = good;
    assert_status(alloc(host, &wrong, kPage, &memory, &region), XFER_EEXIST);
    wrong = named("other", XFER_READ);
    assert_status(alloc(host, &wrong, 0, &memory, &region), XFER_EINVAL);
    assert_status(alloc(host, &wrong, UINT64_MAX, &memory, &region), XFER_ENOMEM);
    assert_status(alloc(host, &wrong, INT64_MAX, &memory, &region), XFER_ENOMEM);
    assert_status(alloc(host, &wrong, 1ull << 46, &memory, &region), XFER_ENOMEM);
    wrong.flags = XFER_REGION_HUGE_PAGES;
    assert_status(alloc(host, &wrong, 1ull << 46, &memory, &region), XFER_ENOMEM);
    wrong.flags = 2;
    assert_status(alloc(host, &wrong, kPage, &memory, &region), XFER_EINVAL);
    wrong = named("other", XFER_READ);
    wrong.kind = XFER_MEM_CUDA;
    assert_status(alloc(host, &wrong, kPage, &memory, &region), XFER_EMEMKIND);
    wrong = named("", XFER_READ);
    assert_status(alloc(host, &wrong, kPage, &memory, &region), XFER_EINVAL);
    void *address;
    assert_status(xfer_region_alloc(host->engine, &good, kPage, NULL, &region, NULL), XFER_EINVAL);
    assert_status(xfer_region_alloc(host->engine, &good, kPage, &address, NULL, NULL), XFER_EINVAL);
    assert_int_equal(memfds(), 1);
    assert_int_equal(host_stats(host).regions, 1);
}

/* A handle that outlives its engine holds the memory too. */
static void test_after_the_engine(void **state) {
    Host *host = host_open(*state);
    xfer_region_options_t options = named(NULL, 0);
    uint8_t *memory;
    xfer_region_t *region;
    assert_status(alloc(host, &options, kLength, &memory, &region), XFER_OK);
    host_end(host);
    fill(memory, kLength, 1);
    assert_true(filled(memory, kLength, 1, 0));
    assert_status(xfer_region_close(region), XFER_ECLOSED); /* there was only the shell */
    assert_false(is_mapped(memory));
}

int main(int argc, char **argv) {
    test_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        EACH_MODE(test_life),     EACH_MODE(test_hints_are_wishes), ONE_MODE(test_made_as_wished),
        EACH_MODE(test_refusals), EACH_MODE(test_after_the_engine),
    };
    return run_modes(tests, sizeof tests / sizeof *tests);
}
