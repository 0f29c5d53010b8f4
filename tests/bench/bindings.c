/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bindings are measured against: the same work in C, by the same door. One I/O thread of
 * the library, events by descriptor, poll(2) and xfer_engine_poll in bulk. bindings.py builds and
 * runs it.
 *
 *   bindings serve [LISTEN_URI]     lends the region "bench" and prints its URI, until stdin ends
 *   bindings CASE URI SECONDS       prints one number
 *
 * CASE is bandwidth (bytes per second), rate (puts per second), latency (median in microseconds) or
 * pages (bytes per second).
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "../../examples/c/must.h"

enum { REGION = 64 << 20, BURST = 256, TIMEOUT_MS = 30000 };
enum { BIG = 1 << 20, BIG_WINDOW = 16, SMALL = 64, SMALL_WINDOW = 256 };
enum { PAGES = 1000, PAGE = 4096, TABLES = 16 };

typedef struct Client {
    xfer_engine_t *engine;
    int32_t fd;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    char *memory; /* BIG_WINDOW pieces of BIG bytes, the most that a case needs */
    xfer_event_t events[BURST];
    bool more; /* the last poll was full: the descriptor need not be readable */
} Client;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static xfer_engine_t *open_engine(int32_t *fd) {
    xfer_error_t error = {0};
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_POLL,
                                     .io_threads = 1,
                                     .timeout_ms = TIMEOUT_MS};
    xfer_engine_t *engine = NULL;
    MUST_ERR(xfer_engine_open(&options, &engine, &error));
    MUST(xfer_engine_fd(engine, fd));
    return engine;
}

/* ---- the owner ---- */

