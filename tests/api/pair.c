/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carried.h"
#include "fixture.h"

/* User words of the helpers; tests use small numbers of their own. */
static atomic_uint_fast64_t next_user = 1ull << 40;

void assert_status_at(xfer_status_t is, xfer_status_t wanted, const char *file, int line) {
    if (is == wanted) return;
    print_error("%s, not %s\n", xfer_status_name(is), xfer_status_name(wanted));
    _fail(file, line);
}

xfer_region_t *open_region(Host *host, const char *name, uint32_t access, void *address,
                           uint64_t length) {
    xfer_region_options_t options = {.size = sizeof options, .access = access, .name = name};
    xfer_region_t *region = NULL;
    xfer_error_t err;
    xfer_status_t status = xfer_region_open(host->engine, &options, address, length, &region, &err);
    if (status != XFER_OK)
        fail_msg("region %s: %s: %s", name, xfer_status_name(status), err.message);
    return region;
}

xfer_ep_t *open_ep(Host *host, const char *uri) {
    xfer_ep_t *ep = NULL;
    xfer_error_t err;
    xfer_status_t status = xfer_ep_open(host->engine, uri, NULL, &ep, &err);
    if (status != XFER_OK)
        fail_msg("endpoint %s: %s: %s", uri, xfer_status_name(status), err.message);
    return ep;
}

xfer_ref_t look_up(Host *host, xfer_ep_t *ep, const char *name) {
    uint64_t user = next_user++;
    xfer_ref_t ref;
    assert_status(xfer_ep_lookup(ep, name, user, NULL, NULL), XFER_OK);
    xfer_event_t event = wait_event(host, XFER_EVENT_LOOKUP, user, kPatience);
    assert_status(event.status, XFER_OK);
    assert_true(event.data_length >= sizeof ref);
    memcpy(&ref, event.data, sizeof ref);
    return ref;
}

static void open_pair(Pair *pair, const xfer_engine_options_t *server,
                      const xfer_engine_options_t *client, const Mode *mode, const char *uri,
                      uint64_t length) {
    *pair = (Pair){.length = length, .memory = test_memory(length)};
    pair->server = host_open_with(mode, server);
    pair->client = host_open_with(mode, client);
    host_listen(pair->server, uri);
    pair->region =
        open_region(pair->server, "memory", XFER_READ | XFER_WRITE, pair->memory, length);
    pair->ep = open_ep(pair->client, pair->server->uri);
    pair->ref = look_up(pair->client, pair->ep, "memory");
    wait_way(pair->client, pair->ep, &pair->ref);
}

void pair_open_with(Pair *pair, const xfer_engine_options_t *server,
                    const xfer_engine_options_t *client, const Mode *mode, uint64_t length) {
    open_pair(pair, server, client, mode, "tcp://127.0.0.1:0", length);
}

void pair_open_at(Pair *pair, const Mode *mode, const char *uri, uint64_t length) {
    xfer_engine_options_t options = host_options(mode);
    open_pair(pair, &options, &options, mode, uri, length);
}

void pair_open(Pair *pair, const Mode *mode, uint64_t length) {
    pair_open_at(pair, mode, "tcp://127.0.0.1:0", length);
}

void assert_completion(const xfer_event_t *event) {
    bool fenced = (event->flags & XFER_FENCED) != 0;
    bool maybe = (event->flags & XFER_MAYBE_APPLIED) != 0;
    if (event->status == XFER_OK) {
        assert_true(fenced);
        assert_false(maybe);
    } else {
        assert_true(fenced != maybe);
    }
}

static xfer_status_t end_of(Host *host, uint32_t type, uint64_t user, xfer_status_t submitted) {
    if (submitted != XFER_OK) return submitted;
    xfer_event_t event = wait_event(host, type, user, kPatience * 3);
    assert_completion(&event);
    return event.status;
}

xfer_status_t put_now(Host *host, xfer_ep_t *ep, const void *local, const xfer_ref_t *ref,
                      uint64_t offset, uint64_t length) {
    uint64_t user = next_user++;
    return end_of(host, XFER_EVENT_PUT, user, xfer_put(ep, local, ref, offset, length, user, NULL));
}

xfer_status_t get_now(Host *host, xfer_ep_t *ep, void *local, const xfer_ref_t *ref,
                      uint64_t offset, uint64_t length) {
    uint64_t user = next_user++;
    return end_of(host, XFER_EVENT_GET, user, xfer_get(ep, local, ref, offset, length, user, NULL));
}

xfer_status_t submit_now(Host *host, xfer_batch_t *batch) {
    uint64_t user = next_user++;
    return end_of(host, XFER_EVENT_BATCH, user, xfer_batch_submit(batch, user, NULL));
}

xfer_status_t connect_now(Host *host, xfer_ep_t *ep, uint32_t timeout_ms) {
    uint64_t user = next_user++;
    xfer_status_t status = xfer_ep_connect(ep, user, WITHIN(timeout_ms));
    if (status != XFER_OK) return status;
    return wait_event(host, XFER_EVENT_CONNECT, user, kPatience * 3).status;
}

/* ---- sockets that are no engine ---- */

int raw_listener(uint16_t *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 64) != 0) {
        close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

int black_hole(char *uri, size_t cap) {
    uint16_t port = 0;
    int fd = raw_listener(&port);
    snprintf(uri, cap, "tcp://127.0.0.1:%u", port);
    return fd;
}

/* ---- patterns ---- */

static uint64_t word_at(uint64_t seed, uint64_t index) {
    uint64_t word = (index + 1) * 0x9e3779b97f4a7c15u + seed * 0xd1342543de82ef95u;
    return word ^ (word >> 29);
}

static uint8_t byte_at(uint64_t seed, uint64_t at) {
    return (uint8_t)(word_at(seed, at / 8) >> (at % 8 * 8));
}

void fill(void *memory, uint64_t length, uint64_t seed) {
    uint8_t *bytes = memory;
    uint64_t at = 0;
    for (; at + 8 <= length; at += 8) {
        uint64_t word = word_at(seed, at / 8);
        memcpy(bytes + at, &word, 8);
    }
    for (; at < length; at++)
        bytes[at] = byte_at(seed, at);
}

bool filled(const void *memory, uint64_t length, uint64_t seed, uint64_t skip) {
    const uint8_t *bytes = memory;
    uint64_t at = 0;
    for (; at < length && (skip + at) % 8 != 0; at++) {
        if (bytes[at] != byte_at(seed, skip + at)) return false;
    }
    for (; at + 8 <= length; at += 8) {
        uint64_t word = word_at(seed, (skip + at) / 8);
        if (memcmp(bytes + at, &word, 8) != 0) return false;
    }
    for (; at < length; at++) {
        if (bytes[at] != byte_at(seed, skip + at)) return false;
    }
    return true;
}
