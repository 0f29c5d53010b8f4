/* SPDX-License-Identifier: Apache-2.0
 *
 * Managed memory, whose pages move between host and device. Where the CPU may touch it, it is the
 * host's, and no adapter may keep its pages (the fake of their library tells the fake driver what
 * is registered, and that fails the test); else it is copied as memory of a device. */
#include <string.h>

#include "device_memory.h"

typedef struct Lent {
    Pair pair;
    uint8_t *near, *far; /* of the client, and of the server */
    xfer_region_t *regions[2];
    xfer_ref_t ref; /* of the far one */
    xfer_ref_t grant;
} Lent;

static uint8_t *managed_memory(uint64_t seed, int concurrent) {
    uint8_t *memory = fake_cuda_alloc_managed(kLength, concurrent), *bytes = test_memory(kLength);
    assert_non_null(memory);
    fill(bytes, kLength, seed);
    fake_cuda_write(memory, bytes, kLength);
    return memory;
}

static void lend(Lent *lent, const Mode *mode, int concurrent) {
    const uint32_t access = XFER_READ | XFER_WRITE;
    pair_open(&lent->pair, mode, kLength);
    lent->near = managed_memory(1, concurrent);
    lent->far = managed_memory(2, concurrent);
    lent->regions[0] = open_region(lent->pair.client, "near", access, lent->near, kLength);
    lent->regions[1] = open_region(lent->pair.server, "far", access, lent->far, kLength);
    lent->ref = look_up(lent->pair.client, lent->pair.ep, "far");
    const xfer_grant_options_t options = {
        .size = sizeof options, .access = access, .offset = kHalf, .length = kHalf};
    assert_status(xfer_region_grant(lent->regions[1], &options, &lent->grant, NULL), XFER_OK);
}

static void end(Lent *lent) {
    assert_status(xfer_region_close(lent->regions[0]), XFER_OK);
    assert_status(xfer_region_close(lent->regions[1]), XFER_OK);
    wait_closed(lent->pair.client, lent->regions[0]);
    wait_closed(lent->pair.server, lent->regions[1]);
    fake_cuda_free(lent->near);
    fake_cuda_free(lent->far);
}

/* More than once: an adapter comes to know of memory when it is first asked for. */
static void move(Lent *lent) {
    Pair *const pair = &lent->pair;
    for (int round = 0; round < 3; round++) {
        assert_status(put_now(pair->client, pair->ep, lent->near, &lent->ref, 0, kHalf), XFER_OK);
        assert_device_filled(lent->far, kHalf, 1, 0);
        assert_status(put_now(pair->client, pair->ep, lent->near, &pair->ref, 0, kHalf), XFER_OK);
        assert_true(filled(pair->memory, kHalf, 1, 0));
        assert_status(get_now(pair->client, pair->ep, lent->near + kHalf, &lent->grant, 0, kHalf),
                      XFER_OK);
        assert_device_filled(lent->near + kHalf, kHalf, 2, kHalf);
        fill(pair->memory, kHalf, 3);
        assert_status(get_now(pair->client, pair->ep, lent->near + kHalf, &pair->ref, 0, kHalf),
                      XFER_OK);
        assert_device_filled(lent->near + kHalf, kHalf, 3, 0);
    }
}

static void message(Lent *lent) {
    Pair *const pair = &lent->pair;
    for (uint64_t length = 64; length <= kHalf; length *= 64) {
        assert_status(
            xfer_recv(pair->server->engine, NULL, lent->far, length, 7, ANY_USER, 1, NULL),
            XFER_OK);
        assert_status(xfer_send(pair->ep, lent->near, length, 7, 1, NULL), XFER_OK);
        assert_status(wait_event(pair->server, XFER_EVENT_RECV, 1, kPatience).status, XFER_OK);
        assert_status(wait_event(pair->client, XFER_EVENT_SEND, 1, kPatience).status, XFER_OK);
        assert_device_filled(lent->far, length, 1, 0);
    }
}

static uint32_t kind_of(const Lent *lent) {
    xfer_region_info_t info;
    assert_status(xfer_region_info(lent->regions[1], &info, sizeof info), XFER_OK);
    return info.kind;
}

static unsigned copies(void) {
    return fake_cuda_calls("cuMemcpyDtoHAsync") + fake_cuda_calls("cuMemcpyHtoDAsync");
}

static void test_that_adapters_leave(void **state) {
    Lent lent;
    const unsigned before = copies();
    lend(&lent, *state, 1);
    assert_int_equal(kind_of(&lent), XFER_MEM_HOST);
    move(&lent);
    message(&lent);
    assert_int_equal(copies(), before);
    end(&lent);
}

static void test_that_the_cpu_leaves(void **state) {
    Lent lent;
    lend(&lent, *state, 0);
    assert_int_equal(kind_of(&lent), XFER_MEM_CUDA);
    move(&lent);
    message(&lent);
    end(&lent);
}

static const struct CMUnitTest tests[] = {
    EACH_WAY(test_that_adapters_leave),
    EACH_WAY(test_that_the_cpu_leaves),
};

TEST_MAIN(tests)
