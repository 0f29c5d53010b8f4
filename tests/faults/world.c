/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inject.h"

uint8_t served[4096];
uint32_t stall_ms = 1500;

void fail_case(const char *format, ...) {
    char text[512];
    va_list list;
    inject_disarm();
    va_start(list, format);
    int length = vsnprintf(text, sizeof text - 1, format, list);
    va_end(list);
    if (length > (int)sizeof text - 2) length = sizeof text - 2;
    text[length] = '\n';
    ssize_t written = write(2, text, (size_t)length + 1);
    (void)written;
    _exit(1);
}

void check_status(xfer_status_t status, const char *call) {
    if (status == XFER_EINTERNAL || strcmp(xfer_status_name(status), "XFER_EUNKNOWN") == 0)
        fail_case("%s: status %d", call, (int)status);
}

void must(xfer_status_t status, const char *call) {
    if (status != XFER_OK) fail_case("%s: %s", call, xfer_status_name(status));
}

uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- hosts ---- */

static void record(Host *host, const xfer_event_t *event) {
    int at = host->count;
    if (at == kMaxEvents) fail_case("more than %d events", kMaxEvents);
    if (event->kind == XFER_EVENT_LOOKUP && event->status == XFER_OK)
        memcpy(&host->ref, event->data, sizeof host->ref);
    host->events[at] = *event;
    host->count = at + 1;
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    record((Host *)(uintptr_t)user, event);
}

void loop_make(Host *host, const Mode *mode) {
    uint8_t id = host->id;
    memset(host, 0, sizeof *host);
    host->mode = mode;
    host->id = id;
    if (mode->dispatch == XFER_DISPATCH_LOOP && uv_loop_init(&host->loop) != 0)
        fail_case("uv_loop_init");
}

xfer_status_t host_try(Host *host, xfer_error_t *err) {
    xfer_engine_options_t options = {
        .size = sizeof options,
        .dispatch = host->mode->dispatch,
        .io_threads = host->mode->io_threads,
        .user = (uint64_t)(uintptr_t)host,
        .timeout_ms = stall_ms,
        .stall_ms = stall_ms,
        .connect_ms = 500,
    };
    if (host->mode->dispatch != XFER_DISPATCH_POLL) options.on_event = on_event;
    if (host->mode->dispatch == XFER_DISPATCH_LOOP) options.uv_loop = &host->loop;
    options.id[0] = host->id;
    host->count = 0;
    return xfer_engine_open(&options, &host->engine, err);
}

void host_open(Host *host, const Mode *mode) {
    loop_make(host, mode);
    must(host_try(host, NULL), "xfer_engine_open");
}

void host_listen(Host *host) {
    must(xfer_engine_listen(host->engine, "tcp://127.0.0.1:0", NULL, host->uri, sizeof host->uri,
                            NULL),
         "xfer_engine_listen");
}

static const xfer_event_t *find_object(Host *host, uint32_t kind, const void *object) {
    for (int i = 0; i < host->count; i++)
        if (host->events[i].kind == kind && host->events[i].object == object)
            return &host->events[i];
    return NULL;
}

void loop_end(Host *host) {
    if (host->mode->dispatch != XFER_DISPATCH_LOOP) return;
    uint64_t end = now_ms() + kLimitMs;
    while (uv_loop_close(&host->loop) != 0) {
        if (now_ms() > end) fail_case("handles are left on the caller's loop");
        uv_run(&host->loop, UV_RUN_NOWAIT);
    }
}

void host_end(Host *host) {
    must(xfer_engine_close(host->engine), "xfer_engine_close");
    wait_object(host, NULL, XFER_EVENT_CLOSED, host->engine);
    must(xfer_engine_join(host->engine, XFER_NONE), "xfer_engine_join");
    host->engine = NULL;
    loop_end(host);
}

static void turn_one(Host *host) {
    if (host == NULL || host->engine == NULL) return;
    if (host->mode->dispatch == XFER_DISPATCH_LOOP) uv_run(&host->loop, UV_RUN_NOWAIT);
    if (host->mode->dispatch != XFER_DISPATCH_POLL) return;
    xfer_event_t events[8];
    uint32_t count = 0;
    must(xfer_engine_poll(host->engine, events, sizeof events[0], 8, 0, &count),
         "xfer_engine_poll");
    for (uint32_t i = 0; i < count; i++)
        record(host, &events[i]);
}

void turn(Host *one, Host *other) {
    turn_one(one);
    turn_one(other);
    usleep(200);
}

/* ---- events ---- */

static const xfer_event_t *find(Host *host, uint32_t kind, uint64_t user) {
    for (int i = 0; i < host->count; i++)
        if (host->events[i].kind == kind && (user == ANY_USER || host->events[i].user == user))
            return &host->events[i];
    return NULL;
}

int count_events(Host *host, uint32_t kind, uint64_t user) {
    int count = 0;
    for (int i = 0; i < host->count; i++)
        count += host->events[i].kind == kind && (user == ANY_USER || host->events[i].user == user);
    return count;
}

