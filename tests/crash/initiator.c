/* SPDX-License-Identifier: Apache-2.0
 *
 * The initiator is killed in the middle of its work and comes back under the same identity. What it
 * was told before it died stands in a journal that outlives it; what it wrote is still there. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carried.h"
#include "scene.h"

enum {
    kHeartbeat = 200,
    kId = 12,
    kOps = 96,
    kSlot = 64 << 10,
    kHalf = kOps * kSlot,
    kWindow = 12,
    kRounds = 1000
};

/* What one life of the initiator was told. */
typedef struct Journal {
    _Atomic uint32_t began;
    _Atomic uint32_t events[kOps];
    _Atomic int32_t status[kOps];
    _Atomic uint32_t ups, by[kOps]; /* connections, and how many there had been when one was told */
} Journal;

/* Every third operation is a batch with a notification. */
static bool is_batch(uint64_t i) {
    return i % 3 == 2;
}
static uint64_t length_of(uint64_t round, uint64_t i) {
    uint64_t seed = round * kOps + i;
    return 1 + draw(&seed, kSlot);
}
static uint64_t pattern_of(uint64_t round, uint64_t i) {
    return round * kOps + i + 1;
}

/* ---- the role ---- */

typedef struct Life {
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    Journal *journal;
    xfer_ref_t ref;
    uint64_t round, next;
    uint8_t *local;
} Life;

static bool begin_next(Life *life) {
    const uint64_t i = life->next++;
    const uint64_t offset = life->round % 2 * kHalf + i * kSlot, length = length_of(life->round, i);
    uint8_t *local = life->local + i * kSlot;
    fill(local, length, pattern_of(life->round, i));
    life->journal->began = (uint32_t)life->next;
    if (!is_batch(i)) return xfer_put(life->ep, local, &life->ref, offset, length, i, NULL) == 0;
    xfer_batch_t *batch = NULL;
    xfer_submit_options_t options = {
        .size = sizeof options, .flags = XFER_SUBMIT_NOTIFY, .notify_key = life->round * kOps + i};
    const uint64_t half = length / 2;
    return xfer_batch_open(life->ep, NULL, &batch, NULL) == 0 &&
           xfer_batch_put(batch, local, &life->ref, offset, half) == 0 &&
           xfer_batch_put(batch, local + half, &life->ref, offset + half, length - half) == 0 &&
           xfer_batch_submit(batch, i, &options) == 0;
}

/* Where bytes have to go by a wanted way, bytes are got until one has. */
static bool begin_all(Life *life) {
    const char *way = wanted_way();
    if (way != NULL && carried_by(life->engine, way) == 0)
        return xfer_get(life->ep, life->local, &life->ref, 0, 1, kOps, NULL) == 0;
    while (life->next < kWindow)
        if (!begin_next(life)) return false;
    return true;
}

static int hear(Life *life, const xfer_event_t *event) {
    if (event->kind == XFER_EVENT_PEER_UP) {
        life->journal->ups++;
    } else if (event->kind == XFER_EVENT_LOOKUP) {
        if (event->status != XFER_OK) return 5;
        memcpy(&life->ref, event->data, sizeof life->ref);
        if (!begin_all(life)) return 6;
    } else if (event->kind == XFER_EVENT_GET) {
        if (event->status != XFER_OK) return 7;
        if (!begin_all(life)) return 6;
    } else if (event->kind == XFER_EVENT_PUT || event->kind == XFER_EVENT_BATCH) {
        life->journal->status[event->user] = event->status;
        life->journal->by[event->user] = life->journal->ups;
        life->journal->events[event->user]++;
        if (life->next < kOps && !begin_next(life)) return 6;
    }
    return 0;
}

/* Writes one slot after the other, and then waits for its end. */
static int write_role(const char *argument) {
    unsigned long long round = 0;
    int fd = -1, threads = 0;
    char uri[256];
    if (sscanf(argument, "%llu %d %d %255s", &round, &fd, &threads, uri) != 4) return 2;
    Life life = {
        .round = round, .local = malloc(kHalf), .journal = shared_map(fd, sizeof(Journal))};
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_POLL,
                                     .io_threads = threads ? 1 : XFER_NONE,
                                     .id = {kId}};
    if (life.local == NULL || life.journal == NULL ||
        xfer_engine_open(&options, &life.engine, NULL) != XFER_OK ||
        xfer_ep_open(life.engine, uri, NULL, &life.ep, NULL) != XFER_OK ||
        xfer_ep_lookup(life.ep, "memory", 1, NULL, NULL) != XFER_OK)
        return 3;
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        if (xfer_engine_poll(life.engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 4;
        const int code = count ? hear(&life, &event) : 0;
        if (code) return code;
    }
}

