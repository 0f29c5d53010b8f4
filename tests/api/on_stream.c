/* SPDX-License-Identifier: Apache-2.0 */
#include "on_stream.h"

void on_stream_use(OnStream *on, xfer_ep_t *ep) {
    on->ep = ep;
    assert_status(xfer_batch_open(ep, NULL, &on->batch, NULL), XFER_OK);
    assert_status(xfer_batch_put(on->batch, on->device, &on->pair.ref, 0, kBytes), XFER_OK);
}

int on_stream_to_nobody(OnStream *on) {
    char uri[64];
    const int hole = black_hole(uri, sizeof uri);
    on_stream_use(on, open_ep(on->pair.client, uri));
    return hole;
}

void on_stream_open(OnStream *on, const Mode *mode) {
    *on = (OnStream){.stream = NULL};
    pair_open(&on->pair, mode, kLength);
    on->stream = fake_cuda_stream();
    on->device = device_memory(kBytes, 1);
    on_stream_use(on, on->pair.ep);
}

void submit_on(OnStream *on, uint64_t user, const xfer_submit_options_t *options) {
    xfer_error_t err;
    const xfer_status_t status =
        xfer_cuda_submit(on->batch, on->stream, user, options, &on->result, &err);
    if (status != XFER_OK) fail_msg("%s: %s", xfer_status_name(status), err.message);
    assert_non_null(on->result);
}

void record(OnStream *on, uint64_t user, const xfer_submit_options_t *options) {
    fake_cuda_capture(on->stream);
    submit_on(on, user, options);
    void *const graph = fake_cuda_end_capture(on->stream);
    assert_non_null(graph);
    on->exec = fake_cuda_instantiate(graph);
    fake_cuda_free_graph(graph);
}

void launch(OnStream *on) {
    fake_cuda_launch(on->exec, on->stream);
}

bool passes(void *stream, uint32_t ms) {
    const uint64_t limit = now_ms() + ms;
    while (!fake_cuda_idle(stream, 0)) {
        if (now_ms() >= limit) return false;
        turn(1);
    }
    return true;
}

void await_wait(void *stream) {
    const uint64_t limit = now_ms() + kPatience;
    while (!fake_cuda_waits(stream)) {
        assert_true(now_ms() < limit);
        turn(1);
    }
}

xfer_event_t only_event(Host *host, uint64_t user) {
    const xfer_event_t event = wait_event(host, XFER_EVENT_BATCH, user, kPatience);
    assert_completion(&event);
    assert_int_equal(count_events(host, XFER_EVENT_BATCH, user), 1);
    return event;
}

void assert_no_event(Host *host, uint64_t user, uint32_t ms) {
    pass_ms(ms);
    assert_int_equal(count_events(host, XFER_EVENT_BATCH, user), 0);
}

uint32_t batch_state(xfer_batch_t *batch) {
    xfer_batch_info_t info;
    assert_status(xfer_batch_info(batch, &info, sizeof info), XFER_OK);
    return info.state;
}
