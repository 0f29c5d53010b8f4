/* SPDX-License-Identifier: Apache-2.0
 *
 * Grants: what one allows, how it ends (revoked, its lease, its region, its engine), and that
 * nothing lands by it after its REVOKED event. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "carried.h"
#include "fixture.h"

enum { kPool = 1 << 20, kPage = 4096 };

/* A pool that has neither name nor access: it is lent by grants alone. */
typedef struct Pool {
    Pair pair;
    uint8_t *memory;
    xfer_region_t *region;
} Pool;

static void pool_open(Pool *pool, const Mode *mode) {
    pair_open(&pool->pair, mode, kPage);
    pool->memory = test_memory(kPool);
    xfer_region_options_t options = {.size = sizeof options};
    assert_status(xfer_region_open(pool->pair.server->engine, &options, pool->memory, kPool,
                                   &pool->region, NULL),
                  XFER_OK);
}

static xfer_ref_t grant(Pool *pool, uint32_t access, uint64_t offset, uint64_t length,
                        uint32_t lease_ms, uint64_t user) {
    xfer_grant_options_t options = {.size = sizeof options,
                                    .access = access,
                                    .offset = offset,
                                    .length = length,
                                    .lease_ms = lease_ms,
                                    .user = user};
    xfer_ref_t ref;
    assert_status(xfer_region_grant(pool->region, &options, &ref, NULL), XFER_OK);
    return ref;
}

static void wait_revoked(Pool *pool, uint64_t user, xfer_status_t status) {
    xfer_event_t event = wait_event(pool->pair.server, XFER_EVENT_REVOKED, user, kPatience);
    assert_status(event.status, status);
    assert_ptr_equal(event.object, pool->region);
}

static xfer_status_t put_by(Pool *pool, const xfer_ref_t *ref, uint64_t offset, uint64_t length) {
    uint8_t *local = test_memory(length);
    fill(local, length, 7);
    return put_now(pool->pair.client, pool->pair.ep, local, ref, offset, length);
}

static xfer_status_t get_by(Pool *pool, const xfer_ref_t *ref, uint64_t offset, uint64_t length) {
    return get_now(pool->pair.client, pool->pair.ep, test_memory(length), ref, offset, length);
}

static void test_range_and_access(void **state) {
    Pool pool;
    pool_open(&pool, *state);
    xfer_ref_t both = grant(&pool, XFER_READ | XFER_WRITE, 3 * kPage, kPage, 0, 1);
    xfer_ref_t reader = grant(&pool, XFER_READ, 3 * kPage + 16, 100, XFER_NONE, 2);
    xfer_ref_t writer = grant(&pool, XFER_WRITE, kPool - 1, 1, 0, 3);
    xfer_ref_info_t info;
    assert_status(xfer_ref_info(&reader, &info, sizeof info), XFER_OK);
    assert_int_equal(info.length, 100);
    assert_int_equal(info.access, XFER_READ);

    assert_status(put_by(&pool, &both, 0, kPage), XFER_OK);
    assert_true(filled(pool.memory + 3 * kPage, kPage, 7, 0));
    assert_int_equal(pool.memory[3 * kPage - 1], 0);
    assert_int_equal(pool.memory[4 * kPage], 0);
    uint8_t local[100];
    assert_status(get_now(pool.pair.client, pool.pair.ep, local, &reader, 0, 100), XFER_OK);
    assert_true(filled(local, 100, 7, 16));

    assert_status(put_by(&pool, &both, 1, kPage), XFER_ERANGE);
    assert_status(get_by(&pool, &reader, 1, 100), XFER_ERANGE);
    assert_status(put_by(&pool, &reader, 0, 1), XFER_EACCESS);
    assert_status(get_by(&pool, &writer, 0, 0), XFER_EACCESS);
    assert_status(put_by(&pool, &writer, 1, 1), XFER_ERANGE);
    assert_int_equal(host_stats(pool.pair.server).grants, 3);
    assert_int_equal(host_stats(pool.pair.server).regions, 2);
}

