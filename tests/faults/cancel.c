/* SPDX-License-Identifier: Apache-2.0
 *
 * What is under way can be canceled without memory: 65,536 receives and 1,024 sends, one by one,
 * the youngest first. Where nobody drives the loop meanwhile all cancels are on their way at once.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "phases.h"

enum { kReceives = 65536, kSends = 1024, kPolled = 256 };

static _Atomic int receives_ended, sends_ended;

static void count(const xfer_event_t *event) {
    if (event->kind == XFER_EVENT_RECV) receives_ended++;
    if (event->kind == XFER_EVENT_SEND) sends_ended++;
    if (event->kind != XFER_EVENT_RECV && event->kind != XFER_EVENT_SEND) return;
    if (event->status != XFER_ECANCELED) fail_case("ended: %s", xfer_status_name(event->status));
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    (void)user;
    count(event);
}

static void drive(Host *host) {
    if (host->mode->dispatch == XFER_DISPATCH_LOOP) uv_run(&host->loop, UV_RUN_NOWAIT);
    if (host->mode->dispatch != XFER_DISPATCH_POLL) return;
    static xfer_event_t events[kPolled];
    uint32_t polled = 0;
    must(xfer_engine_poll(host->engine, events, sizeof events[0], kPolled, 0, &polled),
         "xfer_engine_poll");
    for (uint32_t i = 0; i < polled; i++)
        count(&events[i]);
}

static void wait_count(Host *host, _Atomic int *ended, int wanted) {
    for (uint64_t end = now_ms() + kLimitMs; *ended < wanted; usleep(200)) {
        drive(host);
        if (now_ms() > end) fail_case("%d of %d events", (int)*ended, wanted);
    }
}

/* Nothing may be allocated between this and the disarm. */
static void forbid(bool here) {
    inject_arm(&(Fault){.call = kAlloc, .error = ENOMEM, .nth = 1, .onward = true, .here = here});
}

static void allow(const char *when) {
    long hits = inject_hits();
    inject_disarm();
    if (hits != 0) fail_case("%ld allocations: %s", hits, when);
}

static void open_host(Host *host, const Mode *mode) {
    loop_make(host, mode);
    xfer_engine_options_t options = {
        .size = sizeof options,
        .dispatch = mode->dispatch,
        .io_threads = mode->io_threads,
        .connect_ms = 60000, /* the peer is not given up meanwhile */
        .max_operations = kSends,
    };
    if (mode->dispatch != XFER_DISPATCH_POLL) options.on_event = on_event;
    if (mode->dispatch == XFER_DISPATCH_LOOP) options.uv_loop = &host->loop;
    must(xfer_engine_open(&options, &host->engine, NULL), "xfer_engine_open");
}

static void cancel_receive(Host *host, uint64_t user) {
    must(xfer_cancel(host->engine, NULL, user, UINT64_MAX), "xfer_cancel");
}

static void cancel_receives(Host *host) {
    static uint8_t box[8];
    for (uint64_t i = 0; i < kReceives; i++)
        must(xfer_recv(host->engine, NULL, box, sizeof box, i % 7, i % 5 ? UINT64_MAX : 0xff, i,
                       NULL),
             "xfer_recv");
    /* When the last one has ended the loop has seen them all. */
    cancel_receive(host, kReceives - 1);
    wait_count(host, &receives_ended, 1);
    forbid(false);
    for (uint64_t i = kReceives - 1; i-- > 0;)
        cancel_receive(host, i);
    wait_count(host, &receives_ended, kReceives);
    allow("receives are canceled");
}

/* To a peer that never says a word. */
static void cancel_sends(Host *host) {
    char uri[64];
    xfer_ep_t *ep = NULL;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(silent, (struct sockaddr *)&address, size) != 0 || listen(silent, 1) != 0 ||
        getsockname(silent, (struct sockaddr *)&address, &size) != 0)
        fail_case("the silent peer cannot listen");
    snprintf(uri, sizeof uri, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    must(xfer_ep_open(host->engine, uri, NULL, &ep, NULL), "xfer_ep_open");
    for (uint64_t i = 0; i < kSends; i++)
        must(xfer_send(ep, "a", 1, 1, i, NULL), "xfer_send");
    forbid(true);
    for (uint64_t i = kSends; i-- > 0;)
        must(xfer_cancel(host->engine, ep, i, UINT64_MAX), "xfer_cancel");
    allow("sends are canceled");
    wait_count(host, &sends_ended, kSends);
    must(xfer_ep_close(ep), "xfer_ep_close");
    close(silent);
}

static void run_with(const Mode *mode, void (*step)(Host *host)) {
    static Host host;
    open_host(&host, mode);
    step(&host);
    must(xfer_engine_close(host.engine), "xfer_engine_close");
    if (mode->dispatch == XFER_DISPATCH_LOOP) uv_run(&host.loop, UV_RUN_DEFAULT);
    must(xfer_engine_join(host.engine, XFER_NONE), "xfer_engine_join");
    loop_end(&host);
}

/* An engine each: what the receives need would do for the sends, too. */
void run_cancel(const Mode *mode) {
    run_with(mode, cancel_receives);
    run_with(mode, cancel_sends);
}
