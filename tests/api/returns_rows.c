/* SPDX-License-Identifier: Apache-2.0
 *
 * What is peculiar to a function: a status, and what provokes it. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "returns.h"

/* From here on that call fails, if this thread makes it. */
static void break_call(Call call, int error) {
    Fault fault = {.call = call, .error = error, .nth = 1, .onward = true, .here = true};
    inject_arm(&fault);
}

static xfer_status_t mended(xfer_status_t status) {
    inject_disarm();
    return status;
}

static void ignore(const xfer_event_t *event, uint64_t user) {
    (void)event, (void)user;
}

/* ---- engine ---- */

static xfer_status_t open_with(const char *transports) {
    xfer_engine_options_t options = {
        .size = sizeof options, .on_event = ignore, .transports = transports};
    xfer_engine_t *engine = NULL;
    xfer_status_t status = xfer_engine_open(&options, &engine, NULL);
    if (status == XFER_OK) assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
    return status;
}
static xfer_status_t open_unsupported(Scene *s) {
    (void)s;
    return open_with("loopback,tpc");
}
static xfer_status_t open_no_files(Scene *s) {
    (void)s;
    break_call(kEventfd, EMFILE);
    return mended(open_with(NULL));
}
static xfer_status_t open_io(Scene *s) {
    (void)s;
    break_call(kEpollCreate, EBADF);
    return mended(open_with(NULL));
}

static xfer_status_t listen_at(Scene *s, const char *uri, uint64_t cap) {
    char bound[256];
    return xfer_engine_listen(s->engine, uri, NULL, bound, cap, NULL);
}
static xfer_status_t listen_nonsense(Scene *s) {
    return listen_at(s, "tcp://127.0.0.1", 256);
}
static xfer_status_t listen_twice(Scene *s) {
    char bound[256];
    assert_status(
        xfer_engine_listen(s->engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL),
        XFER_OK);
    return listen_at(s, bound, 256);
}
static xfer_status_t listen_small(Scene *s) {
    return listen_at(s, "tcp://127.0.0.1:0", 8);
}
static xfer_status_t listen_open(Scene *s) {
    return listen_at(s, "tcp://0.0.0.0:0", 256);
}
static xfer_status_t listen_unsupported(Scene *s) {
    return listen_at(s, "carrier-pigeon://roof", 256);
}
static xfer_status_t listen_no_files(Scene *s) {
    break_call(kSocket, EMFILE);
    return mended(listen_at(s, "tcp://127.0.0.1:0", 256));
}
static xfer_status_t listen_no_right(Scene *s) {
    break_call(kBind, EACCES);
    return mended(listen_at(s, "tcp://127.0.0.1:80", 256));
}
static xfer_status_t listen_io(Scene *s) {
    break_call(kListen, EOPNOTSUPP);
    return mended(listen_at(s, "tcp://127.0.0.1:0", 256));
}

/* Of the first call for the descriptor; without a fault that of a second engine. */
static xfer_status_t fd_under(uint32_t dispatch, Call call, int error) {
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = dispatch,
                                     .io_threads = XFER_NONE,
                                     .on_event = dispatch == XFER_DISPATCH_POLL ? NULL : ignore};
    xfer_engine_t *engine = NULL;
    assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
    int32_t fd;
    if (error) break_call(call, error);
    xfer_status_t status = mended(xfer_engine_fd(engine, &fd));
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
    return status;
}
static xfer_status_t fd_of_thread(Scene *s) {
    (void)s;
    return fd_under(XFER_DISPATCH_THREAD, kEpollCreate, 0);
}
static xfer_status_t fd_no_files(Scene *s) {
    (void)s;
    return fd_under(XFER_DISPATCH_POLL, kTimerfdCreate, EMFILE);
}
static xfer_status_t fd_no_memory(Scene *s) {
    (void)s;
    return fd_under(XFER_DISPATCH_POLL, kTimerfdCreate, ENOMEM);
}
static xfer_status_t fd_io(Scene *s) {
    (void)s;
    return fd_under(XFER_DISPATCH_POLL, kEpollCtl, ENOSPC);
}

typedef struct Poller {
    xfer_engine_t *engine;
    xfer_status_t status;
} Poller;

