/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of each function. */
#include <string.h>

#include "returns.h"

/* `sound` where the scene has no struct of its own. */
#define INPUT(scene, sound) ((scene)->input ? (scene)->input : (const void *)(sound))
/* A pointer that must not be NULL. */
#define THERE(scene, pointer) ((scene)->nowhere ? NULL : (pointer))

static void ignore(const xfer_event_t *event, uint64_t user) {
    (void)event, (void)user;
}

/* ---- without a handle ---- */

static xfer_status_t status_at(const Scene *s) {
    xfer_status_t status;
    return xfer_status_at(0, THERE(s, &status));
}
static xfer_status_t ref_info(const Scene *s) {
    xfer_ref_info_t info;
    return xfer_ref_info(THERE(s, &s->ref), &info, sizeof info);
}
static xfer_status_t ref_text(const Scene *s) {
    char text[XFER_REF_TEXT_SIZE];
    return xfer_ref_text(THERE(s, &s->ref), text, sizeof text);
}
static xfer_status_t ref_parse(const Scene *s) {
    xfer_ref_t ref;
    return xfer_ref_parse(THERE(s, s->text), &ref);
}
static xfer_status_t id_text(const Scene *s) {
    xfer_id_t id = {.incarnation = 1};
    char text[XFER_ID_TEXT_SIZE];
    return xfer_id_text(THERE(s, &id), text, sizeof text);
}
static xfer_status_t id_parse(const Scene *s) {
    xfer_id_t id;
    return xfer_id_parse(THERE(s, "00000000000000000000000000000000-0000000000000001"), &id);
}
static xfer_status_t native_text(const Scene *s) {
    char text[XFER_NATIVE_TEXT_SIZE];
    return xfer_native_text(XFER_ORIGIN_PEER, XFER_EAUTH, THERE(s, text), sizeof text);
}
static xfer_status_t option_at(const Scene *s) {
    xfer_option_info_t info;
    return xfer_engine_option_at(0, THERE(s, &info), sizeof info);
}
static xfer_status_t option_set(const Scene *s) {
    xfer_engine_options_t options = {.size = sizeof options};
    return xfer_engine_option_set((xfer_engine_options_t *)INPUT(s, &options), THERE(s, "lanes"),
                                  "2", NULL);
}
static xfer_status_t engine_open(const Scene *s) {
    xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore};
    xfer_engine_t *engine;
    return xfer_engine_open(INPUT(s, &options), THERE(s, &engine), NULL);
}

/* ---- engine ---- */

static xfer_status_t engine_listen(const Scene *s) {
    return xfer_engine_listen(s->engine, THERE(s, "tcp://127.0.0.1:0"), INPUT(s, NULL), NULL, 0,
                              NULL);
}
static xfer_status_t engine_addresses(const Scene *s) {
    uint64_t needed;
    return xfer_engine_addresses(s->engine, NULL, 0, THERE(s, &needed));
}
static xfer_status_t engine_id(const Scene *s) {
    xfer_id_t id;
    return xfer_engine_id(s->engine, THERE(s, &id));
}
static xfer_status_t engine_fd(const Scene *s) {
    int32_t fd;
    return xfer_engine_fd(s->engine, THERE(s, &fd));
}
static xfer_status_t engine_poll(const Scene *s) {
    xfer_event_t event;
    uint32_t count;
    return xfer_engine_poll(s->engine, THERE(s, &event), sizeof event, 1, 0, &count);
}
static xfer_status_t engine_wake(const Scene *s) {
    return xfer_engine_wake(s->engine);
}
static xfer_status_t engine_drain(const Scene *s) {
    return xfer_engine_drain(s->engine, 1, INPUT(s, NULL));
}
static xfer_status_t engine_close(const Scene *s) {
    return xfer_engine_close(s->engine);
}
static xfer_status_t engine_join(const Scene *s) {
    return xfer_engine_join(s->engine, XFER_NONE);
}
static xfer_status_t engine_stats(const Scene *s) {
    xfer_engine_stats_t stats;
    return xfer_engine_stats(s->engine, THERE(s, &stats), sizeof stats);
}
static xfer_status_t engine_kinds(const Scene *s) {
    uint64_t mask;
    return xfer_engine_kinds(s->engine, THERE(s, &mask));
}
static xfer_status_t engine_transports(const Scene *s) {
    uint64_t mask;
    return xfer_engine_transports(s->engine, THERE(s, &mask));
}
static xfer_status_t engine_describe(const Scene *s) {
    uint64_t needed;
    return xfer_engine_describe(s->engine, NULL, 0, THERE(s, &needed));
}
static xfer_status_t cancel(const Scene *s) {
    return xfer_cancel(s->engine, NULL, 1, UINT64_MAX);
}

