/* SPDX-License-Identifier: Apache-2.0
 *
 * A pair of which the client sends and the server receives. */
#ifndef XFER_TESTS_API_MESSAGE_H
#define XFER_TESTS_API_MESSAGE_H

#include "fixture.h"

typedef struct Letters {
    Pair pair;
    xfer_ep_t *back; /* the server's handle of the client */
} Letters;

static inline void letters_open_with(Letters *letters, const xfer_engine_options_t *options,
                                     const Mode *mode) {
    pair_open_with(&letters->pair, options, options, mode, 4096);
    letters->back = wait_event(letters->pair.server, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
}

static inline void letters_open(Letters *letters, const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    letters_open_with(letters, &options, mode);
}

static inline void send_to(Letters *letters, const void *data, uint64_t length, uint64_t tag,
                           uint64_t user) {
    assert_status(xfer_send(letters->pair.ep, data, length, tag, user, NULL), XFER_OK);
}

static inline void receive(Letters *letters, xfer_ep_t *from, void *buffer, uint64_t room,
                           uint64_t tag, uint64_t mask, uint64_t user) {
    assert_status(
        xfer_recv(letters->pair.server->engine, from, buffer, room, tag, mask, user, NULL),
        XFER_OK);
}

static inline xfer_event_t received(Letters *letters, uint64_t user) {
    xfer_event_t event = wait_event(letters->pair.server, XFER_EVENT_RECV, user, kPatience);
    assert_int_equal(event.flags, XFER_FENCED);
    return event;
}

static inline xfer_status_t sent(Letters *letters, uint64_t user) {
    xfer_event_t event = wait_event(letters->pair.client, XFER_EVENT_SEND, user, kPatience);
    assert_completion(&event);
    return event.status;
}

#endif
