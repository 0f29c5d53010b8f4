/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract, of puts, gets and atomics. */
#include <stdlib.h>
#include <string.h>

#include "contract.h"
#include "proxy.h"

static void echo_put_get(void **state) {
    (void)state;
    enum { kLength = 1 << 20 };
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, kLength);
        uint8_t *local = test_memory(kLength), *back = test_memory(kLength);
        fill(local, kLength, 1);
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
        assert_memory_equal(pair.memory, local, kLength);
        assert_status(get_now(pair.client, pair.ep, back, &pair.ref, 0, kLength), XFER_OK);
        assert_memory_equal(back, local, kLength);
    }
}

static void zero_length(void **state) {
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        uint8_t byte = 7;
        open_either(&pair, itself, 64);
        assert_status(xfer_put(pair.ep, &byte, &pair.ref, 64, 0, 1, NULL), XFER_OK);
        assert_status(xfer_get(pair.ep, &byte, &pair.ref, 64, 0, 2, NULL), XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience).status, XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_GET, 2, kPatience).status, XFER_OK);
        host_end(pair.client);
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 1);
        assert_int_equal(count_events(pair.client, XFER_EVENT_GET, ANY_USER), 1);
        assert_int_equal(byte, 7);
    }
}

static void range_refused(void **state) {
    (void)state;
    enum { kLength = 4096 };
    static const struct {
        uint64_t offset, length;
    } outside[] = {{kLength, 1}, {1, kLength}, {kLength + 1, 0}, {UINT64_MAX, 2}, {2, UINT64_MAX}};
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, kLength);
        uint8_t *local = test_memory(kLength);
        memset(local, 0xee, kLength);
        for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
            assert_status(put_now(pair.client, pair.ep, local, &pair.ref, outside[i].offset,
                                  outside[i].length),
                          XFER_ERANGE);
            assert_status(get_now(pair.client, pair.ep, local, &pair.ref, outside[i].offset,
                                  outside[i].length),
                          XFER_ERANGE);
        }
        assert_true(all_are(pair.memory, kLength, 0));
        assert_true(all_are(local, kLength, 0xee));
    }
}

static void access_refused(void **state) {
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, 64);
        uint8_t *memory = test_memory(64), local[64];
        memset(local, 0xee, sizeof local);
        open_region(pair.server, "read", XFER_READ, memory, 64);
        open_region(pair.server, "write", XFER_WRITE, memory, 64);
        const xfer_ref_t read = look_up(pair.client, pair.ep, "read");
        const xfer_ref_t write = look_up(pair.client, pair.ep, "write");
        assert_status(put_now(pair.client, pair.ep, local, &read, 0, 64), XFER_EACCESS);
        assert_status(get_now(pair.client, pair.ep, local, &write, 0, 64), XFER_EACCESS);
        assert_true(all_are(memory, 64, 0));
        assert_true(all_are(local, 64, 0xee));
    }
}

/* A pointer says neither who may write to it nor where its pieces lie: memory that can be none is
 * what is refused before the call has begun. */
static void buffer_kinds(void **state) {
    (void)state;
    Pair pair;
    open_two(&pair, 64);
    void *wraps = (void *)(UINTPTR_MAX - 7);
    assert_status(xfer_get(pair.ep, NULL, &pair.ref, 0, 8, 1, NULL), XFER_EINVAL);
    assert_status(xfer_put(pair.ep, NULL, &pair.ref, 0, 8, 1, NULL), XFER_EINVAL);
    assert_status(xfer_get(pair.ep, wraps, &pair.ref, 0, 16, 1, NULL), XFER_ERANGE);
    assert_status(xfer_put(pair.ep, wraps, &pair.ref, 0, 16, 1, NULL), XFER_ERANGE);
    host_end(pair.client);
    assert_int_equal(count_events(pair.client, XFER_EVENT_GET, ANY_USER), 0);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 0);
}

/* Nobody collects memory in C: what is lent is the caller's again with the event. With
 * XFER_FLAG_COPY it is when the call returns, and freed here before there is a connection. */
static void buffer_kept_alive(void **state) {
    (void)state;
    enum { kPuts = 100, kSize = 4096 };
    const xfer_op_options_t copy = {.size = sizeof copy, .flags = XFER_FLAG_COPY};
    Pair pair;
    open_two(&pair, (uint64_t)kPuts * kSize);
    Host *host = host_open(DOOR);
    xfer_ep_t *ep = open_ep(host, pair.server->uri);
    for (uint64_t i = 0; i < kPuts; i++) {
        uint8_t *local = malloc(kSize);
        assert_non_null(local);
        fill(local, kSize, i);
        const xfer_status_t begun = xfer_put(ep, local, &pair.ref, i * kSize, kSize, i, &copy);
        memset(local, 0xee, kSize);
        free(local);
        assert_status(begun, XFER_OK);
    }
    for (uint64_t i = 0; i < kPuts; i++)
        assert_status(wait_event(host, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
    for (uint64_t i = 0; i < kPuts; i++)
        assert_true(filled(pair.memory + i * kSize, kSize, i, 0));
}

static void thousand_concurrent(void **state) {
    (void)state;
    enum { kPuts = 1000, kSize = 65536, kRoom = 16 };
    Pair pair;
    xfer_engine_options_t options = host_options(DOOR);
    options.max_operations = kRoom;
    pair_open_with(&pair, &options, &options, DOOR, (uint64_t)kPuts * kSize);
    uint8_t *local = test_memory((uint64_t)kPuts * kSize);
    fill(local, (uint64_t)kPuts * kSize, 5);
    int refused = 0;
    for (uint64_t i = 0; i < kPuts; i++) {
        xfer_status_t status;
        while ((status = xfer_put(pair.ep, local + i * kSize, &pair.ref, i * kSize, kSize, i,
                                  NULL)) == XFER_EAGAIN) {
            wait_event(pair.client, XFER_EVENT_ROOM, ANY_USER, kPatience);
            refused++;
        }
        assert_status(status, XFER_OK);
    }
    for (uint64_t i = 0; i < kPuts; i++)
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
    /* What a caller copies itself, of one host, never fills its endpoint. */
    if (over_sockets()) assert_true(refused > 0);
    host_end(pair.client);
    assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), kPuts);
    assert_memory_equal(pair.memory, local, (uint64_t)kPuts * kSize);
}