/* ---- the owner ---- */

typedef struct Owner {
    Host *host;
    uint8_t *memory, *told_memory; /* the second: as it was at the last PEER_DOWN */
    xfer_region_t *region;
    Shared journal;
    uint64_t seed, length;
    /* Of the life that is under way, or has just ended. */
    _Atomic uint64_t round;
    _Atomic size_t told;
    _Atomic int noted[kRounds * kOps], noted_well[kRounds * kOps], broken;
} Owner;

static bool applied(Owner *owner, uint64_t round, uint64_t i) {
    const uint8_t *slot = owner->memory + round % 2 * kHalf + i * kSlot;
    return filled(slot, length_of(round, i), pattern_of(round, i), 0);
}

/* A notification that all went well comes when all is there. What the paths of a connection that
 * was given up had begun is told as lost once they have ended: a process that was stopped in a copy
 * keeps them waiting, and another round may be under way by then. */
static void note(Host *host, const xfer_event_t *event) {
    Owner *owner = host->hook_data;
    if (event->kind == XFER_EVENT_PEER_DOWN) {
        memcpy(owner->told_memory, owner->memory, owner->length);
        owner->told++;
    }
    if (event->kind != XFER_EVENT_NOTIFY) return;
    const uint64_t round = event->tag / kOps, i = event->tag % kOps;
    const bool ok = event->status == XFER_OK;
    if (round > owner->round || (ok && (round != owner->round || !applied(owner, round, i)))) {
        owner->broken = 1;
        return;
    }
    owner->noted[event->tag]++;
    owner->noted_well[event->tag] += ok;
}

static void open_owner(Owner *owner, const Mode *mode, uint64_t length) {
    xfer_engine_options_t options = host_options(mode);
    options.heartbeat_ms = kHeartbeat;
    *owner = (Owner){.memory = test_memory(length),
                     .told_memory = test_memory(length),
                     .length = length,
                     .journal = shared_new(sizeof(Journal))};
    owner->host = host_open_with(mode, &options);
    owner->host->hook_data = owner;
    owner->host->hook = note;
    host_listen(owner->host, "tcp://127.0.0.1:0");
    owner->region =
        open_region(owner->host, "memory", XFER_READ | XFER_WRITE, owner->memory, length);
}

static void start_writer(Owner *owner, Peer *peer, uint64_t round, int threads) {
    char argument[400];
    memset(owner->journal.memory, 0, sizeof(Journal));
    assert_true(round < kRounds);
    owner->round = round;
    snprintf(argument, sizeof argument, "%llu %d %d %s", (unsigned long long)round,
             owner->journal.fd, threads, owner->host->uri);
    peer_start_role(peer, "write", argument);
    const Journal *journal = (const Journal *)owner->journal.memory;
    const uint64_t end = now_ms() + kPatience;
    while (journal->events[0] == 0) {
        assert_true(now_ms() < end);
        turn(0);
    }
}

/* An event is seen by the test before the hook is through with it. */
static void wait_copy(Owner *owner) {
    const uint64_t end = now_ms() + kPatience;
    while (owner->told < count_events(owner->host, XFER_EVENT_PEER_DOWN, ANY_USER)) {
        assert_true(now_ms() < end);
        turn(1);
    }
}

/* The initiator sees an end when its socket closes; the owner is told when nothing can land any
 * more, which waits for a copy that is under way. Only then does its memory stay as it is. */
static void wait_told(Owner *owner, size_t times) {
    const uint64_t end = now_ms() + kPatience;
    while (owner->told < times) {
        if (now_ms() > end) fail_msg("told of %zu ends of %zu", owner->told, times);
        turn(1);
    }
}

/* How many of the initiator's connections have ended by which an operation was lost. */
static uint32_t connections_lost(const Journal *journal) {
    uint32_t lost = 0;
    for (int i = 0; i < kOps; i++)
        if (journal->status[i] != XFER_OK && journal->by[i] > lost) lost = journal->by[i];
    return lost;
}

