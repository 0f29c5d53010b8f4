/* SPDX-License-Identifier: Apache-2.0
 *
 * Quiet buffers. On our side: after its event, whatever the status, an operation neither reads nor
 * writes the user's memory. On the owner's side: after CLOSED, REVOKED and PEER_DOWN nothing lands
 * by what they end, also when an initiator that was stopped with bytes in flight wakes later.
 *
 * XFER_TEST_ROUNDS=N asks for N rounds of the first kind; there are more until an operation has
 * ended early. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

enum { kSlots = 64, kSlot = 160 << 10, kSent = 0x11, kRewritten = 0xdd };

static uint64_t rounds_of(uint64_t usual) {
    const char *asked = getenv("XFER_TEST_ROUNDS");
    if (asked) return strtoull(asked, NULL, 10);
    return quick() ? usual / 8 : usual;
}

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

/* Ends operation `user` in one of the ways there are; its event is the return. */
static xfer_event_t end_somehow(Pair *pair, uint32_t kind, uint64_t user, uint64_t *seed) {
    for (uint64_t turns = draw(seed, 4); turns > 0; turns--)
        turn(0);
    if (draw(seed, 3))
        assert_status(xfer_cancel(pair->client->engine, pair->ep, user, UINT64_MAX), XFER_OK);
    xfer_event_t event = wait_event(pair->client, kind, user, kPatience);
    assert_completion(&event);
    return event;
}

static void test_put(void **state) {
    Pair pair;
    pair_open(&pair, *state, (uint64_t)kSlots * kSlot);
    uint8_t *local = test_memory(kSlot);
    const uint64_t rounds = rounds_of(4000), end = now_ms() + kPatience;
    uint64_t seed = 1, ended_early = 0;
    for (uint64_t round = 0; round < rounds || (!ended_early && now_ms() < end); round++) {
        uint8_t *slot = pair.memory + round % kSlots * kSlot;
        /* What was sent here so long ago has come, or never will. */
        if (memchr(slot, kRewritten, kSlot))
            fail_msg("bytes of after the event arrived, before round %d", (int)round);
        const uint64_t length = 1 + draw(&seed, kSlot);
        xfer_op_options_t options = {.size = sizeof options, .timeout_ms = draw(&seed, 8) ? 0 : 1};
        memset(local, kSent, length);
        assert_status(
            xfer_put(pair.ep, local, &pair.ref, round % kSlots * kSlot, length, round, &options),
            XFER_OK);
        ended_early += end_somehow(&pair, XFER_EVENT_PUT, round, &seed).status != XFER_OK;
        memset(local, kRewritten, length);
    }
    pass_ms(200);
    assert_null(memchr(pair.memory, kRewritten, (uint64_t)kSlots * kSlot));
    assert_true(ended_early > 0);
}

static void test_get(void **state) {
    Pair pair;
    pair_open(&pair, *state, kSlot);
    memset(pair.memory, kSent, kSlot);
    uint8_t *local = test_memory((uint64_t)kSlots * kSlot);
    memset(local, kRewritten, (uint64_t)kSlots * kSlot);
    const uint64_t rounds = rounds_of(4000), end = now_ms() + kPatience;
    uint64_t seed = 2, ended_early = 0;
    for (uint64_t round = 0; round < rounds || (!ended_early && now_ms() < end); round++) {
        uint8_t *slot = local + round % kSlots * kSlot;
        if (memchr(slot, kSent, kSlot))
            fail_msg("bytes came after the event, before round %d", (int)round);
        const uint64_t length = 1 + draw(&seed, kSlot);
        xfer_op_options_t options = {.size = sizeof options, .timeout_ms = draw(&seed, 8) ? 0 : 1};
        assert_status(xfer_get(pair.ep, slot, &pair.ref, 0, length, round, &options), XFER_OK);
        ended_early += end_somehow(&pair, XFER_EVENT_GET, round, &seed).status != XFER_OK;
        memset(slot, kRewritten, length);
    }
    pass_ms(200);
    assert_null(memchr(local, kSent, (uint64_t)kSlots * kSlot));
    assert_true(ended_early > 0);
}

/* ---- the owner's side ---- */

enum { kMemory = 16 << 20, kHeartbeat = 1500 };

