/* SPDX-License-Identifier: Apache-2.0
 *
 * One engine, many peers that have connected and are silent: what do the connections cost? Looked
 * at is the process of that engine; the peers are engines of this process, without threads for
 * sockets. */
#include <err.h>
#include <stdlib.h>
#include <unistd.h>

#include "path.h"
#include "point.h"

/* An engine looks every 1.25 s (a quarter of the heartbeat) whether a peer is silent; it rests
 * after the first look behind the last use. */
enum { SETTLE_S = 3, LEAST_MEMORY = 4096 };

/* Neighbours are looked for with the first operation. */
static void touch(struct session *session, struct client *peer) {
    const struct plan plan = {.size = LEAST_MEMORY, .window = 1, .count = 1};
    client_prepare(peer, &plan, session->memory);
    client_run(peer, &plan, session->memory, SUBMIT_CALLBACK, NULL);
    client_forget(peer);
}

void measure_idle(struct report *report) {
    const struct options *options = report->options;
    struct idle *idle = &report->idle;
    idle->connections = options->connections;
    idle->seconds = options->seconds;

    struct session session;
    char uri[300];
    session_open(&session, options, LEAST_MEMORY, 0);
    session_engine(&session, uri, sizeof uri);
    struct client *peers = calloc(options->connections, sizeof peers[0]);
    if (peers == NULL) err(1, "peers");
    struct mode mode = options->mode;
    mode.dispatch = XFER_DISPATCH_THREAD;
    mode.io_threads = XFER_NONE;
    struct answer alone = session_ask(&session, ASK_STATE, 0, NULL);
    for (uint64_t i = 0; i < options->connections; i++) {
        client_open(&peers[i], &mode, options->key, options->key_length);
        client_reach(&peers[i], uri);
        if (path_may_be_near(options)) touch(&session, &peers[i]);
    }
    sleep(SETTLE_S);
    struct client *last = &peers[options->connections - 1];
    report->path = path_name(path_find(options, last), last);
    struct answer start = session_ask(&session, ASK_STATE, 0, NULL);
    if (start.connections < options->connections)
        errx(1, "only %llu connections live", (unsigned long long)start.connections);
    usleep((useconds_t)(options->seconds * 1e6));
    struct answer end = session_ask(&session, ASK_STATE, 0, NULL);

    idle->cpu_share = (end.cpu - start.cpu) / options->seconds;
    idle->wakeups = (double)(end.wakeups - start.wakeups) / options->seconds;
    idle->bytes_each =
        ((double)start.resident - (double)alone.resident) / (double)options->connections;
    for (uint64_t i = 0; i < options->connections; i++)
        client_close(&peers[i]);
    free(peers);
    session_ask(&session, ASK_ENGINE_END, 0, NULL);
    session_close(&session);
}
