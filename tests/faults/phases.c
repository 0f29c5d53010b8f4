/* SPDX-License-Identifier: Apache-2.0 */
#include "phases.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

long phase_counts[kCallCount];
long phase_hits;

static const Mode plain = {"thread/1", XFER_DISPATCH_THREAD, 1};
static Resources base;
static bool compare_memory;

void phase_disarm(void) {
    inject_disarm();
    phase_hits = inject_hits();
    for (int i = 0; i < kCallCount; i++)
        phase_counts[i] = inject_count((Call)i);
}

static void check_error(xfer_status_t status, const xfer_error_t *err, const char *call) {
    check_status(status, call);
    if (err->status != status && status != XFER_ENOMEM)
        fail_case("%s: %s, but err says %s", call, xfer_status_name(status),
                  xfer_status_name(err->status));
}

/* A server and a client, all that they do together, and their end. */
static void whole_life(const Mode *mode) {
    static Host server, client;
    xfer_region_t *region = NULL;
    host_open(&server, &plain);
    host_listen(&server);
    must(region_try(&server, &region, NULL), "xfer_region_open");
    host_open(&client, mode);
    talk(&client, &server);
    host_end(&client);
    must(xfer_region_close(region), "xfer_region_close");
    host_end(&server);
}

/* ---- open ---- */

static void run_open(const Mode *mode, const Fault *fault) {
    static Host host;
    xfer_error_t err;
    loop_make(&host, mode);
    Resources before = resources();
    host.engine = (xfer_engine_t *)&host; /* it must be overwritten */
    inject_arm(fault);
    xfer_status_t status = host_try(&host, &err);
    phase_disarm();
    check_error(status, &err, "xfer_engine_open");
    if (status != XFER_OK) {
        if (host.engine != NULL) fail_case("a failed open leaves a handle");
        if (mode->dispatch == XFER_DISPATCH_LOOP) {
            /* What was on the caller's loop goes away in its next turns. */
            loop_end(&host);
            loop_make(&host, mode);
        }
        /* What libuv keeps for a process is made in any first attempt. */
        if (!compare_memory) before.descriptors = resources().descriptors;
        check_resources(&before, false, "after the failed open");
        must(host_try(&host, NULL), "the next xfer_engine_open");
    }
    host_end(&host);
}

/* ---- listen ---- */

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        fail_case("no free port");
    close(fd);
    return ntohs(address.sin_port);
}

static void run_listen(const Mode *mode, const Fault *fault) {
    static Host server, client;
    xfer_region_t *region = NULL;
    xfer_error_t err;
    char uri[64];
    host_open(&server, mode);
    must(region_try(&server, &region, NULL), "xfer_region_open");
    snprintf(uri, sizeof uri, "tcp://127.0.0.1:%d", free_port());
    Resources before = resources();
    inject_arm(fault);
    xfer_status_t status =
        xfer_engine_listen(server.engine, uri, NULL, server.uri, sizeof server.uri, &err);
    phase_disarm();
    check_error(status, &err, "xfer_engine_listen");
    if (status != XFER_OK) {
        check_resources(&before, false, "after the failed listen");
        must(xfer_engine_listen(server.engine, uri, NULL, server.uri, sizeof server.uri, NULL),
             "the next xfer_engine_listen");
    }
    host_open(&client, &plain);
    talk(&client, &server);
    host_end(&client);
    must(xfer_region_close(region), "xfer_region_close");
    host_end(&server);
}

/* ---- register ---- */

static void run_region(const Mode *mode, const Fault *fault) {
    static Host server, client;
    xfer_error_t err;
    host_open(&server, mode);
    host_listen(&server);
    Resources before = resources();
    xfer_region_t *region = (xfer_region_t *)&server; /* it must be overwritten */
    inject_arm(fault);
    xfer_status_t status = region_try(&server, &region, &err);
    phase_disarm();
    check_error(status, &err, "xfer_region_open");
    if (status != XFER_OK) {
        if (region != NULL) fail_case("a failed open leaves a handle");
        check_resources(&before, false, "after the failed open of a region");
        xfer_engine_stats_t stats;
        must(xfer_engine_stats(server.engine, &stats, sizeof stats), "xfer_engine_stats");
        if (stats.regions != 0) fail_case("a region that failed to open is there");
        must(region_try(&server, &region, NULL), "the next xfer_region_open");
    }
    host_open(&client, &plain);
    talk(&client, &server);
    host_end(&client);
    must(xfer_region_close(region), "xfer_region_close");
    host_end(&server);
}

