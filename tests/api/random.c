/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs: one to four threads make calls, legal and not, on two engines of random modes
 * that talk over TCP. Whatever they do, every accepted call gets its one event and a refused one
 * none, nothing is told of what has ended, what is told of can be used, a drain waits for what is
 * under way, nothing is lost to a connection that nobody ended, every status is a listed one, and
 * all of it ends.
 *
 * A failure prints its seed; XFER_TEST_SEED=n runs that script alone. Threads interleave as they
 * like, so one run of a seed may not show what another did.
 *
 * Each thread has memory and regions of its own: that both ends rewrite shared memory would be a
 * true race. */
#include "random.h"

#include <dirent.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

enum { kMaxObjects = 4096, kMaxCalls = 300, kEndMs = 20000 };

typedef struct Object {
    const void *address;
    int opened, closed; /* regions at that address, one after the other */
} Object;

Side sides[kEngines];
static Op ops[kMaxOps];
static _Atomic uint32_t op_count;
static _Atomic uint64_t call_clock;
static pthread_mutex_t objects_mutex = PTHREAD_MUTEX_INITIALIZER;
static Object objects[kMaxObjects];
static int object_count;
static void *blocks[kMaxObjects];
static _Atomic int block_count;
static uint64_t seed;
static pthread_mutex_t broken_mutex = PTHREAD_MUTEX_INITIALIZER;
static char first_broken[256];

/* ---- what the calls report ---- */

void broken(const char *format, ...) {
    va_list list;
    pthread_mutex_lock(&broken_mutex);
    va_start(list, format);
    if (first_broken[0] == '\0') vsnprintf(first_broken, sizeof first_broken, format, list);
    va_end(list);
    pthread_mutex_unlock(&broken_mutex);
}

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t draw(Worker *worker, uint32_t below) {
    return (uint32_t)(next(&worker->state) % below);
}

uint8_t *script_memory(uint64_t length) {
    int at = block_count++;
    if (at >= kMaxObjects) abort();
    return blocks[at] = calloc(1, length);
}

uint32_t begin(uint32_t kind, uint32_t side, uint32_t ep, bool exact) {
    uint32_t at = ++op_count;
    if (at >= kMaxOps) abort();
    Op *op = &ops[at]; /* others may look whether it was accepted */
    op->kind = kind;
    op->side = side;
    op->ep = ep;
    op->exact = exact;
    op->asked = ++call_clock;
    return at;
}

static void check_listed(xfer_status_t status, const char *call) {
    xfer_status_t listed;
    for (uint32_t i = 0; xfer_status_at(i, &listed) == XFER_OK; i++)
        if (listed == status && status != XFER_EINTERNAL) return;
    broken("%s: status %d", call, (int)status);
}

void end(uint32_t word, xfer_status_t status, const char *call) {
    check_listed(status, call);
    if (status == XFER_OK) ops[word].accepted = ++call_clock;
}

void plain(xfer_status_t status, const char *call) {
    check_listed(status, call);
}

void refused(xfer_status_t status, const char *call) {
    check_listed(status, call);
    if (status == XFER_OK) broken("%s was accepted", call);
}

static void count_object(const void *address, int opened, int closed) {
    pthread_mutex_lock(&objects_mutex);
    int at = 0;
    while (at < object_count && objects[at].address != address)
        at++;
    if (at == object_count) object_count++;
    objects[at].address = address;
    objects[at].opened += opened;
    objects[at].closed += closed;
    pthread_mutex_unlock(&objects_mutex);
}

void end_object(const void *object, xfer_status_t status, const char *call) {
    check_listed(status, call);
    if (status == XFER_OK) count_object(object, 1, 0);
}

/* ---- events ---- */

/* What was accepted before the drain has ended. Not so a receive, which waits for what will not be
 * sent any more until the engine is closed. */
static void take_drained(const Op *drain) {
    for (uint32_t i = 1; i <= op_count; i++) {
        const Op *op = &ops[i];
        const uint64_t accepted = op->accepted; /* until then it may be half written */
        if (accepted == 0 || accepted >= drain->asked) continue;
        const bool drained = op->kind != XFER_EVENT_CLOSED && op->kind != XFER_EVENT_REVOKED &&
                             op->kind != XFER_EVENT_RECV;
        if (op->side == drain->side && op->exact && drained && op->events == 0)
            broken("DRAINED before the event %u of an earlier call", op->kind);
    }
}

