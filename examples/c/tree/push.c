/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "push.h"

#include <string.h>
#include <unistd.h>

#include "fetch.h"
#include "progress.h"

/* What the server puts into the pusher's memory: first the text and, once that is there, the word.
 */
enum { PENDING = 0, ACCEPTED = 'y', REFUSED = 'n' };
struct verdict {
    char word;
    char text[sizeof(struct why)];
};

static bool decided(const struct verdict *verdict) {
    return __atomic_load_n(&verdict->word, __ATOMIC_ACQUIRE) != PENDING;
}

bool push_offer(struct session *session, const char *uri, uint64_t bytes, char *answer, size_t cap,
                struct why *why) {
    static struct verdict verdict;
    if (!session_lend(session, PUSH_VERDICT, XFER_WRITE, &verdict, sizeof verdict, why))
        return false;
    if (!session_connect(session, uri, why)) return false;
    struct progress progress;
    progress_begin(&progress, "push", bytes);
    while (!decided(&verdict)) {
        xfer_event_t event;
        xfer_status_t status = session_next(session, &event, 20);
        if (status != XFER_OK) return fail_status(why, "waiting for the server", status);
        if (session_stopped())
            return fail(why, "interrupted; pushing the same tree again goes on from there");
        if (event.kind == XFER_EVENT_PEER_DOWN && !decided(&verdict)) {
            return fail_status(why, "the server went away", event.status);
        }
        xfer_engine_stats_t stats; /* how much the server has taken so far */
        if (xfer_engine_stats(session->engine, &stats, sizeof stats) == XFER_OK) {
            progress_set(&progress, stats.served_get < bytes ? stats.served_get : bytes);
        }
    }
    verdict.text[sizeof verdict.text - 1] = '\0';
    if (verdict.word != ACCEPTED) return fail(why, "the server says: %s", verdict.text);
    progress_end(&progress);
    snprintf(answer, cap, "%s", verdict.text);
    return true;
}

static xfer_status_t put(struct session *session, xfer_ep_t *ep, const void *from,
                         const xfer_ref_t *to, uint64_t offset, uint64_t length) {
    xfer_event_t event;
    xfer_status_t status = xfer_put(ep, from, to, offset, length, 0, NULL);
    return status == XFER_OK ? session_wait(session, XFER_EVENT_PUT, &event) : status;
}

static void tell(struct session *session, xfer_ep_t *ep, const xfer_ref_t *to, char word,
                 const char *text) {
    struct verdict verdict = {.word = word};
    snprintf(verdict.text, sizeof verdict.text, "%s", text);
    xfer_status_t status =
        put(session, ep, verdict.text, to, offsetof(struct verdict, text), sizeof verdict.text);
    if (status == XFER_OK) status = put(session, ep, &verdict.word, to, 0, sizeof verdict.word);
    if (status != XFER_OK)
        fprintf(stderr, "the pusher did not hear the verdict: %s\n", xfer_status_text(status));
}

bool push_accept(struct session *session, struct visitor visitor, const char *directory,
                 unsigned *number) {
    struct why why = {"this server takes no pushes; start it with --accept DIR"};
    struct fetched fetched;
    char destination[4096];
    char text[512];
    bool ok = directory != NULL;
    if (ok) {
        const struct fetch_options options = {0};
        do { /* the first name that is free */
            snprintf(destination, sizeof destination, "%s/push-%u", directory, *number + 1);
        } while (access(destination, F_OK) == 0 && ++*number);
        ok = fetch_tree(session, visitor.ep, destination, &options, &fetched, &why);
    }
    if (ok) fetched_text(&fetched, text, sizeof text);
    tell(session, visitor.ep, &visitor.ref, ok ? ACCEPTED : REFUSED, ok ? text : why.text);
    if (ok)
        printf("push %u: %s, in %s\n", ++*number, text, destination);
    else
        printf("push refused: %s\n", why.text);
    fflush(stdout);
    (void)xfer_ep_close(visitor.ep);
    return ok;
}