/* What the region lends to everybody is no part of what a grant of it lends, neither way. */
static void test_less_than_the_region(void **state) {
    const uint32_t both = XFER_READ | XFER_WRITE;
    const struct {
        uint32_t region, grant;
    } table[] = {{both, XFER_READ},       {both, XFER_WRITE},      {XFER_READ, XFER_READ},
                 {XFER_READ, XFER_WRITE}, {XFER_WRITE, XFER_READ}, {XFER_WRITE, XFER_WRITE},
                 {0, XFER_READ},          {0, XFER_WRITE},         {XFER_READ, both},
                 {XFER_WRITE, both}};
    Pool pool;
    pool_open(&pool, *state);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (int made = 0; made < 2; made++) { /* memory of the caller's, and of the engine's */
            xfer_region_options_t options = {.size = sizeof options, .access = table[i].region};
            if (options.access) options.name = "lends";
            void *memory = pool.memory;
            xfer_engine_t *owner = pool.pair.server->engine;
            Pool lent = pool;
            if (made)
                assert_status(
                    xfer_region_alloc(owner, &options, kPage, &memory, &lent.region, NULL),
                    XFER_OK);
            else
                assert_status(xfer_region_open(owner, &options, memory, kPage, &lent.region, NULL),
                              XFER_OK);
            const xfer_ref_t ref = grant(&lent, table[i].grant, 16, 100, 0, 77);
            for (int again = 0; again < 3; again++) { /* the way to a local peer changes with use */
                assert_status(put_by(&lent, &ref, 0, 100),
                              table[i].grant & XFER_WRITE ? XFER_OK : XFER_EACCESS);
                assert_status(get_by(&lent, &ref, 0, 100),
                              table[i].grant & XFER_READ ? XFER_OK : XFER_EACCESS);
                assert_status(put_by(&lent, &ref, 1, 100), XFER_ERANGE);
                if (!table[i].region) continue;
                xfer_ref_t whole;
                assert_status(xfer_region_ref(lent.region, &whole), XFER_OK);
                assert_status(put_by(&lent, &whole, 0, kPage),
                              table[i].region & XFER_WRITE ? XFER_OK : XFER_EACCESS);
                assert_status(get_by(&lent, &whole, 0, kPage),
                              table[i].region & XFER_READ ? XFER_OK : XFER_EACCESS);
            }
            assert_status(xfer_region_close(lent.region), XFER_OK);
            wait_closed(pool.pair.server, lent.region);
        }
}

static void test_wrong_options(void **state) {
    Pool pool;
    pool_open(&pool, *state);
    const struct {
        const char *what;
        xfer_grant_options_t options;
        xfer_status_t status;
    } table[] = {
        {"no access", {.length = 1}, XFER_EINVAL},
        {"no length", {.access = XFER_READ}, XFER_EINVAL},
        {"no length at the end", {.access = XFER_READ, .offset = kPool}, XFER_EINVAL},
        {"an unknown access", {.access = 8, .length = 1}, XFER_EINVAL},
        {"past the end", {.access = XFER_READ, .offset = kPool, .length = 1}, XFER_ERANGE},
        {"too long", {.access = XFER_READ, .offset = 1, .length = kPool}, XFER_ERANGE},
        {"wrapping", {.access = XFER_READ, .offset = 2, .length = UINT64_MAX}, XFER_ERANGE},
        {"far away", {.access = XFER_READ, .offset = UINT64_MAX, .length = 1}, XFER_ERANGE},
    };
    xfer_ref_t ref;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_grant_options_t options = table[i].options;
        options.size = sizeof options;
        xfer_status_t status = xfer_region_grant(pool.region, &options, &ref, NULL);
        if (status != table[i].status) fail_msg("%s: %s", table[i].what, xfer_status_name(status));
    }
    xfer_grant_options_t good = {.size = sizeof good, .access = XFER_READ, .length = 1};
    assert_status(xfer_region_grant(pool.region, &good, NULL, NULL), XFER_EINVAL);
    assert_status(xfer_region_grant(pool.region, NULL, &ref, NULL), XFER_EINVAL);
    assert_int_equal(host_stats(pool.pair.server).grants, 0);
}

