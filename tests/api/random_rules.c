/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds whatever a program does: every accepted call gets its one event and a refused one
 * none, nothing is told of what has ended, what is told of can be used, a drain waits for what is
 * under way, nothing is lost to a connection that nobody ended, and every status is a listed one.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xfer/text.h>

#include "event_table.h"
#include "random.h"

enum { kMaxObjects = 4096 };

/* Of handles that are kept; no operation has it. */
static const uint64_t kKeptUser = UINT64_MAX;

typedef struct Object {
    const void *address;
    int opened, closed; /* regions at that address, one after the other */
} Object;

static Op ops[kMaxOps];
static _Atomic uint32_t op_count;
static _Atomic uint64_t call_clock;
static pthread_mutex_t objects_mutex = PTHREAD_MUTEX_INITIALIZER;
static Object objects[kMaxObjects];
static int object_count;
static void *blocks[kMaxObjects];
static _Atomic int block_count;

void rules_begin(void) {
    op_count = 0;
    call_clock = 0;
    object_count = 0;
    block_count = 0;
    memset(ops, 0, sizeof ops);
    memset(objects, 0, sizeof objects);
}

void rules_end(void) {
    for (uint32_t i = 1; i <= op_count; i++) {
        const Op *op = &ops[i];
        cells_quiet(op);
        const int accepted = op->accepted != 0;
        if (op->events > accepted || (op->exact && op->events != accepted))
            broken("call %u (event kind %u): accepted %d, events %d", i, op->kind, accepted,
                   op->events);
    }
    for (int i = 0; i < object_count; i++)
        if (objects[i].opened != objects[i].closed)
            broken("%d regions opened, %d closed", objects[i].opened, objects[i].closed);
    for (int i = 0; i < block_count; i++)
        free(blocks[i]);
}

/* ---- what the calls report ---- */

void broken(const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (board->is_broken++ == 0)
        vsnprintf(board->first_broken, sizeof board->first_broken, format, list);
    va_end(list);
}

uint8_t *script_memory(uint64_t length) {
    int at = block_count++;
    if (at >= kMaxObjects) abort();
    return blocks[at] = calloc(1, length);
}

uint32_t begin(uint32_t kind, uint32_t side, uint32_t ep, bool exact) {
    uint32_t at = ++op_count;
    if (at >= kMaxOps) abort();
    Op *op = &ops[at]; /* others may look whether it was accepted */
    op->kind = kind;
    op->side = side;
    op->ep = ep;
    op->exact = exact;
    op->asked = ++call_clock;
    return at;
}

Op *op_of(uint32_t word) {
    return &ops[word];
}

static void check_listed(xfer_status_t status, const char *call) {
    xfer_status_t listed;
    for (uint32_t i = 0; xfer_status_at(i, &listed) == XFER_OK; i++)
        if (listed == status && status != XFER_EINTERNAL) return;
    broken("%s: status %d", call, (int)status);
}

void end(uint32_t word, xfer_status_t status, const char *call) {
    check_listed(status, call);
    if (status == XFER_OK) ops[word].accepted = ++call_clock;
}

void plain(xfer_status_t status, const char *call) {
    check_listed(status, call);
}

void refused(xfer_status_t status, const char *call) {
    check_listed(status, call);
    if (status == XFER_OK) broken("%s was accepted", call);
}

static void count_object(const void *address, int opened, int closed) {
    pthread_mutex_lock(&objects_mutex);
    int at = 0;
    while (at < object_count && objects[at].address != address)
        at++;
    if (at == object_count) object_count++;
    objects[at].address = address;
    objects[at].opened += opened;
    objects[at].closed += closed;
    pthread_mutex_unlock(&objects_mutex);
}

void end_object(const void *object, xfer_status_t status, const char *call) {
    check_listed(status, call);
    if (status == XFER_OK) count_object(object, 1, 0);
}

/* ---- events ---- */

/* What was accepted before the drain has ended. Not so a receive, which waits for what will not be
 * sent any more until the engine is closed. */
static void take_drained(const Op *drain) {
    for (uint32_t i = 1; i <= op_count; i++) {
        const Op *op = &ops[i];
        const uint64_t accepted = op->accepted; /* until then it may be half written */
        if (accepted == 0 || accepted >= drain->asked) continue;
        const bool drained = op->kind != XFER_EVENT_CLOSED && op->kind != XFER_EVENT_REVOKED &&
                             op->kind != XFER_EVENT_RECV;
        if (op->side == drain->side && op->exact && drained && op->events == 0)
            broken("DRAINED before the event %u of an earlier call", op->kind);
    }
}

