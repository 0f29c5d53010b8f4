/* SPDX-License-Identifier: Apache-2.0
 *
 * A server answers messages. It takes whatever has the mark of its service in the upper bits of the
 * tag, from any sender and of any length, and sends it back with the same tag. Two clients ask it,
 * each with several requests under way, and find their own answers, in the order they asked.
 */
#include <string.h>

#include "must.h"

enum { CLIENTS = 2, REQUESTS = 100, WINDOW = 8, LONGEST = 3000, MS = 10000 };

static const uint64_t service = 0x6563686full << 32; /* "echo" */
static const uint64_t service_mask = ~0xffffffffull; /* the rest is the client's to choose */

static xfer_engine_t *server;           /* whose events come on a thread of its own */
static xfer_engine_t *engines[CLIENTS]; /* polled */
static xfer_ep_t *eps[CLIENTS];
static char answers[CLIENTS][WINDOW][LONGEST];

/* Of all sends: copied, as the text is gone soon; quiet, as there is nothing to do afterwards. */
static const xfer_op_options_t post = {.size = sizeof post,
                                       .flags = XFER_FLAG_COPY | XFER_FLAG_QUIET};

/* The memory comes with the event, as long as the message: nobody has to guess. */
static void serve_next(void) {
    xfer_op_options_t take = {.size = sizeof take, .flags = XFER_FLAG_TAKE};
    MUST(xfer_recv(server, NULL, NULL, LONGEST, service, service_mask, 0, &take));
}

static void on_server_event(const xfer_event_t *event, uint64_t user) {
    (void)user;
    if (event->kind != XFER_EVENT_RECV || event->status == XFER_ECANCELED) return; /* the end */
    MUST(event->status);
    const char *text = (const char *)event->data + sizeof(xfer_id_t); /* behind its sender */
    MUST(xfer_send(event->ep, text, event->bytes, event->tag, 0, &post));
    serve_next();
}

/* The requests of a client are from 1 to 3,000 bytes long; its letters are not the other's. */
static uint64_t compose(uint64_t client, uint64_t request, char *text) {
    uint64_t length = 1 + request * (LONGEST - 1) / (REQUESTS - 1);
    for (uint64_t i = 0; i < length; i++)
        text[i] = (char)('a' + (client * 11 + request * 3 + i) % 26);
    return length;
}

static void ask(uint64_t client, uint64_t request) {
    char text[LONGEST];
    MUST(xfer_recv(engines[client], eps[client], answers[client][request % WINDOW], LONGEST,
                   service + client, UINT64_MAX, request, NULL));
    MUST(xfer_send(eps[client], text, compose(client, request, text), service + client, 0, &post));
}

static void check(uint64_t client, uint64_t request) {
    xfer_event_t event = {0};
    while (event.kind != XFER_EVENT_RECV) {
        uint32_t count = 0;
        MUST(xfer_engine_poll(engines[client], &event, sizeof event, 1, 2 * MS, &count));
        EXPECT(count == 1); /* not even the word that a deadline passed */
        MUST(event.status); /* of a quiet send, too, a failure has an event */
    }
    char text[LONGEST];
    EXPECT(event.user == request && event.bytes == compose(client, request, text));
    EXPECT(memcmp(answers[client][request % WINDOW], text, event.bytes) == 0);
    if (request + WINDOW < REQUESTS) ask(client, request + WINDOW);
}

int main(void) {
    xfer_error_t error = {0};
    xfer_engine_options_t serving = {.size = sizeof serving, .on_event = on_server_event};
    MUST_ERR(xfer_engine_open(&serving, &server, &error));
    for (int i = 0; i < 2 * WINDOW; i++)
        serve_next();
    char uri[256];
    MUST_ERR(xfer_engine_listen(server, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));

    xfer_engine_options_t asking = {
        .size = sizeof asking, .dispatch = XFER_DISPATCH_POLL, .timeout_ms = MS};
    for (uint64_t client = 0; client < CLIENTS; client++) {
        MUST_ERR(xfer_engine_open(&asking, &engines[client], &error));
        MUST_ERR(xfer_ep_open(engines[client], uri, NULL, &eps[client], &error));
        for (uint64_t request = 0; request < WINDOW; request++)
            ask(client, request);
    }
    for (uint64_t request = 0; request < REQUESTS; request++)
        for (uint64_t client = 0; client < CLIENTS; client++)
            check(client, request);
    printf("%d clients, %d requests each, every answer its own and in order\n", CLIENTS, REQUESTS);

    /* No drain: that is for a server that looks at how its last send ended. */
    for (uint64_t client = 0; client < CLIENTS; client++) {
        MUST(xfer_ep_close(eps[client]));
        MUST(xfer_engine_join(engines[client], MS));
    }
    MUST(xfer_engine_join(server, MS));
    printf("ok\n");
    return 0;
}
