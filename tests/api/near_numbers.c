/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that meet: an owner in another process whose regions, grants and messages come and go in
 * any order, so that equal numbers of different kinds end while others live; and clients that leave
 * in peace. What a put wrote is verified by its owner, since an initiator that writes through a
 * mapping which is none any more reads its own bytes back. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

enum { kRegions = 8, kGrants = 4, kLength = 16384, kMessage = 65536, kPieces = 4096 };

/* ---- the other process: it does what each line of its input says, and answers with a line ---- */

static _Atomic int ends[32]; /* by the type of the event */
static _Atomic int failures;

static void count(const xfer_event_t *event, uint64_t user) {
    (void)user;
    const bool moves = event->kind == XFER_EVENT_SEND || event->kind == XFER_EVENT_GET;
    if (moves && event->status != XFER_OK) atomic_fetch_add(&failures, 1);
    atomic_fetch_add(&ends[event->kind % 32], 1);
}

static bool comes(uint32_t type, int wanted) {
    for (int i = 0; i < kPatience && atomic_load(&ends[type]) < wanted; i++)
        usleep(1000);
    return atomic_load(&ends[type]) >= wanted;
}

typedef struct Lent {
    xfer_region_t *region;
    uint8_t *memory;
    xfer_ref_t grants[kGrants];
} Lent;

static void say_ref(const xfer_ref_t *ref) {
    for (size_t i = 0; i < sizeof ref->bytes; i++)
        printf("%02x", ref->bytes[i]);
    printf("\n");
}

static bool lend(xfer_engine_t *engine, Lent *lent) {
    static unsigned named;
    char name[16];
    snprintf(name, sizeof name, "%u", ++named);
    const xfer_region_options_t options = {
        .size = sizeof options, .access = XFER_READ | XFER_WRITE, .name = name};
    void *memory;
    xfer_ref_t ref;
    if (xfer_region_alloc(engine, &options, kLength, &memory, &lent->region, NULL) != XFER_OK ||
        xfer_region_ref(lent->region, &ref) != XFER_OK)
        return false;
    lent->memory = memory;
    say_ref(&ref);
    return true;
}

static bool close_lent(Lent *lent) {
    const int before = atomic_load(&ends[XFER_EVENT_CLOSED]);
    if (xfer_region_close(lent->region) != XFER_OK || !comes(XFER_EVENT_CLOSED, before + 1))
        return false;
    lent->region = NULL;
    printf("closed\n");
    return true;
}

static bool lend_part(Lent *lent, unsigned which) {
    const xfer_grant_options_t options = {
        .size = sizeof options, .length = kLength, .access = XFER_READ | XFER_WRITE};
    if (xfer_region_grant(lent->region, &options, &lent->grants[which], NULL) != XFER_OK)
        return false;
    say_ref(&lent->grants[which]);
    return true;
}

static bool take_back(Lent *lent, unsigned which) {
    const int before = atomic_load(&ends[XFER_EVENT_REVOKED]);
    if (xfer_region_revoke(lent->region, &lent->grants[which]) != XFER_OK ||
        !comes(XFER_EVENT_REVOKED, before + 1))
        return false;
    printf("revoked\n");
    return true;
}

static bool send_one(xfer_ep_t *ep, uint64_t seed) {
    static uint8_t message[kMessage];
    const int before = atomic_load(&ends[XFER_EVENT_SEND]);
    fill(message, sizeof message, seed);
    if (xfer_send(ep, message, sizeof message, 1, seed, NULL) != XFER_OK ||
        !comes(XFER_EVENT_SEND, before + 1))
        return false;
    printf("sent\n");
    return true;
}

static int own(const char *argument) {
    static Lent lent[kRegions];
    xfer_engine_options_t options = {.size = sizeof options, .on_event = count};
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    char bound[256], line[64];
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL) !=
            XFER_OK ||
        xfer_ep_open(engine, argument, NULL, &ep, NULL) != XFER_OK)
        return 3;
    printf("%s\n", bound);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char what = 0;
        unsigned at = 0;
        unsigned long long value = 0;
        if (sscanf(line, "%c %u %llu", &what, &at, &value) != 3 || at >= kRegions) return 4;
        Lent *one = &lent[at];
        bool done = true;
        switch (what) {
        case 'a':
            done = lend(engine, one);
            break;
        case 'c':
            done = close_lent(one);
            break;
        case 'g':
            done = lend_part(one, (unsigned)value);
            break;
        case 'r':
            done = take_back(one, (unsigned)value);
            break;
        case 'm':
            done = send_one(ep, value);
            break;
        default:
            printf("%s\n", filled(one->memory, kPieces, value, 0) ? "right" : "wrong");
        }
        if (!done || atomic_load(&failures)) return 5;
        fflush(stdout);
    }
    return xfer_engine_join(engine, XFER_NONE) == XFER_OK ? 0 : 6;
}