/* Nobody is killed here: a connection is lost only to an engine that closes. One that drains ends
 * its own work, and the peer's but for what the peer asked of its application. */
static void check_lost(const Op *op, const xfer_event_t *event) {
    const bool moves =
        op->kind == XFER_EVENT_PUT || op->kind == XFER_EVENT_GET || op->kind == XFER_EVENT_BATCH;
    if (sides[0].closing || sides[1].closing || sides[op->side].met_others) return;
    if (moves || !sides[1 - op->side].draining)
        broken("event %u: XFER_EPEERLOST (origin %u, native %d), and no engine had been closed",
               op->kind, event->origin, event->native_code);
}

static void take_word(const xfer_event_t *event) {
    if (event->user == 0 || event->user > op_count) {
        broken("event %u for user %llu", event->kind, (unsigned long long)event->user);
        return;
    }
    Op *op = &ops[event->user];
    bool of_ep = op->kind == XFER_EVENT_CLOSED && event->kind != XFER_EVENT_CLOSED;
    if (of_ep) { /* PEER_UP and the like: its handle lives */
        if (op->events != 0) broken("event %u of an endpoint that was closed", event->kind);
        return;
    }
    if (op->kind != event->kind) broken("event %u, not %u", event->kind, op->kind);
    if (++op->events != 1) broken("two events of kind %u for one call", event->kind);
    if (op->ep != 0 && ops[op->ep].events != 0)
        broken("event %u after the CLOSED of its endpoint", event->kind);
    if (event->status == XFER_EPEERLOST) check_lost(op, event);
    if (event->kind == XFER_EVENT_DRAINED && event->status == XFER_OK) take_drained(op);
}

static void take_up(Side *side, const xfer_event_t *event) {
    xfer_id_t id;
    const Side *peer = side == &sides[0] ? &sides[1] : &sides[0];
    if (xfer_engine_id(peer->engine, &id) != XFER_OK ||
        memcmp(&id, event->data, sizeof id.bytes) != 0)
        side->met_others = 1;
}

static void take(Side *side, const xfer_event_t *event) {
    check_listed(event->status, "an event");
    if (event->kind == XFER_EVENT_PEER_UP) take_up(side, event);
    if (event->kind == XFER_EVENT_PEER_DOWN && event->status == XFER_EPEERLOST && !side->met_others)
        broken("a connection was lost (origin %u, native %d), and nobody was killed", event->origin,
               event->native_code);
    if (side->closed) broken("event %u after the engine's CLOSED", event->kind);
    if (event->sequence != ++side->last_sequence) broken("the sequence has a gap");
    if (event->kind == XFER_EVENT_CLOSED && event->object == (void *)side->engine) {
        side->closed = 1;
    } else if (event->kind == XFER_EVENT_CLOSED && event->ep == NULL) {
        count_object(event->object, 0, 1);
    } else if (event->kind == XFER_EVENT_NOTIFY || event->kind == XFER_EVENT_PEER) {
        /* a peer's doing, not of a call of this engine */
    } else if (event->user != 0 || event->ep == NULL) { /* else of a peer that came to us */
        take_word(event);
    }
}

/* The handle of a peer that came to us can be used until the next poll, or the end of the callback.
 */
static void use_handle(const Side *side, const xfer_event_t *event) {
    uint32_t state;
    const bool theirs = event->kind == XFER_EVENT_NOTIFY || event->kind == XFER_EVENT_PEER ||
                        event->kind == XFER_EVENT_PEER_UP || event->kind == XFER_EVENT_PEER_DOWN;
    if (!theirs || event->ep == NULL || event->user != 0 || side->closed) return;
    xfer_status_t status = xfer_ep_state(event->ep, &state);
    if (status != XFER_OK) broken("the handle of event %u: status %d", event->kind, (int)status);
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    Side *side = &sides[user];
    pthread_mutex_lock(&side->hold);
    take(side, event);
    use_handle(side, event);
    pthread_mutex_unlock(&side->hold);
}