static void *poll_on(void *poller) {
    Poller *self = poller;
    xfer_event_t event;
    uint32_t count = 0;
    do
        self->status = xfer_engine_poll(self->engine, &event, sizeof event, 1, XFER_NONE, &count);
    while (self->status == XFER_EBUSY); /* the test's own look was meanwhile */
    return NULL;
}

/* What this thread's poll says while another polls, and what that one says at the join. */
static xfer_status_t poll_beside(xfer_status_t *other) {
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    Poller poller = {0};
    pthread_t thread;
    xfer_event_t event;
    uint32_t count = 0;
    xfer_status_t status = XFER_OK;
    assert_status(xfer_engine_open(&options, &poller.engine, NULL), XFER_OK);
    assert_int_equal(pthread_create(&thread, NULL, poll_on, &poller), 0);
    const uint64_t end = now_ms() + kPatience;
    while (status == XFER_OK && now_ms() < end)
        status = xfer_engine_poll(poller.engine, &event, sizeof event, 1, 0, &count);
    assert_status(xfer_engine_join(poller.engine, XFER_NONE), XFER_OK);
    pthread_join(thread, NULL);
    *other = poller.status;
    return status;
}
static xfer_status_t poll_busy(Scene *s) {
    (void)s;
    xfer_status_t other;
    return poll_beside(&other);
}
static xfer_status_t poll_joined(Scene *s) {
    (void)s;
    xfer_status_t other;
    poll_beside(&other);
    return other;
}
static xfer_status_t poll_of_thread(Scene *s) {
    xfer_event_t event;
    uint32_t count;
    return xfer_engine_poll(s->engine, &event, sizeof event, 1, 0, &count);
}
static xfer_status_t wake_of_thread(Scene *s) {
    return xfer_engine_wake(s->engine);
}
static xfer_status_t drain_twice(Scene *s) {
    assert_status(xfer_engine_drain(s->engine, 1, WITHIN(kPatience)), XFER_OK);
    return xfer_engine_drain(s->engine, 1, WITHIN(kPatience));
}

static _Atomic int in_callback, go_on;
static _Atomic xfer_status_t joined_there;

static void block(Host *host, const xfer_event_t *event) {
    (void)event;
    if (in_callback) return;
    joined_there = xfer_engine_join(host->engine, 0);
    in_callback = 1;
    while (!go_on)
        usleep(1000);
}

/* Its thread is in the callback until go_on. */
static void hold_up(Scene *s) {
    in_callback = go_on = 0;
    s->host->hook = block;
    assert_status(xfer_region_close(s->region), XFER_OK);
    s->region = NULL;
    wait_atomic(&in_callback, 1, kPatience);
}

/* From the thread that delivers an event, and from another meanwhile. */
static xfer_status_t join_early(Scene *s, bool there) {
    hold_up(s);
    xfer_status_t status = xfer_engine_join(s->engine, 0);
    go_on = 1;
    return there ? joined_there : status;
}
static xfer_status_t join_late(Scene *s) {
    return join_early(s, false);
}
static xfer_status_t join_there(Scene *s) {
    return join_early(s, true);
}
static xfer_status_t join_of_loop(Scene *s) {
    (void)s;
    Host *host = host_open(&modes[3]);
    xfer_status_t status = xfer_engine_join(host->engine, XFER_NONE);
    host_end(host);
    return status;
}
static xfer_status_t describe_small(Scene *s) {
    char text[8];
    uint64_t needed;
    return xfer_engine_describe(s->engine, text, sizeof text, &needed);
}
static xfer_status_t addresses(Scene *s, bool lacks_memory) {
    char text[8];
    uint64_t needed;
    host_listen(s->host, "tcp://127.0.0.1:0");
    if (lacks_memory) break_call(kAlloc, ENOMEM);
    return mended(xfer_engine_addresses(s->engine, text, sizeof text, &needed));
}
static xfer_status_t addresses_small(Scene *s) {
    return addresses(s, false);
}
static xfer_status_t addresses_no_memory(Scene *s) {
    return addresses(s, true);
}
static xfer_status_t cancel_of_another(Scene *s) {
    Host *other = host_open(s->host->mode);
    xfer_status_t status = xfer_cancel(other->engine, s->ep, 1, 0);
    host_end(other);
    return status;
}
/* More of them than were provided for, since the loop that takes them is in the callback. */
static xfer_status_t cancel_no_memory(Scene *s) {
    enum { kEnough = 100000 };
    (void)s;
    Scene held;
    scene_open(&held, &modes[0], 0);
    hold_up(&held);
    break_call(kAlloc, ENOMEM);
    xfer_status_t status = XFER_OK;
    for (int i = 0; status == XFER_OK && i < kEnough; i++)
        status = xfer_cancel(held.engine, NULL, 1, UINT64_MAX);
    inject_disarm();
    go_on = 1;
    scene_end(&held);
    return status;
}

