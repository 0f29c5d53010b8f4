/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control.h"
#include "echo.h"
#include "engine.h"
#include "limits.h"
#include "measure.h"
#include "sink.h"

struct server {
    const struct server_options *options;
    int listener; /* of the raw limits */
    uint16_t port;
    int data[MAX_STREAMS]; /* the connections of the raw limits; -1: none */
    uint8_t *memory;
    uint64_t length;
    bool made; /* the memory is the region's */
    xfer_engine_t *engine;
    xfer_region_t *region;
    struct echo echo;
    struct sink sink;
    pthread_t poller;
    struct looped looped;
    bool polled; /* a poller runs */
    bool loop;   /* the engine is on a uv_loop_t */
    bool busy;   /* it may spin */
    atomic_bool spinning;
    atomic_bool ending;
};

static void on_event(const xfer_event_t *event, uint64_t user) {
    struct server *server = (struct server *)(uintptr_t)user;
    if (server->echo.engine != NULL) echo_event(&server->echo, event);
    sink_event(&server->sink, event);
}

/* Between runs it looks only now and then: the other rows of the table need both CPUs. */
static void *poll_engine(void *argument) {
    struct server *server = argument;
    xfer_event_t events[64];
    while (!atomic_load_explicit(&server->ending, memory_order_relaxed)) {
        bool spin = server->busy && atomic_load_explicit(&server->spinning, memory_order_relaxed);
        uint32_t count = 0;
        must(xfer_engine_poll(server->engine, events, sizeof events[0], 64, spin ? 0 : 20, &count),
             "xfer_engine_poll", NULL);
        for (uint32_t i = 0; i < count; i++)
            on_event(&events[i], (uintptr_t)server);
    }
    return NULL;
}

static void open_engine(struct server *server, const struct mode *mode, struct answer *answer) {
    const struct server_options *given = server->options;
    xfer_engine_options_t options = engine_options(mode, given->key, given->key_length);
    options.on_event = mode->dispatch == XFER_DISPATCH_POLL ? NULL : on_event;
    options.user = (uintptr_t)server;
    if (given->insecure) options.flags |= XFER_ENGINE_INSECURE;
    xfer_error_t error;
    server->loop = mode->dispatch == XFER_DISPATCH_LOOP;
    if (server->loop)
        server->engine = looped_open(&server->looped, &options);
    else
        must(xfer_engine_open(&options, &server->engine, &error), "xfer_engine_open", &error);

    char uri[300];
    char bound[300];
    bool six = strchr(given->host, ':') != NULL;
    snprintf(uri, sizeof uri, six ? "tcp://[%s]:0" : "tcp://%s:0", given->host);
    must(xfer_engine_listen(server->engine, uri, NULL, bound, sizeof bound, &error),
         "xfer_engine_listen", &error);
    unsigned port = 0;
    if (sscanf(strrchr(bound, ':'), ":%u", &port) != 1) errx(1, "%s: no port", bound);
    answer->ports[1] = port;

    xfer_region_options_t region = {
        .size = sizeof region, .access = XFER_READ | XFER_WRITE | XFER_ATOMIC, .name = kRegionName};
    server->made = mode->memory == MEMORY_MADE;
    if (server->made) {
        munmap(server->memory, server->length);
        void *memory = NULL;
        must(xfer_region_alloc(server->engine, &region, server->length, &memory, &server->region,
                               &error),
             "xfer_region_alloc", &error);
        memset(memory, 0, server->length); /* present, as any other is */
        server->memory = memory;
    } else {
        must(xfer_region_open(server->engine, &region, server->memory, server->length,
                              &server->region, &error),
             "xfer_region_open", &error);
    }

    server->busy = mode->busy != 0;
    server->polled = mode->dispatch == XFER_DISPATCH_POLL;
    atomic_store(&server->ending, false);
    if (server->polled && pthread_create(&server->poller, NULL, poll_engine, server) != 0)
        errx(1, "thread");
}

static void close_engine(struct server *server) {
    if (server->engine == NULL) return;
    if (server->polled) {
        atomic_store(&server->ending, true);
        pthread_join(server->poller, NULL);
    }
    if (server->loop)
        looped_close(&server->looped);
    else
        must(xfer_engine_join(server->engine, XFER_NONE), "xfer_engine_join", NULL);
    echo_end(&server->echo);
    sink_end(&server->sink);
    xfer_region_close(server->region);
    server->engine = NULL;
    if (server->made) server->memory = memory_map(server->length);
    server->made = false;
}

static void drop_memory(struct server *server) {
    if (server->memory != NULL) munmap(server->memory, server->length);
    server->memory = NULL;
}

static void play_raw(struct server *server, const struct plan *plan, struct answer *answer) {
    for (uint32_t i = 0; i == 0 || i < plan->streams; i++) {
        if (server->data[i] < 0) server->data[i] = raw_accept(server->listener);
    }
    struct blocks blocks = blocks_make(plan, server->memory, OWNER);
    raw_post(server->data[0], false);
    double start = cpu_seconds();
    if (plan->windowed)
        raw_answer(server->data[0], &blocks, plan);
    else if (plan->streams > 0)
        raw_streams(server->data, &blocks, plan, plan_reads(plan));
    else
        (plan_reads(plan) ? raw_send : raw_receive)(server->data[0], &blocks, plan, NULL);
    answer->cpu = cpu_seconds() - start;
    blocks_free(&blocks);
}

