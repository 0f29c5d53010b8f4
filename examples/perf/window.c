/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "echo.h"
#include "limits.h"
#include "measure.h"

/* The user's word of the message that says that the owner has taken all; others are blocks. */
static const uint64_t kAllTaken = UINT64_MAX;

/* ---- one operation ---- */

/* What is copied is ours again at once; a get and an atomic have nothing to copy. */
static const xfer_op_options_t *quiet_options(const struct plan *plan) {
    static const xfer_op_options_t kQuiet = {.size = sizeof kQuiet, .flags = XFER_FLAG_QUIET};
    static const xfer_op_options_t kCopied = {.size = sizeof kCopied,
                                              .flags = XFER_FLAG_QUIET | XFER_FLAG_COPY};
    if (!plan->quiet) return NULL;
    return plan->op == OP_PUT ? &kCopied : &kQuiet;
}

static const xfer_submit_options_t *submit_options(const struct plan *plan) {
    static const xfer_submit_options_t kNotify = {.size = sizeof kNotify,
                                                  .flags = XFER_SUBMIT_NOTIFY};
    return plan->op == OP_PUT_NOTIFY ? &kNotify : NULL;
}

static xfer_status_t submit_echo(struct client *client, uint8_t *local, uint32_t block) {
    uint64_t size = client->run.plan->size;
    must(xfer_recv(client->engine, client->ep, local + size, size, TAG_BACK, UINT64_MAX, block,
                   NULL),
         "xfer_recv", NULL);
    return xfer_send(client->ep, local, size, TAG_THERE, block, NULL);
}

static xfer_status_t submit_atomic(struct client *client, uint8_t *local, uint32_t block) {
    uint64_t operand;
    memcpy(&operand, local, sizeof operand);
    return xfer_atomic(client->ep, XFER_ATOMIC_ADD, (uint64_t *)(void *)local, &client->ref,
                       block * sizeof operand, operand, 0, block, quiet_options(client->run.plan));
}

static xfer_status_t begin(struct client *client, uint32_t block) {
    struct run *run = &client->run;
    const struct plan *plan = run->plan;
    uint64_t size = plan->size;
    uint8_t *local = run->memory + block * size;
    const xfer_op_options_t *options = quiet_options(plan);
    if (run->batches != NULL)
        return xfer_batch_submit(run->batches[block], block, submit_options(plan));
    switch ((enum op)plan->op) {
    case OP_PUT:
        return xfer_put(client->ep, local, &client->ref, block * size, size, block, options);
    case OP_GET:
        return xfer_get(client->ep, local, &client->ref, block * size, size, block, options);
    case OP_ATOMIC:
        return submit_atomic(client, local, block);
    case OP_MESSAGE:
        return xfer_send(client->ep, local, size, TAG_THERE, block, NULL);
    case OP_NOTIFY:
        return xfer_notify(client->ep, local, size, block, block, NULL);
    case OP_ECHO:
        return submit_echo(client, local, block);
    case OP_PUT_NOTIFY: /* a batch */
        break;
    }
    return XFER_EINVAL;
}

void window_submit(struct client *client, uint32_t block) {
    struct run *run = &client->run;
    if (run->times != NULL) run->started[block] = now_ns();
    must(begin(client, block), "submit", NULL);
}

/* ---- what has ended ---- */

static uint64_t done_now(struct run *run) {
    return atomic_load_explicit(&run->done, memory_order_acquire);
}

static bool by_thread(const struct client *client) {
    return !client->poll && client->run.submitter != SUBMIT_CALLBACK;
}

/* One thread at a time counts. With this the run may be over, and be followed by another. */
static void count_done(struct client *client, uint64_t done) {
    struct run *run = &client->run;
    bool waits =
        run->submitter == SUBMIT_THREAD || (run->submitter == SUBMIT_CALLBACK && done == run->goal);
    bool wake = waits && !client->poll;
    atomic_store_explicit(&run->done, done, memory_order_release);
    if (wake) sem_post(&client->progress);
}

static void operation_ended(struct client *client, const xfer_event_t *event) {
    struct run *run = &client->run;
    must(event->status, "operation", NULL);
    uint64_t done = done_now(run);
    uint32_t block = (uint32_t)event->user;
    if (run->times != NULL && event->user != kAllTaken)
        run->times[done] = (double)(now_ns() - run->started[block]);
    if (by_thread(client)) {
        run->ended[done % run->plan->window] = block;
    } else if (run->issued < run->plan->count) {
        run->issued++;
        window_submit(client, block);
    }
    count_done(client, done + 1);
}

/* ---- quiet ---- */

/* Windows of operations, each with a flush behind it, until a flush has to be waited for. Returns
 * whether there was none. */
static bool submit_quiet(struct client *client) {
    struct run *run = &client->run;
    uint32_t idle = 1;
    while (idle && run->issued < run->plan->count) {
        uint64_t left = run->plan->count - run->issued;
        uint64_t now = left < run->plan->window ? left : run->plan->window;
        for (uint32_t block = 0; block < now; block++)
            window_submit(client, block);
        run->issued += now;
        must(xfer_ep_flush(client->ep, &idle, 0, NULL), "xfer_ep_flush", NULL);
    }
    return idle;
}

static void flush_ended(struct client *client, const xfer_event_t *event) {
    must(event->status, "flush", NULL);
    if (by_thread(client) || submit_quiet(client)) count_done(client, client->run.issued);
}