/* ---- region ---- */

static xfer_status_t region_like(Scene *s, const char *name, uint32_t kind, bool alloc) {
    xfer_region_options_t options = {
        .size = sizeof options, .access = XFER_READ, .kind = kind, .name = name};
    xfer_region_t *region;
    void *address;
    return alloc ? xfer_region_alloc(s->engine, &options, 64, &address, &region, NULL)
                 : xfer_region_open(s->engine, &options, s->local, 64, &region, NULL);
}
static xfer_status_t region_again(Scene *s) {
    return region_like(s, "memory", 0, false);
}
static xfer_status_t alloc_again(Scene *s) {
    return region_like(s, "memory", 0, true);
}
static xfer_status_t alloc_device(Scene *s) {
    return region_like(s, "other", XFER_MEM_CUDA, true);
}
static xfer_status_t alloc_no_files(Scene *s) {
#ifdef __SANITIZE_ADDRESS__
    (void)s; /* UBSan needs descriptors to look at an object */
    return kSkipped;
#else
    break_call(kDescriptors, EMFILE);
    return mended(region_like(s, "other", 0, true));
#endif
}
/* The limit of files counts for memory that has a descriptor. */
static xfer_status_t alloc_io(Scene *s) {
    struct rlimit all, little;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    little = all;
    little.rlim_cur = 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    xfer_status_t status = region_like(s, "other", 0, true);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    signal(SIGXFSZ, before);
    return status;
}
static xfer_status_t ref_of_local(Scene *s) {
    xfer_region_options_t options = {.size = sizeof options};
    xfer_region_t *region;
    xfer_ref_t ref;
    assert_status(xfer_region_open(s->engine, &options, s->local, 8, &region, NULL), XFER_OK);
    return xfer_region_ref(region, &ref);
}
static xfer_status_t grant_past_end(Scene *s) {
    xfer_grant_options_t options = {
        .size = sizeof options, .access = XFER_READ, .length = kLength + 1};
    xfer_ref_t ref;
    return xfer_region_grant(s->region, &options, &ref, NULL);
}
static xfer_status_t renew_revoked(Scene *s) {
    assert_status(xfer_region_revoke(s->region, &s->grant), XFER_OK);
    return xfer_region_renew(s->region, &s->grant, 0);
}
static xfer_status_t revoke_twice(Scene *s) {
    assert_status(xfer_region_revoke(s->region, &s->grant), XFER_OK);
    return xfer_region_revoke(s->region, &s->grant);
}

/* ---- endpoint ---- */