static void tell_state(struct server *server, struct answer *answer) {
    answer->cpu = cpu_seconds();
    answer->resident = resident_bytes();
    if (server->engine == NULL) return;
    xfer_engine_stats_t stats;
    must(xfer_engine_stats(server->engine, &stats, sizeof stats), "xfer_engine_stats", NULL);
    answer->wakeups = stats.wakeups;
    answer->connections = stats.connections;
    answer->served = stats.served_put + stats.served_get + 8 * stats.served_atomic;
}

static void touch_blocks(struct server *server, const struct request *request,
                         struct answer *answer) {
    struct blocks blocks = blocks_make(&request->plan, server->memory, OWNER);
    bool fills = request->kind == ASK_FILL;
    sink_check(&server->sink, fills ? server->memory : NULL, fills ? server->length : 0);
    if (fills)
        blocks_fill(&blocks, request->number);
    else
        answer->number = blocks_wrong(&blocks, request->number);
    blocks_free(&blocks);
}

/* The buffer comes with the first request; what would leave it is refused, since anybody may
 * connect. */
static bool fits(const struct server *server, const struct plan *plan) {
    return server->memory != NULL && plan->size > 0 && plan->window > 0 &&
           plan->streams <= MAX_STREAMS && plan->window <= server->length / plan->size &&
           (plan->page_size == 0 || plan->size % plan->page_size == 0) &&
           (plan->op != OP_ATOMIC || plan->size == sizeof(uint64_t));
}

static bool handle(struct server *server, const struct request *request, struct answer *answer) {
    switch (request->kind) {
    case ASK_MEMORY:
        drop_memory(server);
        server->length = request->number;
        server->memory = memory_map(server->length);
        return true;
    case ASK_RAW:
        if (!fits(server, &request->plan)) return false;
        play_raw(server, &request->plan, answer);
        return true;
    case ASK_FIRST_CONTACT:
        if (server->length < FIRST_CONTACT_BYTES) return false;
        for (uint64_t i = 0; i < request->number; i++)
            raw_answer_first_contact(server->listener, server->memory);
        return true;
    case ASK_ENGINE:
        if (server->memory == NULL || server->engine != NULL) return false;
        open_engine(server, &request->mode, answer);
        return true;
    case ASK_ECHO:
        if (server->engine == NULL || server->echo.engine != NULL ||
            request->number > server->length)
            return false;
        echo_start(&server->echo, server->engine, request->number);
        return true;
    case ASK_SINK:
        if (server->engine == NULL || server->sink.engine != NULL || !fits(server, &request->plan))
            return false;
        sink_start(&server->sink, server->engine, &request->plan);
        return true;
    case ASK_ENGINE_END:
        close_engine(server);
        return true;
    case ASK_RUN:
    case ASK_REST:
        if (request->kind == ASK_RUN) sink_expect(&server->sink, request->number);
        atomic_store(&server->spinning, request->kind == ASK_RUN);
        tell_state(server, answer);
        return true;
    case ASK_STATE:
        tell_state(server, answer);
        return true;
    case ASK_FILL:
    case ASK_CHECK:
        if (!fits(server, &request->plan)) return false;
        touch_blocks(server, request, answer);
        return true;
    default:
        return false;
    }
}

void serve_one(int control, const struct server_options *options) {
    struct server server = {.options = options};
    for (int i = 0; i < MAX_STREAMS; i++)
        server.data[i] = -1;
    server.listener = raw_listen(options->host, &server.port);
    struct request request;
    while (control_receive_request(control, &request)) {
        struct answer answer = {.process = (uint64_t)getpid(), .ports = {server.port}};
        if (!handle(&server, &request, &answer)) {
            warnx("a request that makes no sense here");
            break;
        }
        answer.memory = (uintptr_t)server.memory;
        control_send_answer(control, &answer);
    }
    close_engine(&server);
    drop_memory(&server);
    for (int i = 0; i < MAX_STREAMS; i++) {
        if (server.data[i] >= 0) close(server.data[i]);
    }
    close(server.listener);
}

void serve_forever(const char *uri, struct server_options *options) {
    char host[256];
    uint16_t port = 0;
    split_uri(uri, host, sizeof host, &port);
    options->host = host;
    int listener = raw_listen(host, &port);
    printf("serving at %s port %u; the control channel is open to whoever reaches it\n", host,
           port);
    fflush(stdout);
    for (;;) {
        int control = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (control < 0) err(1, "accept");
        /* Each in a process of its own: what goes wrong with one initiator is over with it. */
        pid_t child = fork();
        if (child < 0) err(1, "fork");
        if (child == 0) {
            close(listener);
            serve_one(control, options);
            exit(0);
        }
        close(control);
        waitpid(child, NULL, 0);
    }
}
