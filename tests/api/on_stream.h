/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of batches on streams share (xfer/cuda.h). The stream is the application's, by the
 * fake driver. */
#ifndef XFER_TESTS_API_ON_STREAM_H
#define XFER_TESTS_API_ON_STREAM_H

#include <xfer/cuda.h>

#include "device_memory.h"

enum { kBytes = 64 * 1024 };

/* A batch that puts device memory to a peer, on one stream. */
typedef struct OnStream {
    Pair pair;
    void *stream;
    uint8_t *device; /* kBytes of it */
    xfer_ep_t *ep;   /* of the batch */
    xfer_batch_t *batch;
    const xfer_cuda_result_t *result;
    void *exec; /* once it is recorded */
} OnStream;

void on_stream_open(OnStream *on, const Mode *mode);
/* The same with entries of its own, and an endpoint of its own. */
void on_stream_use(OnStream *on, xfer_ep_t *ep);
/* The same, to where nobody answers: a socket, to be closed at the end. */
int on_stream_to_nobody(OnStream *on);
void submit_on(OnStream *on, uint64_t user, const xfer_submit_options_t *options);
/* As the one node of a graph, with an instance. */
void record(OnStream *on, uint64_t user, const xfer_submit_options_t *options);
void launch(OnStream *on);

/* Whether the stream gets through in time; hosts go on meanwhile. */
bool passes(void *stream, uint32_t ms);
/* Until it waits for its batch. */
void await_wait(void *stream);
/* Of the batch, and no other comes. */
xfer_event_t only_event(Host *host, uint64_t user);
void assert_no_event(Host *host, uint64_t user, uint32_t ms);
uint32_t batch_state(xfer_batch_t *batch);

#endif
