/* SPDX-License-Identifier: Apache-2.0
 *
 * Atomics: what they do to the word and bring back, what is refused and by whom, and what they
 * count as. How they stand against each other and against ends is in atomic_race.c. */
#include <string.h>

#include "atomics.h"

enum { kWords = 64 };

/* ---- what they do ---- */

/* Again and again, since the way to a local peer changes with use. */
static void assert_arithmetic(const Words *words) {
    volatile uint64_t *word = &words->memory[3];
    for (int round = 0; round < 4; round++) {
        uint64_t old = 99;
        SET_WORD(words->memory[3], 7);
        assert_status(atomic_now(words, XFER_ATOMIC_ADD, &old, 24, 5, 0), XFER_OK);
        assert_int_equal(old, 7);
        assert_int_equal(WORD(*word), 12);
        assert_status(atomic_now(words, XFER_ATOMIC_ADD, &old, 24, UINT64_MAX, 0), XFER_OK);
        assert_int_equal(old, 12);
        assert_int_equal(WORD(*word), 11);
        assert_status(atomic_now(words, XFER_ATOMIC_CAS, &old, 24, UINT64_MAX, 12), XFER_OK);
        assert_int_equal(old, 11); /* so it did nothing */
        assert_int_equal(WORD(*word), 11);
        assert_status(atomic_now(words, XFER_ATOMIC_CAS, &old, 24, UINT64_MAX, 11), XFER_OK);
        assert_int_equal(old, 11);
        assert_true(WORD(*word) == UINT64_MAX);
        assert_status(atomic_now(words, XFER_ATOMIC_ADD, &old, 24, 2, 0), XFER_OK); /* it wraps */
        assert_true(old == UINT64_MAX);
        assert_int_equal(WORD(*word), 1);
        assert_status(atomic_now(words, XFER_ATOMIC_CAS, NULL, 24, 1ull << 63, 1), XFER_OK);
        assert_true(WORD(*word) == 1ull << 63);
        assert_status(atomic_now(words, XFER_ATOMIC_ADD, NULL, 24, 0, 0), XFER_OK);
        assert_true(WORD(*word) == 1ull << 63);
        assert_int_equal(WORD(words->memory[2]), 0); /* nothing beside it */
        assert_int_equal(WORD(words->memory[4]), 0);
    }
}

static void test_arithmetic(void **state) {
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    assert_arithmetic(&words);
    words_of(&words, kWords, true);
    assert_arithmetic(&words);
}

static void test_with_oneself(void **state) {
    Words words = {.server = host_open(*state)};
    words.client = words.server;
    host_listen(words.server, "tcp://127.0.0.1:0");
    words.ep = open_ep(words.client, words.server->uri);
    words_of(&words, kWords, false);
    assert_arithmetic(&words);
}

/* A payload may have a checksum, an atomic needs none. */
static void test_with_checksums(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_CHECKSUM;
    Words words;
    words_open(&words, *state, kWords, false, &options);
    assert_arithmetic(&words);
}

/* Many at once: each has found another value, and its event says so, also where no memory is lent
 * for it. */
