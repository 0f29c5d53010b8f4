/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <string.h>

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char last_refusal[kLine];
static uint32_t last_level;

void record_refusal(uint32_t level, const char *text, uint64_t user) {
    (void)user;
    if (!strstr(text, "xfer_")) return;
    pthread_mutex_lock(&log_mutex);
    snprintf(last_refusal, sizeof last_refusal, "%s", text);
    last_level = level;
    pthread_mutex_unlock(&log_mutex);
}

void take_refusal(char *line, uint32_t *level) {
    pthread_mutex_lock(&log_mutex);
    memcpy(line, last_refusal, kLine);
    *level = last_level;
    last_refusal[0] = '\0';
    pthread_mutex_unlock(&log_mutex);
}

void assert_has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" does not have \"%s\"", text, part);
}

void scene_open_in(Scene *scene, const Mode *mode) {
    xfer_engine_options_t options = host_options(mode);
    options.on_log = record_refusal;
    options.log_level = XFER_LOG_DEBUG;
    pair_open_with(&scene->pair, &options, &options, mode, 4096);
    assert_status(xfer_batch_open(scene->pair.ep, NULL, &scene->batch, NULL), XFER_OK);
    scene->memory = test_memory(4096);
    open_region(scene->pair.server, "words", XFER_ATOMIC, test_memory(64), 64);
    scene->words = look_up(scene->pair.client, scene->pair.ep, "words");
}

void scene_open(Scene *scene) {
    scene_open_in(scene, THREAD_MODE);
}

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

/* ---- the calls ---- */

static xfer_status_t engine_open(Scene *scene, const void *input, xfer_error_t *err) {
    (void)scene;
    xfer_engine_t *engine = NULL;
    xfer_status_t status = xfer_engine_open(input, &engine, err);
    xfer_engine_join(engine, XFER_NONE);
    return status;
}
#ifdef XFER_WITH_RDMA
static xfer_status_t engine_open_by_rdma(Scene *scene, const void *input, xfer_error_t *err) {
    const xfer_engine_options_t options = {
        .size = sizeof options, .on_event = ignore_event, .rdma = input};
    return engine_open(scene, &options, err);
}
#endif
static xfer_status_t region_open(Scene *scene, const void *input, xfer_error_t *err) {
    xfer_region_t *region;
    return xfer_region_open(scene->pair.client->engine, input, scene->memory, 64, &region, err);
}
static xfer_status_t region_alloc(Scene *scene, const void *input, xfer_error_t *err) {
    xfer_region_t *region;
    void *address;
    return xfer_region_alloc(scene->pair.client->engine, input, 64, &address, &region, err);
}
static xfer_status_t region_grant(Scene *scene, const void *input, xfer_error_t *err) {
    xfer_ref_t ref;
    return xfer_region_grant(scene->pair.region, input, &ref, err);
}
static xfer_status_t ep_open(Scene *scene, const void *input, xfer_error_t *err) {
    xfer_ep_t *ep;
    return xfer_ep_open(scene->pair.client->engine, scene->pair.server->uri, input, &ep, err);
}
static xfer_status_t ep_lookup(Scene *scene, const void *input, xfer_error_t *err) {
    return xfer_ep_lookup(scene->pair.ep, "memory", 1, input, err);
}
static xfer_status_t ep_connect(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_ep_connect(scene->pair.ep, 1, input);
}
static xfer_status_t ep_probe(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_ep_probe(scene->pair.ep, 1, input);
}
static xfer_status_t drain(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_engine_drain(scene->pair.client->engine, 1, input);
}
static xfer_status_t put(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_put(scene->pair.ep, scene->memory, &scene->pair.ref, 0, 64, 1, input);
}
static xfer_status_t get(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_get(scene->pair.ep, scene->memory, &scene->pair.ref, 0, 64, 1, input);
}
static xfer_status_t flush(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_ep_flush(scene->pair.ep, NULL, 1, input);
}
static xfer_status_t atomic(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_atomic(scene->pair.ep, XFER_ATOMIC_ADD, NULL, &scene->words, 0, 1, 0, 1, input);
}
static xfer_status_t send_it(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_send(scene->pair.ep, scene->memory, 64, 1, 1, input);
}
static xfer_status_t recv_it(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_recv(scene->pair.client->engine, NULL, scene->memory, 64, 1, 1, 1, input);
}
static xfer_status_t notify(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_notify(scene->pair.ep, NULL, 0, 1, 1, input);
}
static xfer_status_t listen_at(Scene *scene, const void *input, xfer_error_t *err) {
    return xfer_engine_listen(scene->pair.client->engine, "tcp://127.0.0.1:0", input, NULL, 0, err);
}
static xfer_status_t counter_open(Scene *scene, const void *input, xfer_error_t *err) {
    xfer_counter_t *counter;
    return xfer_counter_open(scene->pair.client->engine, 1, 1, input, &counter, err);
}
static xfer_status_t batch_open(Scene *scene, const void *input, xfer_error_t *err) {
    xfer_batch_t *batch;
    return xfer_batch_open(scene->pair.ep, input, &batch, err);
}
static xfer_status_t add_strided(Scene *scene, const void *input, xfer_error_t *err) {
    return xfer_batch_add_strided(scene->batch, XFER_OP_PUT, input, err);
}
static xfer_status_t add_pages(Scene *scene, const void *input, xfer_error_t *err) {
    return xfer_batch_add_pages(scene->batch, XFER_OP_PUT, input, err);
}
static xfer_status_t submit(Scene *scene, const void *input, xfer_error_t *err) {
    (void)err;
    return xfer_batch_submit(scene->batch, 1, input);
}