/* A flush that ends by itself: what was accepted before with its handle has ended. */
static void take_flushed(const Op *flush, const xfer_event_t *event) {
    if (flush->ep == 0 || event->status == XFER_ETIMEDOUT || event->status == XFER_ECANCELED)
        return;
    for (uint32_t i = 1; i <= op_count; i++) {
        const Op *op = &ops[i];
        const uint64_t accepted = op->accepted;
        if (accepted == 0 || accepted >= flush->asked || op->ep != flush->ep) continue;
        const bool covered = op->kind == XFER_EVENT_PUT || op->kind == XFER_EVENT_GET ||
                             op->kind == XFER_EVENT_BATCH || op->kind == XFER_EVENT_SEND ||
                             op->kind == XFER_EVENT_ATOMIC || op->kind == XFER_EVENT_NOTIFIED;
        if (covered && op->exact && op->events == 0)
            broken("FLUSH before the event %u of an earlier call", op->kind);
    }
}

/* Of a handle that came with PEER, kept or not. */
static bool of_a_peer(const xfer_event_t *event) {
    return event->user >> 63;
}

static bool any_killed(void) {
    return board->sides[0].killed || board->sides[1].killed;
}

static bool any_closing(void) {
    return board->sides[0].closing || board->sides[1].closing || any_killed();
}

static bool any_turned_away(void) {
    return board->sides[0].turned_away || board->sides[1].turned_away;
}

/* A connection is lost only to an engine that closes or turns a peer away, or to a killed process.
 * One that drains ends its own work, and the peer's but for what the peer asked of its application.
 */
static void check_lost(const Op *op, const xfer_event_t *event) {
    const bool moves = op->kind == XFER_EVENT_PUT || op->kind == XFER_EVENT_GET ||
                       op->kind == XFER_EVENT_BATCH || op->kind == XFER_EVENT_ATOMIC;
    if (any_closing() || any_turned_away() || sides[op->side].met_others) return;
    if (moves || !board->sides[1 - op->side].draining)
        broken("event %u: XFER_EPEERLOST (origin %u, native %d), and no engine had been closed",
               op->kind, event->origin, event->native_code);
}

static void take_word(const xfer_event_t *event) {
    if (event->user == 0 || event->user > op_count) {
        broken("event %u for user %llu", event->kind, (unsigned long long)event->user);
        return;
    }
    Op *op = &ops[event->user];
    bool of_ep = op->kind == XFER_EVENT_CLOSED && event->kind != XFER_EVENT_CLOSED;
    if (of_ep) { /* PEER_UP and the like: its handle lives */
        if (op->events != 0) broken("event %u of an endpoint that was closed", event->kind);
        return;
    }
    if (op->kind != event->kind) broken("event %u, not %u", event->kind, op->kind);
    if (++op->events != 1) broken("two events of kind %u for one call", event->kind);
    if (op->ep != 0 && ops[op->ep].events != 0)
        broken("event %u after the CLOSED of its endpoint", event->kind);
    if (event->status == XFER_EPEERLOST) check_lost(op, event);
    if (event->kind == XFER_EVENT_DRAINED && event->status == XFER_OK) take_drained(op);
    if (event->kind == XFER_EVENT_FLUSH) take_flushed(op, event);
    if (event->kind == XFER_EVENT_PUT && !op->exact && event->status == XFER_OK)
        broken("a quiet put has an event though it ended well");
    if (op->memory != NULL) cells_told(op, event);
}

static void take_up(Side *side, const xfer_event_t *event) {
    const Shown *other = &board->sides[side == &sides[0]];
    const bool ready = other->ready; /* its id may be read */
    if (!ready || memcmp(other->id.bytes, event->data, sizeof other->id.bytes) != 0)
        side->met_others = 1;
}

static int kept_at(const Side *side, const void *ep) {
    int at = (int)(sizeof side->kept / sizeof side->kept[0]) - 1;
    while (at >= 0 && side->kept[at] != ep)
        at--;
    return at;
}