static void test_each_is_done_once(void **state) {
    enum { kAtOnce = 700 };
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    uint64_t *results = test_memory(kAtOnce * sizeof *results);
    bool seen[kAtOnce] = {false};
    for (uint64_t i = 0; i < kAtOnce; i++)
        assert_status(xfer_atomic(words.ep, XFER_ATOMIC_ADD, i % 2 ? &results[i] : NULL, &words.ref,
                                  0, 1, 0, i, NULL),
                      XFER_OK);
    for (uint64_t i = 0; i < kAtOnce; i++) {
        const xfer_event_t event = wait_event(words.client, XFER_EVENT_ATOMIC, i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_completion(&event);
        assert_ptr_equal(event.ep, words.ep);
        assert_int_equal(event.bytes, 8);
        assert_int_equal(results[i], i % 2 ? event.index : 0);
        assert_true(event.index < kAtOnce && !seen[event.index]);
        seen[event.index] = true;
    }
    assert_int_equal(WORD(words.memory[0]), kAtOnce);
}

/* Beside puts and gets of all sizes, on whatever lane these go. */
static void test_among_puts_and_gets(void **state) {
    enum { kRounds = 40, kBulk = 1 << 20 };
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    uint8_t *bulk = test_memory(2 * kBulk), *local = test_memory(2 * kBulk);
    open_region(words.server, "bulk", XFER_READ | XFER_WRITE, bulk, 2 * kBulk);
    const xfer_ref_t ref = look_up(words.client, words.ep, "bulk");
    fill(local, kBulk, 5);
    for (uint64_t i = 0; i < kRounds; i++) {
        const uint64_t length = i % 4 ? 100 * i : kBulk;
        assert_status(xfer_put(words.ep, local, &ref, 0, length, i, NULL), XFER_OK);
        assert_status(
            xfer_atomic(words.ep, XFER_ATOMIC_ADD, NULL, &words.ref, 0, i, 0, kRounds + i, NULL),
            XFER_OK);
        assert_status(xfer_get(words.ep, local + kBulk, &ref, kBulk, length, 2 * kRounds + i, NULL),
                      XFER_OK);
    }
    for (uint64_t i = 0; i < kRounds; i++) {
        assert_status(wait_event(words.client, XFER_EVENT_PUT, i, kPatience).status, XFER_OK);
        assert_status(wait_event(words.client, XFER_EVENT_ATOMIC, kRounds + i, kPatience).status,
                      XFER_OK);
        assert_status(wait_event(words.client, XFER_EVENT_GET, 2 * kRounds + i, kPatience).status,
                      XFER_OK);
    }
    assert_int_equal(WORD(words.memory[0]), kRounds * (kRounds - 1) / 2);
    assert_true(filled(bulk, kBulk, 5, 0));
}

/* ---- what is refused ---- */

static void test_refused_here(void **state) {
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    const uint64_t bytes = kWords * sizeof(uint64_t);
    const struct {
        const char *what;
        uint32_t op;
        uint64_t offset, compare;
        xfer_status_t status;
    } table[] = {
        {"no atomic", 0, 0, 0, XFER_EINVAL},
        {"an unknown atomic", 3, 0, 0, XFER_EINVAL},
        {"an add that compares", XFER_ATOMIC_ADD, 0, 1, XFER_EINVAL},
        {"not aligned", XFER_ATOMIC_ADD, 4, 0, XFER_EINVAL},
        {"not aligned, and past the end", XFER_ATOMIC_CAS, bytes + 1, 0, XFER_EINVAL},
        {"past the end", XFER_ATOMIC_ADD, bytes, 0, XFER_ERANGE},
        {"wraps", XFER_ATOMIC_ADD, UINT64_MAX - 7, 0, XFER_ERANGE},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const xfer_status_t status = xfer_atomic(words.ep, table[i].op, NULL, &words.ref,
                                                 table[i].offset, 1, table[i].compare, 1, NULL);
        if (status != table[i].status) fail_msg("%s: %s", table[i].what, xfer_status_name(status));
    }
    assert_status(xfer_atomic(words.ep, XFER_ATOMIC_ADD, NULL, NULL, 0, 1, 0, 1, NULL),
                  XFER_EINVAL);
    const xfer_op_options_t flags = {.size = sizeof flags, .flags = 1};
    assert_status(xfer_atomic(words.ep, XFER_ATOMIC_ADD, NULL, &words.ref, 0, 1, 0, 1, &flags),
                  XFER_EINVAL);
    xfer_ref_t later = words.ref;
    later.bytes[4] = 3;
    assert_status(xfer_atomic(words.ep, XFER_ATOMIC_ADD, NULL, &later, 0, 1, 0, 1, NULL),
                  XFER_EVERSION);
    uint64_t last = 1;
    assert_status(atomic_now(&words, XFER_ATOMIC_ADD, &last, bytes - 8, 1, 0), XFER_OK);
    assert_int_equal(last, 0);
    assert_int_equal(WORD(words.memory[kWords - 1]), 1);
    for (int i = 0; i < kWords - 1; i++)
        assert_int_equal(WORD(words.memory[i]), 0);
    assert_int_equal(count_events(words.client, XFER_EVENT_ATOMIC, 1), 0);
}

/* Neither access implies the other, for regions and for grants of them. */
static void test_access(void **state) {
    const uint32_t all = XFER_READ | XFER_WRITE | XFER_ATOMIC;
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    uint64_t local = 0;
    for (uint32_t access = 1; access <= all; access++)
        for (int made = 0; made < 2; made++)
            for (int again = 0; again < 2; again++) {
                xfer_region_options_t options = {.size = sizeof options, .name = "some"};
                xfer_grant_options_t part = {
                    .size = sizeof part, .access = access, .offset = 8, .length = 16};
                void *address = words.memory;
                xfer_region_t *region;
                if (again) options.access = access;
                if (made)
                    assert_status(xfer_region_alloc(words.server->engine, &options, 64, &address,
                                                    &region, NULL),
                                  XFER_OK);
                else
                    region = open_region(words.server, "some", options.access, address, 64);
                Words some = words;
                if (again)
                    assert_status(xfer_region_ref(region, &some.ref), XFER_OK);
                else
                    assert_status(xfer_region_grant(region, &part, &some.ref, NULL), XFER_OK);
                const uint64_t before = ((uint64_t *)address)[again ? 0 : 1];
                for (int use = 0; use < 3; use++) {
                    assert_status(atomic_now(&some, XFER_ATOMIC_ADD, NULL, 0, 1, 0),
                                  access & XFER_ATOMIC ? XFER_OK : XFER_EACCESS);
                    assert_status(get_now(some.client, some.ep, &local, &some.ref, 0, 8),
                                  access & XFER_READ ? XFER_OK : XFER_EACCESS);
                }
                assert_int_equal(((uint64_t *)address)[again ? 0 : 1],
                                 before + (access & XFER_ATOMIC ? 3 : 0));
                local = before;
                assert_status(put_now(some.client, some.ep, &local, &some.ref, 0, 8),
                              access & XFER_WRITE ? XFER_OK : XFER_EACCESS);
                assert_status(xfer_region_close(region), XFER_OK);
                wait_closed(words.server, region);
            }
}

/* What an asker of ours would not send: its ref says more than the owner has lent. */
static void test_refused_by_the_owner(void **state) {
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    const uint64_t before = host_stats(words.server).refused;
    Words longer = words;
    forge(&longer.ref, 56, 1 << 20); /* its length */
    assert_status(atomic_now(&longer, XFER_ATOMIC_ADD, NULL, kWords * 8, 1, 0), XFER_ERANGE);
    Words moved = words;
    forge(&moved.ref, 48, 4); /* where its part begins */
    for (int again = 0; again < 3; again++)
        assert_status(atomic_now(&moved, XFER_ATOMIC_ADD, NULL, 8, 1, 0), XFER_EINVAL);
    Words other = words;
    forge(&other.ref, 40, 12345); /* its key */
    assert_status(atomic_now(&other, XFER_ATOMIC_ADD, NULL, 0, 1, 0), XFER_ESTALE);
    assert_int_equal(host_stats(words.server).refused, before + 5);
    for (int i = 0; i < kWords; i++)
        assert_int_equal(WORD(words.memory[i]), 0);
}

static void test_start_of_region_and_grant(void **state) {
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    xfer_engine_t *owner = words.server->engine;
    uint8_t *memory = test_memory(128);
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_ATOMIC, .name = "odd"};
    xfer_region_t *region = NULL;
    xfer_error_t err;
    for (int start = 1; start < 8; start++) {
        assert_status(xfer_region_open(owner, &options, memory + start, 64, &region, &err),
                      XFER_EINVAL);
        assert_non_null(strstr(err.message, "divisible by 8"));
    }
    options.access = XFER_READ | XFER_WRITE; /* which may begin anywhere, */
    assert_status(xfer_region_open(owner, &options, memory + 4, 64, &region, NULL), XFER_OK);
    xfer_grant_options_t grant = {
        .size = sizeof grant, .access = XFER_ATOMIC, .offset = 8, .length = 16};
    xfer_ref_t ref;
    assert_status(xfer_region_grant(region, &grant, &ref, &err), XFER_EINVAL);
    assert_non_null(strstr(err.message, "divisible by 8"));
    grant.offset = 4; /* and have words in it */
    assert_status(xfer_region_grant(region, &grant, &ref, NULL), XFER_OK);
    Words part = words;
    part.ref = ref;
    assert_status(atomic_now(&part, XFER_ATOMIC_ADD, NULL, 8, 9, 0), XFER_OK);
    assert_int_equal(WORD(((uint64_t *)memory)[2]), 9);
    assert_status(atomic_now(&part, XFER_ATOMIC_ADD, NULL, 16, 9, 0), XFER_ERANGE);
}

