/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of every kind that a host without a GPU has: what the engine says of it, hints that are
 * wrong, and memory that is not there. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

static const uint8_t constant[8192] = {1, 2, 3};

static void test_host_memory(void **state) {
    Pair pair;
    pair_open(&pair, *state, 8192);
    uint8_t stack[8192];
    int fd = memfd_create("kind", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 8192), 0);
    void *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    void *anonymous = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    close(fd);
    void *const memories[] = {stack, shared, anonymous, test_memory(8192)};
    for (int i = 0; i < 4; i++) {
        fill(memories[i], 8192, (uint64_t)i);
        xfer_region_t *region =
            open_region(pair.server, "kind", XFER_READ | XFER_WRITE, memories[i], 8192);
        xfer_region_info_t info;
        xfer_ref_info_t ref_info;
        assert_status(xfer_region_info(region, &info, sizeof info), XFER_OK);
        assert_int_equal(info.kind, XFER_MEM_HOST);
        xfer_ref_t ref = look_up(pair.client, pair.ep, "kind");
        assert_status(xfer_ref_info(&ref, &ref_info, sizeof ref_info), XFER_OK);
        assert_int_equal(ref_info.kind, XFER_MEM_HOST);
        uint8_t *local = test_memory(8192);
        assert_status(get_now(pair.client, pair.ep, local, &ref, 0, 8192), XFER_OK);
        assert_true(filled(local, 8192, (uint64_t)i, 0));
        assert_status(put_now(pair.client, pair.ep, memories[i], &pair.ref, 0, 8192), XFER_OK);
        assert_true(filled(pair.memory, 8192, (uint64_t)i, 0));
        assert_status(put_now(pair.client, pair.ep, constant, &ref, 0, 8192), XFER_OK);
        assert_memory_equal(memories[i], constant, 8192);
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(pair.server, region);
    }
    munmap(shared, 8192);
    munmap(anonymous, 8192);
}

/* A hint is checked, never believed. */
static void test_wrong_hints(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(64);
    const uint32_t kinds[] = {XFER_MEM_CUDA, XFER_MEM_HIP, XFER_MEM_ZE, XFER_MEM_FILE};
    for (int i = 0; i < 4; i++) {
        xfer_region_options_t options = {
            .size = sizeof options, .access = XFER_READ, .kind = kinds[i], .name = "k"};
        xfer_region_t *region = NULL;
        xfer_error_t err;
        assert_status(xfer_region_open(host->engine, &options, memory, 64, &region, &err),
                      XFER_EMEMKIND);
        assert_true(err.message[0] != '\0');
    }
    assert_int_equal(host_stats(host).regions, 0);
}

/* ---- memory that is not there: the user's mistake costs that operation, not the process ---- */

static uint8_t *protected(int protection, uint64_t length) {
    void *memory = mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static void assert_still_works(Pair *pair) {
    uint8_t *local = test_memory(4096);
    fill(local, 4096, 3);
    uint64_t end = now_ms() + kPatience;
    /* The connection may have been the price; it comes back by itself. */
    while (put_now(pair->client, pair->ep, local, &pair->ref, 0, 4096) != XFER_OK)
        assert_true(now_ms() < end);
    assert_true(filled(pair->memory, 4096, 3, 0));
}

/* Bytes that come in are partly copied by the library itself, where a wrong pointer ends as in any
 * program; bytes that go out are read by the kernel, which tells. */
static void test_bad_source(void **state) {
    Pair pair;
    const uint64_t length = 1 << 20;
    pair_open(&pair, *state, length);
    uint8_t *nothing = protected(PROT_NONE, length);
    const uint64_t sizes[] = {8, 4096, length};
    for (int i = 0; i < 3; i++) {
        assert_true(put_now(pair.client, pair.ep, nothing, &pair.ref, 0, sizes[i]) != XFER_OK);
        assert_still_works(&pair);
    }
    munmap(nothing, length);
}

static void test_bad_region(void **state) {
    Pair pair;
    const uint64_t length = 1 << 20;
    pair_open(&pair, *state, length);
    uint8_t *nothing = protected(PROT_NONE, length);
    uint8_t *local = test_memory(length);
    open_region(pair.server, "nothing", XFER_READ, nothing, length);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "nothing");
    const uint64_t sizes[] = {8, 4096, length};
    for (int i = 0; i < 3; i++) {
        assert_true(get_now(pair.client, pair.ep, local, &ref, 0, sizes[i]) != XFER_OK);
        assert_still_works(&pair);
    }
    host_end(pair.client);
    host_end(pair.server);
    munmap(nothing, length);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_host_memory),
    EACH_DISPATCH(test_wrong_hints),
    EACH_MODE(test_bad_source),
    EACH_MODE(test_bad_region),
};

TEST_MAIN(tests)