/* At most one event for each operation. OK means that it is here and that its notification was
 * told; of the others that had begun one ends at most, and well only if its data are here. */
static void check_life(Owner *owner, uint64_t round) {
    const Journal *journal = (const Journal *)owner->journal.memory;
    for (uint64_t i = 0; i < kOps; i++) {
        const uint64_t key = round * kOps + i;
        assert_true(journal->events[i] <= (i < journal->began));
        assert_true(owner->noted[key] <= (is_batch(i) && i < journal->began));
        if (journal->events[i] == 0) continue;
        if (journal->status[i] != XFER_OK) { /* nothing of it came after the owner was told */
            const uint64_t at = round % 2 * kHalf + i * kSlot;
            assert_status(journal->status[i], XFER_EPEERLOST);
            assert_memory_equal(owner->memory + at, owner->told_memory + at, kSlot);
            continue;
        }
        if (!applied(owner, round, i))
            fail_msg("round %d: operation %d ended well and is not there", (int)round, (int)i);
        if (is_batch(i))
            wait_atomic(&owner->noted_well[key], 1, kPatience); /* it was held; it comes */
        assert_int_equal(owner->noted_well[key], is_batch(i));
    }
    assert_int_equal(owner->broken, 0);
}

static void assert_noted_once(const Owner *owner) {
    for (int key = 0; key < kRounds * kOps; key++)
        assert_true(owner->noted[key] <= 1);
}