/* ---- region ---- */

static xfer_status_t region_open(const Scene *s) {
    xfer_region_options_t options = {.size = sizeof options};
    xfer_region_t *region;
    return xfer_region_open(s->engine, INPUT(s, &options), s->local, 64, THERE(s, &region), NULL);
}
static xfer_status_t region_alloc(const Scene *s) {
    xfer_region_options_t options = {.size = sizeof options};
    xfer_region_t *region;
    void *address;
    return xfer_region_alloc(s->engine, INPUT(s, &options), 64, &address, THERE(s, &region), NULL);
}
static xfer_status_t region_ref(const Scene *s) {
    xfer_ref_t ref;
    return xfer_region_ref(s->region, THERE(s, &ref));
}
static xfer_status_t region_grant(const Scene *s) {
    xfer_grant_options_t options = {.size = sizeof options, .access = XFER_READ, .length = 1};
    xfer_ref_t ref;
    return xfer_region_grant(s->region, INPUT(s, &options), THERE(s, &ref), NULL);
}
static xfer_status_t region_renew(const Scene *s) {
    return xfer_region_renew(s->region, THERE(s, &s->grant), 0);
}
static xfer_status_t region_revoke(const Scene *s) {
    return xfer_region_revoke(s->region, THERE(s, &s->grant));
}
static xfer_status_t region_info(const Scene *s) {
    xfer_region_info_t info;
    return xfer_region_info(s->region, THERE(s, &info), sizeof info);
}
static xfer_status_t region_close(const Scene *s) {
    return xfer_region_close(s->region);
}

/* ---- endpoint ---- */