bool window_event(struct client *client, const xfer_event_t *event) {
    switch (event->kind) {
    case XFER_EVENT_SEND:
        if (client->run.plan->op == OP_MESSAGE)
            operation_ended(client, event);
        else
            must(event->status, "message", NULL);
        return true;
    case XFER_EVENT_PUT:
    case XFER_EVENT_GET:
    case XFER_EVENT_BATCH:
    case XFER_EVENT_RECV:
    case XFER_EVENT_NOTIFIED:
    case XFER_EVENT_ATOMIC:
        operation_ended(client, event);
        return true;
    case XFER_EVENT_FLUSH:
        flush_ended(client, event);
        return true;
    default:
        return false;
    }
}
/* ---- a run ---- */

static void add_pages(struct client *client, const struct plan *plan, uint8_t *memory) {
    struct run *run = &client->run;
    uint64_t pages = plan->size / plan->page_size;
    uint64_t *local = page_order(pages, INITIATOR);
    uint64_t *remote = page_order(pages, OWNER);
    for (uint64_t block = 0; block < plan->window; block++) {
        xfer_page_base_t base = {.local = (uintptr_t)(memory + block * plan->size),
                                 .remote = &client->ref,
                                 .offset = block * plan->size};
        xfer_pages_t table = {.size = sizeof table,
                              .base_size = sizeof base,
                              .index_size = 8,
                              .length = plan->page_size,
                              .count = pages,
                              .local_pages = local,
                              .remote_pages = remote,
                              .bases = &base,
                              .base_count = 1};
        must(xfer_batch_add_pages(run->batches[block], plan_reads(plan) ? XFER_OP_GET : XFER_OP_PUT,
                                  &table, NULL),
             "xfer_batch_add_pages", NULL);
    }
    free(local);
    free(remote);
}

static void prepare_batches(struct client *client, const struct plan *plan, uint8_t *memory) {
    struct run *run = &client->run;
    run->batches = calloc(plan->window, sizeof(xfer_batch_t *));
    if (run->batches == NULL) err(1, "batches");
    run->batch_count = plan->window;
    for (uint64_t block = 0; block < plan->window; block++) {
        xfer_error_t error;
        must(xfer_batch_open(client->ep, NULL, &run->batches[block], &error), "xfer_batch_open",
             &error);
        if (plan->page_size != 0) continue;
        uint64_t at = block * plan->size;
        must(xfer_batch_put(run->batches[block], memory + at, &client->ref, at, plan->size),
             "xfer_batch_put", NULL);
    }
    if (plan->page_size != 0) add_pages(client, plan, memory);
}

void client_prepare(struct client *client, const struct plan *plan, uint8_t *memory) {
    client->run = (struct run){0};
    client->run.started = calloc(plan->window, sizeof(uint64_t));
    client->run.ended = calloc(plan->window, sizeof(uint32_t));
    if (client->run.started == NULL || client->run.ended == NULL) err(1, "window");
    if (plan->page_size != 0 || plan->op == OP_PUT_NOTIFY) prepare_batches(client, plan, memory);
}

void client_forget(struct client *client) {
    struct run *run = &client->run;
    for (uint64_t block = 0; block < run->batch_count; block++)
        xfer_batch_close(run->batches[block]);
    free(run->batches);
    free(run->started);
    free(run->ended);
    client->run = (struct run){0};
}

/* SUBMIT_THREAD, SUBMIT_SPIN: until more than `done` have ended. */
static void wait_ended(struct client *client, uint64_t done) {
    if (client->run.submitter == SUBMIT_THREAD) {
        client_wait(client);
        return;
    }
    unsigned turns = 0;
    while (done_now(&client->run) <= done)
        spin_rest(&turns);
}

static void run_quiet(struct client *client) {
    struct run *run = &client->run;
    if (by_thread(client)) {
        while (!submit_quiet(client))
            wait_ended(client, run->issued - 1);
        return;
    }
    if (submit_quiet(client)) return;
    if (client->poll) {
        while (done_now(run) < run->goal)
            client_poll(client);
    } else {
        client_wait(client);
    }
}

static void run_window(struct client *client) {
    struct run *run = &client->run;
    const struct plan *plan = run->plan;
    /* Counted before the first submit: from then on only the callback counts. */
    run->issued = plan->window < plan->count ? plan->window : plan->count;
    uint64_t first = run->issued;
    for (uint32_t block = 0; block < first; block++)
        window_submit(client, block);
    if (client->poll) {
        while (done_now(run) < run->goal)
            client_poll(client);
    } else if (run->submitter == SUBMIT_CALLBACK) {
        client_wait(client);
    } else {
        for (uint64_t i = 0; i < run->goal; i++) {
            wait_ended(client, i);
            if (run->issued == plan->count) continue;
            run->issued++;
            window_submit(client, run->ended[i % plan->window]);
        }
    }
}

double client_run(struct client *client, const struct plan *plan, uint8_t *memory,
                  enum submitter submitter, double *times) {
    struct run *run = &client->run;
    bool taken = plan_is_taken(plan);
    run->plan = plan;
    run->memory = memory;
    run->times = times;
    run->submitter = submitter;
    run->issued = 0;
    run->goal = plan->count + taken;
    atomic_store(&run->done, 0);
    if (taken)
        must(xfer_recv(client->engine, client->ep, NULL, 0, TAG_BACK, UINT64_MAX, kAllTaken, NULL),
             "xfer_recv", NULL);
    uint64_t start = now_ns();
    (plan->quiet ? run_quiet : run_window)(client);
    return (double)(now_ns() - start) / 1e9;
}