static xfer_status_t ep_at(Scene *s, const char *uri) {
    xfer_ep_t *ep;
    return xfer_ep_open(s->engine, uri, NULL, &ep, NULL);
}
static xfer_status_t ep_nowhere(Scene *s) {
    return ep_at(s, "tcp://127.0.0.1");
}
static xfer_status_t ep_unsupported(Scene *s) {
    return ep_at(s, "carrier-pigeon://roof");
}
/* One address more than an endpoint may have. */
static const char *many_addresses(void) {
    static char list[65 * sizeof "tcp://127.0.0.1:1000"];
    size_t at = 0;
    for (int i = 0; i < 65; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%stcp://127.0.0.1:%d", i ? "," : "",
                               1000 + i);
    return list;
}
static xfer_status_t ep_many(Scene *s) {
    return ep_at(s, many_addresses());
}
static xfer_status_t add_nowhere(Scene *s) {
    return xfer_ep_add_address(s->ep, "tcp://127.0.0.1", NULL);
}
static xfer_status_t add_unsupported(Scene *s) {
    return xfer_ep_add_address(s->ep, "carrier-pigeon://roof", NULL);
}
static xfer_status_t add_many(Scene *s) {
    return xfer_ep_add_address(s->ep, many_addresses(), NULL);
}
/* The call of that name, with an endpoint for another engine than the ref's owner. */
static xfer_status_t of_another(Scene *s, const char *name) {
    const xfer_id_t other = {.bytes = {1}};
    const xfer_ep_options_t options = {.size = sizeof options, .peer = &other};
    Scene there = *s;
    assert_status(xfer_ep_open(s->engine, NULL, &options, &there.ep, NULL), XFER_OK);
    assert_status(xfer_batch_open(there.ep, NULL, &there.batch, NULL), XFER_OK);
    for (size_t i = 0; i < function_count; i++)
        if (strcmp(functions[i].name, name) == 0) return functions[i].call(&there);
    return XFER_ENOTFOUND;
}
#define OF_ANOTHER(row, function)        \
    static xfer_status_t row(Scene *s) { \
        return of_another(s, #function); \
    }
OF_ANOTHER(put_of_another, xfer_put)
OF_ANOTHER(get_of_another, xfer_get)
OF_ANOTHER(atomic_of_another, xfer_atomic)
OF_ANOTHER(batch_put_of_another, xfer_batch_put)
OF_ANOTHER(batch_get_of_another, xfer_batch_get)
OF_ANOTHER(spans_of_another, xfer_batch_add_spans)
OF_ANOTHER(strided_of_another, xfer_batch_add_strided)
OF_ANOTHER(pages_of_another, xfer_batch_add_pages)
OF_ANOTHER(rebind_of_another, xfer_batch_rebind)
static xfer_status_t no_message(Scene *s) {
    xfer_message_info_t info;
    return xfer_peek(s->engine, NULL, 1, 1, &info, sizeof info);
}
static xfer_status_t keep_own(Scene *s) {
    return xfer_ep_keep(s->ep, 1);
}
static xfer_status_t admit_own(Scene *s) {
    return xfer_ep_admit(s->ep, XFER_OK);
}
static xfer_status_t close_not_kept(Scene *s) {
    Host *client = host_open(s->host->mode);
    host_listen(s->host, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_ep(client, s->host->uri);
    assert_status(connect_now(client, ep, kPatience), XFER_OK);
    xfer_event_t event = wait_event(s->host, XFER_EVENT_PEER, ANY_USER, kPatience);
    xfer_status_t status = xfer_ep_close(event.ep);
    host_end(client);
    return status;
}
static xfer_status_t get_access(Scene *s) {
    xfer_ref_t ref = ref_with(s, XFER_WRITE);
    return xfer_get(s->ep, s->local, &ref, 0, 8, 1, NULL);
}
static const xfer_op_options_t copied = {.size = sizeof copied, .flags = XFER_FLAG_COPY};
static xfer_status_t put_copy(Scene *s) {
    return xfer_put(s->ep, s->local, &s->ref, 0, kLength + 1, 1, &copied);
}
static xfer_status_t send_copy(Scene *s) {
    return xfer_send(s->ep, s->local, kLength + 1, 1, 1, &copied);
}
static xfer_status_t notify_long(Scene *s) {
    return xfer_notify(s->ep, s->local, 1025, 1, 1, NULL);
}
static xfer_status_t counter_again(Scene *s) {
    xfer_counter_t *counter;
    return xfer_counter_open(s->engine, kKey, 1, NULL, &counter, NULL);
}

/* ---- batch ---- */

static xfer_status_t batch_get_access(Scene *s) {
    xfer_ref_t ref = ref_with(s, XFER_WRITE);
    return xfer_batch_get(s->batch, s->local, &ref, 0, 8);
}
static xfer_status_t submit_long(Scene *s) {
    xfer_submit_options_t options = {.size = sizeof options,
                                     .flags = XFER_SUBMIT_NOTIFY,
                                     .notify_data = s->local,
                                     .notify_length = 1025};
    return xfer_batch_submit(s->batch, 1, &options);
}
static xfer_status_t cuda_submit_long(Scene *s) {
    xfer_submit_options_t options = {.size = sizeof options,
                                     .flags = XFER_SUBMIT_NOTIFY,
                                     .notify_data = s->local,
                                     .notify_length = 1025};
    return xfer_cuda_submit(s->batch, NULL, 1, &options, NULL, NULL);
}
static xfer_status_t cuda_submit_ordered(Scene *s) {
    xfer_submit_options_t options = {.size = sizeof options, .flags = XFER_SUBMIT_ORDERED};
    return xfer_cuda_submit(s->batch, NULL, 1, &options, NULL, NULL);
}
static xfer_status_t rebind_unnamed(Scene *s) {
    return xfer_batch_rebind(s->batch, &s->ref, &s->ref, NULL);
}
static xfer_status_t rebind_shorter(Scene *s) {
    return xfer_batch_rebind(s->batch, &s->ref, &s->grant, NULL);
}
/* The sentence about the mistake takes some. */
static xfer_status_t rebind_no_memory(Scene *s) {
    break_call(kAlloc, ENOMEM);
    return mended(rebind_shorter(s));
}
static xfer_status_t rebind_access(Scene *s) {
    xfer_ref_t ref = ref_with(s, XFER_READ);
    return xfer_batch_rebind(s->batch, &s->ref, &ref, NULL);
}
static xfer_status_t cancel_idle(Scene *s) {
    return xfer_batch_cancel(s->batch);
}
static xfer_status_t entries_past_end(Scene *s) {
    xfer_status_t status;
    assert_status(xfer_batch_submit(s->batch, 1, NULL), XFER_OK);
    wait_event(s->host, XFER_EVENT_BATCH, 1, kPatience);
    return xfer_batch_entries(s->batch, 0, 1, &status);
}
static xfer_status_t entries_no_memory(Scene *s) {
    xfer_status_t status;
    assert_status(xfer_batch_submit(s->batch, 1, NULL), XFER_OK);
    wait_event(s->host, XFER_EVENT_BATCH, 1, kPatience);
    break_call(kAlloc, ENOMEM);
    return mended(xfer_batch_entries(s->batch, 0, 1, &status));
}

/* Of a batch that was closed in flight, and is there until somebody polls. */
static xfer_status_t closed_batch(xfer_status_t (*call)(xfer_batch_t *batch)) {
    Scene polled;
    scene_open(&polled, &modes[6], 0);
    assert_status(xfer_batch_put(polled.batch, polled.local, &polled.ref, 0, 8), XFER_OK);
    assert_status(xfer_batch_submit(polled.batch, 1, NULL), XFER_OK);
    assert_status(xfer_batch_close(polled.batch), XFER_OK);
    xfer_status_t status = call(polled.batch);
    polled.batch = NULL;
    scene_end(&polled);
    return status;
}
static xfer_status_t no_entries(xfer_batch_t *batch) {
    return xfer_batch_entries(batch, 0, 0, NULL);
}
static xfer_status_t cancel_closed(Scene *s) {
    (void)s;
    return closed_batch(xfer_batch_cancel);
}
static xfer_status_t entries_closed(Scene *s) {
    (void)s;
    return closed_batch(no_entries);
}
static xfer_status_t reset_closed(Scene *s) {
    (void)s;
    return closed_batch(xfer_batch_reset);
}

/* ---- without a handle ---- */

static xfer_status_t status_past_end(Scene *s) {
    (void)s;
    xfer_status_t status;
    return xfer_status_at(1000, &status);
}
static xfer_status_t option_past_end(Scene *s) {
    (void)s;
    xfer_option_info_t info;
    return xfer_engine_option_at(1000, &info, sizeof info);
}
static xfer_status_t option_unknown(Scene *s) {
    (void)s;
    xfer_engine_options_t options = {.size = sizeof options};
    return xfer_engine_option_set(&options, "colour", "green", NULL);
}
static xfer_status_t option_no_memory(Scene *s) {
    break_call(kAlloc, ENOMEM);
    return mended(option_unknown(s));
}
static xfer_status_t ref_text_small(Scene *s) {
    char text[8];
    return xfer_ref_text(&s->ref, text, sizeof text);
}
static xfer_status_t id_text_small(Scene *s) {
    (void)s;
    xfer_id_t id = {.incarnation = 1};
    char text[8];
    return xfer_id_text(&id, text, sizeof text);
}
static xfer_status_t native_text_small(Scene *s) {
    (void)s;
    char text[8];
    return xfer_native_text(XFER_ORIGIN_PEER, XFER_EAUTH, text, sizeof text);
}
/* The version stands in the fourth byte: its bits 2 to 7 are the seventh digit. */
static xfer_status_t parse_later(Scene *s) {
    xfer_ref_t ref;
    assert_int_equal(s->text[6], 'I');
    s->text[6] = 'M';
    return xfer_ref_parse(s->text, &ref);
}

/* ---- the table ---- */

#define ROW(function, status, provoke) \
    { #function, status, provoke, NULL }

const Row rows[] = {
    ROW(xfer_status_at, XFER_ENOTFOUND, status_past_end),
    ROW(xfer_engine_open, XFER_EUNSUPPORTED, open_unsupported),
    ROW(xfer_engine_open, XFER_ENOFILES, open_no_files),
    ROW(xfer_engine_open, XFER_EIO, open_io),
    ROW(xfer_engine_listen, XFER_EADDR, listen_nonsense),
    ROW(xfer_engine_listen, XFER_EADDRINUSE, listen_twice),
    ROW(xfer_engine_listen, XFER_ENOSPC, listen_small),
    ROW(xfer_engine_listen, XFER_EAUTH, listen_open),
    ROW(xfer_engine_listen, XFER_EUNSUPPORTED, listen_unsupported),
    ROW(xfer_engine_listen, XFER_ENOFILES, listen_no_files),
    ROW(xfer_engine_listen, XFER_EACCESS, listen_no_right),
    ROW(xfer_engine_listen, XFER_EIO, listen_io),
    ROW(xfer_engine_fd, XFER_EUNSUPPORTED, fd_of_thread),
    ROW(xfer_engine_fd, XFER_ENOFILES, fd_no_files),
    ROW(xfer_engine_fd, XFER_ENOMEM, fd_no_memory),
    ROW(xfer_engine_fd, XFER_EIO, fd_io),
    ROW(xfer_engine_poll, XFER_EBUSY, poll_busy),
    ROW(xfer_engine_poll, XFER_ECLOSED, poll_joined),
    ROW(xfer_engine_poll, XFER_EUNSUPPORTED, poll_of_thread),
    ROW(xfer_engine_wake, XFER_EUNSUPPORTED, wake_of_thread),
    ROW(xfer_engine_drain, XFER_EBUSY, drain_twice),
    ROW(xfer_engine_join, XFER_ETIMEDOUT, join_late),
    ROW(xfer_engine_join, XFER_EDEADLK, join_there),
    ROW(xfer_engine_join, XFER_EBUSY, join_of_loop),
    ROW(xfer_engine_describe, XFER_ENOSPC, describe_small),
    ROW(xfer_engine_addresses, XFER_ENOSPC, addresses_small),
    ROW(xfer_engine_addresses, XFER_ENOMEM, addresses_no_memory),
    ROW(xfer_cancel, XFER_EINVAL, cancel_of_another),
    ROW(xfer_cancel, XFER_ENOMEM, cancel_no_memory),
    ROW(xfer_region_open, XFER_EEXIST, region_again),
    ROW(xfer_region_alloc, XFER_EEXIST, alloc_again),
    ROW(xfer_region_alloc, XFER_EMEMKIND, alloc_device),
    ROW(xfer_region_alloc, XFER_ENOFILES, alloc_no_files),
    ROW(xfer_region_alloc, XFER_EIO, alloc_io),
    ROW_UNSHOWN(xfer_region_open, XFER_ETOOBIG, "1,048,576 regions would need a gigabyte"),
    ROW_UNSHOWN(xfer_region_alloc, XFER_ETOOBIG, "1,048,576 regions would need a gigabyte"),
    ROW_UNSHOWN(xfer_region_grant, XFER_ETOOBIG, "1,048,576 regions would need a gigabyte"),
    ROW_UNSHOWN(xfer_region_grant, XFER_EMEMKIND,
                "no region is of another memory than the host's yet"),
    ROW(xfer_region_ref, XFER_EACCESS, ref_of_local),
    ROW(xfer_region_grant, XFER_ERANGE, grant_past_end),
    ROW(xfer_region_renew, XFER_EREVOKED, renew_revoked),
    ROW(xfer_region_revoke, XFER_EREVOKED, revoke_twice),
    ROW(xfer_ep_open, XFER_EADDR, ep_nowhere),
    ROW(xfer_ep_open, XFER_EUNSUPPORTED, ep_unsupported),
    ROW(xfer_ep_open, XFER_ETOOBIG, ep_many),
    ROW(xfer_ep_add_address, XFER_EADDR, add_nowhere),
    ROW(xfer_ep_add_address, XFER_EUNSUPPORTED, add_unsupported),
    ROW(xfer_ep_add_address, XFER_ETOOBIG, add_many),
    ROW(xfer_ep_keep, XFER_EINVAL, keep_own),
    ROW(xfer_ep_admit, XFER_EINVAL, admit_own),
    ROW(xfer_ep_close, XFER_EINVAL, close_not_kept),
    ROW(xfer_get, XFER_EACCESS, get_access),
    ROW(xfer_put, XFER_ETOOBIG, put_copy),
    ROW(xfer_put, XFER_EIDENTITY, put_of_another),
    ROW(xfer_get, XFER_EIDENTITY, get_of_another),
    ROW(xfer_atomic, XFER_EIDENTITY, atomic_of_another),
    ROW(xfer_batch_put, XFER_EIDENTITY, batch_put_of_another),
    ROW(xfer_batch_get, XFER_EIDENTITY, batch_get_of_another),
    ROW(xfer_batch_add_spans, XFER_EIDENTITY, spans_of_another),
    ROW_ELSEWHERE(xfer_batch_add_spans, XFER_E2BIG, "api/later.c"),
    ROW(xfer_batch_add_strided, XFER_EIDENTITY, strided_of_another),
    ROW(xfer_batch_add_pages, XFER_EIDENTITY, pages_of_another),
    ROW(xfer_batch_rebind, XFER_EIDENTITY, rebind_of_another),
    ROW(xfer_peek, XFER_ENOTFOUND, no_message),
    ROW(xfer_send, XFER_ETOOBIG, send_copy),
    ROW_ELSEWHERE(xfer_recv, XFER_EAGAIN, "api/bounds.c"),
    ROW(xfer_notify, XFER_ETOOBIG, notify_long),
    ROW(xfer_counter_open, XFER_EEXIST, counter_again),
    ROW(xfer_batch_get, XFER_EACCESS, batch_get_access),
    ROW(xfer_batch_submit, XFER_ETOOBIG, submit_long),
    ROW(xfer_cuda_submit, XFER_ETOOBIG, cuda_submit_long),
    ROW(xfer_cuda_submit, XFER_EUNSUPPORTED, cuda_submit_ordered),
    ROW_ELSEWHERE(xfer_cuda_submit, XFER_EIO, "api/device_stream.c"),
    ROW(xfer_batch_rebind, XFER_ENOTFOUND, rebind_unnamed),
    ROW(xfer_batch_rebind, XFER_ERANGE, rebind_shorter),
    ROW(xfer_batch_rebind, XFER_ENOMEM, rebind_no_memory),
    ROW(xfer_batch_rebind, XFER_EACCESS, rebind_access),
    ROW(xfer_batch_cancel, XFER_EINVAL, cancel_idle),
    ROW(xfer_batch_cancel, XFER_ECLOSED, cancel_closed),
    ROW(xfer_batch_entries, XFER_ERANGE, entries_past_end),
    ROW(xfer_batch_entries, XFER_ENOMEM, entries_no_memory),
    ROW(xfer_batch_entries, XFER_ECLOSED, entries_closed),
    ROW(xfer_batch_reset, XFER_ECLOSED, reset_closed),
    ROW(xfer_ref_text, XFER_ENOSPC, ref_text_small),
    ROW(xfer_ref_parse, XFER_EVERSION, parse_later),
    ROW(xfer_id_text, XFER_ENOSPC, id_text_small),
    ROW(xfer_native_text, XFER_ENOSPC, native_text_small),
    ROW(xfer_engine_option_at, XFER_ENOTFOUND, option_past_end),
    ROW(xfer_engine_option_set, XFER_ENOTFOUND, option_unknown),
    ROW(xfer_engine_option_set, XFER_ENOMEM, option_no_memory),
};
const size_t row_count = sizeof rows / sizeof rows[0];