void take(Side *side, const xfer_event_t *event) {
    check_listed(event->status, "an event");
    const char *field = wrong_field(event);
    if (field != NULL) broken("event %u has a field that its kind has not: %s", event->kind, field);
    if (event->kind == XFER_EVENT_PEER_UP) take_up(side, event);
    if (event->kind == XFER_EVENT_PEER_DOWN && event->status == XFER_EPEERLOST &&
        !side->met_others && !any_killed() && !any_turned_away())
        broken("a connection was lost (origin %u, native %d), and nobody was killed", event->origin,
               event->native_code);
    if (side->closed) broken("event %u after the engine's CLOSED", event->kind);
    if (event->sequence != ++side->last_sequence) broken("the sequence has a gap");
    if (event->kind == XFER_EVENT_CLOSED && event->object == (void *)side->engine) {
        side->closed = 1;
    } else if (event->kind == XFER_EVENT_CLOSED && event->ep == NULL) {
        count_object(event->object, 0, 1);
        cells_closed(event->object);
    } else if (event->kind == XFER_EVENT_NOTIFY || event->kind == XFER_EVENT_PEER) {
        /* a peer's doing, not of a call of this engine */
    } else if (!of_a_peer(event) || event->ep == NULL) {
        take_word(event);
    }
}

/* Of a handle that was kept. */
static void take_closed(Side *side, const xfer_event_t *event) {
    const int at = kept_at(side, event->ep);
    if (at < 0 && !side->owns_peers) /* else there was no place for it */
        broken("CLOSED of a handle that was not kept");
    else if (at < 0)
        return;
    else if ((side->untaken >> at & 1) == 0) /* else its engine has ended before a thread took it */
        side->kept[at] = NULL;
}

/* It is ours with its PEER; without a place for it, it is closed at once. */
static void take_owned(Side *side, const xfer_event_t *event) {
    const int at = kept_at(side, NULL);
    if (event->kind != XFER_EVENT_PEER) return;
    if (next_random(&side->random) % 2) plain(xfer_ep_keep(event->ep, kKeptUser), "xfer_ep_keep");
    if (at < 0) {
        plain(xfer_ep_close(event->ep), "xfer_ep_close");
    } else {
        side->kept[at] = event->ep;
        side->untaken |= 1u << at;
    }
}

/* Most are let in at once; of some nobody says anything. */
static void admit_peer(Side *side, const xfer_event_t *event) {
    static const xfer_status_t verdicts[] = {XFER_EACCESS, XFER_EOVERLOAD, XFER_OK, XFER_OK,
                                             XFER_OK,      XFER_OK,        XFER_OK};
    const uint64_t at = next_random(&side->random) % 8;
    if (at == 7) return;
    if (verdicts[at] != XFER_OK) board->sides[side - sides].turned_away = 1;
    plain(xfer_ep_admit(event->ep, verdicts[at]), "xfer_ep_admit");
}

/* The handle of a peer that came to us can be used until the next poll, or the end of the callback.
 * Some are kept: a thread takes them for its own. */
void use_handle(Side *side, const xfer_event_t *event) {
    uint32_t state;
    const bool of_ep = event->ep != NULL && of_a_peer(event);
    if (of_ep && event->kind == XFER_EVENT_CLOSED) take_closed(side, event);
    if (side->asks && event->kind == XFER_EVENT_PEER) admit_peer(side, event);
    if (of_ep && side->owns_peers) take_owned(side, event);
    if (side->owns_peers) return;
    const bool theirs = event->kind == XFER_EVENT_NOTIFY || event->kind == XFER_EVENT_PEER ||
                        event->kind == XFER_EVENT_PEER_UP || event->kind == XFER_EVENT_PEER_DOWN;
    if (!theirs || !of_ep || side->closed) return;
    if (kept_at(side, event->ep) >= 0) return; /* it may be closed by now */
    xfer_status_t status = xfer_ep_state(event->ep, &state);
    if (status != XFER_OK) broken("the handle of event %u: status %d", event->kind, (int)status);
    const int at = kept_at(side, NULL);
    if (at < 0 || next_random(&side->random) % 4 != 0) return;
    status = xfer_ep_keep(event->ep, kKeptUser);
    if (status != XFER_OK) {
        const Shown *shown = &board->sides[side - sides];
        if (status == XFER_ECLOSED && (shown->draining || shown->closing)) return;
        broken("xfer_ep_keep of the handle of event %u: status %d", event->kind, (int)status);
        return;
    }
    side->kept[at] = event->ep;
    side->untaken |= 1u << at;
}
