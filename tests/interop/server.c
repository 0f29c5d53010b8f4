/* SPDX-License-Identifier: Apache-2.0
 *
 * What the initiator in Python talks to: an engine that listens on loopback and lends five
 * regions. The first line that it prints is its URI; after that one line tells of each
 * notification. It ends with its input.
 *
 * Usage: interop_server [KEY]
 *        interop_server --ask    lets in who says "in" in its blob, turns away who says "out", and
 * of others says nothing; it waits 400 ms for itself
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xfer/xfer.h>

static uint64_t words[64];
static char memory[4 << 20], readonly[4096], later[4096], inbox[1 << 18];

static bool asks;
static xfer_region_t *mapped; /* of memory of the library's, which local peers map */

static void must(xfer_status_t status, const char *what) {
    if (status == XFER_OK) return;
    fprintf(stderr, "%s: %s\n", what, xfer_status_name(status));
    exit(1);
}

static void decide(xfer_ep_t *ep) {
    xfer_peer_info_t info;
    must(xfer_ep_peer(ep, &info, sizeof info), "peer");
    printf("asks %.*s\n", (int)info.blob_length, (const char *)info.blob);
    const bool in = info.blob_length == 2 && memcmp(info.blob, "in", 2) == 0;
    const bool out = info.blob_length == 3 && memcmp(info.blob, "out", 3) == 0;
    if (in || out) must(xfer_ep_admit(ep, in ? XFER_OK : XFER_EACCESS), "admit");
}

/* Notifications arrive here, on the engine's thread. */
static void on_event(const xfer_event_t *event, uint64_t user) {
    (void)user;
    if (event->kind == XFER_EVENT_NOTIFY)
        printf("notify %" PRIu64 " %" PRId32 " %.*s\n", event->tag, event->status,
               (int)event->data_length, (const char *)event->data);
    if (event->kind == XFER_EVENT_PEER && asks) decide(event->ep);
    if (event->kind == XFER_EVENT_CLOSED && event->object == mapped) printf("closed\n");
    if (event->kind == XFER_EVENT_RECV)
        printf("received %" PRIu64 " %" PRId32 " %" PRIu64 "\n", event->tag, event->status,
               event->bytes);
}

static xfer_region_t *lend(xfer_engine_t *engine, const char *name, uint32_t access, char *address,
                           uint64_t length) {
    xfer_region_options_t options = {.size = sizeof options,
                                     .access = access,
                                     .name = name,
                                     .blob = name,
                                     .blob_length = strlen(name)};
    xfer_region_t *region = NULL;
    must(xfer_region_open(engine, &options, address, length, &region, NULL), name);
    return region;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    xfer_engine_options_t options = {.size = sizeof options, .on_event = on_event};
    asks = argc > 1 && strcmp(argv[1], "--ask") == 0;
    if (asks) {
        options.flags = XFER_ENGINE_ASK;
        options.connect_ms = 400;
    } else if (argc > 1) {
        options.key = argv[1];
        options.key_length = strlen(argv[1]);
    }
    xfer_engine_t *engine = NULL;
    must(xfer_engine_open(&options, &engine, NULL), "open");
    memset(readonly, 'r', sizeof readonly);
    lend(engine, "memory", XFER_READ | XFER_WRITE, memory, sizeof memory);
    lend(engine, "readonly", XFER_READ, readonly, sizeof readonly);
    lend(engine, "words", XFER_READ | XFER_WRITE | XFER_ATOMIC, (char *)words, sizeof words);

    xfer_region_options_t lent = {
        .size = sizeof lent, .access = XFER_READ | XFER_WRITE, .name = "mapped"};
    void *address = NULL;
    must(xfer_region_alloc(engine, &lent, 1 << 20, &address, &mapped, NULL), "alloc");

    char uri[256];
    must(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, NULL), "listen");
    printf("%s\n", uri);

    /* "later" opens a region of that name, "gone" closes it; "unmap" closes "mapped", which is told
     * when it has ended; "receive" takes a message; "drain" begins the engine's end. */
    xfer_region_t *region = NULL;
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        if (strcmp(line, "later\n") == 0)
            region = lend(engine, "later", XFER_READ | XFER_WRITE, later, sizeof later);
        if (strcmp(line, "gone\n") == 0) must(xfer_region_close(region), "close");
        if (strcmp(line, "unmap\n") == 0) must(xfer_region_close(mapped), "close");
        if (strcmp(line, "receive\n") == 0)
            must(xfer_recv(engine, NULL, inbox, sizeof inbox, 7, UINT64_MAX, 0, NULL), "recv");
        if (strcmp(line, "drain\n") == 0)
            must(xfer_engine_drain(
                     engine, 0,
                     &(xfer_op_options_t){.size = sizeof(xfer_op_options_t), .timeout_ms = 5000}),
                 "drain");
    }
    must(xfer_engine_join(engine, XFER_NONE), "join");
    return 0;
}
