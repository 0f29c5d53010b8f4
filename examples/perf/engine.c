/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "echo.h"
#include "measure.h"

const char kRegionName[] = "perf";

void must(xfer_status_t status, const char *what, const xfer_error_t *error) {
    if (status == XFER_OK) return;
    const char *detail = error != NULL ? error->message : xfer_status_text(status);
    errx(1, "%s: %s: %s", what, xfer_status_name(status), detail);
}

xfer_engine_options_t engine_options(const struct mode *mode, const void *key, size_t key_length) {
    xfer_engine_options_t options = {
        .size = sizeof options,
        .dispatch = mode->dispatch,
        .io_threads = mode->io_threads,
        .spin_us = mode->spin_us,
        .lanes = mode->lanes,
        .transports = mode->transports[0] != '\0' ? mode->transports : NULL,
        .flags = mode->checksum ? XFER_ENGINE_CHECKSUM : 0,
        .key = key_length > 0 ? key : NULL,
        .key_length = key_length};
    return options;
}

void split_uri(const char *uri, char *host, size_t capacity, uint16_t *port) {
    const char *start = strncmp(uri, "tcp://", 6) == 0 ? uri + 6 : NULL;
    const char *colon = start != NULL ? strrchr(start, ':') : NULL;
    unsigned number = 0;
    if (colon == NULL || sscanf(colon, ":%u", &number) != 1 || number > UINT16_MAX)
        errx(1, "%s: should be tcp://host:port", uri);
    if (*start == '[' && colon[-1] == ']') {
        start++;
        colon--;
    }
    size_t length = (size_t)(colon - start);
    if (length >= capacity) errx(1, "%s: too long", uri);
    memcpy(host, start, length);
    host[length] = '\0';
    *port = (uint16_t)number;
}

/* ---- the window ---- */

static void submit(struct client *client, uint32_t block) {
    struct run *run = &client->run;
    const struct plan *plan = run->plan;
    uint8_t *local = run->memory + block * plan->size;
    if (run->times != NULL) run->started[block] = now_ns();
    xfer_status_t status;
    if (plan->message) {
        must(xfer_recv(client->engine, client->ep, local + plan->size, plan->size, TAG_BACK,
                       UINT64_MAX, block, NULL),
             "xfer_recv", NULL);
        status = xfer_send(client->ep, local, plan->size, TAG_THERE, block, NULL);
    } else if (run->batches != NULL) {
        status = xfer_batch_submit(run->batches[block], block, NULL);
    } else if (plan->get) {
        status =
            xfer_get(client->ep, local, &client->ref, block * plan->size, plan->size, block, NULL);
    } else {
        status =
            xfer_put(client->ep, local, &client->ref, block * plan->size, plan->size, block, NULL);
    }
    must(status, "submit", NULL);
}

static void operation_ended(struct client *client, const xfer_event_t *event) {
    struct run *run = &client->run;
    must(event->status, "operation", NULL);
    uint32_t block = (uint32_t)event->user;
    if (run->times != NULL) run->times[run->done] = (double)(now_ns() - run->started[block]);
    bool last = ++run->done == run->plan->count;
    if (!client->poll && run->submitter == SUBMIT_THREAD) {
        run->ended[(run->done - 1) % run->plan->window] = block;
        sem_post(&client->progress);
        return;
    }
    if (run->issued < run->plan->count) {
        run->issued++;
        submit(client, block);
    }
    if (last && !client->poll) sem_post(&client->progress);
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    struct client *client = (struct client *)(uintptr_t)user;
    switch (event->kind) {
    case XFER_EVENT_PUT:
    case XFER_EVENT_GET:
    case XFER_EVENT_BATCH:
    case XFER_EVENT_RECV:
        operation_ended(client, event);
        return;
    case XFER_EVENT_SEND:
        must(event->status, "message", NULL);
        return;
    case XFER_EVENT_LOOKUP:
        if (event->status == XFER_OK) memcpy(&client->ref, event->data, sizeof client->ref);
        client->answer = event->status;
        if (client->contact) {
            must(event->status, "lookup", NULL);
            submit(client, 0);
        } else {
            sem_post(&client->progress);
        }
        return;
    case XFER_EVENT_PEER_DOWN:
        if (event->status != XFER_OK && event->status != XFER_ECLOSED)
            warnx("connection lost: %s", xfer_status_name(event->status));
        return;
    default:
        return;
    }
}

static void poll_for(struct client *client, uint32_t ms) {
    xfer_event_t events[64];
    uint32_t count = 0;
    must(xfer_engine_poll(client->engine, events, sizeof events[0], 64, ms, &count),
         "xfer_engine_poll", NULL);
    for (uint32_t i = 0; i < count; i++)
        on_event(&events[i], (uintptr_t)client);
}

