/* SPDX-License-Identifier: Apache-2.0
 *
 * Steady state: once as much was under way as will be, an operation allocates nothing, at either
 * end. Two engines are polled by this thread, and every allocation of the process is counted. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <xfer/xfer.h>

#include "fixture.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static atomic_long allocations;

void *malloc(size_t size) {
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    allocations++;
    return __libc_realloc(old, size);
}

enum { kWindow = 48, kWarm = 20, kRounds = 200, kMost = 4096, kTag = 7 };

typedef struct Side {
    xfer_engine_t *engine;
    xfer_ep_t *ep;                        /* the initiator's */
    uint64_t told[XFER_EVENT_PROBE + 32]; /* events, by kind */
    xfer_status_t status;                 /* the first that was not OK */
} Side;

typedef struct Steady {
    Side initiator, owner;
    xfer_region_t *region;
    xfer_ref_t ref;
    uint8_t out[kMost], in[kWindow][kMost], memory[kWindow * kMost];
    uint32_t size;
} Steady;

static Steady steady;

static void poll_side(Side *side) {
    xfer_event_t events[32];
    uint32_t count = 0;
    const xfer_status_t status =
        xfer_engine_poll(side->engine, events, sizeof events[0], 32, 0, &count);
    if (status != XFER_OK && side->status == XFER_OK) side->status = status;
    for (uint32_t i = 0; i < count; i++) {
        const xfer_event_t *event = &events[i];
        side->told[event->kind]++;
        if (event->status != XFER_OK && side->status == XFER_OK) side->status = event->status;
        if (event->kind == XFER_EVENT_LOOKUP) memcpy(&steady.ref, event->data, sizeof steady.ref);
    }
}

static void turn_both(void) {
    poll_side(&steady.initiator);
    poll_side(&steady.owner);
}

static void wait_told(const Side *side, uint32_t kind, uint64_t wanted) {
    const uint64_t end = now_ms() + kPatience;
    while (side->told[kind] < wanted) {
        turn_both();
        assert_status(steady.initiator.status, XFER_OK);
        assert_status(steady.owner.status, XFER_OK);
        assert_true(now_ms() < end);
    }
}

static void open_side(Side *side) {
    xfer_engine_options_t options = {.size = sizeof options};
    options.dispatch = XFER_DISPATCH_POLL;
    options.io_threads = XFER_NONE;
    assert_status(xfer_engine_open(&options, &side->engine, NULL), XFER_OK);
}

static void close_side(Side *side) {
    assert_status(xfer_engine_close(side->engine), XFER_OK);
    assert_status(xfer_engine_join(side->engine, kPatience), XFER_OK);
    memset(side, 0, sizeof *side);
}

static int open_both(void **state) {
    (void)state;
    memset(&steady, 0, sizeof steady);
    Steady *s = &steady;
    open_side(&s->initiator);
    open_side(&s->owner);
    char uri[256];
    assert_status(xfer_engine_listen(s->owner.engine, preferred("tcp://127.0.0.1:0"), NULL, uri,
                                     sizeof uri, NULL),
                  XFER_OK);
    const xfer_region_options_t region = {
        .size = sizeof region, .access = XFER_READ | XFER_WRITE, .name = "memory"};
    assert_status(
        xfer_region_open(s->owner.engine, &region, s->memory, sizeof s->memory, &s->region, NULL),
        XFER_OK);
    assert_status(xfer_ep_open(s->initiator.engine, uri, NULL, &s->initiator.ep, NULL), XFER_OK);
    assert_status(xfer_ep_lookup(s->initiator.ep, "memory", 1, NULL, NULL), XFER_OK);
    wait_told(&s->initiator, XFER_EVENT_LOOKUP, 1);
    assert_true(allocations > 0); /* the library's are counted */
    return 0;
}

static int close_both(void **state) {
    (void)state;
    xfer_ep_close(steady.initiator.ep);
    xfer_region_close(steady.region);
    close_side(&steady.initiator);
    close_side(&steady.owner);
    return 0;
}