/* ---- */

static void tell(Peer *peer, char *answer, size_t cap, char what, unsigned at, uint64_t value) {
    char line[64];
    const int length =
        snprintf(line, sizeof line, "%c %u %llu\n", what, at, (unsigned long long)value);
    assert_int_equal(write(peer->in, line, (size_t)length), length);
    if (answer) peer_read_line(peer, answer, cap);
}

static xfer_ref_t tell_for_ref(Peer *peer, char what, unsigned at, uint64_t value) {
    char text[256];
    xfer_ref_t ref;
    tell(peer, text, sizeof text, what, at, value);
    assert_int_equal(strlen(text), 2 * sizeof ref.bytes);
    for (size_t i = 0; i < sizeof ref.bytes; i++) {
        unsigned byte;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
        ref.bytes[i] = (uint8_t)byte;
    }
    return ref;
}

static void expect(Peer *peer, const char *answer, char what, unsigned at, uint64_t value) {
    char text[256];
    tell(peer, text, sizeof text, what, at, value);
    assert_string_equal(text, answer);
}

typedef struct World {
    Peer peer;
    Host *host;
    xfer_ep_t *ep;
    uint64_t seed;
    bool alive[kRegions], granted[kRegions][kGrants];
    xfer_ref_t refs[kRegions], grants[kRegions][kGrants];
} World;

static void world_open(World *world, const Mode *mode) {
    memset(world, 0, sizeof *world);
    world->host = host_open(mode);
    host_listen(world->host, "tcp://127.0.0.1:0");
    peer_start_role(&world->peer, "own", world->host->uri);
    peer_read_line(&world->peer, world->peer.uri, sizeof world->peer.uri);
    world->ep = open_ep(world->host, world->peer.uri);
}

static void world_end(World *world) {
    host_end(world->host);
    assert_int_equal(peer_wait(&world->peer), 0);
}

/* A put through that ref, as its owner sees it. */
static void write_and_look(World *world, const xfer_ref_t *ref, unsigned at) {
    uint8_t bytes[kPieces];
    fill(bytes, sizeof bytes, ++world->seed);
    assert_status(put_now(world->host, world->ep, bytes, ref, 0, sizeof bytes), XFER_OK);
    expect(&world->peer, "right", 'v', at, world->seed);
}

static void message_comes(World *world) {
    uint8_t *bytes = malloc(kMessage);
    const uint64_t seed = ++world->seed;
    assert_status(xfer_recv(world->host->engine, NULL, bytes, kMessage, 1, UINT64_MAX, seed, NULL),
                  XFER_OK);
    tell(&world->peer, NULL, 0, 'm', 0, seed);
    assert_status(wait_event(world->host, XFER_EVENT_RECV, seed, kPatience).status, XFER_OK);
    char text[256];
    peer_read_line(&world->peer, text, sizeof text);
    assert_string_equal(text, "sent");
    assert_true(filled(bytes, kMessage, seed, 0));
    free(bytes);
}

/* The shortest way to it: message 1 ends while region 1 is written to. */
static void test_a_message_ends_no_region(void **state) {
    World world;
    world_open(&world, *state);
    const xfer_ref_t ref = tell_for_ref(&world.peer, 'a', 0, 0);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 25; i++)
            write_and_look(&world, &ref, 0);
        message_comes(&world);
    }
    write_and_look(&world, &ref, 0);
    world_end(&world);
}