#define TAKES(type, reserved_field, function_name, call)                             \
    .name = #type, .size = sizeof(type), .reserved = offsetof(type, reserved_field), \
    .field = #reserved_field, .function = #function_name, .take = call
#define FLAGS(type, known) .flags_at = offsetof(type, flags), .flags = known
#define SAYS .has_err = true
const Input inputs[] = {
    {TAKES(xfer_engine_options_t, reserved, xfer_engine_open, engine_open), SAYS},
    {TAKES(xfer_engine_options_t, tls, xfer_engine_open, engine_open), SAYS},
#ifdef XFER_WITH_RDMA
    {TAKES(xfer_rdma_options_t, reserved, xfer_engine_open, engine_open_by_rdma), SAYS},
#endif
    {TAKES(xfer_listen_options_t, reserved1, xfer_engine_listen, listen_at), SAYS,
     FLAGS(xfer_listen_options_t, XFER_LISTEN_INSECURE)},
    {TAKES(xfer_counter_options_t, reserved, xfer_counter_open, counter_open), SAYS},
    {TAKES(xfer_region_options_t, reserved, xfer_region_open, region_open), SAYS,
     FLAGS(xfer_region_options_t, XFER_REGION_HUGE_PAGES)},
    {TAKES(xfer_region_options_t, reserved, xfer_region_alloc, region_alloc), SAYS,
     FLAGS(xfer_region_options_t, XFER_REGION_HUGE_PAGES)},
    {TAKES(xfer_grant_options_t, reserved, xfer_region_grant, region_grant), SAYS},
    {TAKES(xfer_ep_options_t, reserved, xfer_ep_open, ep_open), SAYS},
    {TAKES(xfer_op_options_t, reserved, xfer_ep_lookup, ep_lookup), SAYS,
     FLAGS(xfer_op_options_t, XFER_FLAG_WAIT)},
    {TAKES(xfer_op_options_t, reserved, xfer_ep_connect, ep_connect), FLAGS(xfer_op_options_t, 0)},
    {TAKES(xfer_op_options_t, reserved, xfer_ep_probe, ep_probe), FLAGS(xfer_op_options_t, 0)},
    {TAKES(xfer_op_options_t, reserved, xfer_engine_drain, drain), FLAGS(xfer_op_options_t, 0)},
    {TAKES(xfer_op_options_t, reserved, xfer_put, put),
     FLAGS(xfer_op_options_t, XFER_FLAG_QUIET | XFER_FLAG_COPY)},
    {TAKES(xfer_op_options_t, reserved, xfer_get, get), FLAGS(xfer_op_options_t, XFER_FLAG_QUIET)},
    {TAKES(xfer_op_options_t, reserved, xfer_atomic, atomic),
     FLAGS(xfer_op_options_t, XFER_FLAG_QUIET)},
    {TAKES(xfer_op_options_t, reserved, xfer_send, send_it),
     FLAGS(xfer_op_options_t, XFER_FLAG_SYNC | XFER_FLAG_QUIET | XFER_FLAG_COPY)},
    {TAKES(xfer_op_options_t, reserved, xfer_ep_flush, flush), FLAGS(xfer_op_options_t, 0)},
    {TAKES(xfer_op_options_t, reserved, xfer_recv, recv_it),
     FLAGS(xfer_op_options_t, XFER_FLAG_TAKE)},
    {TAKES(xfer_op_options_t, reserved, xfer_notify, notify),
     FLAGS(xfer_op_options_t, XFER_FLAG_QUIET)},
    {.name = "xfer_batch_options_t",
     .size = sizeof(xfer_batch_options_t),
     .reserved = NONE,
     .function = "xfer_batch_open",
     .take = batch_open,
     SAYS,
     FLAGS(xfer_batch_options_t, 0)},
    {TAKES(xfer_submit_options_t, stream, xfer_batch_submit, submit),
     FLAGS(xfer_submit_options_t, XFER_SUBMIT_NOTIFY | XFER_SUBMIT_ORDERED | XFER_SUBMIT_CHECKSUM)},
    {TAKES(xfer_strided_t, reserved, xfer_batch_add_strided, add_strided), SAYS},
    {TAKES(xfer_pages_t, reserved, xfer_batch_add_pages, add_pages), SAYS},
};
const size_t input_count = sizeof inputs / sizeof inputs[0];

