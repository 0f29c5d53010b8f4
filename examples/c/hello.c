/* SPDX-License-Identifier: Apache-2.0
 *
 * Two engines meet. One lends 64 bytes of its memory under the name "greeting"; the other finds
 * them by that name, writes into them and reads them back. Here both live in one process; put them
 * into two, on two machines, and nothing changes but the URI.
 */
#include <string.h>

#include "must.h"

/* The owner's events arrive here, on a thread of its engine. */
static void on_owner_event(const xfer_event_t *event, uint64_t user) {
    (void)user;
    if (event->kind == XFER_EVENT_PEER) printf("owner: a peer connected\n");
}

/* The other engine asks for its events, one after the other, until the wanted one is there. */
static xfer_event_t wait_for(xfer_engine_t *engine, uint32_t type) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        MUST(xfer_engine_poll(engine, &event, sizeof event, 1, 5000, &count));
        EXPECT(count == 1); /* nothing for five seconds */
        if (event.kind != type) continue;
        MUST(event.status);
        return event;
    }
}

int main(void) {
    xfer_error_t error = {0};

    /* The owner: an engine that listens, and a region that peers may read and write. */
    xfer_engine_options_t owner_options = {.size = sizeof owner_options,
                                           .on_event = on_owner_event};
    xfer_engine_t *owner = NULL;
    MUST_ERR(xfer_engine_open(&owner_options, &owner, &error));
    char uri[256];
    MUST_ERR(xfer_engine_listen(owner, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));
    printf("owner: listening at %s\n", uri);

    static char memory[64];
    xfer_region_options_t region_options = {
        .size = sizeof region_options, .access = XFER_READ | XFER_WRITE, .name = "greeting"};
    xfer_region_t *region = NULL;
    MUST_ERR(xfer_region_open(owner, &region_options, memory, sizeof memory, &region, &error));

    /* The other: an engine that is polled, and a handle on the owner. It connects when it is first
     * used. */
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *engine = NULL;
    MUST_ERR(xfer_engine_open(&options, &engine, &error));
    xfer_ep_t *ep = NULL;
    MUST_ERR(xfer_ep_open(engine, uri, NULL, &ep, &error));

    /* A name becomes a ref, which stands for the owner's memory from here on. */
    MUST(xfer_ep_lookup(ep, "greeting", 0, NULL, NULL));
    xfer_event_t found = wait_for(engine, XFER_EVENT_LOOKUP);
    xfer_ref_t greeting;
    memcpy(&greeting, found.data, sizeof greeting);

    /* Put. The event means applied: the owner's CPU sees the bytes now. */
    const char text[] = "hello over there";
    MUST(xfer_put(ep, text, &greeting, 8, sizeof text, 0, NULL));
    wait_for(engine, XFER_EVENT_PUT);
    EXPECT(strcmp(memory + 8, text) == 0);
    printf("owner: my memory says \"%s\"\n", memory + 8);

    /* Get, back into memory that nobody had to register. */
    char back[sizeof text] = "";
    MUST(xfer_get(ep, back, &greeting, 8, sizeof back, 0, NULL));
    wait_for(engine, XFER_EVENT_GET);
    EXPECT(memcmp(back, text, sizeof text) == 0);

    /* Past the end of the region is refused, by a status and not by a fault. */
    EXPECT(xfer_put(ep, text, &greeting, 60, sizeof text, 0, NULL) == XFER_ERANGE);

    /* The end. Closing may come in any order, and join closes by itself what is still open. */
    MUST(xfer_ep_close(ep));
    MUST(xfer_engine_join(engine, XFER_NONE));
    MUST(xfer_region_close(region));
    MUST(xfer_engine_join(owner, XFER_NONE));
    printf("ok\n");
    return 0;
}