/* ---- engines ---- */

static void open_side(Side *side, uint64_t *state) {
    static const uint32_t small[] = {0, 1, 4};
    xfer_engine_options_t options = {
        .size = sizeof options,
        .dispatch = side->dispatch,
        .io_threads = side->io_threads,
        .user = (uint64_t)(side - sides),
        .stall_ms = 500,
        .connect_ms = 500,
        .max_operations = small[next(state) % 3],
        .lanes = next(state) % 2 ? XFER_NONE : 1 + (uint32_t)(next(state) % 2),
        .flags = next(state) % 4 == 0 ? XFER_ENGINE_CHECKSUM : 0,
    };
    if (side->dispatch != XFER_DISPATCH_POLL) options.on_event = on_event;
    if (side->dispatch == XFER_DISPATCH_LOOP) options.uv_loop = &side->loop;
    if (xfer_engine_open(&options, &side->engine, NULL) != XFER_OK ||
        xfer_engine_listen(side->engine, "tcp://127.0.0.1:0", side->uri, sizeof side->uri, NULL) !=
            XFER_OK)
        broken("no engine that listens");
}

static void poll_side(Side *side) {
    xfer_event_t events[16];
    uint32_t count = 0;
    int32_t fd = -1;
    pthread_mutex_lock(&side->hold);
    plain(xfer_engine_poll(side->engine, events, sizeof events[0], 16, 0, &count),
          "xfer_engine_poll");
    for (uint32_t i = 0; i < count; i++)
        take(side, &events[i]);
    for (uint32_t i = 0; i < count; i++)
        use_handle(side, &events[i]);
    pthread_mutex_unlock(&side->hold);
    plain(xfer_engine_fd(side->engine, &fd), "xfer_engine_fd");
    if (count == 0) poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 5);
}

/* The thread of one engine, from its open to its join. */
static void *drive(void *data) {
    Side *side = data;
    uint64_t state = seed * kEngines + (uint64_t)(side - sides);
    if (side->dispatch == XFER_DISPATCH_LOOP) uv_loop_init(&side->loop);
    open_side(side, &state);
    side->ready = 1;
    while (!side->closed) {
        if (side->dispatch == XFER_DISPATCH_LOOP) {
            uv_run(&side->loop, UV_RUN_ONCE);
        } else if (side->dispatch == XFER_DISPATCH_POLL) {
            poll_side(side);
        } else {
            usleep(200);
        }
    }
    while (side->ready != 2) /* the threads still call */
        usleep(200);
    if (xfer_engine_join(side->engine) != XFER_OK) broken("xfer_engine_join");
    if (side->dispatch == XFER_DISPATCH_LOOP && uv_loop_close(&side->loop) != 0)
        broken("handles are left on the caller's loop");
    side->joined = 1;
    return NULL;
}

static void print_engine(const Side *side) {
    static char text[1 << 16];
    size_t needed;
    print_message("dispatch %u, io_threads %u, closed %d\n", side->dispatch, side->io_threads,
                  side->closed);
    if (xfer_engine_describe(side->engine, text, sizeof text, &needed) == XFER_OK)
        print_message("%s\n", text);
}

static void wait_for(_Atomic int *value, const char *what) {
    for (uint64_t limit = now_ms() + kEndMs; *value == 0; usleep(200)) {
        if (now_ms() < limit) continue;
        print_message("seed %llu: %s did not happen in %d ms (%s)\n", (unsigned long long)seed,
                      what, kEndMs, first_broken);
        for (int i = 0; i < kEngines; i++)
            print_engine(&sides[i]);
        abort(); /* threads hang: nothing can be put in order */
    }
}

/* ---- threads ---- */

static void *work(void *data) {
    Worker *worker = data;
    uint32_t total = 0;
    for (uint32_t i = 0; i < call_count; i++)
        total += calls[i].weight;
    uint32_t count = draw(worker, kMaxCalls);
    prepare(worker);
    usleep(draw(worker, 2) * draw(worker, 2000)); /* first contact is over, or under way */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = 0;
        for (uint32_t left = draw(worker, total); left >= calls[at].weight; at++)
            left -= calls[at].weight;
        calls[at].make(worker);
        if (draw(worker, 30) == 0) usleep(draw(worker, 1000));
    }
    return NULL;
}