/* ---- one round each: as many as the window holds, and all of their events ---- */

static void await_round(uint32_t ours, uint32_t theirs) {
    Steady *s = &steady;
    wait_told(&s->initiator, ours, kWindow);
    if (theirs) wait_told(&s->owner, theirs, kWindow);
    memset(s->initiator.told, 0, sizeof s->initiator.told);
    memset(s->owner.told, 0, sizeof s->owner.told);
}

static void puts_round(void) {
    for (uint32_t i = 0; i < kWindow; i++)
        assert_status(
            xfer_put(steady.initiator.ep, steady.out, &steady.ref, i * kMost, steady.size, i, NULL),
            XFER_OK);
    await_round(XFER_EVENT_PUT, 0);
}

static void gets_round(void) {
    for (uint32_t i = 0; i < kWindow; i++)
        assert_status(xfer_get(steady.initiator.ep, steady.in[i], &steady.ref, i * kMost,
                               steady.size, i, NULL),
                      XFER_OK);
    await_round(XFER_EVENT_GET, 0);
}

static void send_all(void) {
    for (uint32_t i = 0; i < kWindow; i++)
        assert_status(
            xfer_send(steady.initiator.ep, steady.out, steady.size, kTag + i % 3, i, NULL),
            XFER_OK);
}

static void receive_all(void) {
    for (uint32_t i = 0; i < kWindow; i++)
        assert_status(xfer_recv(steady.owner.engine, NULL, steady.in[i], kMost, kTag + i % 3,
                                UINT64_MAX, i, NULL),
                      XFER_OK);
}

static void messages_round(void) {
    receive_all();
    send_all();
    await_round(XFER_EVENT_SEND, XFER_EVENT_RECV);
}

/* They come before anybody receives them, and are held. */
static void early_messages_round(void) {
    send_all();
    wait_told(&steady.initiator, XFER_EVENT_SEND, kWindow);
    receive_all();
    await_round(XFER_EVENT_SEND, XFER_EVENT_RECV);
}

static void notifications_round(void) {
    for (uint32_t i = 0; i < kWindow; i++)
        assert_status(xfer_notify(steady.initiator.ep, steady.out, steady.size, i, i, NULL),
                      XFER_OK);
    await_round(XFER_EVENT_NOTIFIED, XFER_EVENT_NOTIFY);
}

static void allocates_nothing(void (*round)(void), uint32_t size) {
    steady.size = size;
    for (int i = 0; i < kWarm; i++)
        round();
    const long before = allocations;
    for (int i = 0; i < kRounds; i++)
        round();
    const long more = allocations - before;
    if (more)
        print_message("%ld allocations for %d operations of %u bytes\n", more, kRounds * kWindow,
                      size);
    assert_int_equal(more, 0);
}

/* ---- the tests ---- */

static void test_puts(void **state) {
    (void)state;
    allocates_nothing(puts_round, 64);
    allocates_nothing(puts_round, kMost);
}

static void test_gets(void **state) {
    (void)state;
    allocates_nothing(gets_round, 64);
    allocates_nothing(gets_round, kMost);
}

static void test_messages(void **state) {
    (void)state;
    allocates_nothing(messages_round, 64);
    allocates_nothing(messages_round, kMost);
}

static void test_early_messages(void **state) {
    (void)state;
    allocates_nothing(early_messages_round, 64);
    allocates_nothing(early_messages_round, 4000); /* what is longer stays with its sender */
}

static void test_notifications(void **state) {
    (void)state;
    allocates_nothing(notifications_round, 0);
    allocates_nothing(notifications_round, 64);
}

#define STEADY(test) cmocka_unit_test_setup_teardown(test, open_both, close_both)

int main(void) {
    const struct CMUnitTest tests[] = {
        STEADY(test_puts),           STEADY(test_gets),          STEADY(test_messages),
        STEADY(test_early_messages), STEADY(test_notifications),
    };
    return cmocka_run_group_tests_name("steady", tests, NULL, NULL);
}
