/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of one script: engines of random modes, their drivers, the threads, and the end of all.
 *
 * In one process each thread has memory and regions of its own: that both ends rewrite shared
 * memory would be a true race. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "random.h"

enum { kMaxCalls = 300 };

Board *board;
Side sides[kEngines];
uint64_t seed;

/* ---- engines ---- */

static void on_event(const xfer_event_t *event, uint64_t user) {
    Side *side = &sides[user];
    pthread_mutex_lock(&side->hold);
    take(side, event);
    use_handle(side, event);
    pthread_mutex_unlock(&side->hold);
}

static void open_side(Side *side) {
    static const uint32_t small[] = {0, 1, 4};
    uint64_t *state = &side->random;
    Shown *shown = &board->sides[side - sides];
    xfer_engine_options_t options = {
        .size = sizeof options,
        .dispatch = side->dispatch,
        .io_threads = side->io_threads,
        .user = (uint64_t)(side - sides),
        .stall_ms = 500,
        .connect_ms = 500,
        .max_operations = small[next_random(state) % 3],
        .lanes = next_random(state) % 2 ? XFER_NONE : 1 + (uint32_t)(next_random(state) % 2),
        .flags = next_random(state) % 4 == 0 ? XFER_ENGINE_CHECKSUM : 0,
    };
    side->owns_peers = next_random(state) % 4 == 0;
    if (side->owns_peers) options.flags |= XFER_ENGINE_OWN_PEERS;
    side->asks = next_random(state) % 4 == 0;
    if (side->asks) options.flags |= XFER_ENGINE_ASK;
    if (side->dispatch != XFER_DISPATCH_POLL) options.on_event = on_event;
    if (side->dispatch == XFER_DISPATCH_LOOP) options.uv_loop = &side->loop;
    if (xfer_engine_open(&options, &side->engine, NULL) != XFER_OK ||
        xfer_engine_id(side->engine, &shown->id) != XFER_OK ||
        xfer_engine_listen(side->engine, preferred("tcp://127.0.0.1:0"), NULL, shown->uri,
                           sizeof shown->uri, NULL) != XFER_OK)
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
    if (side->dispatch == XFER_DISPATCH_LOOP) uv_loop_init(&side->loop);
    open_side(side);
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
    if (xfer_engine_join(side->engine, XFER_NONE) != XFER_OK) broken("xfer_engine_join");
    if (side->dispatch == XFER_DISPATCH_LOOP && uv_loop_close(&side->loop) != 0)
        broken("handles are left on the caller's loop");
    side->joined = 1;
    return NULL;
}

static void print_engine(const Side *side) {
    static char text[1 << 16];
    uint64_t needed;
    print_message("dispatch %u, io_threads %u, closed %d\n", side->dispatch, side->io_threads,
                  side->closed);
    if (xfer_engine_describe(side->engine, text, sizeof text, &needed) == XFER_OK)
        print_message("%s\n", text);
}

static void wait_for(_Atomic int *value, const char *what) {
    for (uint64_t limit = now_ms() + kEndMs; *value == 0; usleep(200)) {
        if (now_ms() < limit) continue;
        print_message("seed %llu: %s did not happen in %d ms (%s)\n", (unsigned long long)seed,
                      what, kEndMs, board->first_broken);
        for (int i = 0; i < kEngines; i++)
            if (sides[i].engine != NULL) print_engine(&sides[i]);
        abort(); /* threads hang: nothing can be put in order */
    }
}

/* The other process may have been killed before. */
static void wait_for_peer(Shown *peer, _Atomic int *value) {
    for (uint64_t limit = now_ms() + kEndMs; *value == 0 && peer->killed == 0; usleep(200))
        if (now_ms() >= limit) abort();
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
    cells_check(worker);
    return NULL;
}

