/* SPDX-License-Identifier: Apache-2.0
 *
 * A KV cache changes hands. A prefill worker owns the cache: for every layer a pool of pages, and a
 * page table that is the same in all layers. A decode worker fetches the pages of one sequence into
 * pages of its own pool, for all layers, as one batch. The batch is prepared once and submitted
 * twice.
 */
#include <string.h>

#include "must.h"

enum { LAYERS = 4, POOL_PAGES = 256, PAGE = 16 * 1024, SEQUENCE_PAGES = 48 };
enum { LAYER_BYTES = POOL_PAGES * PAGE, CACHE_BYTES = LAYERS * LAYER_BYTES };

static uint8_t prefill_cache[CACHE_BYTES];
static uint8_t decode_cache[CACHE_BYTES];

static uint8_t *page_at(uint8_t *cache, uint64_t layer, uint64_t page) {
    return cache + layer * LAYER_BYTES + page * PAGE;
}

/* What the model would have computed: another byte in every page of every layer, and in every step.
 */
static uint8_t content(uint64_t layer, uint64_t page, unsigned step) {
    return (uint8_t)(layer * 61 + page * 7 + step * 29 + 1);
}

static void compute(unsigned step) {
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        for (uint64_t page = 0; page < POOL_PAGES; page++) {
            memset(page_at(prefill_cache, layer, page), content(layer, page, step), PAGE);
        }
    }
}

/* Every fetched page is in its place, and no other page of the pool was touched. */
static void verify(const uint64_t *local_pages, const uint64_t *remote_pages, unsigned step) {
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        uint8_t expected[POOL_PAGES] = {0};
        for (unsigned i = 0; i < SEQUENCE_PAGES; i++) {
            expected[local_pages[i]] = content(layer, remote_pages[i], step);
        }
        for (uint64_t page = 0; page < POOL_PAGES; page++) {
            const uint8_t *bytes = page_at(decode_cache, layer, page);
            for (unsigned i = 0; i < PAGE; i++)
                EXPECT(bytes[i] == expected[page]);
        }
    }
}

static xfer_event_t wait_for(xfer_engine_t *engine, uint32_t type) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        MUST(xfer_engine_poll(engine, &event, sizeof event, 1, 10000, &count));
        EXPECT(count == 1);
        if (event.kind != type) continue;
        MUST(event.status);
        return event;
    }
}

int main(void) {
    xfer_error_t error = {0};
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *prefill = NULL;
    xfer_engine_t *decode = NULL;
    MUST_ERR(xfer_engine_open(&options, &prefill, &error));
    MUST_ERR(xfer_engine_open(&options, &decode, &error));

    /* The prefill worker lends its cache for reading. */
    char uri[256];
    MUST_ERR(xfer_engine_listen(prefill, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));
    xfer_region_options_t region_options = {
        .size = sizeof region_options, .access = XFER_READ, .name = "kv"};
    xfer_region_t *region = NULL;
    MUST_ERR(xfer_region_open(prefill, &region_options, prefill_cache, sizeof prefill_cache,
                              &region, &error));

    /* The decode worker finds it. */
    xfer_ep_t *ep = NULL;
    MUST_ERR(xfer_ep_open(decode, uri, NULL, &ep, &error));
    MUST(xfer_ep_lookup(ep, "kv", 0, NULL, NULL));
    xfer_ref_t kv;
    memcpy(&kv, wait_for(decode, XFER_EVENT_LOOKUP).data, sizeof kv);

    /* The page tables of one sequence, scattered over both pools. */
    uint64_t local_pages[SEQUENCE_PAGES];
    uint64_t remote_pages[SEQUENCE_PAGES];
    for (uint64_t i = 0; i < SEQUENCE_PAGES; i++) {
        local_pages[i] = (i * 37 + 11) % POOL_PAGES;
        remote_pages[i] = (i * 101 + 5) % POOL_PAGES;
    }

    /* One pair of bases for each layer; they share the two lists. */
    xfer_page_base_t bases[LAYERS];
    for (uint64_t layer = 0; layer < LAYERS; layer++) {
        bases[layer] =
            (xfer_page_base_t){.local = (uint64_t)(uintptr_t)page_at(decode_cache, layer, 0),
                               .remote = &kv,
                               .offset = layer * LAYER_BYTES};
    }
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof bases[0],
                          .index_size = 8,
                          .length = PAGE,
                          .count = SEQUENCE_PAGES,
                          .local_pages = local_pages,
                          .remote_pages = remote_pages,
                          .bases = bases,
                          .base_count = LAYERS};
    xfer_batch_t *batch = NULL;
    MUST_ERR(xfer_batch_open(ep, NULL, &batch, &error));
    MUST(xfer_batch_add_pages(batch, XFER_OP_GET, &pages, NULL));

    /* Submit, and submit again: nothing is prepared a second time. */
    for (unsigned step = 0; step < 2; step++) {
        compute(step);
        MUST(xfer_batch_submit(batch, step, NULL));
        xfer_event_t done = wait_for(decode, XFER_EVENT_BATCH);
        EXPECT(done.user == step && done.bytes == (uint64_t)LAYERS * SEQUENCE_PAGES * PAGE);
        verify(local_pages, remote_pages, step);
        printf("step %u: %d pages of %d layers, %.1f MB, verified\n", step, SEQUENCE_PAGES, LAYERS,
               done.bytes / 1e6);
    }

    MUST(xfer_batch_close(batch));
    MUST(xfer_ep_close(ep));
    MUST(xfer_engine_join(decode, XFER_NONE));
    MUST(xfer_region_close(region));
    MUST(xfer_engine_join(prefill, XFER_NONE));
    printf("ok\n");
    return 0;
}