static xfer_status_t ep_open(const Scene *s) {
    xfer_ep_t *ep;
    return xfer_ep_open(s->engine, THERE(s, "tcp://127.0.0.1:1"), INPUT(s, NULL), &ep, NULL);
}
static xfer_status_t add_address(const Scene *s) {
    return xfer_ep_add_address(s->ep, THERE(s, "tcp://127.0.0.1:2"), NULL);
}
static xfer_status_t ep_keep(const Scene *s) {
    return xfer_ep_keep(s->ep, 1);
}
static xfer_status_t ep_admit(const Scene *s) {
    return xfer_ep_admit(s->ep, XFER_OK);
}
static xfer_status_t ep_connect(const Scene *s) {
    return xfer_ep_connect(s->ep, 1, INPUT(s, NULL));
}
static xfer_status_t ep_lookup(const Scene *s) {
    return xfer_ep_lookup(s->ep, THERE(s, "memory"), 1, INPUT(s, NULL), NULL);
}
static xfer_status_t ep_probe(const Scene *s) {
    return xfer_ep_probe(s->ep, 1, INPUT(s, NULL));
}
static xfer_status_t ep_state(const Scene *s) {
    uint32_t state;
    return xfer_ep_state(s->ep, THERE(s, &state));
}
static xfer_status_t ep_peer(const Scene *s) {
    xfer_peer_info_t info;
    return xfer_ep_peer(s->ep, THERE(s, &info), sizeof info);
}
static xfer_status_t ep_stats(const Scene *s) {
    xfer_ep_stats_t stats;
    return xfer_ep_stats(s->ep, THERE(s, &stats), sizeof stats);
}
static xfer_status_t ep_flush(const Scene *s) {
    return xfer_ep_flush(s->ep, NULL, 1, INPUT(s, NULL));
}
static xfer_status_t put(const Scene *s) {
    return xfer_put(s->ep, s->local, THERE(s, &s->ref), 0, 8, 1, INPUT(s, NULL));
}
static xfer_status_t get(const Scene *s) {
    return xfer_get(s->ep, s->local, THERE(s, &s->ref), 0, 8, 1, INPUT(s, NULL));
}
static xfer_status_t atomic(const Scene *s) {
    return xfer_atomic(s->ep, XFER_ATOMIC_ADD, s->local, THERE(s, &s->ref), 0, 1, 0, 1,
                       INPUT(s, NULL));
}
static xfer_status_t send_it(const Scene *s) {
    return xfer_send(s->ep, THERE(s, s->local), 8, 1, 1, INPUT(s, NULL));
}
static xfer_status_t recv_it(const Scene *s) {
    return xfer_recv(s->engine, s->ep, THERE(s, s->local), 8, 1, 1, 1, INPUT(s, NULL));
}
static xfer_status_t peek(const Scene *s) {
    xfer_message_info_t info;
    return xfer_peek(s->engine, s->ep, 1, 1, THERE(s, &info), sizeof info);
}
static xfer_status_t notify(const Scene *s) {
    return xfer_notify(s->ep, THERE(s, s->local), 8, 1, 1, INPUT(s, NULL));
}
static xfer_status_t ep_close(const Scene *s) {
    return xfer_ep_close(s->ep);
}

/* ---- batch and counter ---- */

static xfer_status_t batch_open(const Scene *s) {
    xfer_batch_t *batch;
    return xfer_batch_open(s->ep, INPUT(s, NULL), THERE(s, &batch), NULL);
}
static xfer_status_t batch_put(const Scene *s) {
    return xfer_batch_put(s->batch, s->local, THERE(s, &s->ref), 0, 8);
}
static xfer_status_t batch_get(const Scene *s) {
    return xfer_batch_get(s->batch, s->local, THERE(s, &s->ref), 0, 8);
}
static xfer_status_t add_spans(const Scene *s) {
    xfer_span_t span = {.local = (uintptr_t)s->local, .length = 8};
    return xfer_batch_add_spans(s->batch, XFER_OP_PUT, &s->ref, THERE(s, &span), sizeof span, 1,
                                NULL);
}
static xfer_status_t add_strided(const Scene *s) {
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uintptr_t)s->local,
                              .remote = THERE(s, &s->ref),
                              .length = 8,
                              .count = 1};
    return xfer_batch_add_strided(s->batch, XFER_OP_PUT, INPUT(s, &strided), NULL);
}
static xfer_status_t add_pages(const Scene *s) {
    const uint32_t page = 0;
    xfer_page_base_t base = {.local = (uintptr_t)s->local, .remote = &s->ref};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof base,
                          .index_size = sizeof page,
                          .length = 8,
                          .count = 1,
                          .local_pages = THERE(s, &page),
                          .remote_pages = &page,
                          .bases = &base,
                          .base_count = 1};
    return xfer_batch_add_pages(s->batch, XFER_OP_PUT, INPUT(s, &pages), NULL);
}
static xfer_status_t batch_rebind(const Scene *s) {
    return xfer_batch_rebind(s->batch, THERE(s, &s->ref), &s->ref, NULL);
}
static xfer_status_t batch_submit(const Scene *s) {
    xfer_submit_options_t options = {.size = sizeof options,
                                     .flags = XFER_SUBMIT_NOTIFY,
                                     .notify_data = THERE(s, s->local),
                                     .notify_length = 8};
    return xfer_batch_submit(s->batch, 1, INPUT(s, &options));
}
static xfer_status_t cuda_submit(const Scene *s) {
    xfer_submit_options_t options = {.size = sizeof options,
                                     .flags = XFER_SUBMIT_NOTIFY,
                                     .notify_data = THERE(s, s->local),
                                     .notify_length = 8};
    return xfer_cuda_submit(s->batch, NULL, 1, INPUT(s, &options), NULL, NULL);
}
static xfer_status_t batch_cancel(const Scene *s) {
    return xfer_batch_cancel(s->batch);
}
static xfer_status_t batch_info(const Scene *s) {
    xfer_batch_info_t info;
    return xfer_batch_info(s->batch, THERE(s, &info), sizeof info);
}
static xfer_status_t batch_entries(const Scene *s) {
    xfer_status_t status;
    return xfer_batch_entries(s->batch, 0, 1, THERE(s, &status));
}
static xfer_status_t batch_reset(const Scene *s) {
    return xfer_batch_reset(s->batch);
}
static xfer_status_t batch_close(const Scene *s) {
    return xfer_batch_close(s->batch);
}
static xfer_status_t counter_open(const Scene *s) {
    xfer_counter_t *counter;
    return xfer_counter_open(s->engine, kKey + 1, 1, INPUT(s, NULL), THERE(s, &counter), NULL);
}
static xfer_status_t counter_close(const Scene *s) {
    return xfer_counter_close(s->counter);
}