/* The role: gets a grant of all by message, and puts by it until that fails. */
static int push(const char *uri) {
    static uint8_t local[kMemory];
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *engine = NULL;
    xfer_ep_t *ep = NULL;
    xfer_ref_t ref;
    memset(local, kSent, sizeof local);
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_ep_open(engine, uri, NULL, &ep, NULL) != XFER_OK ||
        xfer_recv(engine, ep, &ref, sizeof ref, 1, UINT64_MAX, 0, NULL) != XFER_OK ||
        xfer_ep_connect(ep, 0, NULL) != XFER_OK)
        return 3;
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        if (xfer_engine_poll(engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 4;
        const bool begins = count && event.kind == XFER_EVENT_RECV;
        const bool goes_on = count && event.kind == XFER_EVENT_PUT && event.status == XFER_OK;
        if (!begins && !goes_on) continue;
        if (xfer_put(ep, local, &ref, 0, sizeof local, 1, NULL) != XFER_OK) return 5;
    }
}

typedef struct Pushed {
    Host *owner;
    Peer peer;
    uint8_t *memory;
    xfer_region_t *region;
    xfer_ref_t ref;
} Pushed;

/* An initiator that is stopped with bytes in flight. */
static void push_and_stop(Pushed *pushed, const Mode *mode, int round) {
    xfer_engine_options_t options = host_options(mode);
    options.heartbeat_ms = kHeartbeat;
    xfer_region_options_t closed = {.size = sizeof closed};
    xfer_grant_options_t all = {.size = sizeof all, .access = XFER_WRITE, .length = kMemory};
    pushed->owner = host_open_with(mode, &options);
    pushed->memory = test_memory(kMemory);
    host_listen(pushed->owner, "tcp://127.0.0.1:0");
    assert_status(xfer_region_open(pushed->owner->engine, &closed, pushed->memory, kMemory,
                                   &pushed->region, NULL),
                  XFER_OK);
    assert_status(xfer_region_grant(pushed->region, &all, &pushed->ref, NULL), XFER_OK);
    peer_start_role(&pushed->peer, "push", pushed->owner->uri);
    xfer_event_t up = wait_event(pushed->owner, XFER_EVENT_PEER, ANY_USER, kPatience);
    assert_status(xfer_send(up.ep, &pushed->ref, sizeof pushed->ref, 1, 1, NULL), XFER_OK);
    const uint64_t end = now_ms() + kPatience;
    while (host_stats(pushed->owner).served_put == 0) {
        assert_true(now_ms() < end);
        turn(0);
    }
    for (int i = 0; i < round; i++)
        turn(0);
    peer_signal(&pushed->peer, SIGSTOP);
}

/* The owner uses its memory again, the initiator wakes, and nothing of it arrives. */
static void assert_nothing_lands(Pushed *pushed) {
    memset(pushed->memory, kRewritten, kMemory);
    peer_signal(&pushed->peer, SIGCONT);
    pass_ms(150);
    assert_null(memchr(pushed->memory, kSent, kMemory));
    peer_kill(&pushed->peer);
}

static void test_stopped_while_region_closes(void **state) {
    for (int round = 0; round < 4; round++) {
        Pushed pushed;
        push_and_stop(&pushed, *state, round);
        assert_status(xfer_region_close(pushed.region), XFER_OK);
        wait_closed(pushed.owner, pushed.region);
        assert_nothing_lands(&pushed);
    }
}

static void test_stopped_while_revoked(void **state) {
    for (int round = 0; round < 4; round++) {
        Pushed pushed;
        push_and_stop(&pushed, *state, round);
        assert_status(xfer_region_revoke(pushed.region, &pushed.ref), XFER_OK);
        wait_event(pushed.owner, XFER_EVENT_REVOKED, ANY_USER, kPatience);
        assert_nothing_lands(&pushed);
    }
}

static void test_stopped_until_given_up(void **state) {
    Pushed pushed;
    push_and_stop(&pushed, *state, 1);
    wait_event(pushed.owner, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    /* It may come again, by a new connection, and put what it has not sent yet: not here. */
    assert_status(xfer_engine_drain(pushed.owner->engine, 9, NULL), XFER_OK);
    wait_event(pushed.owner, XFER_EVENT_DRAINED, 9, kPatience);
    assert_nothing_lands(&pushed);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_put),
    EACH_DISPATCH(test_get),
    EACH_DISPATCH(test_stopped_while_region_closes),
    EACH_DISPATCH(test_stopped_while_revoked),
    EACH_DISPATCH(test_stopped_until_given_up),
};

TEST_MAIN_AFTER(tests, peer_role("push", push))
