/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages are lent for one request. A decode worker asks for a request by message; the prefill worker
 * answers with a grant of that request's pages, out of a pool that is registered once and open to
 * nobody; the decode worker fetches them and says so; and the grant is taken back. A ref that was
 * kept is worth nothing from then on.
 */
#include <pthread.h>
#include <string.h>

#include "must.h"

enum { REQUESTS = 8, PAGE = 64 * 1024, ASK = 1, LENT, DONE, BACK };

static uint8_t pool[REQUESTS * PAGE];
static uint8_t fetched[PAGE];

static xfer_event_t next(xfer_engine_t *engine, uint32_t kind) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        MUST(xfer_engine_poll(engine, &event, sizeof event, 1, 10000, &count));
        EXPECT(count == 1);
        if (event.kind == kind) return event;
    }
}

typedef struct Prefill {
    xfer_engine_t *engine;
    xfer_region_t *region; /* the pool */
} Prefill;

/* The prefill worker: for each request it lends its page, and takes it back. */
static void *serve(void *argument) {
    Prefill *prefill = argument;
    for (unsigned i = 0; i < REQUESTS; i++) {
        uint64_t request = 0;
        MUST(xfer_recv(prefill->engine, NULL, &request, sizeof request, ASK, UINT64_MAX, 0, NULL));
        xfer_event_t asked = next(prefill->engine, XFER_EVENT_RECV);

        /* If the decode worker dies the lease ends by itself. */
        xfer_grant_options_t grant = {.size = sizeof grant,
                                      .access = XFER_READ,
                                      .offset = request * PAGE,
                                      .length = PAGE,
                                      .lease_ms = 5000,
                                      .user = request};
        xfer_ref_t ref;
        MUST(xfer_region_grant(prefill->region, &grant, &ref, NULL));
        MUST(xfer_send(asked.ep, &ref, sizeof ref, LENT, 0, NULL));
        next(prefill->engine, XFER_EVENT_SEND);

        MUST(xfer_recv(prefill->engine, asked.ep, NULL, 0, DONE, UINT64_MAX, 0, NULL));
        next(prefill->engine, XFER_EVENT_RECV);
        MUST(xfer_region_revoke(prefill->region, &ref));
        EXPECT(next(prefill->engine, XFER_EVENT_REVOKED).user == request); /* it is ours again */
        MUST(xfer_send(asked.ep, NULL, 0, BACK, 0, NULL));
        next(prefill->engine, XFER_EVENT_SEND);
    }
    return NULL;
}

/* The decode worker: asks, fetches, and gives back. */
static void fetch(xfer_engine_t *decode, xfer_ep_t *ep, uint64_t request) {
    xfer_ref_t ref;
    MUST(xfer_recv(decode, ep, &ref, sizeof ref, LENT, UINT64_MAX, 0, NULL));
    MUST(xfer_send(ep, &request, sizeof request, ASK, 0, NULL));
    MUST(next(decode, XFER_EVENT_RECV).status);
    MUST(xfer_get(ep, fetched, &ref, 0, PAGE, 0, NULL));
    MUST(next(decode, XFER_EVENT_GET).status);
    for (unsigned i = 0; i < PAGE; i++)
        EXPECT(fetched[i] == request + 1);

    MUST(xfer_recv(decode, ep, NULL, 0, BACK, UINT64_MAX, 0, NULL));
    MUST(xfer_send(ep, NULL, 0, DONE, 0, NULL));
    MUST(next(decode, XFER_EVENT_RECV).status);
    MUST(xfer_get(ep, fetched, &ref, 0, PAGE, 0, NULL));
    EXPECT(next(decode, XFER_EVENT_GET).status == XFER_EREVOKED);
}

int main(void) {
    xfer_error_t error = {0};
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    Prefill prefill = {0};
    xfer_engine_t *decode = NULL;
    MUST_ERR(xfer_engine_open(&options, &prefill.engine, &error));
    MUST_ERR(xfer_engine_open(&options, &decode, &error));
    char uri[256];
    MUST_ERR(
        xfer_engine_listen(prefill.engine, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));

    /* No name and no access: only grants lead into the pool. */
    xfer_region_options_t closed = {.size = sizeof closed};
    MUST_ERR(xfer_region_open(prefill.engine, &closed, pool, sizeof pool, &prefill.region, &error));
    for (unsigned i = 0; i < REQUESTS; i++)
        memset(pool + i * PAGE, (int)i + 1, PAGE);

    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, serve, &prefill) == 0);
    xfer_ep_t *ep = NULL;
    MUST_ERR(xfer_ep_open(decode, uri, NULL, &ep, &error));
    for (uint64_t request = 0; request < REQUESTS; request++)
        fetch(decode, ep, request);
    EXPECT(pthread_join(thread, NULL) == 0);
    printf("%d requests, each lent its page and gave it back\nok\n", REQUESTS);

    MUST(xfer_ep_close(ep));
    MUST(xfer_engine_join(decode, XFER_NONE));
    MUST(xfer_region_close(prefill.region));
    MUST(xfer_engine_join(prefill.engine, XFER_NONE));
    return 0;
}
