/* SPDX-License-Identifier: Apache-2.0
 *
 * A KV cache moves from prefill to decode. Decode lends its cache as "kv"; prefill puts the blocks
 * of one request there. Each layer is a batch that notifies, so decode need not wait for the last.
 */
#include <string.h>

#include "must.h"

enum { LAYERS = 4, BLOCKS = 64, REQUEST = 24, BLOCK = 16 * 1024, WORDS = BLOCK / 4, MS = 10000 };

static uint32_t at_prefill[LAYERS][BLOCKS][WORDS], at_decode[LAYERS][BLOCKS][WORDS];

/* The next event of that kind. Nothing may fail here, whatever its kind. */
static xfer_event_t wait_for(xfer_engine_t *engine, uint32_t kind) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        MUST(xfer_engine_poll(engine, &event, sizeof event, 1, 2 * MS, &count));
        EXPECT(count == 1); /* not even the word that a deadline passed */
        MUST(event.status);
        if (event.kind == kind) return event;
    }
}

int main(void) {
    xfer_error_t error = {0};
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .timeout_ms = MS};
    xfer_engine_t *prefill = NULL, *decode = NULL;
    MUST_ERR(xfer_engine_open(&options, &prefill, &error));
    MUST_ERR(xfer_engine_open(&options, &decode, &error));
    char uri[256];
    MUST_ERR(xfer_engine_listen(decode, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));

    /* Either side may be up first: a lookup that waits ends when the name is there. */
    xfer_ep_t *ep = NULL;
    MUST_ERR(xfer_ep_open(prefill, uri, NULL, &ep, &error));
    xfer_op_options_t wait = {.size = sizeof wait, .flags = XFER_FLAG_WAIT};
    MUST_ERR(xfer_ep_lookup(ep, "kv", 0, &wait, &error));
    xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE, .name = "kv"};
    xfer_region_t *region = NULL;
    MUST_ERR(xfer_region_open(decode, &lent, at_decode, sizeof at_decode, &region, &error));
    xfer_ref_t kv;
    memcpy(&kv, wait_for(prefill, XFER_EVENT_LOOKUP).data, sizeof kv);

    /* Block i of the request is one page here and another there. */
    int32_t here[REQUEST], there[REQUEST];
    for (int i = 0; i < REQUEST; i++) {
        here[i] = (i * 37 + 11) % BLOCKS;
        there[i] = (i * 29 + 5) % BLOCKS;
    }

    uint32_t value = 1; /* every word has its own: a byte in a wrong place shows */
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        for (int block = 0; block < BLOCKS; block++)
            for (int word = 0; word < WORDS; word++)
                at_prefill[layer][block][word] = value++;

        xfer_page_base_t base = {.local = (uint64_t)(uintptr_t)at_prefill[layer],
                                 .remote = &kv,
                                 .offset = layer * sizeof at_prefill[layer]};
        xfer_pages_t pages = {.size = sizeof pages,
                              .base_size = sizeof base,
                              .index_size = sizeof here[0],
                              .length = BLOCK, /* the strides too, by default */
                              .count = REQUEST,
                              .local_pages = here,
                              .remote_pages = there,
                              .bases = &base,
                              .base_count = 1};
        xfer_submit_options_t notify = {
            .size = sizeof notify, .flags = XFER_SUBMIT_NOTIFY, .notify_key = layer};
        xfer_batch_t *batch = NULL;
        MUST_ERR(xfer_batch_open(ep, NULL, &batch, &error));
        MUST_ERR(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, &error));
        MUST(xfer_batch_submit(batch, layer, &notify));
    }

    /* Decode takes the layers as they come: a notification says that all its bytes are there. */
    unsigned seen = 0;
    for (int i = 0; i < LAYERS; i++) {
        uint64_t layer = wait_for(decode, XFER_EVENT_NOTIFY).tag;
        seen |= 1u << layer;
        for (int n = 0; n < REQUEST; n++)
            EXPECT(memcmp(at_decode[layer][there[n]], at_prefill[layer][here[n]], BLOCK) == 0);
    }
    EXPECT(seen == (1u << LAYERS) - 1); /* each once */
    for (int i = 0; i < LAYERS; i++)
        MUST(xfer_batch_close(wait_for(prefill, XFER_EVENT_BATCH).object));
    printf("%d layers of %d blocks, %d bytes\n", LAYERS, REQUEST, LAYERS * REQUEST * BLOCK);

    MUST(xfer_ep_close(ep));
    MUST(xfer_engine_join(prefill, MS));
    MUST(xfer_region_close(region));
    MUST(xfer_engine_join(decode, MS));
    printf("ok\n");
    return 0;
}