/* ---- connect ---- */

enum { kConnectWord = 1, kLookupWord, kPutWord, kGetWord };

/* What was accepted has its one event; what was refused has none. */
static xfer_status_t outcome(Host *client, Host *server, xfer_status_t status, uint32_t kind,
                             uint64_t user) {
    check_status(status, "a call on an endpoint");
    if (status == XFER_OK) return wait_event(client, server, kind, user).status;
    if (count_events(client, kind, user) != 0) fail_case("an event of a refused call");
    return status;
}

static void first_contact(Host *client, Host *server, xfer_ep_t *ep) {
    static uint8_t local[sizeof served];
    xfer_status_t status;
    status = xfer_ep_connect(ep, kConnectWord, NULL);
    outcome(client, server, status, XFER_EVENT_CONNECT, kConnectWord);
    status = xfer_ep_lookup(ep, "memory", kLookupWord, NULL, NULL);
    status = outcome(client, server, status, XFER_EVENT_LOOKUP, kLookupWord);
    if (status != XFER_OK) return;
    status = xfer_put(ep, local, &client->ref, 0, sizeof local, kPutWord, NULL);
    outcome(client, server, status, XFER_EVENT_PUT, kPutWord);
    status = xfer_get(ep, local, &client->ref, 0, sizeof local, kGetWord, NULL);
    outcome(client, server, status, XFER_EVENT_GET, kGetWord);
}

static void run_connect(const Mode *mode, const Fault *fault) {
    static Host server, client;
    xfer_region_t *region = NULL;
    xfer_ep_t *ep = NULL;
    host_open(&server, &plain);
    host_listen(&server);
    must(region_try(&server, &region, NULL), "xfer_region_open");
    host_open(&client, mode);
    xfer_error_t err;
    inject_arm(fault);
    xfer_status_t status = xfer_ep_open(client.engine, server.uri, NULL, &ep, &err);
    if (status == XFER_OK) first_contact(&client, &server, ep);
    phase_disarm();
    check_error(status, &err, "xfer_ep_open");
    if ((status == XFER_OK) != (ep != NULL)) fail_case("a failed open leaves a handle");
    must(xfer_ep_close(ep), "xfer_ep_close");
    talk(&client, &server);
    for (uint64_t user = kConnectWord; user <= kGetWord; user++)
        for (uint32_t kind = XFER_EVENT_PUT; kind <= XFER_EVENT_CONNECT; kind++)
            if (count_events(&client, kind, user) > 1) fail_case("two events of one call");
    host_end(&client);
    must(xfer_region_close(region), "xfer_region_close");
    host_end(&server);
}

/* ---- running ---- */

static void *wait_for_all(void *barrier) {
    pthread_barrier_wait(barrier);
    return NULL;
}

/* The C library keeps the stacks of threads that ended, each with some memory that it allocated:
 * as many as ever ran at once. So as many as any phase has run at once now. */
static void fill_thread_cache(void) {
    enum { kThreads = 8, kStack = 256 * 1024 };
    pthread_t threads[kThreads];
    pthread_barrier_t barrier;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStack); /* so small that all of them are kept */
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    pthread_barrier_init(&barrier, NULL, kThreads);
    for (int i = 0; i < kThreads; i++)
        if (pthread_create(&threads[i], NULL, wait_for_all, &barrier) != 0) fail_case("no thread");
    for (int i = 0; i < kThreads; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

void phase_run(const Phase *phase, const Mode *mode, const Fault *fault, bool warm) {
    /* Twice: some of the first life's memory is kept for the second. */
    if (warm) fill_thread_cache();
    for (int i = 0; warm && i < 2; i++)
        whole_life(mode);
    base = alone();
    compare_memory = warm;
    phase->run(mode, fault);
    if (!warm) base.descriptors = resources().descriptors;
    check_resources(&base, compare_memory, "after the end");
    whole_life(mode);
    check_resources(&base, compare_memory, "after another life");
}

bool phase_allows(bool warm, const Fault *fault) {
#ifdef __SANITIZE_ADDRESS__
    if (fault->call == kDescriptors) return false; /* UBSan needs some to look at an object */
#endif
    /* The source of random numbers is chosen once. */
    if (fault->call == kGetrandom && warm) return false;
    return true;
}

const Phase phase_open = {"open", true, false, false, run_open};
const Phase phase_listen = {"listen", false, false, false, run_listen};
const Phase phase_region = {"register", false, false, false, run_region};
const Phase phase_connect = {"connect", false, true, false, run_connect};
