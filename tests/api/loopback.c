/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine that opens its own address reaches itself: no socket, the same rules. */
#include <string.h>

#include "fixture.h"

static void open_self(Pair *self, const Mode *mode, uint64_t length) {
    *self = (Pair){.memory = test_memory(length), .length = length};
    self->server = self->client = host_open(mode);
    host_listen(self->client, "tcp://127.0.0.1:0");
    self->region =
        open_region(self->client, "memory", XFER_READ | XFER_WRITE, self->memory, length);
    self->ep = open_ep(self->client, self->client->uri);
    self->ref = look_up(self->client, self->ep, "memory");
}

static void test_moves(void **state) {
    Pair self;
    const uint64_t sizes[] = {0, 1, 64, 4096, (256 << 10) + 1, (1 << 20) + 7, 9 << 20};
    open_self(&self, *state, (9 << 20) + 3);
    uint8_t *local = test_memory(9 << 20);
    for (uint64_t i = 0; i < 7; i++) {
        fill(local, sizes[i], i);
        assert_status(xfer_put(self.ep, local, &self.ref, 3, sizes[i], i, NULL), XFER_OK);
        xfer_event_t event = wait_event(self.client, XFER_EVENT_PUT, i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_completion(&event);
        assert_int_equal(event.bytes, sizes[i]);
        assert_true(filled(self.memory + 3, sizes[i], i, 0));
        memset(local, 0, sizes[i]);
        assert_status(get_now(self.client, self.ep, local, &self.ref, 3, sizes[i]), XFER_OK);
        assert_true(filled(local, sizes[i], i, 0));
    }
}

static void test_who_it_is(void **state) {
    Pair self;
    open_self(&self, *state, 64);
    xfer_id_t id;
    xfer_peer_info_t info;
    assert_status(connect_now(self.client, self.ep, 5000), XFER_OK);
    assert_status(xfer_engine_id(self.client->engine, &id), XFER_OK);
    assert_status(xfer_ep_peer(self.ep, &info, sizeof info), XFER_OK);
    assert_memory_equal(&info.id, &id, sizeof id);
    assert_int_equal(info.state, XFER_EP_READY);
    assert_status(xfer_ep_probe(self.ep, 1, WITHIN(5000)), XFER_OK);
    assert_status(wait_event(self.client, XFER_EVENT_PROBE, 1, kPatience).status, XFER_OK);
}

static void test_rules_hold(void **state) {
    Pair self;
    open_self(&self, *state, 4096);
    uint8_t *local = test_memory(4096);
    uint8_t *memory = test_memory(64);
    assert_status(put_now(self.client, self.ep, local, &self.ref, 1, 4096), XFER_ERANGE);
    open_region(self.client, "read", XFER_READ, memory, 64);
    xfer_ref_t ref = look_up(self.client, self.ep, "read");
    assert_status(put_now(self.client, self.ep, local, &ref, 0, 64), XFER_EACCESS);
    assert_status(xfer_ep_lookup(self.ep, "none", 7, NULL, NULL), XFER_OK);
    assert_status(wait_event(self.client, XFER_EVENT_LOOKUP, 7, kPatience).status, XFER_ENOTFOUND);
    assert_status(xfer_region_close(self.region), XFER_OK);
    wait_closed(self.client, self.region);
    assert_status(put_now(self.client, self.ep, local, &self.ref, 0, 64), XFER_ESTALE);
    assert_status(get_now(self.client, self.ep, local, &self.ref, 0, 64), XFER_ESTALE);
}

static void test_batches(void **state) {
    Pair self;
    enum { kPages = 3000 };
    open_self(&self, *state, kPages * 64);
    uint8_t *local = test_memory(kPages * 64);
    uint64_t *list = test_memory(kPages * sizeof *list);
    for (uint64_t i = 0; i < kPages; i++)
        list[i] = (i * 7) % kPages; /* 7 and 3000 share no factor */
    xfer_page_base_t base = {(uintptr_t)local, &self.ref, 0};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof base,
                          .index_size = 8,
                          .length = 64,
                          .count = kPages,
                          .local_pages = list,
                          .remote_pages = list,
                          .bases = &base,
                          .base_count = 1};
    xfer_batch_t *batch = NULL;
    assert_status(xfer_batch_open(self.ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &pages, NULL), XFER_OK);
    for (uint64_t i = 0; i < 20; i++) {
        fill(local, kPages * 64, i);
        assert_status(submit_now(self.client, batch), XFER_OK);
        assert_true(filled(self.memory, kPages * 64, i, 0));
    }
    assert_status(xfer_batch_close(batch), XFER_OK);
}

/* Submitted from many callbacks in a row: the fixture sees to it that none runs inside another. */
static _Atomic int chained;

static void put_again(Host *host, const xfer_event_t *event) {
    Pair *self = host->hook_data;
    if (event->kind != XFER_EVENT_PUT || chained >= 1000) return;
    if (xfer_put(self->ep, self->memory + 64, &self->ref, 0, 64, 1, NULL) == XFER_OK) chained++;
}

static void test_chain(void **state) {
    static Pair self;
    open_self(&self, *state, 128);
    chained = 0;
    self.client->hook_data = &self;
    self.client->hook = put_again;
    assert_status(xfer_put(self.ep, self.memory + 64, &self.ref, 0, 64, 1, NULL), XFER_OK);
    for (int i = 0; i <= 1000; i++) {
        assert_status(wait_event(self.client, XFER_EVENT_PUT, 1, kPatience).status, XFER_OK);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_moves),   EACH_MODE(test_who_it_is), EACH_MODE(test_rules_hold),
    EACH_MODE(test_batches), EACH_MODE(test_chain),
};

TEST_MAIN(tests)
