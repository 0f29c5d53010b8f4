/* SPDX-License-Identifier: Apache-2.0
 *
 * Several TCP connections at once, each with a thread on either side. */
#include <err.h>
#include <pthread.h>

#include "limits.h"

struct stream {
    int fd;
    const struct blocks *blocks;
    struct plan plan; /* its share */
    bool sends;
};

static void *run_stream(void *argument) {
    struct stream *stream = argument;
    (stream->sends ? raw_send : raw_receive)(stream->fd, stream->blocks, &stream->plan, NULL);
    return NULL;
}

void raw_streams(const int *fds, const struct blocks *blocks, const struct plan *plan, bool sends) {
    pthread_t threads[MAX_STREAMS];
    struct stream streams[MAX_STREAMS];
    uint64_t left = plan->count;
    for (uint32_t i = 0; i < plan->streams; i++) {
        struct plan share = *plan;
        share.count = left / (plan->streams - i);
        left -= share.count;
        streams[i] = (struct stream){.fd = fds[i], .blocks = blocks, .plan = share, .sends = sends};
        if (pthread_create(&threads[i], NULL, run_stream, &streams[i]) != 0) errx(1, "thread");
    }
    for (uint32_t i = 0; i < plan->streams; i++)
        pthread_join(threads[i], NULL);
}
