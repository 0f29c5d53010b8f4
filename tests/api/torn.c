/* SPDX-License-Identifier: Apache-2.0
 *
 * Success means applied: the destination is read in the very callback that says so. */
#include <stdatomic.h>

#include "fixture.h"

enum { kLength = 2400000 };

typedef struct Check {
    Pair pair;
    uint8_t *locals[2];
    _Atomic int torn;
    _Atomic int seen;
} Check;

static void read_destination(Host *host, const xfer_event_t *event) {
    Check *check = host->hook_data;
    if (event->kind != XFER_EVENT_PUT) return;
    if (event->status != XFER_OK || !filled(check->pair.memory, kLength, event->user, 0))
        check->torn++;
    check->seen++;
}

static void test_put_is_applied(void **state) {
    static Check check;
    check = (Check){.torn = 0};
    pair_open(&check.pair, *state, kLength);
    check.locals[0] = test_memory(kLength);
    check.pair.client->hook_data = &check;
    check.pair.client->hook = read_destination;
    int rounds = quick() ? 20 : 100;
    for (int i = 1; i <= rounds; i++) {
        fill(check.locals[0], kLength, (uint64_t)i);
        assert_status(xfer_put(check.pair.ep, check.locals[0], &check.pair.ref, 0, kLength,
                               (uint64_t)i, NULL),
                      XFER_OK);
        wait_atomic(&check.seen, i, kPatience);
    }
    assert_int_equal(check.torn, 0);
}

/* Two are under way at once, each to its own half; each is whole when its own event comes. */
static void read_half(Host *host, const xfer_event_t *event) {
    Check *check = host->hook_data;
    if (event->kind != XFER_EVENT_PUT) return;
    const uint8_t *half = check->pair.memory + event->user % 2 * kLength;
    if (event->status != XFER_OK || !filled(half, kLength, event->user, 0)) check->torn++;
    check->seen++;
}

static void test_two_at_once(void **state) {
    static Check check;
    check = (Check){.torn = 0};
    pair_open(&check.pair, *state, 2 * kLength);
    check.locals[0] = test_memory(kLength);
    check.locals[1] = test_memory(kLength);
    check.pair.client->hook_data = &check;
    check.pair.client->hook = read_half;
    int rounds = quick() ? 10 : 40;
    for (int i = 0; i < rounds; i++) {
        for (uint64_t half = 0; half < 2; half++) {
            uint64_t user = (uint64_t)i * 2 + half;
            fill(check.locals[half], kLength, user);
            assert_status(xfer_put(check.pair.ep, check.locals[half], &check.pair.ref,
                                   half * kLength, kLength, user, NULL),
                          XFER_OK);
        }
        wait_atomic(&check.seen, 2 * (i + 1), kPatience);
    }
    assert_int_equal(check.torn, 0);
}

/* A get that is done holds the bytes: the buffer is read in the callback as well. */
static void read_local(Host *host, const xfer_event_t *event) {
    Check *check = host->hook_data;
    if (event->kind != XFER_EVENT_GET) return;
    if (event->status != XFER_OK || !filled(check->locals[0], kLength, event->user, 0))
        check->torn++;
    check->seen++;
}

static void test_get_is_there(void **state) {
    static Check check;
    check = (Check){.torn = 0};
    pair_open(&check.pair, *state, kLength);
    check.locals[0] = test_memory(kLength);
    check.pair.client->hook_data = &check;
    check.pair.client->hook = read_local;
    int rounds = quick() ? 10 : 40;
    for (int i = 1; i <= rounds; i++) {
        fill(check.pair.memory, kLength, (uint64_t)i);
        assert_status(xfer_get(check.pair.ep, check.locals[0], &check.pair.ref, 0, kLength,
                               (uint64_t)i, NULL),
                      XFER_OK);
        wait_atomic(&check.seen, i, kPatience);
    }
    assert_int_equal(check.torn, 0);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_put_is_applied),
    EACH_MODE(test_two_at_once),
    EACH_MODE(test_get_is_there),
};

TEST_MAIN(tests)