static int serve(const char *listen) {
    xfer_error_t error = {0};
    int32_t fd = -1;
    xfer_engine_t *engine = open_engine(&fd);
    xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE, .name = "bench"};
    xfer_region_t *region = NULL;
    void *memory = NULL;
    MUST_ERR(xfer_region_alloc(engine, &lent, REGION, &memory, &region, &error));
    memset(memory, 1, REGION); /* present, so that no client pays for it */
    char uri[256];
    MUST_ERR(xfer_engine_listen(engine, listen, NULL, uri, sizeof uri, &error));
    printf("%s\n", uri);
    fflush(stdout);

    struct pollfd watched[] = {{.fd = 0, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    while (poll(watched, 2, -1) > 0 && !watched[0].revents) {
        xfer_event_t events[BURST];
        uint32_t count = BURST;
        while (count == BURST)
            MUST(xfer_engine_poll(engine, events, sizeof events[0], BURST, 0, &count));
    }
    MUST(xfer_engine_join(engine, XFER_NONE));
    (void)xfer_region_close(region); /* frees the handle: the region ended with its engine */
    return 0;
}

/* ---- the initiator ---- */

/* Waits for events, and takes those that are there. */
static uint32_t take(Client *client) {
    uint32_t count = 0;
    while (count == 0) {
        struct pollfd watched = {.fd = client->fd, .events = POLLIN};
        if (!client->more) EXPECT(poll(&watched, 1, TIMEOUT_MS) > 0);
        MUST(xfer_engine_poll(client->engine, client->events, sizeof client->events[0], BURST, 0,
                              &count));
        client->more = count == BURST;
    }
    return count;
}

/* Waits for the one event of that kind which is under way. */
static const xfer_event_t *wait_for(Client *client, uint32_t kind) {
    for (;;) {
        const uint32_t count = take(client);
        for (uint32_t i = 0; i < count; i++) {
            const xfer_event_t *event = &client->events[i];
            if (event->kind != kind) continue;
            MUST(event->status);
            return event;
        }
    }
}

static void open_client(Client *client, const char *uri) {
    xfer_error_t error = {0};
    client->engine = open_engine(&client->fd);
    client->memory = malloc((size_t)BIG * BIG_WINDOW);
    EXPECT(client->memory != NULL);
    memset(client->memory, 2, (size_t)BIG * BIG_WINDOW);
    MUST_ERR(xfer_ep_open(client->engine, uri, NULL, &client->ep, &error));
    MUST_ERR(xfer_ep_lookup(client->ep, "bench", 0, NULL, &error));
    memcpy(&client->ref, wait_for(client, XFER_EVENT_LOOKUP)->data, sizeof client->ref);
}

/* Each put in flight has a piece of the memory of its own, number `slot`. */
static void put(Client *client, uint64_t length, uint64_t slot, uint64_t place) {
    MUST(xfer_put(client->ep, client->memory + slot * length, &client->ref, place * length, length,
                  slot, NULL));
}

/* Keeps `window` puts in flight, which walk over so many places. Returns puts per second, of those
 * that end after the warm-up. */
static double stream(Client *client, uint64_t length, uint64_t window, uint64_t places,
                     double seconds) {
    uint64_t done = 0, begun = 0, in_flight = window;
    double start = now() + seconds / 10, rate = 0;
    bool warm = false, over = false;
    for (; begun < window; begun++)
        put(client, length, begun, begun);
    while (in_flight > 0) {
        const uint32_t count = take(client);
        for (uint32_t i = 0; i < count; i++) {
            const xfer_event_t *event = &client->events[i];
            if (event->kind != XFER_EVENT_PUT) continue;
            MUST(event->status);
            done++;
            if (over)
                in_flight--;
            else
                put(client, length, event->user, begun++ % places);
        }
        const double time = now();
        if (!warm && time >= start) {
            warm = true;
            start = time;
            done = 0;
        } else if (warm && !over && time >= start + seconds) {
            over = true;
            rate = (double)done / (time - start);
        }
    }
    return rate;
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Returns the median of the microseconds of one put. */
static double latency(Client *client, double seconds) {
    size_t room = 1 << 20, count = 0;
    double *times = malloc(room * sizeof *times);
    double start = now(), time = start;
    const double warm = start + seconds / 10, end = warm + seconds;
    while (time < end) {
        put(client, SMALL, 0, 0);
        (void)wait_for(client, XFER_EVENT_PUT);
        start = time;
        time = now();
        if (start < warm) continue;
        if (count == room) times = realloc(times, (room *= 2) * sizeof *times);
        EXPECT(times != NULL);
        times[count++] = (time - start) * 1e6;
    }
    EXPECT(count > 0);
    qsort(times, count, sizeof *times, compare);
    const double median = times[count / 2];
    free(times);
    return median;
}

/* Returns bytes per second, by calls of which each has another page table, as each request has. */
static double pages(Client *client, double seconds) {
    xfer_error_t error = {0};
    int32_t here[PAGES], there[TABLES][PAGES];
    for (int i = 0; i < PAGES; i++)
        here[i] = (i * 37 + 11) % PAGES; /* no divisor in common: each page once */
    for (int i = 0; i < TABLES * PAGES; i++)
        there[i / PAGES][i % PAGES] = (i * 389 + 5) % (REGION / PAGE);
    const xfer_page_base_t base = {.local = (uint64_t)(uintptr_t)client->memory,
                                   .remote = &client->ref};
    xfer_pages_t table = {.size = sizeof table,
                          .base_size = sizeof base,
                          .index_size = sizeof here[0],
                          .length = PAGE,
                          .count = PAGES,
                          .local_pages = here,
                          .bases = &base,
                          .base_count = 1};
    xfer_batch_t *batch = NULL;
    MUST_ERR(xfer_batch_open(client->ep, NULL, &batch, &error));
    uint64_t calls = 0, done = 0;
    double start = now() + seconds / 10, time = now();
    bool warm = false;
    while (!warm || time < start + seconds) {
        table.remote_pages = there[calls++ % TABLES];
        MUST(xfer_batch_reset(batch));
        MUST_ERR(xfer_batch_add_pages(batch, XFER_OP_PUT, &table, &error));
        MUST(xfer_batch_submit(batch, 0, NULL));
        (void)wait_for(client, XFER_EVENT_BATCH);
        done++;
        time = now();
        if (!warm && time >= start) {
            warm = true;
            start = time;
            done = 0;
        }
    }
    MUST(xfer_batch_close(batch));
    return (double)done * PAGES * PAGE / (time - start);
}

static double measure(Client *client, const char *name, double seconds) {
    if (strcmp(name, "bandwidth") == 0)
        return BIG * stream(client, BIG, BIG_WINDOW, REGION / BIG, seconds);
    if (strcmp(name, "rate") == 0)
        return stream(client, SMALL, SMALL_WINDOW, SMALL_WINDOW, seconds);
    if (strcmp(name, "latency") == 0) return latency(client, seconds);
    if (strcmp(name, "pages") == 0) return pages(client, seconds);
    fprintf(stderr, "no case of that name: %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    if (argc >= 2 && argc <= 3 && strcmp(argv[1], "serve") == 0)
        return serve(argc == 3 ? argv[2] : "tcp://127.0.0.1:0");
    const double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;
    if (!(seconds > 0)) {
        fprintf(stderr, "usage: bindings serve [URI] | CASE URI SECONDS\n");
        return 2;
    }
    static Client client;
    open_client(&client, argv[2]);
    printf("%.3f\n", measure(&client, argv[1], seconds));
    (void)xfer_ep_close(client.ep);
    MUST(xfer_engine_join(client.engine, XFER_NONE));
    free(client.memory);
    return 0;
}
