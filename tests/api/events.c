/* SPDX-License-Identifier: Apache-2.0
 *
 * Exactly once: whatever is submitted, canceled and closed in whatever order, each accepted call
 * gets one completion and each refused one none. What holds for every event (no overlap, none from
 * inside a call, the sequence) is checked by the fixture in this program as in all others; here it
 * is provoked. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

enum { kMaxCalls = 4000, kSlots = 6 };

typedef struct Ledger {
    uint64_t random;
    uint64_t next; /* user word */
    uint8_t accepted[kMaxCalls];
    uint32_t type[kMaxCalls];
} Ledger;

static uint64_t pick(Ledger *ledger, uint64_t below) {
    ledger->random = ledger->random * 6364136223846793005u + 1442695040888963407u;
    return (ledger->random >> 33) % below;
}

static void note(Ledger *ledger, uint32_t type, xfer_status_t status) {
    ledger->type[ledger->next] = type;
    ledger->accepted[ledger->next++] = status == XFER_OK;
}

static void assert_ledger(Host *host, const Ledger *ledger) {
    static uint8_t came[kMaxCalls];
    memset(came, 0, sizeof came);
    uint64_t ok = 0;
    for (size_t i = 0; i < host->seen_count; i++) {
        const xfer_event_t *event = &host->seen[i].event;
        if (event->user >= ledger->next) continue;
        if (event->kind != ledger->type[event->user]) continue;
        came[event->user]++;
        ok += event->status == XFER_OK;
        if (event->kind <= XFER_EVENT_SEND || event->kind == XFER_EVENT_NOTIFIED)
            assert_completion(event);
    }
    for (uint64_t i = 0; i < ledger->next; i++) {
        if (came[i] != ledger->accepted[i]) {
            fail_msg("call %llu of type %u: %u events, %u were due", (unsigned long long)i,
                     ledger->type[i], came[i], ledger->accepted[i]);
        }
    }
    print_message("  %llu calls, %llu ended well\n", (unsigned long long)ledger->next,
                  (unsigned long long)ok);
}

static xfer_status_t submit_with_notification(xfer_batch_t *batch, uint64_t user) {
    const xfer_submit_options_t options = {
        .size = sizeof options, .flags = XFER_SUBMIT_NOTIFY, .notify_key = user};
    return xfer_batch_submit(batch, user, &options);
}

/* One random step on one of a few endpoints and batches. */
static void step(Ledger *ledger, Pair *pair, xfer_ep_t **eps, xfer_batch_t **batches,
                 uint8_t *local) {
    uint64_t slot = pick(ledger, kSlots);
    uint64_t length = pick(ledger, 4) == 0 ? pair->length : pick(ledger, 5000);
    if (eps[slot] == NULL) eps[slot] = open_ep(pair->client, pair->server->uri);
    if (batches[slot] == NULL) {
        assert_status(xfer_batch_open(eps[slot], NULL, &batches[slot], NULL), XFER_OK);
        for (uint64_t i = 0; i < 20; i++) {
            assert_status(
                xfer_batch_put(batches[slot], local + i * 4096, &pair->ref, i * 4096, 4096),
                XFER_OK);
        }
    }
    switch (pick(ledger, 14)) {
    case 0:
    case 1:
        note(ledger, XFER_EVENT_PUT,
             xfer_put(eps[slot], local, &pair->ref, 0, length, ledger->next, NULL));
        break;
    case 2:
        note(ledger, XFER_EVENT_GET,
             xfer_get(eps[slot], local, &pair->ref, 0, length, ledger->next, NULL));
        break;
    case 3:
    case 4:
    case 5:
        note(ledger, XFER_EVENT_BATCH, xfer_batch_submit(batches[slot], ledger->next, NULL));
        break;
    case 12:
        note(ledger, XFER_EVENT_BATCH, submit_with_notification(batches[slot], ledger->next));
        break;
    case 13:
        note(ledger, XFER_EVENT_NOTIFIED, xfer_notify(eps[slot], NULL, 0, 1, ledger->next, NULL));
        break;
    case 6:
        xfer_batch_cancel(batches[slot]);
        break;
    case 7:
        xfer_cancel(pair->client->engine, eps[slot], pick(ledger, ledger->next + 1), UINT64_MAX);
        break;
    case 8:
        note(ledger, XFER_EVENT_LOOKUP,
             xfer_ep_lookup(eps[slot], "memory", ledger->next, NULL, NULL));
        break;
    case 9:
        note(ledger, XFER_EVENT_PROBE, xfer_ep_probe(eps[slot], ledger->next, NULL));
        break;
    case 10:
        if (pick(ledger, 3) != 0) break;
        assert_status(xfer_batch_close(batches[slot]), XFER_OK);
        batches[slot] = NULL;
        break;
    default:
        if (pick(ledger, 4) != 0) break;
        assert_status(xfer_batch_close(batches[slot]), XFER_OK);
        assert_status(xfer_ep_close(eps[slot]), XFER_OK);
        batches[slot] = NULL;
        eps[slot] = NULL;
    }
}