static void test_stale_and_revoked(void **state) {
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    xfer_grant_options_t grant = {
        .size = sizeof grant, .access = XFER_ATOMIC, .offset = 64, .length = 64};
    Words part = words;
    assert_status(xfer_region_grant(words.region, &grant, &part.ref, NULL), XFER_OK);
    for (int again = 0; again < 3; again++)
        assert_status(atomic_now(&part, XFER_ATOMIC_ADD, NULL, 0, 1, 0), XFER_OK);
    assert_status(xfer_region_revoke(words.region, &part.ref), XFER_OK);
    wait_event(words.server, XFER_EVENT_REVOKED, ANY_USER, kPatience);
    for (int again = 0; again < 3; again++) {
        uint64_t old = 77;
        assert_status(atomic_now(&part, XFER_ATOMIC_ADD, &old, 0, 1, 0), XFER_EREVOKED);
        assert_int_equal(old, 77);
    }
    assert_status(atomic_now(&words, XFER_ATOMIC_ADD, NULL, 64, 1, 0), XFER_OK);
    assert_int_equal(WORD(words.memory[8]), 4);
    assert_status(xfer_region_close(words.region), XFER_OK);
    wait_closed(words.server, words.region);
    for (int again = 0; again < 3; again++)
        assert_status(atomic_now(&words, XFER_ATOMIC_ADD, NULL, 64, 1, 0), XFER_ESTALE);
    assert_int_equal(WORD(words.memory[8]), 4);
}

