/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { CONNECT_MS = 3000, LOOKUP_MS = 5000, KEY_LEAST = 32, KEY_LIMIT = 256 };

/* Who asked: the user words of lookups. */
enum { LOOKUP_OURS = 1, LOOKUP_VISITOR = 2 };

static bool read_key(const char *path, uint8_t *key, uint64_t *length, struct why *why) {
    FILE *file = fopen(path, "rb");
    if (!file) return fail(why, "%s: %s", path, strerror(errno));
    *length = fread(key, 1, KEY_LIMIT + 1, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed) return fail(why, "%s: %s", path, strerror(EIO));
    if (*length >= KEY_LEAST && *length <= KEY_LIMIT) return true;
    return fail(why, "%s: a key has %d to %d bytes, this file has %s%d", path, KEY_LEAST, KEY_LIMIT,
                *length > KEY_LIMIT ? "more than " : "",
                *length > KEY_LIMIT ? KEY_LIMIT : (int)*length);
}

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
    (void)number;
    stopped = 1;
}

void session_stop_on_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool session_stopped(void) {
    return stopped != 0;
}

bool session_open(struct session *session, const struct session_options *options, struct why *why) {
    *session = (struct session){0};
    session->key = options->key;
    uint8_t key[KEY_LIMIT + 1]; /* one more tells that it is too long */
    xfer_engine_options_t engine = {
        .size = sizeof engine, .dispatch = XFER_DISPATCH_POLL, .lanes = options->lanes};
    if (options->key) {
        if (!read_key(options->key, key, &engine.key_length, why)) return false;
        engine.key = key;
    }
    xfer_error_t error;
    xfer_status_t status = xfer_engine_open(&engine, &session->engine, &error);
    return status == XFER_OK || fail(why, "the engine did not start: %s", error.message);
}

void session_close(struct session *session) {
    if (!session->engine) return;
    (void)xfer_ep_close(session->server);
    for (unsigned i = 0; i < session->region_count; i++)
        (void)xfer_region_close(session->regions[i]);
    for (unsigned i = 0; i < session->visitor_count; i++)
        (void)xfer_ep_close(session->visitors[i].ep);
    (void)xfer_engine_join(session->engine, XFER_NONE);
    *session = (struct session){0};
}

/* A peer's handle is the engine's: when the peer goes away before it has answered, that is all. One
 * that has what we look for is kept. */
static void welcome(struct session *session, const xfer_event_t *event) {
    if (event->kind == XFER_EVENT_PEER && session->visiting_card) {
        xfer_op_options_t options = {.size = sizeof options, .timeout_ms = LOOKUP_MS};
        (void)xfer_ep_lookup(event->ep, session->visiting_card, LOOKUP_VISITOR, &options, NULL);
    }
    const bool is_visitor = event->kind == XFER_EVENT_LOOKUP && event->user == LOOKUP_VISITOR &&
                            event->status == XFER_OK && session->visitor_count < VISITORS;
    if (is_visitor && xfer_ep_keep(event->ep, 0) == XFER_OK) {
        struct visitor *visitor = &session->visitors[session->visitor_count++];
        visitor->ep = event->ep;
        memcpy(&visitor->ref, event->data, sizeof visitor->ref);
    }
}

xfer_status_t session_next(struct session *session, xfer_event_t *event, uint32_t timeout_ms) {
    uint32_t count = 0;
    xfer_status_t status =
        xfer_engine_poll(session->engine, event, sizeof *event, 1, timeout_ms, &count);
    if (status != XFER_OK || count == 0) {
        *event = (xfer_event_t){0};
        return status;
    }
    welcome(session, event);
    return XFER_OK;
}

xfer_status_t session_wait(struct session *session, uint32_t type, xfer_event_t *event) {
    for (;;) { /* every operation ends, so this does too */
        xfer_status_t status = session_next(session, event, XFER_NONE);
        if (status != XFER_OK) return status;
        if (event->kind == type) return event->status;
    }
}

xfer_status_t session_lookup(struct session *session, xfer_ep_t *ep, const char *name,
                             xfer_ref_t *ref, uint64_t *length) {
    xfer_op_options_t options = {.size = sizeof options, .timeout_ms = LOOKUP_MS};
    xfer_status_t status = xfer_ep_lookup(ep, name, LOOKUP_OURS, &options, NULL);
    if (status != XFER_OK) return status;
    xfer_event_t event;
    do {
        status = session_wait(session, XFER_EVENT_LOOKUP, &event);
    } while (event.user == LOOKUP_VISITOR);
    if (status != XFER_OK) return status;
    memcpy(ref, event.data, sizeof *ref);
    xfer_ref_info_t info;
    status = xfer_ref_info(ref, &info, sizeof info);
    *length = info.length;
    return status;
}

bool session_lend(struct session *session, const char *name, uint32_t access, void *address,
                  uint64_t length, struct why *why) {
    xfer_region_options_t options = {.size = sizeof options, .access = access, .name = name};
    xfer_region_t **region = &session->regions[session->region_count];
    xfer_error_t error;
    if (session->region_count == REGIONS) return fail(why, "cannot lend so much");
    if (xfer_region_open(session->engine, &options, address, length, region, &error) != XFER_OK) {
        return fail(why, "cannot lend %s: %s", name, error.message);
    }
    session->region_count++;
    return true;
}

bool session_listen(struct session *session, const char *uri, char *bound, size_t cap,
                    struct why *why) {
    xfer_error_t error;
    xfer_status_t status = xfer_engine_listen(session->engine, uri, NULL, bound, cap, &error);
    if (status == XFER_EAUTH && !session->key)
        return fail(why, "cannot listen at %s: beyond this host it needs --key FILE", uri);
    return status == XFER_OK || fail(why, "cannot listen at %s: %s", uri, error.message);
}

bool session_connect(struct session *session, const char *uri, struct why *why) {
    xfer_error_t error;
    xfer_status_t status = xfer_ep_open(session->engine, uri, NULL, &session->server, &error);
    if (status != XFER_OK) return fail(why, "%s: %s", uri, error.message);
    status = xfer_ep_connect(
        session->server, 0,
        &(xfer_op_options_t){.size = sizeof(xfer_op_options_t), .timeout_ms = CONNECT_MS});
    xfer_event_t event;
    if (status == XFER_OK) status = session_wait(session, XFER_EVENT_CONNECT, &event);
    if (status == XFER_ETIMEDOUT || status == XFER_EUNREACHABLE) {
        return fail(why, "nobody answers at %s; is the server running?", uri);
    }
    if (status == XFER_EAUTH && !session->key)
        return fail(why, "%s: the server has a key: give it with --key FILE (XFER_EAUTH)", uri);
    if (status == XFER_EAUTH)
        return fail(why, "%s: the key of --key %s is not the server's (XFER_EAUTH)", uri,
                    session->key);
    return status == XFER_OK || fail_status(why, uri, status);
}

const char *session_path(struct session *session) {
    char text[16384];
    uint64_t needed;
    if (xfer_engine_describe(session->engine, text, sizeof text, &needed) != XFER_OK) return "";
    return strstr(text, "\"control\": \"local\"") ? "by shared memory" : "over sockets";
}