static void test_exactly_once(void **state) {
    static Ledger ledger;
    Pair pair;
    const uint64_t length = 1 << 20;
    pair_open(&pair, *state, length);
    uint8_t *local = test_memory(length);
    xfer_ep_t *eps[kSlots] = {NULL};
    xfer_batch_t *batches[kSlots] = {NULL};
    memset(&ledger, 0, sizeof ledger);
    ledger.random =
        20240607 + ((const Mode *)*state)->dispatch * 16u + ((const Mode *)*state)->io_threads;
    int steps = quick() ? 500 : 3000;
    for (int i = 0; i < steps; i++) {
        step(&ledger, &pair, eps, batches, local);
        if (pick(&ledger, 3) == 0) turn(0);
        if (pick(&ledger, 200) == 0) { /* a region that goes under their feet */
            assert_status(xfer_region_close(pair.region), XFER_OK);
            wait_closed(pair.server, pair.region);
            pair.region =
                open_region(pair.server, "memory", XFER_READ | XFER_WRITE, pair.memory, length);
            assert_status(xfer_region_ref(pair.region, &pair.ref), XFER_OK);
        }
    }
    host_end(pair.client);
    assert_ledger(pair.client, &ledger);
}

/* The same, with the engine's end in the middle of everything. */
static void test_exactly_once_at_the_end(void **state) {
    static Ledger ledger;
    for (uint64_t round = 0; round < (quick() ? 2 : 6); round++) {
        Pair pair;
        pair_open(&pair, *state, 1 << 20);
        uint8_t *local = test_memory(1 << 20);
        xfer_ep_t *eps[kSlots] = {NULL};
        xfer_batch_t *batches[kSlots] = {NULL};
        memset(&ledger, 0, sizeof ledger);
        ledger.random = round;
        for (int i = 0; i < 60; i++)
            step(&ledger, &pair, eps, batches, local);
        if (round % 2 == 0) host_end(pair.server); /* the peer leaves first */
        host_end(pair.client);
        assert_ledger(pair.client, &ledger);
        host_end(pair.server);
    }
}

/* ---- callbacks never overlap, though many connections and threads want to tell something ---- */

static void dawdle(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind == XFER_EVENT_PUT) usleep(100);
}

static void test_slow_callbacks(void **state) {
    enum { kServers = 4, kPuts = 100 };
    Pair pair;
    pair_open(&pair, *state, 4096);
    xfer_ep_t *eps[kServers];
    xfer_ref_t refs[kServers];
    uint8_t *local = test_memory(4096);
    for (int i = 0; i < kServers; i++) {
        Host *server = host_open(*state);
        host_listen(server, "tcp://127.0.0.1:0");
        open_region(server, "memory", XFER_WRITE, test_memory(4096), 4096);
        eps[i] = open_ep(pair.client, server->uri);
        refs[i] = look_up(pair.client, eps[i], "memory");
    }
    pair.client->hook = dawdle;
    for (uint64_t i = 0; i < kPuts; i++) {
        for (uint64_t k = 0; k < kServers; k++) {
            assert_status(xfer_put(eps[k], local, &refs[k], 0, 4096, k, NULL), XFER_OK);
        }
    }
    for (uint64_t i = 0; i < kPuts * kServers; i++) {
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, ANY_USER, kPatience).status, XFER_OK);
    }
    for (uint64_t k = 0; k < kServers; k++)
        assert_int_equal(count_events(pair.client, XFER_EVENT_PUT, k), kPuts);
}