/* ---- what they count as ---- */

static void test_statistics(void **state) {
    Words words;
    words_open(&words, *state, kWords, false, NULL);
    for (int i = 0; i < 5; i++)
        assert_status(atomic_now(&words, XFER_ATOMIC_ADD, NULL, 0, 1, 0), XFER_OK);
    Words stale = words;
    forge(&stale.ref, 40, 1);
    assert_status(atomic_now(&stale, XFER_ATOMIC_ADD, NULL, 0, 1, 0), XFER_ESTALE);
    xfer_ep_stats_t ep;
    assert_status(xfer_ep_stats(words.ep, &ep, sizeof ep), XFER_OK);
    const xfer_engine_stats_t engine = host_stats(words.client);
    const xfer_op_stats_t *both[] = {&ep.atomic, &engine.atomic};
    for (int i = 0; i < 2; i++) {
        uint64_t timed = 0;
        for (int bucket = 0; bucket < 40; bucket++)
            timed += both[i]->latency[bucket];
        assert_int_equal(both[i]->submitted, 6);
        assert_int_equal(both[i]->completed, 5);
        assert_int_equal(both[i]->failed, 1);
        assert_int_equal(both[i]->bytes, 40);
        assert_int_equal(timed, 5);
    }
    assert_int_equal(engine.put.submitted + engine.get.submitted + engine.batch.submitted, 0);
    const xfer_engine_stats_t owner = host_stats(words.server);
    assert_int_equal(owner.served_put + owner.served_get, 0);
    assert_true(over_sockets() ? owner.served_atomic == 5 : owner.served_atomic <= 5);
    xfer_ref_info_t info;
    assert_status(xfer_ref_info(&words.ref, &info, sizeof info), XFER_OK);
    assert_int_equal(info.access, XFER_READ | XFER_ATOMIC);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_arithmetic),
    EACH_MODE(test_with_oneself),
    EACH_DISPATCH(test_with_checksums),
    EACH_MODE(test_each_is_done_once),
    EACH_DISPATCH(test_among_puts_and_gets),
    ONE_MODE(test_refused_here),
    EACH_DISPATCH(test_access),
    EACH_DISPATCH(test_refused_by_the_owner),
    EACH_DISPATCH(test_start_of_region_and_grant),
    EACH_MODE(test_stale_and_revoked),
    EACH_DISPATCH(test_statistics),
};

TEST_MAIN(tests)