static uint32_t draw(uint64_t *state, uint32_t below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

static void close_region(World *world, unsigned at) {
    uint8_t byte = 1;
    expect(&world->peer, "closed", 'c', at, 0);
    assert_status(put_now(world->host, world->ep, &byte, &world->refs[at], 0, 1), XFER_ESTALE);
    world->alive[at] = false;
    memset(world->granted[at], 0, sizeof world->granted[at]);
}

static void step(World *world, uint64_t *random) {
    const unsigned at = draw(random, kRegions), which = draw(random, kGrants);
    if (!world->alive[at]) {
        world->refs[at] = tell_for_ref(&world->peer, 'a', at, 0);
        world->alive[at] = true;
    }
    bool *granted = &world->granted[at][which];
    switch (draw(random, 8)) {
    case 0:
        message_comes(world);
        return;
    case 1:
        close_region(world, at);
        return;
    case 2:
    case 3:
        if (*granted) {
            expect(&world->peer, "revoked", 'r', at, which);
            uint8_t byte = 1;
            assert_status(put_now(world->host, world->ep, &byte, &world->grants[at][which], 0, 1),
                          XFER_EREVOKED);
        } else {
            world->grants[at][which] = tell_for_ref(&world->peer, 'g', at, which);
        }
        *granted = !*granted;
        return;
    default:
        if (*granted) write_and_look(world, &world->grants[at][which], at);
        write_and_look(world, &world->refs[at], at);
    }
}

static void test_any_order(void **state) {
    const char *given = getenv("XFER_TEST_SEED");
    uint64_t random = given ? strtoull(given, NULL, 0) : now_ms();
    print_message("XFER_TEST_SEED=%llu\n", (unsigned long long)random);
    World world;
    world_open(&world, *state);
    for (int i = 0; i < (quick() ? 100 : 400); i++)
        step(&world, &random);
    world_end(&world);
}

/* ---- who leaves in peace ---- */

static int visit(const char *argument) {
    xfer_engine_options_t options = {.size = sizeof options, .on_event = count};
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    static uint8_t bytes[kPieces];
    if (xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_ep_open(engine, argument, NULL, &ep, NULL) != XFER_OK ||
        !fgets((char *)bytes, 3, stdin))
        return 3;
    for (size_t i = 0; i < sizeof ref.bytes; i++) {
        unsigned byte;
        if (scanf("%2x", &byte) != 1) return 4;
        ref.bytes[i] = (uint8_t)byte;
    }
    for (int i = 1; i <= 4; i++) /* the first ones open the local path */
        if (xfer_get(ep, bytes, &ref, 0, sizeof bytes, 1, NULL) != XFER_OK ||
            !comes(XFER_EVENT_GET, i))
            return 5;
    if (atomic_load(&failures)) return 6;
    return xfer_ep_close(ep) == XFER_OK && xfer_engine_join(engine, XFER_NONE) == XFER_OK ? 0 : 7;
}

static void test_a_clean_exit_is_told_as_one(void **state) {
    enum { kRounds = 20, kVisitors = 2 };
    Host *host = host_open(*state);
    host_listen(host, "tcp://127.0.0.1:0");
    uint8_t *memory = test_memory(kLength);
    xfer_region_t *region = open_region(host, "memory", XFER_READ, memory, kLength);
    xfer_ref_t ref;
    assert_status(xfer_region_ref(region, &ref), XFER_OK);
    char line[8 + 2 * sizeof ref.bytes] = "-\n";
    for (size_t i = 0; i < sizeof ref.bytes; i++)
        snprintf(line + 2 + 2 * i, 3, "%02x", ref.bytes[i]);
    for (int round = 0; round < (quick() ? 5 : kRounds); round++) {
        Peer peers[kVisitors];
        for (int i = 0; i < kVisitors; i++) {
            peer_start_role(&peers[i], "visit", host->uri);
            assert_int_equal(write(peers[i].in, line, strlen(line)), strlen(line));
        }
        for (int i = 0; i < kVisitors; i++)
            assert_int_equal(peer_wait(&peers[i]), 0);
        for (int i = 0; i < kVisitors; i++)
            assert_status(wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience).status,
                          XFER_ECLOSED);
    }
    host_end(host);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_a_message_ends_no_region),
    EACH_DISPATCH(test_any_order),
    EACH_DISPATCH(test_a_clean_exit_is_told_as_one),
};

static void roles(void) {
    peer_role("own", own);
    peer_role("visit", visit);
}

TEST_MAIN_AFTER(tests, roles())