/* ---- fields that an event does not name are zero ---- */

static void test_unused_fields(void **state) {
    Pair pair;
    static const uint64_t zero[4];
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, 4096, 1, NULL), XFER_OK);
    assert_status(xfer_ep_probe(pair.ep, 2, NULL), XFER_OK);
    xfer_event_t events[3] = {wait_event(pair.client, XFER_EVENT_PUT, 1, kPatience),
                              wait_event(pair.client, XFER_EVENT_PROBE, 2, kPatience)};
    assert_status(xfer_region_close(pair.region), XFER_OK);
    events[2] = wait_event(pair.server, XFER_EVENT_CLOSED, ANY_USER, kPatience);
    assert_int_equal(events[0].flags, XFER_FENCED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(events[i].reserved0, 0);
        assert_memory_equal(events[i].reserved, zero, sizeof zero);
        assert_int_equal(events[i].origin, XFER_ORIGIN_NONE);
        assert_int_equal(events[i].native_code, 0);
        assert_int_equal(events[i].tag, 0);
        assert_int_equal(events[i].index, 0);
        assert_int_equal(events[i].data_length, 0);
        assert_null(events[i].data);
    }
    assert_null(events[0].object);
    assert_null(events[2].ep);
}

/* ---- what failed says why ---- */

static void assert_says(Host *host, uint32_t kind, uint64_t user, xfer_status_t status,
                        const char *part) {
    xfer_event_t event = wait_event(host, kind, user, kPatience);
    assert_status(event.status, status);
    if (event.data == NULL) fail_msg("kind %u has no sentence", kind);
    char text[256] = "";
    memcpy(text, event.data, event.data_length);
    if (strstr(text, part) == NULL) fail_msg("kind %u says: %s", kind, text);
}