/* Their engines have ended: all are shells. */
static void close_left(Worker *worker) {
    for (int side = 0; side < kEngines; side++) {
        for (int i = 0; i < kSlots; i++) {
            plain(xfer_batch_close(worker->batches[side][i].handle), "xfer_batch_close");
            plain(xfer_counter_close(worker->counters[side][i].handle), "xfer_counter_close");
            void *ep = worker->eps[side][i].handle;
            void *region = worker->regions[side][i].handle;
            if (ep != NULL) refused(xfer_ep_close(ep), "xfer_ep_close after the end");
            if (region != NULL)
                refused(xfer_region_close(region), "xfer_region_close after the end");
        }
    }
}

static void check_all(void) {
    for (uint32_t i = 1; i <= op_count; i++) {
        const Op *op = &ops[i];
        const int accepted = op->accepted != 0;
        if (op->events > accepted || (op->exact && op->events != accepted))
            broken("call %u (event kind %u): accepted %d, events %d", i, op->kind, accepted,
                   op->events);
    }
    for (int i = 0; i < object_count; i++)
        if (objects[i].opened != objects[i].closed)
            broken("%d regions opened, %d closed", objects[i].opened, objects[i].closed);
}

static void run_script(void) {
    static Worker workers[kMaxWorkers];
    static const uint32_t threads[] = {XFER_NONE, 1, 2};
    uint64_t state = seed;
    op_count = 0;
    call_clock = 0;
    object_count = 0;
    block_count = 0;
    memset(ops, 0, sizeof ops);
    memset(objects, 0, sizeof objects);
    memset(workers, 0, sizeof workers);
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    for (int i = 0; i < kEngines; i++) {
        sides[i] = (Side){.dispatch = 1 + (uint32_t)(next(&state) % 3),
                          .io_threads = threads[next(&state) % 3]};
        pthread_mutex_init(&sides[i].hold, &recursive);
        pthread_create(&sides[i].driver, NULL, drive, &sides[i]);
        wait_for(&sides[i].ready, "open");
    }
    uint32_t count = 1 + (uint32_t)(next(&state) % kMaxWorkers);
    for (uint32_t i = 0; i < count; i++) {
        workers[i].state = next(&state);
        for (int side = 0; side < kEngines; side++)
            workers[i].local[side] = script_memory(2 * kBlock);
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    if (next(&state) % 2) usleep((useconds_t)(next(&state) % 3000));
    for (uint32_t i = 0; i < kEngines; i++) {
        sides[i].closing = 1;
        plain(xfer_engine_close(sides[i].engine), "xfer_engine_close");
    }
    for (int i = 0; i < kEngines; i++)
        wait_for(&sides[i].closed, "CLOSED of an engine");
    for (int i = 0; i < kEngines; i++)
        sides[i].ready = 2;
    for (int i = 0; i < kEngines; i++) {
        wait_for(&sides[i].joined, "the join of an engine");
        pthread_join(sides[i].driver, NULL);
        pthread_mutex_destroy(&sides[i].hold);
    }
    for (uint32_t i = 0; i < count; i++)
        close_left(&workers[i]);
    check_all();
    for (int i = 0; i < block_count; i++)
        free(blocks[i]);
}

static int open_descriptors(void) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

static void test_random(void **state) {
    (void)state;
    const char *given = getenv("XFER_TEST_SEED");
    uint64_t first = given == NULL ? 1 : strtoull(given, NULL, 0);
    uint64_t count = given != NULL ? 1 : quick() ? 200 : 1000;
    int descriptors = -1;
    for (seed = first; seed < first + count; seed++) {
        run_script();
        /* What libuv keeps for a process is there after the first. */
        if (descriptors < 0) descriptors = open_descriptors();
        if (open_descriptors() != descriptors) broken("descriptors are left open");
        if (first_broken[0] != '\0') {
            fail_msg("seed %llu: %s; XFER_TEST_SEED=%llu runs it alone", (unsigned long long)seed,
                     first_broken, (unsigned long long)seed);
        }
    }
}

static const struct CMUnitTest tests[] = {TEST(test_random)};

TEST_MAIN(tests)