size_t fill_needed(Scene *scene, const Input *input, Given *given) {
    static const uint64_t page = 0;
    static xfer_page_base_t base;
    const uint64_t local = (uintptr_t)scene->memory;
    base = (xfer_page_base_t){.local = local, .remote = &scene->pair.ref};
    memset(given, 0, sizeof *given);
    given->size = input->size;
    if (input->take == engine_open) {
        const xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore_event};
        memcpy(given, &options, sizeof options);
        return offsetof(xfer_engine_options_t, user);
    }
    if (input->take == region_grant) {
        const xfer_grant_options_t options = {
            .size = sizeof options, .access = XFER_READ, .length = 8};
        memcpy(given, &options, sizeof options);
        return offsetof(xfer_grant_options_t, lease_ms);
    }
    if (input->take == add_strided) {
        const xfer_strided_t strided = {.size = sizeof strided,
                                        .local = local,
                                        .local_stride = 8,
                                        .remote = &scene->pair.ref,
                                        .remote_stride = 8,
                                        .length = 8,
                                        .count = 2};
        memcpy(given, &strided, sizeof strided);
        return sizeof strided;
    }
    if (input->take == add_pages) {
        const xfer_pages_t pages = {.size = sizeof pages,
                                    .base_size = sizeof base,
                                    .index_size = sizeof page,
                                    .length = 8,
                                    .count = 1,
                                    .local_pages = &page,
                                    .remote_pages = &page,
                                    .bases = &base,
                                    .base_count = 1};
        memcpy(given, &pages, sizeof pages);
        return offsetof(xfer_pages_t, rows);
    }
    return 0;
}

void assert_refusal(Scene *scene, const Input *input, const void *bytes, xfer_status_t wanted,
                    const char *part) {
    char line[kLine];
    uint32_t level = 0;
    xfer_error_t err;
    take_refusal(line, &level);
    memset(&err, 0xff, sizeof err);
    xfer_status_t status = input->take(scene, bytes, &err);
    if (status != wanted) fail_msg("%s: %s", input->function, xfer_status_name(status));
    if (input->has_err) {
        assert_int_equal(err.status, wanted);
        assert_has(err.message, part);
    }
    if (strcmp(input->function, "xfer_engine_open") == 0) return;
    take_refusal(line, &level);
    assert_int_equal(level, XFER_LOG_DEBUG);
    assert_has(line, part);
    assert_has(line, input->function);
    assert_has(line, xfer_status_name(wanted));
}