static void test_sentences(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    const char *nowhere = own_address();
    Host *client = pair.client;
    xfer_ep_t *ep = open_ep(client, nowhere);
    assert_status(xfer_ep_connect(ep, 1, NULL), XFER_OK);
    assert_says(client, XFER_EVENT_CONNECT, 1, XFER_EUNREACHABLE, nowhere);
    assert_status(xfer_put(ep, local, &pair.ref, 0, 8, 2, WITHIN(50)), XFER_OK);
    assert_says(client, XFER_EVENT_PUT, 2, XFER_ETIMEDOUT, nowhere);
    assert_status(xfer_ep_probe(ep, 3, WITHIN(50)), XFER_OK);
    assert_says(client, XFER_EVENT_PROBE, 3, XFER_ETIMEDOUT, nowhere);
    assert_status(xfer_send(ep, local, 8, 1, 4, WITHIN(50)), XFER_OK);
    assert_says(client, XFER_EVENT_SEND, 4, XFER_ETIMEDOUT, nowhere);
    assert_status(xfer_ep_lookup(ep, "kv", 5, WITHIN(50), NULL), XFER_OK);
    assert_says(client, XFER_EVENT_LOOKUP, 5, XFER_ETIMEDOUT, nowhere);
    /* One that ends well after that has none, of the same object as well. */
    assert_status(put_now(client, pair.ep, local, &pair.ref, 0, 8), XFER_OK);
    host_end(pair.server);
    xfer_event_t down = wait_event(client, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    assert_int_equal(down.origin, XFER_ORIGIN_PEER);
    assert_non_null(down.data);
}

/* What a lookup did not find, and what a counter has not counted. */
static void test_sentences_of_waits(void **state) {
    enum { kKey = 77 };
    Pair pair;
    char hole_uri[64], name[256] = "";
    pair_open(&pair, *state, 64);
    Host *client = pair.client, *server = pair.server;
    assert_status(xfer_ep_lookup(pair.ep, "kv", 1, NULL, NULL), XFER_OK);
    assert_says(client, XFER_EVENT_LOOKUP, 1, XFER_ENOTFOUND, "the peer has no region \"kv\"");
    const xfer_op_options_t wait = {.size = sizeof wait, .timeout_ms = 50, .flags = XFER_FLAG_WAIT};
    assert_status(xfer_ep_lookup(pair.ep, "kv", 2, &wait, NULL), XFER_OK);
    assert_says(client, XFER_EVENT_LOOKUP, 2, XFER_ETIMEDOUT,
                "in time the peer had no region \"kv\"");
    const int hole = black_hole(hole_uri, sizeof hole_uri);
    xfer_ep_t *silent = open_ep(client, hole_uri);
    assert_status(xfer_ep_lookup(silent, "kv", 3, WITHIN(50), NULL), XFER_OK);
    assert_says(client, XFER_EVENT_LOOKUP, 3, XFER_ETIMEDOUT, "region \"kv\"");
    close(hole);

    /* A name that is longer than the sentence may be is cut between two characters. */
    static const char character[] = "\xe9\x9b\xaa";
    for (int i = 0; i < 85; i++)
        strcat(name, character);
    assert_status(xfer_ep_lookup(pair.ep, name, 4, NULL, NULL), XFER_OK);
    const xfer_event_t cut = wait_event(client, XFER_EVENT_LOOKUP, 4, kPatience);
    assert_status(cut.status, XFER_ENOTFOUND);
    const char *text = cut.data;
    const uint64_t length = cut.data_length - (text[cut.data_length - 1] == '"');
    assert_true(length > 150);
    assert_memory_equal(text + length - sizeof character + 1, character, sizeof character - 1);

    const xfer_counter_options_t brief = {.size = sizeof brief, .timeout_ms = 50, .user = 5};
    xfer_counter_t *counter = NULL;
    assert_status(xfer_counter_open(server->engine, kKey, 3, &brief, &counter, NULL), XFER_OK);
    assert_says(server, XFER_EVENT_COUNTER, 5, XFER_ETIMEDOUT,
                "0 of 3 notifications with key 77 came");
    assert_status(xfer_counter_close(counter), XFER_OK);
}

/* A region, its grants, and the engine are found by their words, also when the next region has the
 * same handle. */
static void test_words_of_handles(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(64);
    xfer_region_t *regions[3];
    xfer_ref_t granted[3];
    for (uint64_t i = 0; i < 3; i++) {
        const xfer_region_options_t options = {.size = sizeof options,
                                               .access = XFER_READ,
                                               .name = i ? NULL : "named",
                                               .user = 11 + i};
        xfer_region_options_t unnamed = options;
        if (i) unnamed.access = 0;
        void *own;
        assert_status(i == 1
                          ? xfer_region_alloc(host->engine, &unnamed, 64, &own, &regions[i], NULL)
                          : xfer_region_open(host->engine, &unnamed, memory, 64, &regions[i], NULL),
                      XFER_OK);
        const xfer_grant_options_t grant = {
            .size = sizeof grant, .access = XFER_READ, .length = 8, .user = 21 + i};
        assert_status(xfer_region_grant(regions[i], &grant, &granted[i], NULL), XFER_OK);
    }
    for (uint64_t i = 0; i < 2; i++) { /* the third ends with the engine */
        assert_status(xfer_region_close(regions[i]), XFER_OK);
        xfer_event_t event = wait_event(host, XFER_EVENT_REVOKED, 21 + i, kPatience);
        assert_int_equal(event.tag, 11 + i);
        event = wait_event(host, XFER_EVENT_CLOSED, 11 + i, kPatience);
        assert_ptr_equal(event.object, regions[i]);
    }
    assert_status(xfer_engine_close(host->engine), XFER_OK);
    assert_int_equal(wait_event(host, XFER_EVENT_REVOKED, 23, kPatience).tag, 13);
    wait_event(host, XFER_EVENT_CLOSED, 13, kPatience);
    const uint64_t own = (uint64_t)(uintptr_t)host;
    assert_ptr_equal(wait_event(host, XFER_EVENT_CLOSED, own, kPatience).object, host->engine);
    host_end(host);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_exactly_once),         EACH_MODE(test_exactly_once_at_the_end),
    EACH_MODE(test_slow_callbacks),       EACH_DISPATCH(test_unused_fields),
    EACH_DISPATCH(test_words_of_handles), EACH_MODE(test_sentences),
    EACH_MODE(test_sentences_of_waits),
};

TEST_MAIN(tests)