/* Their engines have ended: all are shells. */
static void close_left(Worker *worker) {
    for (int side = 0; side < kEngines; side++) {
        for (int i = 0; i < kCellBatches; i++)
            plain(xfer_batch_close(worker->cell_batches[side][i].handle), "xfer_batch_close");
        for (int i = 0; i < kSlots; i++) {
            plain(xfer_batch_close(worker->batches[side][i].handle), "xfer_batch_close");
            plain(xfer_counter_close(worker->counters[side][i].handle), "xfer_counter_close");
            void *ep = worker->eps[side][i].handle;
            void *region = worker->regions[side][i].handle;
            const Owned *owned = worker->owned[side][i];
            if (ep != NULL) refused(xfer_ep_close(ep), "xfer_ep_close after the end");
            if (region != NULL)
                refused(xfer_region_close(region), "xfer_region_close after the end");
            if (owned != NULL)
                refused(xfer_region_close(owned->handle), "xfer_region_close after the end");
        }
    }
}

static void close_kept(Side *side) {
    for (int i = 0; side->untaken >> i != 0; i++)
        if (side->untaken >> i & 1)
            refused(xfer_ep_close(side->kept[i]), "xfer_ep_close after the end");
}

/* ---- a script ---- */

static void begin_side(Side *side, uint64_t *state) {
    static const uint32_t threads[] = {XFER_NONE, 1, 2};
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    *side = (Side){.dispatch = 1 + (uint32_t)(next_random(state) % 3),
                   .io_threads = threads[next_random(state) % 3],
                   .random = next_random(state)};
    pthread_mutex_init(&side->hold, &recursive);
    pthread_create(&side->driver, NULL, drive, side);
    wait_for(&side->ready, "open");
    board->sides[side - sides].ready = 1;
}

static void close_side(Side *side) {
    board->sides[side - sides].closing = 1;
    plain(xfer_engine_close(side->engine), "xfer_engine_close");
}

static void end_side(Side *side) {
    side->ready = 2;
    wait_for(&side->joined, "the join of an engine");
    pthread_join(side->driver, NULL);
    pthread_mutex_destroy(&side->hold);
    close_kept(side);
}

uint64_t first_seed(void) {
    const char *given = getenv("XFER_TEST_SEED");
    return given == NULL ? 1 : strtoull(given, NULL, 0);
}

uint64_t scripts(uint32_t if_quick, uint32_t otherwise) {
    const char *rounds = getenv("XFER_TEST_ROUNDS");
    if (rounds != NULL) return strtoull(rounds, NULL, 0);
    if (getenv("XFER_TEST_SEED") != NULL) return 1;
    return quick() ? if_quick : otherwise;
}

void run_script(uint32_t mine) {
    static Worker workers[kMaxWorkers];
    const uint32_t first = mine == kBoth ? 0 : mine, last = mine == kBoth ? kEngines - 1 : mine;
    uint64_t state = seed * (kEngines + 1) + mine;
    rules_begin();
    cells_begin();
    memset(workers, 0, sizeof workers);
    for (uint32_t i = first; i <= last; i++)
        begin_side(&sides[i], &state);
    Shown *away = mine == kBoth ? NULL : &board->sides[1 - mine];
    if (away != NULL) wait_for_peer(away, &away->ready);
    uint32_t count = 1 + (uint32_t)(next_random(&state) % kMaxWorkers);
    for (uint32_t i = 0; i < count; i++) {
        workers[i].state = next_random(&state);
        workers[i].index = i;
        workers[i].side = mine;
        for (uint32_t side = first; side <= last; side++)
            workers[i].local[side] = script_memory(2 * kBlock);
        workers[i].copied = script_memory(kBlock);
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    for (uint32_t i = first; i <= last; i++)
        board->sides[i].done = 1;
    if (away != NULL && next_random(&state) % 2) wait_for_peer(away, &away->done);
    if (next_random(&state) % 2) usleep((useconds_t)(next_random(&state) % 3000));
    for (uint32_t i = 0; i < count; i++)
        cells_check(&workers[i]);
    for (uint32_t i = first; i <= last; i++)
        close_side(&sides[i]);
    for (uint32_t i = first; i <= last; i++)
        wait_for(&sides[i].closed, "CLOSED of an engine");
    for (uint32_t i = first; i <= last; i++)
        end_side(&sides[i]);
    for (uint32_t i = 0; i < count; i++)
        close_left(&workers[i]);
    cells_end();
    rules_end();
}