static xfer_event_t flush_now(Pair *pair, uint64_t user) {
    assert_status(xfer_ep_flush(pair->ep, NULL, user, NULL), XFER_OK);
    const xfer_event_t event = wait_event(pair->client, XFER_EVENT_FLUSH, user, kPatience);
    assert_completion(&event);
    return event;
}

static void quiet_flush(void **state) {
    (void)state;
    enum { kPuts = 100, kSize = 3000 };
    const xfer_op_options_t quiet = {.size = sizeof quiet, .flags = XFER_FLAG_QUIET};
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, (uint64_t)kPuts * kSize);
        uint8_t *local = test_memory((uint64_t)kPuts * kSize);
        const xfer_ref_t stale = stale_ref(&pair);
        fill(local, (uint64_t)kPuts * kSize, 2);
        for (uint64_t i = 0; i < kPuts; i++)
            assert_status(
                xfer_put(pair.ep, local + i * kSize, &pair.ref, i * kSize, kSize, i, &quiet),
                XFER_OK);
        assert_status(flush_now(&pair, 1000).status, XFER_OK);
        assert_memory_equal(pair.memory, local, (uint64_t)kPuts * kSize);
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 0);
        assert_status(xfer_put(pair.ep, local, &stale, 0, 8, 2000, &quiet), XFER_OK);
        assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 8, 2001, &quiet), XFER_OK);
        assert_status(flush_now(&pair, 1001).status, XFER_ESTALE);
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, 2000, kPatience).status, XFER_ESTALE);
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, ANY_USER), 1);
        assert_status(flush_now(&pair, 1002).status, XFER_OK);
    }
}

/* A neighbour's memory is written without a wire, and a proxy has nothing to change. */
static void checksum_mismatch(void **state) {
    (void)state;
    enum { kLength = 8 << 20, kFlipAt = (1 << 20) + 100000 };
    if (!over_sockets()) {
        print_message("skipped: nothing is between neighbours that could change a byte\n");
        skip();
    }
    Pair pair;
    const xfer_engine_options_t server = host_options(DOOR);
    xfer_engine_options_t client = server;
    client.flags = XFER_ENGINE_CHECKSUM;
    proxy_pair_open(&pair, &server, &client, DOOR, kLength);
    uint8_t *local = test_memory(kLength);
    fill(local, kLength, 3);
    proxy_flip(kToServer, kFlipAt);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_ECHECKSUM);
    assert_true(proxy_has_flipped());
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kLength), XFER_OK);
    assert_memory_equal(pair.memory, local, kLength);
    proxy_pair_end(&pair);
}

/* The value before, which the event has as well. */
static uint64_t atomic_now(Pair *pair, const xfer_ref_t *ref, uint32_t op, uint64_t offset,
                           uint64_t operand, uint64_t compare) {
    uint64_t before = 99;
    assert_status(xfer_atomic(pair->ep, op, &before, ref, offset, operand, compare, 1, NULL),
                  XFER_OK);
    const xfer_event_t event = wait_event(pair->client, XFER_EVENT_ATOMIC, 1, kPatience);
    assert_status(event.status, XFER_OK);
    assert_int_equal(event.index, before);
    return before;
}

static void atomic_words(void **state) {
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, 64);
        uint64_t *words = test_memory(64);
        open_region(pair.server, "words", XFER_ATOMIC, words, 64);
        const xfer_ref_t ref = look_up(pair.client, pair.ep, "words");
        assert_int_equal(atomic_now(&pair, &ref, XFER_ATOMIC_ADD, 8, 5, 0), 0);
        assert_int_equal(atomic_now(&pair, &ref, XFER_ATOMIC_ADD, 8, UINT64_MAX, 0), 5);
        assert_int_equal(atomic_now(&pair, &ref, XFER_ATOMIC_CAS, 8, 70, 5), 4); /* and no swap */
        assert_int_equal(atomic_now(&pair, &ref, XFER_ATOMIC_CAS, 8, 70, 4), 4);
        assert_int_equal(__atomic_load_n(&words[1], __ATOMIC_SEQ_CST), 70);
        assert_int_equal(__atomic_load_n(&words[0], __ATOMIC_SEQ_CST), 0);
        assert_int_equal(__atomic_load_n(&words[2], __ATOMIC_SEQ_CST), 0);
        assert_status(xfer_atomic(pair.ep, XFER_ATOMIC_ADD, NULL, &ref, 12, 1, 0, 2, NULL),
                      XFER_EINVAL);
    }
}

static const struct CMUnitTest tests[] = {
    TEST(echo_put_get), TEST(zero_length),       TEST(range_refused), TEST(access_refused),
    TEST(buffer_kinds), TEST(buffer_kept_alive), TEST(quiet_flush),   TEST(thousand_concurrent),
    TEST(atomic_words), TEST(checksum_mismatch),
};

TEST_MAIN(tests)
