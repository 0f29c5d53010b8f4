/* SPDX-License-Identifier: Apache-2.0
 *
 * The scenarios of bindings/CONTRACT.md in C: each is a test of that very name, by the door that
 * the bindings use. */
#ifndef XFER_TESTS_CONTRACT_CONTRACT_H
#define XFER_TESTS_CONTRACT_CONTRACT_H

#include <string.h>

#include "fixture.h"

/* Events are polled where the descriptor is readable, an I/O thread drives the sockets. */
#define DOOR (&modes[7])

static inline void open_two(Pair *pair, uint64_t length) {
    pair_open(pair, DOOR, length);
}

/* Two engines, or with `itself` one that is its own peer, which needs no listener. */
static inline void open_either(Pair *pair, bool itself, uint64_t length) {
    if (!itself) {
        open_two(pair, length);
        return;
    }
    xfer_id_t id;
    xfer_ep_options_t options = {.size = sizeof options, .peer = &id};
    *pair = (Pair){.memory = test_memory(length), .length = length, .server = host_open(DOOR)};
    pair->client = pair->server;
    pair->region =
        open_region(pair->server, "memory", XFER_READ | XFER_WRITE, pair->memory, length);
    assert_status(xfer_engine_id(pair->server->engine, &id), XFER_OK);
    assert_status(xfer_ep_open(pair->client->engine, NULL, &options, &pair->ep, NULL), XFER_OK);
    pair->ref = look_up(pair->client, pair->ep, "memory");
}

/* A region of the server that was looked up, and is gone: what names it is stale. */
static inline xfer_ref_t stale_ref(Pair *pair) {
    static uint8_t memory[4096];
    xfer_region_t *region =
        open_region(pair->server, "gone", XFER_READ | XFER_WRITE, memory, sizeof memory);
    const xfer_ref_t ref = look_up(pair->client, pair->ep, "gone");
    assert_status(xfer_region_close(region), XFER_OK);
    wait_closed(pair->server, region);
    return ref;
}

static inline xfer_batch_t *open_batch(xfer_ep_t *ep) {
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(ep, NULL, &batch, NULL), XFER_OK);
    return batch;
}

/* True if each of the bytes is `value`: as the one before it, by one call, since TSan looks at each
 * access of ours. */
static inline bool all_are(const uint8_t *bytes, uint64_t length, uint8_t value) {
    return bytes[0] == value && memcmp(bytes, bytes + 1, length - 1) == 0;
}

#endif