static void poll_once(struct client *client) {
    poll_for(client, client->busy ? 0 : XFER_NONE);
}

void client_linger(struct client *client, uint32_t ms) {
    if (!client->poll) {
        usleep(ms * 1000);
        return;
    }
    for (uint64_t end = now_ns() + ms * 1000000ULL; now_ns() < end;)
        poll_for(client, 1);
}

static void wait_progress(struct client *client) {
    if (client->poll) {
        while (sem_trywait(&client->progress) != 0)
            poll_once(client);
        return;
    }
    while (sem_wait(&client->progress) != 0 && errno == EINTR)
        continue;
}

/* ---- life ---- */

void client_open(struct client *client, const struct mode *mode, const void *key, size_t length) {
    *client = (struct client){.poll = mode->dispatch == XFER_DISPATCH_POLL,
                              .loop = mode->dispatch == XFER_DISPATCH_LOOP,
                              .busy = mode->busy};
    sem_init(&client->progress, 0, 0);
    xfer_engine_options_t options = engine_options(mode, key, length);
    if (!client->poll) options.on_event = on_event;
    options.user = (uintptr_t)client;
    xfer_error_t error;
    if (client->loop)
        client->engine = looped_open(&client->looped, &options);
    else
        must(xfer_engine_open(&options, &client->engine, &error), "xfer_engine_open", &error);
}

static void start_lookup(struct client *client, const char *uri) {
    xfer_error_t error;
    must(xfer_ep_open(client->engine, uri, NULL, &client->ep, &error), "xfer_ep_open", &error);
    must(xfer_ep_lookup(client->ep, kRegionName, 0, NULL, NULL), "xfer_ep_lookup", NULL);
}

void client_reach(struct client *client, const char *uri) {
    start_lookup(client, uri);
    wait_progress(client);
    must(client->answer, "lookup", NULL);
}

static void prepare_batches(struct client *client, const struct plan *plan, uint8_t *memory) {
    struct run *run = &client->run;
    uint64_t pages = plan->size / plan->page_size;
    uint64_t *local = page_order(pages, INITIATOR);
    uint64_t *remote = page_order(pages, OWNER);
    run->batches = calloc(plan->window, sizeof(xfer_batch_t *));
    if (run->batches == NULL) err(1, "batches");
    run->batch_count = plan->window;
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
        xfer_error_t error;
        must(xfer_batch_open(client->ep, NULL, &run->batches[block], &error), "xfer_batch_open",
             &error);
        must(xfer_batch_add_pages(run->batches[block], plan->get ? XFER_OP_GET : XFER_OP_PUT,
                                  &table, NULL),
             "xfer_batch_add_pages", NULL);
    }
    free(local);
    free(remote);
}

void client_prepare(struct client *client, const struct plan *plan, uint8_t *memory) {
    client->run = (struct run){0};
    client->run.started = calloc(plan->window, sizeof(uint64_t));
    client->run.ended = calloc(plan->window, sizeof(uint32_t));
    if (client->run.started == NULL || client->run.ended == NULL) err(1, "window");
    if (plan->page_size != 0) prepare_batches(client, plan, memory);
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

double client_run(struct client *client, const struct plan *plan, uint8_t *memory,
                  enum submitter submitter, double *times) {
    struct run *run = &client->run;
    run->plan = plan;
    run->memory = memory;
    run->times = times;
    run->submitter = submitter;
    run->done = 0;
    /* Counted before the first submit: from then on only the callback counts. */
    run->issued = plan->window < plan->count ? plan->window : plan->count;
    uint64_t first = run->issued;
    uint64_t start = now_ns();
    for (uint32_t block = 0; block < first; block++)
        submit(client, block);
    if (client->poll) {
        while (run->done < plan->count)
            poll_once(client);
    } else if (submitter == SUBMIT_CALLBACK) {
        wait_progress(client);
    } else {
        for (uint64_t i = 0; i < plan->count; i++) {
            wait_progress(client);
            if (run->issued == plan->count) continue;
            run->issued++;
            submit(client, run->ended[i % plan->window]);
        }
    }
    return (double)(now_ns() - start) / 1e9;
}

void client_contact(struct client *client, const char *uri, const struct plan *plan,
                    uint8_t *memory) {
    struct run *run = &client->run;
    *run = (struct run){.plan = plan, .memory = memory, .issued = plan->count};
    client->contact = true;
    start_lookup(client, uri);
    if (client->poll) {
        while (run->done < plan->count)
            poll_once(client);
    } else {
        wait_progress(client);
    }
    client->contact = false;
}

void client_close(struct client *client) {
    xfer_ep_close(client->ep);
    if (client->loop)
        looped_close(&client->looped);
    else
        must(xfer_engine_join(client->engine, XFER_NONE), "xfer_engine_join", NULL);
    sem_destroy(&client->progress);
}