xfer_event_t wait_event(Host *host, Host *other, uint32_t kind, uint64_t user) {
    uint64_t end = now_ms() + kLimitMs;
    const xfer_event_t *event;
    while ((event = find(host, kind, user)) == NULL) {
        turn(host, other);
        if (now_ms() > end)
            fail_case("no event of kind %u for %llu", kind, (unsigned long long)user);
    }
    check_status(event->status, "an event");
    return *event;
}

xfer_event_t wait_object(Host *host, Host *other, uint32_t kind, const void *object) {
    uint64_t end = now_ms() + kLimitMs;
    const xfer_event_t *event;
    while ((event = find_object(host, kind, object)) == NULL) {
        turn(host, other);
        if (now_ms() > end) fail_case("no event of kind %u for %p", kind, object);
    }
    return *event;
}

/* ---- what must work after everything ---- */

xfer_status_t region_try(Host *host, xfer_region_t **region, xfer_error_t *err) {
    xfer_region_options_t options = {
        .size = sizeof options, .access = XFER_READ | XFER_WRITE, .name = "memory"};
    return xfer_region_open(host->engine, &options, served, sizeof served, region, err);
}

/* Who asks for a connection joins the attempt that is under way, and hears of its failure. So one
 * that began during the fault, and found nobody who could accept it, says nothing about what works
 * afterwards; the next one does. It may come after the longest backoff, which is longer than the
 * engine's own deadline. */
static void connect_after(Host *client, Host *server, xfer_ep_t *ep) {
    enum { kAttempts = 3 };
    const xfer_op_options_t patient = {.size = sizeof patient, .timeout_ms = kLimitMs / 2};
    static uint64_t word = 500;
    xfer_status_t status = XFER_EUNREACHABLE;
    for (int i = 0; i < kAttempts && status == XFER_EUNREACHABLE; i++) {
        must(xfer_ep_connect(ep, ++word, &patient), "xfer_ep_connect");
        status = wait_event(client, server, XFER_EVENT_CONNECT, word).status;
    }
    must(status, "CONNECT");
}

void talk(Host *client, Host *server) {
    static uint64_t word = 1000;
    static uint8_t sent[sizeof served], got[sizeof served];
    xfer_ep_t *ep = NULL;
    uint64_t user = ++word;
    must(xfer_ep_open(client->engine, server->uri, NULL, &ep, NULL), "xfer_ep_open");
    connect_after(client, server, ep);
    must(xfer_ep_lookup(ep, "memory", user, NULL, NULL), "xfer_ep_lookup");
    must(wait_event(client, server, XFER_EVENT_LOOKUP, user).status, "LOOKUP");
    memset(sent, (int)user, sizeof sent);
    must(xfer_put(ep, sent, &client->ref, 0, sizeof sent, user, NULL), "xfer_put");
    must(wait_event(client, server, XFER_EVENT_PUT, user).status, "PUT");
    must(xfer_get(ep, got, &client->ref, 0, sizeof got, user, NULL), "xfer_get");
    must(wait_event(client, server, XFER_EVENT_GET, user).status, "GET");
    if (memcmp(sent, got, sizeof got) != 0) fail_case("other bytes came back");
    must(xfer_ep_close(ep), "xfer_ep_close");
}

/* ---- resources ---- */

/* By system calls alone: opendir would allocate. */
static int entries(const char *path) {
    char bytes[8192];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int count = -2; /* . and .. */
    long got;
    if (fd < 0) fail_case("%s cannot be read", path);
    while ((got = syscall(SYS_getdents64, fd, bytes, sizeof bytes)) > 0) {
        for (long at = 0; at < got; count++) {
            unsigned short length;
            memcpy(&length, bytes + at + 16, sizeof length); /* d_reclen */
            at += length;
        }
    }
    close(fd);
    return count;
}

Resources resources(void) {
    /* The linker keeps the words of its last error (there is no CUDA) until somebody has asked. */
    dlerror();
    dlerror();
    return (Resources){entries("/proc/self/fd"), entries("/proc/self/task"), inject_live()};
}

/* The kernel lists a thread for a moment after it was joined. */
Resources alone(void) {
    Resources now = resources();
    for (uint64_t end = now_ms() + 1000; now.threads != 1 && now_ms() < end;) {
        usleep(500);
        now = resources();
    }
    return now;
}

void check_resources(const Resources *before, bool memory, const char *when) {
    Resources now = resources();
    for (uint64_t end = now_ms() + 1000; now.threads != before->threads && now_ms() < end;) {
        usleep(500);
        now = resources();
    }
    if (now.descriptors != before->descriptors)
        fail_case("%s: %d descriptors, %d before", when, now.descriptors, before->descriptors);
    if (now.threads != before->threads)
        fail_case("%s: %d threads, %d before", when, now.threads, before->threads);
    if (memory && now.live > before->live)
        fail_case("%s: %ld allocations more than before", when, now.live - before->live);
}