/* ---- the table ---- */

enum {
    kHandle = kBadHandle | kForked,
    kLook = kHandle | kInvalid,          /* tells something, in any state of its handle */
    kStruct = kInvalid | kBig,           /* takes a struct */
    kWork = kHandle | kClosed | kMemory, /* begins something */
    kOp = kWork | kStruct | kFull,       /* on an endpoint */
    kAdd = kWork | kInvalid | kVersion | kWraps | kKind | kInFlight | kEntries,
};

const Function functions[] = {
    {"xfer_status_at", status_at, kInvalid, kMemory},
    {"xfer_ref_info", ref_info, kInvalid | kVersion, kMemory},
    {"xfer_ref_text", ref_text, kInvalid | kVersion | kMemory, 0},
    {"xfer_ref_parse", ref_parse, kInvalid | kMemory, 0},
    {"xfer_id_text", id_text, kInvalid | kMemory, 0},
    {"xfer_id_parse", id_parse, kInvalid | kMemory, 0},
    {"xfer_native_text", native_text, kInvalid | kMemory, 0},
    {"xfer_engine_option_at", option_at, kInvalid, kMemory},
    {"xfer_engine_option_set", option_set, kStruct, 0},
    {"xfer_engine_open", engine_open, kStruct | kMemory, 0},
    {"xfer_engine_listen", engine_listen, kWork | kStruct, 0},
    {"xfer_engine_id", engine_id, kLook, kClosed | kMemory},
    {"xfer_engine_fd", engine_fd, kLook, kClosed},
    {"xfer_engine_poll", engine_poll, kLook, kMemory},
    {"xfer_engine_wake", engine_wake, kHandle, kClosed | kMemory},
    {"xfer_engine_stats", engine_stats, kLook, kClosed | kMemory},
    {"xfer_engine_addresses", engine_addresses, kLook, kClosed},
    {"xfer_engine_kinds", engine_kinds, kLook, kClosed | kMemory},
    {"xfer_engine_transports", engine_transports, kLook, kClosed | kMemory},
    {"xfer_engine_describe", engine_describe, kLook | kMemory, kClosed},
    {"xfer_cancel", cancel, kHandle, kClosed},
    {"xfer_region_open", region_open, kWork | kStruct | kWraps | kKind, 0},
    {"xfer_region_alloc", region_alloc, kWork | kStruct, 0},
    {"xfer_region_ref", region_ref, kLook | kClosed, kMemory},
    {"xfer_region_grant", region_grant, kWork | kStruct, 0},
    {"xfer_region_renew", region_renew, kWork | kInvalid | kVersion, 0},
    {"xfer_region_revoke", region_revoke, kLook | kClosed | kVersion, kMemory},
    {"xfer_region_info", region_info, kLook, kClosed | kMemory},
    {"xfer_ep_open", ep_open, kWork | kStruct, 0},
    {"xfer_ep_add_address", add_address, kWork | kInvalid, 0},
    {"xfer_ep_keep", ep_keep, kHandle | kClosed, kMemory},
    {"xfer_ep_admit", ep_admit, kHandle | kClosed, kMemory},
    {"xfer_ep_connect", ep_connect, kOp, 0},
    {"xfer_ep_lookup", ep_lookup, kOp, 0},
    {"xfer_ep_probe", ep_probe, kOp, 0},
    {"xfer_ep_state", ep_state, kLook, kClosed | kMemory},
    {"xfer_ep_peer", ep_peer, kLook, kClosed | kMemory},
    {"xfer_ep_stats", ep_stats, kLook, kClosed | kMemory},
    {"xfer_ep_flush", ep_flush, kOp, 0},
    {"xfer_put", put, kOp | kVersion | kWraps | kKind | kReadOnly, 0},
    {"xfer_get", get, kOp | kVersion | kWraps | kKind, 0},
    {"xfer_atomic", atomic, kOp | kVersion | kWraps | kKind | kReadOnly, 0},
    {"xfer_send", send_it, kOp | kWraps | kKind, 0},
    {"xfer_recv", recv_it, kWork | kStruct | kWraps | kKind, 0},
    {"xfer_peek", peek, kLook | kClosed, kMemory},
    {"xfer_notify", notify, kOp | kWraps | kKind, 0},
    {"xfer_batch_open", batch_open, kWork | kStruct, 0},
    {"xfer_batch_put", batch_put, kAdd | kReadOnly, 0},
    {"xfer_batch_get", batch_get, kAdd, 0},
    {"xfer_batch_add_spans", add_spans, kAdd | kReadOnly, 0},
    {"xfer_batch_add_strided", add_strided, kAdd | kBig | kReadOnly, 0},
    {"xfer_batch_add_pages", add_pages, kAdd | kBig | kReadOnly, 0},
    {"xfer_batch_rebind", batch_rebind, kLook | kClosed | kVersion | kInFlight, 0},
    {"xfer_batch_submit", batch_submit, kOp | kWraps | kKind | kInFlight, 0},
    {"xfer_cuda_submit", cuda_submit, kWork | kStruct | kWraps | kKind | kInFlight, 0},
    {"xfer_batch_cancel", batch_cancel, kHandle, kMemory},
    {"xfer_batch_info", batch_info, kLook, kClosed | kMemory},
    {"xfer_batch_entries", batch_entries, kLook | kInFlight, 0},
    {"xfer_batch_reset", batch_reset, kHandle | kInFlight, kMemory},
    {"xfer_counter_open", counter_open, kWork | kStruct, 0},
    {"xfer_engine_drain", engine_drain, kWork | kStruct, 0},
    {"xfer_region_close", region_close, kHandle | kClosed, kMemory},
    {"xfer_batch_close", batch_close, kHandle | kClosed, kMemory},
    {"xfer_ep_close", ep_close, kHandle | kClosed, kMemory},
    {"xfer_counter_close", counter_close, kHandle | kClosed, kMemory},
    {"xfer_engine_close", engine_close, kHandle | kClosed, kMemory},
    {"xfer_engine_join", engine_join, kBadHandle, kForked | kClosed | kMemory},
};
const size_t function_count = sizeof functions / sizeof functions[0];
