/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "window.h"

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

static void on_event(const xfer_event_t *event, uint64_t user) {
    struct client *client = (struct client *)(uintptr_t)user;
    if (window_event(client, event)) return;
    switch (event->kind) {
    case XFER_EVENT_LOOKUP:
        if (event->status == XFER_OK) memcpy(&client->ref, event->data, sizeof client->ref);
        client->answer = event->status;
        if (client->contact) {
            must(event->status, "lookup", NULL);
            window_submit(client, 0);
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

void client_poll(struct client *client) {
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

void client_wait(struct client *client) {
    if (client->poll) {
        while (sem_trywait(&client->progress) != 0)
            client_poll(client);
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
    client_wait(client);
    must(client->answer, "lookup", NULL);
}

void client_contact(struct client *client, const char *uri, const struct plan *plan,
                    uint8_t *memory) {
    struct run *run = &client->run;
    *run = (struct run){.plan = plan, .memory = memory, .issued = plan->count, .goal = plan->count};
    client->contact = true;
    start_lookup(client, uri);
    if (client->poll) {
        while (run->done < plan->count)
            client_poll(client);
    } else {
        client_wait(client);
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
