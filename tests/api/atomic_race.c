/* SPDX-License-Identifier: Apache-2.0
 *
 * Atomics against each other, from threads, processes and the owner itself; against cancels,
 * deadlines and ends; and against owners that stop or die. What the events say must always add up
 * to what the word holds. */
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "atomics.h"

#define UNTOUCHED 0xdeadbeefdeadbeefull

/* What became of some adds of 1. */
typedef struct Tally {
    uint64_t done, maybe, never;
} Tally;

static void count_end(Tally *tally, const xfer_event_t *event) {
    if (event->status == XFER_OK)
        tally->done++;
    else if (event->flags & XFER_MAYBE_APPLIED)
        tally->maybe++;
    else
        tally->never++;
}

static void assert_adds_up(const Tally *tally, uint64_t value) {
    if (value < tally->done || value > tally->done + tally->maybe)
        fail_msg("the word is %llu, of %llu done and %llu maybe", (unsigned long long)value,
                 (unsigned long long)tally->done, (unsigned long long)tally->maybe);
}

static uint64_t value_of(uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

/* ---- roles: no asserts, exit codes ---- */

typedef struct Client {
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    xfer_ref_t ref;
} Client;

static xfer_status_t client_poll(Client *client, xfer_event_t *event) {
    uint32_t count = 0;
    xfer_status_t status = XFER_OK;
    while (status == XFER_OK && count == 0)
        status = xfer_engine_poll(client->engine, event, sizeof *event, 1, XFER_NONE, &count);
    return status;
}

/* The end of what has this word. */
static xfer_status_t client_end(Client *client, uint64_t user, xfer_status_t begun) {
    xfer_event_t event = {.user = 0};
    while (begun == XFER_OK && event.user != user)
        begun = client_poll(client, &event);
    if (begun != XFER_OK) return begun;
    if (event.kind == XFER_EVENT_LOOKUP && event.status == XFER_OK)
        memcpy(&client->ref, event.data, sizeof client->ref);
    return event.status;
}

static xfer_status_t client_open(Client *client, const char *uri, const char *name) {
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_status_t status = xfer_engine_open(&options, &client->engine, NULL);
    if (status == XFER_OK) status = xfer_ep_open(client->engine, uri, NULL, &client->ep, NULL);
    if (status != XFER_OK) return status;
    return client_end(client, 1, xfer_ep_lookup(client->ep, name, 1, NULL, NULL));
}

static xfer_status_t client_atomic(Client *client, uint32_t op, uint64_t *result, uint64_t offset,
                                   uint64_t operand, uint64_t compare) {
    return client_end(
        client, 2,
        xfer_atomic(client->ep, op, result, &client->ref, offset, operand, compare, 2, NULL));
}

/* "uri name count": adds 1 so many times to the first word, 32 at once; or until one fails, and all
 * that are under way have ended. Says how many were done, maybe done, and not done. */
static int add(const char *argument) {
    enum { kAtOnce = 32 };
    char uri[256], name[32];
    unsigned long long count = 0, under_way = 0;
    Client client;
    Tally tally = {0, 0, 0};
    xfer_event_t event;
    if (sscanf(argument, "%255s %31s %llu", uri, name, &count) != 3) return 2;
    if (client_open(&client, uri, name) != XFER_OK) return 3;
    while (count > 0 || under_way > 0) {
        for (; under_way < kAtOnce && count > 0; under_way++, count--)
            if (xfer_atomic(client.ep, XFER_ATOMIC_ADD, NULL, &client.ref, 0, 1, 0, 2, NULL) !=
                XFER_OK)
                return 4;
        if (client_poll(&client, &event) != XFER_OK) return 5;
        if (event.kind != XFER_EVENT_ATOMIC) continue;
        under_way--;
        count_end(&tally, &event);
        if (event.status != XFER_OK) count = 0;
    }
    printf("%llu %llu %llu\n", (unsigned long long)tally.done, (unsigned long long)tally.maybe,
           (unsigned long long)tally.never);
    fflush(stdout);
    return xfer_engine_join(client.engine, XFER_NONE) == XFER_OK ? 0 : 6;
}

/* "uri count me": takes the lock so many times, and then adds 1 to both plain words behind it, as
 * long as they are equal. */
static int lock_and_add(const char *argument) {
    char uri[256];
    unsigned long long count = 0, me = 0;
    Client client;
    if (sscanf(argument, "%255s %llu %llu", uri, &count, &me) != 3) return 2;
    if (client_open(&client, uri, "locked") != XFER_OK) return 3;
    for (; count > 0; count--) {
        uint64_t holder = 1, plain[2];
        while (holder != 0)
            if (client_atomic(&client, XFER_ATOMIC_CAS, &holder, 0, me, 0) != XFER_OK) return 4;
        if (client_end(&client, 3,
                       xfer_get(client.ep, plain, &client.ref, 8, sizeof plain, 3, NULL)) !=
            XFER_OK)
            return 5;
        if (plain[0]++ != plain[1]++) return 6;
        if (client_end(&client, 4,
                       xfer_put(client.ep, plain, &client.ref, 8, sizeof plain, 4, NULL)) !=
            XFER_OK)
            return 7;
        if (client_atomic(&client, XFER_ATOMIC_CAS, &holder, 0, 0, me) != XFER_OK) return 8;
        if (holder != me) return 9;
    }
    return xfer_engine_join(client.engine, XFER_NONE) == XFER_OK ? 0 : 10;
}

/* "uri fd": the owner of "words", which lie in the memory of that descriptor. */
static int own(const char *argument) {
    char uri[256], bound[256], ignored;
    int fd = -1;
    if (sscanf(argument, "%255s %d", uri, &fd) != 2) return 2;
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_region_options_t lent = {
        .size = sizeof lent, .access = XFER_READ | XFER_ATOMIC, .name = "words"};
    xfer_engine_t *engine = NULL;
    xfer_region_t *region = NULL;
    options.io_threads = 1;
    if (memory == MAP_FAILED || xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_region_open(engine, &lent, memory, 4096, &region, NULL) != XFER_OK ||
        xfer_engine_listen(engine, uri, NULL, bound, sizeof bound, NULL) != XFER_OK)
        return 3;
    printf("%s\n", bound);
    fflush(stdout);
    while (read(STDIN_FILENO, &ignored, 1) > 0) {}
    return xfer_engine_join(engine, XFER_NONE) == XFER_OK ? 0 : 4;
}

/* ---- all at once ---- */

enum { kThreads = 2, kAdders = 2 };

typedef struct Adder {
    const Words *words; /* NULL: the owner itself, to `word`, until `stop` */
    uint64_t *word;
    uint64_t count;
    pthread_t thread;
    bool failed;
    _Atomic bool stop;
} Adder;

static void *add_in_thread(void *data) {
    Adder *adder = data;
    const Words *words = adder->words;
    for (; words == NULL && !adder->stop; adder->count++) {
        __atomic_fetch_add(adder->word, 1, __ATOMIC_SEQ_CST);
        if (adder->count % 1000 == 0) sched_yield();
    }
    for (uint64_t i = 0; words != NULL && i < adder->count; i++) {
        xfer_status_t status = XFER_EAGAIN;
        while (status == XFER_EAGAIN) {
            status = xfer_atomic(words->ep, XFER_ATOMIC_ADD, NULL, &words->ref, 0, 1, 0, 7, NULL);
            if (status == XFER_EAGAIN) usleep(100);
        }
        adder->failed |= status != XFER_OK;
    }
    return NULL;
}

static void start_adder(Peer *peer, const Words *words, bool made, uint64_t count) {
    char argument[400];
    snprintf(argument, sizeof argument, "%s %s %llu", words->server->uri, made ? "made" : "words",
             (unsigned long long)count);
    peer_start_role(peer, "add", argument);
}

static Tally end_adder(Peer *peer) {
    char line[128];
    unsigned long long done, maybe, never;
    struct pollfd says = {.fd = peer->out, .events = POLLIN};
    const uint64_t end = now_ms() + 3 * kPatience;
    while (poll(&says, 1, 0) == 0) {
        assert_true(now_ms() < end);
        turn(5); /* it may be ours to answer it */
    }
    peer_read_line(peer, line, sizeof line);
    assert_int_equal(sscanf(line, "%llu %llu %llu", &done, &maybe, &never), 3);
    assert_int_equal(peer_wait(peer), 0);
    return (Tally){done, maybe, never};
}

static void test_counters(void **state) {
    const uint64_t each = quick() ? 500 : 2000;
    for (int made = 0; made < 2; made++) {
        Words words;
        words_open(&words, *state, 8, made, NULL);
        Peer peers[kAdders];
        Adder adders[kThreads + 1];
        for (int i = 0; i < kAdders; i++)
            start_adder(&peers[i], &words, made, each);
        for (int i = 0; i <= kThreads; i++) {
            adders[i] =
                (Adder){.words = i ? &words : NULL, .word = words.memory, .count = i ? each : 0};
            assert_int_equal(pthread_create(&adders[i].thread, NULL, add_in_thread, &adders[i]), 0);
        }
        const uint64_t end = now_ms() + 3 * kPatience;
        while (count_events(words.client, XFER_EVENT_ATOMIC, 7) < kThreads * each) {
            assert_true(now_ms() < end);
            turn(5);
        }
        for (int i = 0; i < kAdders; i++)
            assert_int_equal(end_adder(&peers[i]).done, each);
        adders[0].stop = true;
        for (int i = 0; i <= kThreads; i++) {
            pthread_join(adders[i].thread, NULL);
            assert_false(adders[i].failed);
        }
        assert_int_equal(host_stats(words.client).atomic.completed, kThreads * each);
        assert_int_equal(value_of(words.memory), adders[0].count + (kThreads + kAdders) * each);
        host_end(words.client);
        host_end(words.server);
    }
}

/* ---- a lock: word 0; behind it two plain ones, which are equal while nobody holds it ---- */

typedef struct Lock {
    uint64_t *memory;
    uint64_t count;
    bool torn;
} Lock;

static void *lock_as_owner(void *data) {
    Lock *lock = data;
    for (uint64_t i = 0; i < lock->count; i++) {
        uint64_t free = 0;
        while (!__atomic_compare_exchange_n(&lock->memory[0], &free, 99, false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST)) {
            free = 0;
            sched_yield();
        }
        lock->torn |= lock->memory[1]++ != lock->memory[2]++;
        __atomic_store_n(&lock->memory[0], 0, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void test_lock(void **state) {
    enum { kOthers = 2 };
    const uint64_t each = quick() ? 20 : 60;
    Words words;
    words_open(&words, *state, 8, false, NULL);
    words.memory = test_memory(64);
    open_region(words.server, "locked", XFER_READ | XFER_WRITE | XFER_ATOMIC, words.memory, 64);
    words.ref = look_up(words.client, words.ep, "locked");
    Peer others[kOthers];
    for (int i = 0; i < kOthers; i++) {
        char argument[400];
        snprintf(argument, sizeof argument, "%s %llu %d", words.server->uri,
                 (unsigned long long)each, i + 1);
        peer_start_role(&others[i], "lock", argument);
    }
    Lock lock = {words.memory, 20 * each, false};
    pthread_t owner;
    assert_int_equal(pthread_create(&owner, NULL, lock_as_owner, &lock), 0);
    for (uint64_t i = 0; i < each; i++) {
        uint64_t holder = 1, *plain = test_memory(16);
        while (holder != 0)
            assert_status(atomic_now(&words, XFER_ATOMIC_CAS, &holder, 0, 50, 0), XFER_OK);
        assert_status(get_now(words.client, words.ep, plain, &words.ref, 8, 16), XFER_OK);
        assert_int_equal(plain[0]++, plain[1]++);
        assert_status(put_now(words.client, words.ep, plain, &words.ref, 8, 16), XFER_OK);
        assert_status(atomic_now(&words, XFER_ATOMIC_CAS, &holder, 0, 0, 50), XFER_OK);
        assert_int_equal(holder, 50);
    }
    for (int i = 0; i < kOthers; i++)
        assert_int_equal(peer_wait(&others[i]), 0);
    pthread_join(owner, NULL);
    assert_false(lock.torn);
    assert_int_equal(words.memory[1], (20 + 1 + kOthers) * each);
    assert_int_equal(words.memory[2], (20 + 1 + kOthers) * each);
}

/* ---- ended while they come ---- */

/* By a region or a grant that ends: nothing changes after it was told, and what was told to be done
 * is all that was. */
static void end_under_fire(const Mode *mode, bool made, bool revokes) {
    Words words;
    words_open(&words, mode, 8, made, NULL);
    Words lent = words;
    if (revokes) {
        const xfer_grant_options_t all = {.size = sizeof all, .access = XFER_ATOMIC, .length = 64};
        assert_status(xfer_region_grant(words.region, &all, &lent.ref, NULL), XFER_OK);
    }
    Peer peer;
    if (!revokes) start_adder(&peer, &words, made, UINT64_MAX);
    Tally tally = {0, 0, 0};
    uint64_t begun = 0, ended = 0;
    const uint64_t end = now_ms() + kPatience;
    while (!revokes && value_of(words.memory) == 0) {
        assert_true(now_ms() < end);
        turn(1);
    }
    while (value_of(words.memory) < 300) {
        assert_true(now_ms() < end);
        for (; begun < ended + 40; begun++)
            assert_status(
                xfer_atomic(lent.ep, XFER_ATOMIC_ADD, NULL, &lent.ref, 0, 1, 0, begun, NULL),
                XFER_OK);
        xfer_event_t event;
        turn(1);
        while (ended < begun && take_event(words.client, XFER_EVENT_ATOMIC, ended, &event))
            count_end(&tally, &event), ended++;
    }
    if (revokes) {
        assert_status(xfer_region_revoke(words.region, &lent.ref), XFER_OK);
        wait_event(words.server, XFER_EVENT_REVOKED, ANY_USER, kPatience);
    } else {
        assert_status(xfer_region_close(words.region), XFER_OK);
        wait_closed(words.server, words.region);
    }
    const uint64_t last = value_of(words.memory);
    for (; ended < begun; ended++) {
        const xfer_event_t event = wait_event(words.client, XFER_EVENT_ATOMIC, ended, kPatience);
        if (event.status != XFER_OK)
            assert_status(event.status, revokes ? XFER_EREVOKED : XFER_ESTALE);
        count_end(&tally, &event);
    }
    if (!revokes) {
        const Tally others = end_adder(&peer);
        tally.done += others.done;
        tally.maybe += others.maybe;
    }
    pass_ms(50);
    assert_int_equal(tally.maybe, 0);
    assert_int_equal(value_of(words.memory), last);
    assert_int_equal(tally.done, last);
    host_end(words.client);
    host_end(words.server);
}

static void test_region_closes_under_fire(void **state) {
    for (int round = 0; round < (quick() ? 1 : 3); round++)
        end_under_fire(*state, false, false);
}

static void test_revoked_under_fire(void **state) {
    for (int round = 0; round < (quick() ? 1 : 3); round++)
        for (int made = 0; made < 2; made++)
            end_under_fire(*state, made, true);
}

/* Not done: FENCED. Done: with XFER_OK and its result, though it was canceled, or late. */
static void test_canceled(void **state) {
    enum { kAtOnce = 200 };
    Words words;
    words_open(&words, *state, 8, false, NULL);
    uint64_t *results = test_memory(kAtOnce * sizeof *results);
    Tally tally = {0, 0, 0};
    const uint64_t rounds = quick() ? 5 : 30, end = now_ms() + kPatience;
    /* Some are to be canceled in time, and some not: on a busy machine that takes more rounds. A
     * neighbour's word is changed before the submit returns. */
    const bool both = over_sockets();
    for (uint64_t round = 0;
         round < rounds || (both && now_ms() < end && (tally.never == 0 || tally.done == 0));
         round++) {
        for (uint64_t i = 0; i < kAtOnce; i++) {
            results[i] = UNTOUCHED;
            assert_status(xfer_atomic(words.ep, XFER_ATOMIC_ADD, &results[i], &words.ref, 0, 1, 0,
                                      i, i % 3 ? NULL : WITHIN(1)),
                          XFER_OK);
        }
        for (uint64_t turns = round % 4; turns > 0; turns--)
            turn(0);
        if (round % 5) assert_status(xfer_cancel(words.client->engine, words.ep, 0, 0), XFER_OK);
        for (uint64_t i = 0; i < kAtOnce; i++) {
            const xfer_event_t event = wait_event(words.client, XFER_EVENT_ATOMIC, i, kPatience);
            assert_completion(&event);
            count_end(&tally, &event);
            if (event.status == XFER_OK) {
                assert_true(results[i] < (round + 1) * kAtOnce);
                assert_int_equal(event.origin, XFER_ORIGIN_NONE);
                assert_null(event.data);
            } else {
                assert_true(event.status == XFER_ECANCELED || event.status == XFER_ETIMEDOUT);
                assert_true(results[i] == UNTOUCHED);
            }
        }
    }
    assert_true(tally.done > 0 && (tally.never > 0 || !both));
    pass_ms(50);
    assert_adds_up(&tally, value_of(words.memory));
    const xfer_op_stats_t counted = host_stats(words.client).atomic;
    assert_int_equal(counted.completed, tally.done);
    assert_int_equal(counted.canceled + counted.expired, tally.maybe + tally.never);
}

static void test_endpoint_closes(void **state) {
    enum { kAtOnce = 200 };
    Words words;
    words_open(&words, *state, 8, false, NULL);
    Tally tally = {0, 0, 0};
    for (uint64_t i = 0; i < kAtOnce; i++)
        assert_status(xfer_atomic(words.ep, XFER_ATOMIC_ADD, NULL, &words.ref, 0, 1, 0, i, NULL),
                      XFER_OK);
    assert_status(xfer_ep_close(words.ep), XFER_OK);
    wait_closed(words.client, words.ep);
    for (uint64_t i = 0; i < kAtOnce; i++) {
        xfer_event_t event;
        assert_true(take_event(words.client, XFER_EVENT_ATOMIC, i, &event));
        count_end(&tally, &event);
    }
    pass_ms(50);
    assert_adds_up(&tally, value_of(words.memory));
}

/* ---- an owner that does not answer ---- */

typedef struct Owner {
    Host *client;
    Peer peer;
    Words words;
} Owner;

static void owner_open(Owner *owner, const Mode *mode) {
    *owner = (Owner){.client = host_open(mode)};
    const int fd = memfd_create("words", 0);
    assert_true(fd >= 0 && ftruncate(fd, 4096) == 0);
    char argument[400];
    snprintf(argument, sizeof argument, "%s %d", preferred("tcp://127.0.0.1:0"), fd);
    peer_start_role(&owner->peer, "own", argument);
    peer_read_line(&owner->peer, owner->peer.uri, sizeof owner->peer.uri);
    Words *words = &owner->words;
    words->client = owner->client;
    words->memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(words->memory != MAP_FAILED);
    close(fd);
    words->ep = open_ep(owner->client, owner->peer.uri);
    words->ref = look_up(owner->client, words->ep, "words");
    for (int again = 0; again < 3; again++)
        assert_status(atomic_now(words, XFER_ATOMIC_ADD, NULL, 0, 0, 0), XFER_OK);
}

static void begin_adds(Owner *owner, uint64_t *results, uint64_t count, uint32_t timeout_ms) {
    for (uint64_t i = 0; i < count; i++) {
        results[i] = UNTOUCHED;
        assert_status(xfer_atomic(owner->words.ep, XFER_ATOMIC_ADD, &results[i], &owner->words.ref,
                                  0, 1, 0, i, WITHIN(timeout_ms)),
                      XFER_OK);
    }
}

static Tally end_adds(Owner *owner, const uint64_t *results, uint64_t count) {
    Tally tally = {0, 0, 0};
    for (uint64_t i = 0; i < count; i++) {
        const xfer_event_t event = wait_event(owner->client, XFER_EVENT_ATOMIC, i, kPatience);
        assert_completion(&event);
        assert_true((event.status == XFER_OK) == (results[i] != UNTOUCHED));
        count_end(&tally, &event);
    }
    return tally;
}

/* What has left may be done later; what it brings back then goes nowhere. */
static void test_stopped_owner(void **state) {
    enum { kAtOnce = 200 };
    Owner owner;
    owner_open(&owner, *state);
    uint64_t *results = test_memory(kAtOnce * sizeof *results);
    peer_signal(&owner.peer, SIGSTOP);
    begin_adds(&owner, results, kAtOnce, 1000); /* within which some leave */
    assert_status(xfer_cancel(owner.client->engine, NULL, 3, UINT64_MAX), XFER_OK);
    const Tally tally = end_adds(&owner, results, kAtOnce);
    assert_int_equal(tally.done, 0);
    assert_true(tally.maybe > 0 && tally.never > 0);
    assert_int_equal(value_of(owner.words.memory), 0);
    peer_signal(&owner.peer, SIGCONT);
    uint64_t old = UNTOUCHED;
    assert_status(atomic_now(&owner.words, XFER_ATOMIC_ADD, &old, 0, 0, 0), XFER_OK);
    assert_adds_up(&tally, old);
    for (uint64_t i = 0; i < kAtOnce; i++)
        assert_true(results[i] == UNTOUCHED);
    peer_kill(&owner.peer);
}

static void wait_sent(Host *client) {
    for (const uint64_t end = now_ms() + kPatience; host_stats(client).inflight == 0; turn(1))
        assert_true(now_ms() < end);
}

static void test_killed_owner(void **state) {
    enum { kAtOnce = 200 };
    for (uint32_t round = 0; round < (quick() ? 2 : 6); round++) {
        Owner owner;
        owner_open(&owner, *state);
        uint64_t *results = test_memory(kAtOnce * sizeof *results);
        /* With what it had not read when it was stopped, or amid what it answers. */
        if (round % 2) peer_signal(&owner.peer, SIGSTOP);
        begin_adds(&owner, results, kAtOnce, 1000);
        if (round % 2) wait_sent(owner.client);
        for (uint32_t turns = round; turns > 0; turns--)
            turn(1);
        peer_kill(&owner.peer);
        const Tally tally = end_adds(&owner, results, kAtOnce);
        assert_adds_up(&tally, value_of(owner.words.memory));
        if (round % 2) assert_true(tally.done == 0 && tally.maybe > 0);
        host_end(owner.client);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_counters),
    EACH_DISPATCH(test_lock),
    EACH_DISPATCH(test_region_closes_under_fire),
    EACH_DISPATCH(test_revoked_under_fire),
    EACH_MODE(test_canceled),
    EACH_MODE(test_endpoint_closes),
    EACH_DISPATCH(test_stopped_owner),
    EACH_DISPATCH(test_killed_owner),
};

TEST_MAIN_AFTER(tests,
                (peer_role("add", add), peer_role("lock", lock_and_add), peer_role("own", own)))