static void test_killed(void **state) {
    const int rounds = rounds_of(34);
    static Owner owner;
    open_owner(&owner, *state, 2 * kHalf);
    owner.seed = first_seed("test_killed");
    Holdings before = holdings();
    int cut_short = 0, round = 0;
    /* In some it is killed before it has done all; who is fast does all in most. */
    for (; round < rounds || (cut_short == 0 && round < 20 * rounds); round++) {
        const Journal *journal = (const Journal *)owner.journal.memory;
        uint8_t *half = owner.memory + round % 2 * kHalf;
        Peer peer;
        memset(half, 0, kHalf);
        start_writer(&owner, &peer, (uint64_t)round, round / 2 % 2);
        pass_us(draw(&owner.seed, 6000));
        peer_kill(&peer);
        wait_event(owner.host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        wait_copy(&owner);
        check_life(&owner, (uint64_t)round);
        cut_short += journal->events[kOps - 1] == 0;
        pass_us(draw(&owner.seed, 20000));
        assert_memory_equal(owner.told_memory + round % 2 * kHalf, half, kHalf);
        /* The first connection opens the adapters, which its engine keeps. */
        if (round == 0 && wanted_way() != NULL) before = holdings();
    }
    assert_true(cut_short > 0);
    assert_noted_once(&owner);
    assert_holdings(before);
    assert_int_equal(count_events(owner.host, XFER_EVENT_PEER, ANY_USER), round);
    assert_int_equal(count_events(owner.host, XFER_EVENT_PEER_DOWN, ANY_USER), round);
    assert_int_equal(host_stats(owner.host).connections, 0);
    shared_drop(&owner.journal);
}

/* ---- stopped, given up perhaps, and awake again: it goes on to its end ---- */

static void test_stopped(void **state) {
    static Owner owner;
    open_owner(&owner, *state, 2 * kHalf);
    owner.seed = first_seed("test_stopped");
    for (int round = 0; round < rounds_of(6); round++) {
        const Journal *journal = (const Journal *)owner.journal.memory;
        const size_t told = owner.told;
        Peer peer;
        start_writer(&owner, &peer, (uint64_t)round, 1);
        pass_us(draw(&owner.seed, 2000));
        peer_signal(&peer, SIGSTOP);
        pass_ms((uint32_t)draw(&owner.seed, 4 * kHeartbeat));
        peer_signal(&peer, SIGCONT);
        const uint64_t end = now_ms() + kPatience;
        for (int i = 0; i < kOps; i++)
            while (journal->events[i] == 0) {
                assert_true(now_ms() < end);
                turn(1);
            }
        wait_told(&owner, told + connections_lost(journal));
        check_life(&owner, (uint64_t)round);
        pass_ms(20);
        check_life(&owner, (uint64_t)round); /* nothing has come since */
        peer_kill(&peer);
        wait_event(owner.host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        const uint64_t gone = now_ms() + kPatience;
        while (host_stats(owner.host).connections > 0) {
            assert_true(now_ms() < gone);
            turn(5);
        }
    }
    assert_noted_once(&owner);
    shared_drop(&owner.journal);
}

/* ---- 16 MiB, read back by the next life ---- */

enum { kRead = 16 << 20, kAll = 61 };

/* What the first life leaves to the second. */
typedef struct Legacy {
    xfer_ref_t ref;
    _Atomic int ends; /* operations that ended well */
} Legacy;

typedef struct Whole {
    int put;
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    uint8_t *local, byte;
} Whole;

/* Gets or puts all of it in one operation, once a byte has gone by the wanted way. */
static bool begin_whole(Whole *whole, const xfer_ref_t *ref) {
    const char *way = wanted_way();
    if (way != NULL && carried_by(whole->engine, way) == 0)
        return xfer_get(whole->ep, &whole->byte, ref, 0, 1, 3, NULL) == XFER_OK;
    return (whole->put ? xfer_put(whole->ep, whole->local, ref, 0, kRead, 2, NULL)
                       : xfer_get(whole->ep, whole->local, ref, 0, kRead, 2, NULL)) == XFER_OK;
}

/* Argument: 1 for a put, the legacy, the URI. */
static int whole_role(const char *argument) {
    int fd = -1;
    char uri[256];
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_POLL,
                                     .io_threads = XFER_NONE,
                                     .id = {kId}};
    Whole whole = {.local = calloc(1, kRead)};
    if (sscanf(argument, "%d %d %255s", &whole.put, &fd, uri) != 3) return 2;
    Legacy *legacy = shared_map(fd, sizeof *legacy);
    if (legacy == NULL || whole.local == NULL ||
        xfer_engine_open(&options, &whole.engine, NULL) != XFER_OK ||
        xfer_ep_open(whole.engine, uri, NULL, &whole.ep, NULL) != XFER_OK)
        return 3;
    if (whole.put) fill(whole.local, kRead, kAll);
    if (whole.put ? xfer_ep_lookup(whole.ep, "memory", 1, NULL, NULL) != XFER_OK
                  : !begin_whole(&whole, &legacy->ref))
        return 4;
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        if (xfer_engine_poll(whole.engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 5;
        if (count && event.kind == XFER_EVENT_LOOKUP && event.status == XFER_OK)
            memcpy(&legacy->ref, event.data, sizeof legacy->ref);
        if (count && (event.user == 1 || event.user == 3) && !begin_whole(&whole, &legacy->ref))
            return 6;
        if (count == 0 || event.user != 2) continue;
        if (event.status != XFER_OK || !filled(whole.local, kRead, kAll, 0)) return 7;
        legacy->ends++;
        if (!whole.put) return xfer_engine_join(whole.engine, XFER_NONE) == XFER_OK ? 0 : 8;
    }
}

static void start_whole(Owner *owner, Peer *peer, int put, int fd) {
    char argument[400];
    snprintf(argument, sizeof argument, "%d %d %s", put, fd, owner->host->uri);
    peer_start_role(peer, "whole", argument);
}

static void test_read_back(void **state) {
    static Owner owner;
    open_owner(&owner, *state, kRead);
    Shared shared = shared_new(sizeof(Legacy));
    const Legacy *legacy = (const Legacy *)shared.memory;
    Peer peer;
    start_whole(&owner, &peer, 1, shared.fd);
    const uint64_t end = now_ms() + kPatience;
    while (legacy->ends == 0) {
        assert_true(now_ms() < end);
        turn(1);
    }
    peer_kill(&peer);
    /* With the ref of the life before: the region knows nothing of who holds it. */
    start_whole(&owner, &peer, 0, shared.fd);
    assert_int_equal(peer_wait(&peer), 0);
    assert_int_equal(legacy->ends, 2);
    xfer_ref_t ref;
    assert_status(xfer_region_ref(owner.region, &ref), XFER_OK);
    assert_memory_equal(&ref, &legacy->ref, sizeof ref);
    shared_drop(&shared);
    shared_drop(&owner.journal);
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_killed),
    EACH_DISPATCH(test_stopped),
    EACH_DISPATCH(test_read_back),
};

TEST_MAIN_AFTER(tests, (peer_role("write", write_role), peer_role("whole", whole_role)))