/* What is no grant of this region can neither be renewed nor revoked. */
static void test_other_refs(void **state) {
    Pool pool, other;
    pool_open(&pool, *state);
    pool_open(&other, *state);
    xfer_ref_t ours = grant(&pool, XFER_READ, 0, 1, 0, 1);
    xfer_ref_t theirs = grant(&other, XFER_READ, 0, 1, 0, 1);
    xfer_ref_t mangled = ours;
    mangled.bytes[50] ^= 1;
    const struct {
        const xfer_ref_t *ref;
        xfer_status_t status;
    } table[] = {{&pool.pair.ref, XFER_EINVAL},
                 {&theirs, XFER_EINVAL},
                 {&mangled, XFER_EINVAL},
                 {NULL, XFER_EINVAL}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_status(xfer_region_renew(pool.region, table[i].ref, 10), table[i].status);
        assert_status(xfer_region_revoke(pool.region, table[i].ref), table[i].status);
    }
    /* A grant of another region of this engine. */
    assert_status(xfer_region_revoke(pool.pair.region, &ours), XFER_EREVOKED);
    assert_status(xfer_region_revoke(pool.region, &ours), XFER_OK);
    assert_status(xfer_region_revoke(pool.region, &ours), XFER_EREVOKED);
    assert_status(xfer_region_renew(pool.region, &ours, 10), XFER_EREVOKED);
    wait_revoked(&pool, 1, XFER_OK);
    pass_ms(20);
    assert_int_equal(count_events(pool.pair.server, XFER_EVENT_REVOKED, 1), 1);
}

static void test_revoke_is_its_own(void **state) {
    Pool pool;
    pool_open(&pool, *state);
    xfer_ref_t first = grant(&pool, XFER_WRITE, 0, kPage, 0, 1);
    xfer_ref_t second = grant(&pool, XFER_WRITE, 0, kPage, 0, 2);
    assert_status(put_by(&pool, &first, 0, 1), XFER_OK);
    assert_status(xfer_region_revoke(pool.region, &first), XFER_OK);
    wait_revoked(&pool, 1, XFER_OK);
    assert_status(put_by(&pool, &first, 0, 1), XFER_EREVOKED);
    assert_status(put_by(&pool, &second, 0, 1), XFER_OK);
    assert_status(put_now(pool.pair.client, pool.pair.ep, &first, &pool.pair.ref, 0, 1), XFER_OK);
}

/* By the way that the engines' regions go. */
static void test_goes_the_wanted_way(void **state) {
    const char *way = wanted_way();
    Pool pool;
    if (way == NULL) {
        print_message("skipped: any way will do here; api_rdma_grant asks for adapters\n");
        skip();
    }
    if (getenv("XFER_TEST_GRANTS_ARE_SERVED") != NULL) {
        print_message("skipped: grants are served by their owner here\n");
        skip();
    }
    pool_open(&pool, *state);
    xfer_ref_t ref = grant(&pool, XFER_READ | XFER_WRITE, kPage, kPage, 0, 1);
    wait_way(pool.pair.client, pool.pair.ep, &ref);
    const uint64_t before = carried_by(pool.pair.client->engine, way);
    assert_status(put_by(&pool, &ref, 0, kPage), XFER_OK);
    assert_status(get_by(&pool, &ref, 0, kPage), XFER_OK);
    assert_true(carried_by(pool.pair.client->engine, way) == before + 2 * kPage);
    assert_true(filled(pool.memory + kPage, kPage, 7, 0));
    assert_status(xfer_region_revoke(pool.region, &ref), XFER_OK);
    wait_revoked(&pool, 1, XFER_OK);
    memset(pool.memory, 0, kPool);
    assert_status(put_by(&pool, &ref, 0, kPage), XFER_EREVOKED);
    for (size_t i = 0; i < kPool; i++)
        assert_int_equal(pool.memory[i], 0);
}

