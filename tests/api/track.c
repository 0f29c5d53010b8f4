/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles that a test left open become shells when their engine ends, and a shell is freed by its
 * close. The linker leads every open and close of the tests through here (--wrap), so that the
 * teardown can close what is left: on purpose most tests leave some. */
#include "fixture.h"

xfer_status_t __real_xfer_region_open(xfer_engine_t *engine, const xfer_region_options_t *options,
                                      void *address, uint64_t length, xfer_region_t **region,
                                      xfer_error_t *err);
xfer_status_t __real_xfer_region_alloc(xfer_engine_t *engine, const xfer_region_options_t *options,
                                       uint64_t length, void **address, xfer_region_t **region,
                                       xfer_error_t *err);
xfer_status_t __real_xfer_region_close(xfer_region_t *region);
xfer_status_t __real_xfer_ep_open(xfer_engine_t *engine, const char *uri,
                                  const xfer_ep_options_t *options, xfer_ep_t **ep,
                                  xfer_error_t *err);
xfer_status_t __real_xfer_ep_keep(xfer_ep_t *ep, uint64_t user);
xfer_status_t __real_xfer_ep_close(xfer_ep_t *ep);
xfer_status_t __real_xfer_batch_open(xfer_ep_t *ep, const xfer_batch_options_t *options,
                                     xfer_batch_t **batch, xfer_error_t *err);
xfer_status_t __real_xfer_batch_close(xfer_batch_t *batch);
xfer_status_t __real_xfer_counter_open(xfer_engine_t *engine, uint64_t key, uint64_t expected,
                                       const xfer_counter_options_t *options,
                                       xfer_counter_t **counter, xfer_error_t *err);
xfer_status_t __real_xfer_counter_close(xfer_counter_t *counter);

typedef enum Kind { kRegion, kEndpoint, kBatch, kCounter } Kind;

typedef struct Open {
    void *handle;
    Kind kind;
} Open;

enum { kMaxOpen = 4096 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Open open_handles[kMaxOpen];
static int open_count;

static xfer_status_t opened(xfer_status_t status, void *handle, Kind kind) {
    if (status != XFER_OK) return status;
    pthread_mutex_lock(&mutex);
    if (open_count < kMaxOpen) open_handles[open_count++] = (Open){handle, kind};
    pthread_mutex_unlock(&mutex);
    return status;
}

/* Before the close itself: afterwards the address may be that of a new handle. */
static void forget(const void *handle, Kind kind) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < open_count; i++) {
        if (open_handles[i].handle == handle && open_handles[i].kind == kind) {
            open_handles[i] = open_handles[--open_count];
            break;
        }
    }
    pthread_mutex_unlock(&mutex);
}

xfer_status_t __wrap_xfer_region_open(xfer_engine_t *engine, const xfer_region_options_t *options,
                                      void *address, uint64_t length, xfer_region_t **region,
                                      xfer_error_t *err);
xfer_status_t __wrap_xfer_region_open(xfer_engine_t *engine, const xfer_region_options_t *options,
                                      void *address, uint64_t length, xfer_region_t **region,
                                      xfer_error_t *err) {
    xfer_status_t status = __real_xfer_region_open(engine, options, address, length, region, err);
    return opened(status, status == XFER_OK ? *region : NULL, kRegion);
}

xfer_status_t __wrap_xfer_region_alloc(xfer_engine_t *engine, const xfer_region_options_t *options,
                                       uint64_t length, void **address, xfer_region_t **region,
                                       xfer_error_t *err);
xfer_status_t __wrap_xfer_region_alloc(xfer_engine_t *engine, const xfer_region_options_t *options,
                                       uint64_t length, void **address, xfer_region_t **region,
                                       xfer_error_t *err) {
    xfer_status_t status = __real_xfer_region_alloc(engine, options, length, address, region, err);
    return opened(status, status == XFER_OK ? *region : NULL, kRegion);
}

xfer_status_t __wrap_xfer_region_close(xfer_region_t *region);
xfer_status_t __wrap_xfer_region_close(xfer_region_t *region) {
    forget(region, kRegion);
    return __real_xfer_region_close(region);
}

xfer_status_t __wrap_xfer_ep_open(xfer_engine_t *engine, const char *uri,
                                  const xfer_ep_options_t *options, xfer_ep_t **ep,
                                  xfer_error_t *err);
xfer_status_t __wrap_xfer_ep_open(xfer_engine_t *engine, const char *uri,
                                  const xfer_ep_options_t *options, xfer_ep_t **ep,
                                  xfer_error_t *err) {
    xfer_status_t status = __real_xfer_ep_open(engine, uri, options, ep, err);
    return opened(status, status == XFER_OK ? *ep : NULL, kEndpoint);
}

xfer_status_t __wrap_xfer_ep_keep(xfer_ep_t *ep, uint64_t user);
xfer_status_t __wrap_xfer_ep_keep(xfer_ep_t *ep, uint64_t user) {
    return opened(__real_xfer_ep_keep(ep, user), ep, kEndpoint);
}

xfer_status_t __wrap_xfer_ep_close(xfer_ep_t *ep);
xfer_status_t __wrap_xfer_ep_close(xfer_ep_t *ep) {
    forget(ep, kEndpoint);
    return __real_xfer_ep_close(ep);
}

xfer_status_t __wrap_xfer_batch_open(xfer_ep_t *ep, const xfer_batch_options_t *options,
                                     xfer_batch_t **batch, xfer_error_t *err);
xfer_status_t __wrap_xfer_batch_open(xfer_ep_t *ep, const xfer_batch_options_t *options,
                                     xfer_batch_t **batch, xfer_error_t *err) {
    xfer_status_t status = __real_xfer_batch_open(ep, options, batch, err);
    return opened(status, status == XFER_OK ? *batch : NULL, kBatch);
}

xfer_status_t __wrap_xfer_batch_close(xfer_batch_t *batch);
xfer_status_t __wrap_xfer_batch_close(xfer_batch_t *batch) {
    forget(batch, kBatch);
    return __real_xfer_batch_close(batch);
}

xfer_status_t __wrap_xfer_counter_open(xfer_engine_t *engine, uint64_t key, uint64_t expected,
                                       const xfer_counter_options_t *options,
                                       xfer_counter_t **counter, xfer_error_t *err);
xfer_status_t __wrap_xfer_counter_open(xfer_engine_t *engine, uint64_t key, uint64_t expected,
                                       const xfer_counter_options_t *options,
                                       xfer_counter_t **counter, xfer_error_t *err) {
    xfer_status_t status = __real_xfer_counter_open(engine, key, expected, options, counter, err);
    return opened(status, status == XFER_OK ? *counter : NULL, kCounter);
}

xfer_status_t __wrap_xfer_counter_close(xfer_counter_t *counter);
xfer_status_t __wrap_xfer_counter_close(xfer_counter_t *counter) {
    forget(counter, kCounter);
    return __real_xfer_counter_close(counter);
}

void forget_shells(void) {
    open_count = 0;
}

void close_shells(void) {
    while (open_count > 0) {
        Open last = open_handles[--open_count];
        xfer_status_t status = XFER_OK;
        if (last.kind == kRegion) status = __real_xfer_region_close(last.handle);
        if (last.kind == kEndpoint) status = __real_xfer_ep_close(last.handle);
        if (last.kind == kBatch) status = __real_xfer_batch_close(last.handle);
        if (last.kind == kCounter) status = __real_xfer_counter_close(last.handle);
        assert_status(status, XFER_ECLOSED);
    }
}