static void test_lease(void **state) {
    enum { kLease = 3000, kLast = 200 }; /* a busy machine renews within the first */
    Pool pool;
    pool_open(&pool, *state);
    const uint64_t began = now_ms();
    xfer_ref_t brief = grant(&pool, XFER_WRITE, 0, kPage, 50, 1);
    xfer_ref_t kept = grant(&pool, XFER_WRITE, 0, kPage, kLease, 2);
    xfer_ref_t freed = grant(&pool, XFER_WRITE, 0, kPage, kLease, 3);
    xfer_ref_t cut = grant(&pool, XFER_WRITE, 0, kPage, 0, 4);
    assert_status(xfer_region_renew(pool.region, &freed, XFER_NONE), XFER_OK);
    assert_status(xfer_region_renew(pool.region, &cut, 60), XFER_OK);
    wait_revoked(&pool, 1, XFER_ETIMEDOUT);
    assert_true(now_ms() - began >= 49);
    assert_status(put_by(&pool, &brief, 0, 1), XFER_EREVOKED);
    assert_status(xfer_region_renew(pool.region, &brief, 50), XFER_EREVOKED);
    wait_revoked(&pool, 4, XFER_ETIMEDOUT);
    while (now_ms() - began < kLease + 300) {
        if (xfer_region_renew(pool.region, &kept, kLease) != XFER_OK) fail_msg("the lease ran out");
        pass_ms(20);
    }
    assert_status(put_by(&pool, &kept, 0, 1), XFER_OK);
    const uint64_t renewed = now_ms();
    assert_status(xfer_region_renew(pool.region, &kept, kLast), XFER_OK);
    wait_revoked(&pool, 2, XFER_ETIMEDOUT);
    assert_true(now_ms() - renewed >= kLast - 1);
    assert_status(put_by(&pool, &freed, 0, 1), XFER_OK);
}

static void test_region_close_ends_grants(void **state) {
    Pool pool;
    pool_open(&pool, *state);
    enum { kGrants = 50 };
    for (uint64_t i = 1; i <= kGrants; i++) {
        xfer_ref_t ref = grant(&pool, XFER_WRITE, i * 10, 10, i % 2 ? 60000 : 0, i);
        assert_status(put_by(&pool, &ref, 0, 10), XFER_OK);
    }
    assert_status(xfer_region_close(pool.region), XFER_OK);
    wait_closed(pool.pair.server, pool.region);
    /* Its own event is its last: all of them are here. */
    assert_int_equal(count_events(pool.pair.server, XFER_EVENT_REVOKED, ANY_USER), kGrants);
    for (uint64_t i = 1; i <= kGrants; i++)
        wait_revoked(&pool, i, XFER_ECLOSED);
    assert_int_equal(host_stats(pool.pair.server).grants, 0);
}

static void test_engine_close_ends_grants(void **state) {
    Pool pool;
    pool_open(&pool, *state);
    grant(&pool, XFER_READ, 0, 10, 0, 1);
    grant(&pool, XFER_READ, 0, 10, 60000, 2);
    assert_status(xfer_engine_close(pool.pair.server->engine), XFER_OK);
    wait_closed(pool.pair.server, pool.region);
    assert_int_equal(count_events(pool.pair.server, XFER_EVENT_REVOKED, ANY_USER), 2);
    wait_revoked(&pool, 1, XFER_ECLOSED);
    wait_revoked(&pool, 2, XFER_ECLOSED);
}

/* A pool that is registered once serves thousands of requests. */
static void test_thousands(void **state) {
    Pool pool;
    pool_open(&pool, *state);
    enum { kAtOnce = 250 };
    const int rounds = quick() ? 4 : 20;
    static xfer_ref_t refs[kAtOnce];
    for (int round = 0; round < rounds; round++) {
        for (uint64_t i = 0; i < kAtOnce; i++)
            refs[i] = grant(&pool, XFER_WRITE, i * kPage, kPage, 0, 1000 + i);
        assert_status(put_by(&pool, &refs[round], 0, kPage), XFER_OK);
        for (uint64_t i = 0; i < kAtOnce; i++)
            assert_status(xfer_region_revoke(pool.region, &refs[i]), XFER_OK);
        for (uint64_t i = 0; i < kAtOnce; i++)
            wait_revoked(&pool, 1000 + i, XFER_OK);
        assert_status(put_by(&pool, &refs[round], 0, kPage), XFER_EREVOKED);
    }
    assert_int_equal(host_stats(pool.pair.server).grants, 0);
}

/* The owner writes its memory again in the callback that says the grant is quiet: not one byte that
 * was still on its way arrives afterwards. */
static atomic_int quiet_seen;
static Pool racing;

static void rewrite(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_REVOKED) return;
    memset(racing.memory, 0xee, kPool);
    atomic_fetch_add(&quiet_seen, 1);
}

static void test_nothing_lands_afterwards(void **state) {
    pool_open(&racing, *state);
    racing.pair.server->hook = rewrite;
    uint8_t *local = test_memory(kPool);
    fill(local, kPool, 3);
    const int rounds = quick() ? 20 : 100;
    for (int round = 0; round < rounds; round++) {
        xfer_ref_t ref = grant(&racing, XFER_WRITE, 0, kPool, 0, 1);
        const int before = atomic_load(&quiet_seen);
        for (uint64_t i = 0; i < 4; i++)
            assert_status(xfer_put(racing.pair.ep, local, &ref, 0, kPool, 100 + i, NULL), XFER_OK);
        for (int spin = 0; spin < round % 7; spin++)
            turn(0);
        assert_status(xfer_region_revoke(racing.region, &ref), XFER_OK);
        wait_revoked(&racing, 1, XFER_OK);
        wait_atomic(&quiet_seen, before + 1, kPatience);
        for (uint64_t i = 0; i < 4; i++) {
            xfer_event_t event = wait_event(racing.pair.client, XFER_EVENT_PUT, 100 + i, kPatience);
            assert_completion(&event);
            if (event.status != XFER_OK) assert_status(event.status, XFER_EREVOKED);
        }
        for (uint64_t at = 0; at < kPool; at++)
            if (racing.memory[at] != 0xee) fail_msg("round %d: byte %d landed", round, (int)at);
    }
}

/* A get of what was granted, answered while the grant goes: whole, or refused. */
static void test_get_while_revoked(void **state) {
    Pool pool;
    pool_open(&pool, *state);
    fill(pool.memory, kPool, 5);
    uint8_t *local = test_memory(kPool);
    const int rounds = quick() ? 20 : 100;
    for (int round = 0; round < rounds; round++) {
        xfer_ref_t ref = grant(&pool, XFER_READ, 0, kPool, 0, 1);
        assert_status(xfer_get(pool.pair.ep, local, &ref, 0, kPool, 100, NULL), XFER_OK);
        for (int spin = 0; spin < round % 7; spin++)
            turn(0);
        assert_status(xfer_region_revoke(pool.region, &ref), XFER_OK);
        xfer_event_t event = wait_event(pool.pair.client, XFER_EVENT_GET, 100, kPatience);
        if (event.status == XFER_OK)
            assert_true(filled(local, kPool, 5, 0));
        else
            assert_status(event.status, XFER_EREVOKED);
        wait_revoked(&pool, 1, XFER_OK);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_range_and_access),
    EACH_DISPATCH(test_less_than_the_region),
    ONE_MODE(test_wrong_options),
    EACH_DISPATCH(test_other_refs),
    EACH_MODE(test_revoke_is_its_own),
    ONE_MODE(test_goes_the_wanted_way),
    EACH_DISPATCH(test_lease),
    EACH_MODE(test_region_close_ends_grants),
    EACH_MODE(test_engine_close_ends_grants),
    EACH_DISPATCH(test_thousands),
    EACH_MODE(test_nothing_lands_afterwards),
    EACH_DISPATCH(test_get_while_revoked),
};

TEST_MAIN(tests)
