/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <xfer/text.h>

#include "random.h"

/* ---- drawing ---- */

uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t draw(Worker *worker, uint32_t below) {
    return (uint32_t)(next_random(&worker->state) % below);
}

uint32_t side_of(Worker *worker) {
    return worker->side == kBoth ? draw(worker, kEngines) : worker->side;
}

Handle *slot(Worker *worker, Handle handles[kSlots]) {
    return &handles[draw(worker, kSlots)];
}

uint32_t some_timeout(Worker *worker) {
    static const uint32_t choices[] = {0, 0, 1, 20, 200, 3000000000u, XFER_NONE};
    return choices[draw(worker, sizeof choices / sizeof choices[0])];
}

const xfer_op_options_t *op_options(Worker *worker, OpOptions *room) {
    static const uint32_t sizes[] = {8, 16, sizeof(xfer_op_options_t), 128};
    memset(room, 0, sizeof *room);
    if (draw(worker, 3) == 0) return NULL;
    room->options.size = sizes[draw(worker, 4)];
    room->options.timeout_ms = some_timeout(worker);
    if (draw(worker, 20) == 0) room->options.size = draw(worker, 4);
    if (draw(worker, 20) == 0) room->options.flags = 1u << 31;
    if (draw(worker, 20) == 0) room->bytes[127] = 1;
    return &room->options;
}

/* What others may take for a ref of this slot. Two processes: it may be met half written. */
static void show_ref(Worker *worker, uint32_t side, const Handle *handle) {
    xfer_ref_t *shown = board->sides[side].refs[worker->index];
    const bool region = handle >= worker->regions[side] && handle < worker->regions[side] + kSlots;
    const Handle *first = region ? worker->regions[side] : worker->grants[side];
    shown[(region ? 0 : kSlots) + (handle - first)] = handle->ref;
}

/* A ref of a region of the other engine, mostly; else of ours, or damaged. */
static xfer_ref_t some_ref(Worker *worker, uint32_t side) {
    const uint32_t owner = draw(worker, 15) == 0 ? side : 1 - side;
    const bool away = worker->side != kBoth && owner != worker->side;
    const uint32_t at = draw(worker, 4) == 0 ? kSlots : 0;
    const uint32_t thread = away ? draw(worker, kMaxWorkers) : worker->index;
    xfer_ref_t ref = board->sides[owner].refs[thread][at + draw(worker, kSlots)];
    if (draw(worker, 30) == 0) ref.bytes[draw(worker, sizeof ref.bytes)] ^= 1;
    return ref;
}

/* Mostly in range. */
static void some_range(Worker *worker, uint64_t *offset, uint64_t *length) {
    *offset = draw(worker, kBlock);
    *length = draw(worker, kBlock - (uint32_t)*offset + 1);
    if (draw(worker, 20) == 0) *length = kBlock + 1;
    if (draw(worker, 40) == 0) *offset = UINT64_MAX - draw(worker, 4);
}

/* ---- regions ---- */

static void region_open(Worker *worker) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    uint32_t side = side_of(worker);
    Handle *region = slot(worker, worker->regions[side]);
    if (region->handle != NULL) return;
    xfer_region_options_t options = {.size = sizeof options,
                                     .access = draw(worker, 5) == 0 ? draw(worker, 12) : 7,
                                     .name = draw(worker, 20) == 0 ? "" : names[draw(worker, 8)]};
    xfer_error_t err;
    xfer_region_t **into = (xfer_region_t **)&region->handle;
    xfer_status_t status;
    if (draw(worker, 2)) {
        void *made;
        status = xfer_region_alloc(sides[side].engine, &options, kBlock, &made, into, &err);
    } else {
        uint8_t *lent = script_memory(kBlock);
        status = xfer_region_open(sides[side].engine, &options, lent, kBlock, into, &err);
    }
    end_object(region->handle, status, "xfer_region_open or _alloc");
    if (status != XFER_OK) return;
    xfer_ref_t ref;
    status = xfer_region_ref(region->handle, &ref);
    plain(status, "xfer_region_ref");
    if (status != XFER_OK) return;
    region->ref = ref;
    show_ref(worker, side, region);
}

static void region_close(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *region = slot(worker, worker->regions[side]);
    void *handle = region->handle;
    if (handle == NULL) return;
    pthread_mutex_lock(&sides[side].hold);
    xfer_status_t status = xfer_region_close(handle);
    plain(status, "xfer_region_close");
    if (status == XFER_OK) { /* it has not ended yet */
        xfer_ref_t ref;
        refused(xfer_region_close(handle), "a second xfer_region_close");
        refused(xfer_region_ref(handle, &ref), "xfer_region_ref after the close");
    }
    pthread_mutex_unlock(&sides[side].hold);
    region->handle = NULL;
    for (int i = 0; i < kSlots; i++)
        if (worker->grants[side][i].handle == handle) worker->grants[side][i].handle = NULL;
}

static void region_grant(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *region = slot(worker, worker->regions[side]);
    Handle *grant = slot(worker, worker->grants[side]);
    xfer_grant_options_t options = {.size = sizeof options, .access = draw(worker, 9)};
    static const uint32_t leases[] = {0, 1, 20, XFER_NONE};
    if (region->handle == NULL || grant->handle != NULL) return;
    some_range(worker, &options.offset, &options.length);
    if (options.access == XFER_ATOMIC && draw(worker, 4)) options.offset &= ~7ull;
    options.lease_ms = leases[draw(worker, 4)];
    uint32_t word = begin(XFER_EVENT_REVOKED, side, 0, true);
    options.user = word;
    xfer_ref_t ref;
    xfer_status_t status = xfer_region_grant(region->handle, &options, &ref, NULL);
    end(word, status, "xfer_region_grant");
    if (status != XFER_OK) return;
    *grant = (Handle){.handle = region->handle, .ref = ref};
    show_ref(worker, side, grant);
}

static void region_renew(Worker *worker) {
    Handle *grant = slot(worker, worker->grants[side_of(worker)]);
    if (grant->handle != NULL)
        plain(xfer_region_renew(grant->handle, &grant->ref, some_timeout(worker)),
              "xfer_region_renew");
}

static void region_look(Worker *worker) {
    uint32_t side = side_of(worker);
    xfer_region_t *region = slot(worker, worker->regions[side])->handle;
    xfer_region_info_t info;
    xfer_ref_info_t ref_info;
    xfer_ref_t ref = some_ref(worker, side);
    plain(xfer_ref_info(&ref, &ref_info, draw(worker, sizeof ref_info)), "xfer_ref_info");
    if (region != NULL)
        plain(xfer_region_info(region, &info, draw(worker, sizeof info)), "xfer_region_info");
}

static void region_revoke(Worker *worker) {
    Handle *grant = slot(worker, worker->grants[side_of(worker)]);
    if (grant->handle == NULL) return;
    plain(xfer_region_revoke(grant->handle, &grant->ref), "xfer_region_revoke");
    refused(xfer_region_revoke(grant->handle, &grant->ref), "a second xfer_region_revoke");
    grant->handle = NULL;
}

/* ---- endpoints ---- */

static const char kNobody[] = "tcp://127.0.0.1:1";

static void ep_open(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *ep = slot(worker, worker->eps[side]);
    if (ep->handle != NULL) return;
    uint32_t word = begin(XFER_EVENT_CLOSED, side, 0, true);
    xfer_ep_options_t options = {.size = sizeof options, .user = word};
    const Shown *peer = &board->sides[1 - side];
    char list[2 * sizeof peer->uri];
    const char *uri = peer->uri;
    if (draw(worker, 8) == 0) options.peer = &peer->id;
    if (options.peer != NULL && draw(worker, 2)) uri = NULL;
    if (uri != NULL && draw(worker, 4) == 0) {
        snprintf(list, sizeof list, "%s,%s", draw(worker, 2) ? uri : kNobody, uri);
        uri = list;
    }
    xfer_status_t status =
        xfer_ep_open(sides[side].engine, uri, &options, (xfer_ep_t **)&ep->handle, NULL);
    end(word, status, "xfer_ep_open");
    ep->word = word;
}

static void ep_add_address(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *ep = slot(worker, worker->eps[side]);
    const char *const uris[] = {board->sides[1 - side].uri, kNobody, "", NULL};
    if (ep->handle != NULL)
        plain(xfer_ep_add_address(ep->handle, uris[draw(worker, 4)], NULL), "xfer_ep_add_address");
}

/* One that came to us and was kept; it is told no word. */
static void ep_take(Worker *worker) {
    Side *side = &sides[side_of(worker)];
    Handle *ep = slot(worker, worker->eps[side - sides]);
    if (ep->handle != NULL) return;
    pthread_mutex_lock(&side->hold);
    if (side->untaken != 0) {
        const int at = __builtin_ctz(side->untaken);
        side->untaken &= ~(1u << at);
        *ep = (Handle){.handle = side->kept[at]};
    }
    pthread_mutex_unlock(&side->hold);
}

static void ep_close(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *ep = slot(worker, worker->eps[side]);
    if (ep->handle == NULL) return;
    pthread_mutex_lock(&sides[side].hold);
    xfer_status_t status = xfer_ep_close(ep->handle);
    plain(status, "xfer_ep_close");
    if (status == XFER_OK) { /* it has not ended yet */
        refused(xfer_ep_close(ep->handle), "a second xfer_ep_close");
        refused(xfer_ep_probe(ep->handle, UINT32_MAX, NULL), "xfer_ep_probe after the close");
        refused(xfer_notify(ep->handle, NULL, 0, 1, UINT32_MAX, NULL),
                "xfer_notify after the close");
    }
    pthread_mutex_unlock(&sides[side].hold);
    ep->handle = NULL;
}

/* Some go with their envelope, the others are pulled. */
static uint64_t message_length(Worker *worker) {
    return draw(worker, (1 + draw(worker, 2)) * kBlock) * (draw(worker, 8) == 0 ? 16 : 1);
}

/* Calls of one endpoint, each with a word of its own. */
#define EP_CALL(name, kind, ...)                                      \
    static void name(Worker *worker) {                                \
        uint32_t side = side_of(worker);                              \
        Handle *ep = slot(worker, worker->eps[side]);                 \
        OpOptions room;                                               \
        uint64_t offset, length;                                      \
        xfer_ref_t ref = some_ref(worker, side);                      \
        const xfer_op_options_t *options = op_options(worker, &room); \
        const uint64_t size = message_length(worker);                 \
        some_range(worker, &offset, &length);                         \
        (void)ref, (void)options, (void)offset, (void)length;         \
        (void)size;                                                   \
        if (ep->handle == NULL) return;                               \
        uint32_t word = begin(kind, side, ep->word, true);            \
        end(word, __VA_ARGS__, #name);                                \
    }

EP_CALL(put, XFER_EVENT_PUT,
        xfer_put(ep->handle, worker->local[side], &ref, offset, length, word, options))
EP_CALL(get, XFER_EVENT_GET,
        xfer_get(ep->handle, worker->local[side], &ref, offset, length, word, options))
EP_CALL(atomic, XFER_EVENT_ATOMIC,
        xfer_atomic(ep->handle, draw(worker, 20) ? 1 + draw(worker, 2) : draw(worker, 5),
                    draw(worker, 3) ? (uint64_t *)(void *)script_memory(8) : NULL, &ref,
                    draw(worker, 8) ? offset & ~7ull : offset, length, 0, word, options))
EP_CALL(notify, XFER_EVENT_NOTIFIED,
        xfer_notify(ep->handle, worker->copied, draw(worker, 2) ? 0 : draw(worker, 1025),
                    draw(worker, 4), word, options))
EP_CALL(ep_flush, XFER_EVENT_FLUSH,
        xfer_ep_flush(ep->handle, NULL, word, WITHIN(some_timeout(worker))))
EP_CALL(ep_connect, XFER_EVENT_CONNECT,
        xfer_ep_connect(ep->handle, word, WITHIN(some_timeout(worker))))
EP_CALL(ep_probe, XFER_EVENT_PROBE, xfer_ep_probe(ep->handle, word, WITHIN(some_timeout(worker))))
EP_CALL(message_send, XFER_EVENT_SEND,
        xfer_send(ep->handle, message_to_send(word, size), size, draw(worker, 4), word, options))
EP_CALL(message_recv, XFER_EVENT_RECV,
        xfer_recv(sides[side].engine, ep->handle, message_room(word, 2 * kBlock), 2 * kBlock,
                  draw(worker, 4), draw(worker, 2) ? UINT64_MAX : 0, word, options))

/* It has an event only if it fails. Half of them leave their bytes alone at once. */
static void put_quiet(Worker *worker) {
    const uint32_t side = side_of(worker);
    Handle *ep = slot(worker, worker->eps[side]);
    const xfer_ref_t ref = some_ref(worker, side);
    uint64_t offset, length;
    const bool copy = draw(worker, 2);
    xfer_op_options_t options = {.size = sizeof options,
                                 .timeout_ms = some_timeout(worker),
                                 .flags = XFER_FLAG_QUIET | (copy ? XFER_FLAG_COPY : 0)};
    const uint8_t *local = copy ? worker->copied : worker->local[side];
    some_range(worker, &offset, &length);
    if (ep->handle == NULL) return;
    const uint32_t word = begin(XFER_EVENT_PUT, side, ep->word, false);
    end(word, xfer_put(ep->handle, local, &ref, offset, length, word, &options),
        "a quiet xfer_put");
}

static void recv_any(Worker *worker) {
    uint32_t side = side_of(worker);
    OpOptions room;
    const xfer_op_options_t *options = op_options(worker, &room);
    uint32_t word = begin(XFER_EVENT_RECV, side, 0, true);
    end(word,
        xfer_recv(sides[side].engine, NULL, message_room(word, 256), 256, draw(worker, 4), 3, word,
                  options),
        "xfer_recv");
}

static void ep_lookup(Worker *worker) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "none", ""};
    uint32_t side = side_of(worker);
    Handle *ep = slot(worker, worker->eps[side]);
    xfer_op_options_t options = {.size = sizeof options,
                                 .flags = draw(worker, 4) == 0 ? XFER_FLAG_WAIT : 0,
                                 .timeout_ms = some_timeout(worker)};
    if (ep->handle == NULL) return;
    uint32_t word = begin(XFER_EVENT_LOOKUP, side, ep->word, true);
    end(word, xfer_ep_lookup(ep->handle, names[draw(worker, 8)], word, &options, NULL),
        "xfer_ep_lookup");
}

/* With a mask, every eighth; of one endpoint or of all. */
static void cancel(Worker *worker) {
    const uint32_t side = side_of(worker);
    const uint64_t user = draw(worker, 200), mask = draw(worker, 8) ? UINT64_MAX : 0xf8;
    Handle *ep = slot(worker, worker->eps[side]);
    if (ep->handle != NULL)
        plain(xfer_cancel(sides[side].engine, ep->handle, user, mask), "xfer_cancel");
}

static void cancel_anywhere(Worker *worker) {
    const uint64_t user = draw(worker, 200), mask = draw(worker, 8) ? UINT64_MAX : 0xf8;
    plain(xfer_cancel(sides[side_of(worker)].engine, NULL, user, mask), "xfer_cancel");
}

static void ep_look(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *ep = slot(worker, worker->eps[side]);
    uint32_t state;
    xfer_peer_info_t info;
    xfer_ep_stats_t stats;
    if (ep->handle == NULL) return;
    plain(xfer_ep_state(ep->handle, &state), "xfer_ep_state");
    plain(xfer_ep_peer(ep->handle, &info, draw(worker, sizeof info)), "xfer_ep_peer");
    plain(xfer_ep_stats(ep->handle, &stats, draw(worker, sizeof stats)), "xfer_ep_stats");
    if (ep->word != 0 || !sides[side].owns_peers) /* else it may be kept once */
        refused(xfer_ep_keep(ep->handle, 1), "xfer_ep_keep of one that is ours");
}

/* ---- batches ---- */

static void batch_open(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *ep = slot(worker, worker->eps[side]);
    Handle *batch = slot(worker, worker->batches[side]);
    if (ep->handle == NULL || batch->handle != NULL) return;
    plain(xfer_batch_open(ep->handle, NULL, (xfer_batch_t **)&batch->handle, NULL),
          "xfer_batch_open");
    batch->word = ep->word;
}

static void batch_fill(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *batch = slot(worker, worker->batches[side]);
    xfer_ref_t ref = some_ref(worker, side);
    xfer_span_t spans[8];
    uint64_t local = (uint64_t)(uintptr_t)worker->local[side];
    if (batch->handle == NULL) return;
    for (int i = 0; i < 8; i++) {
        uint64_t offset, length;
        some_range(worker, &offset, &length);
        spans[i] = (xfer_span_t){local, offset, length};
    }
    plain(xfer_batch_add_spans(batch->handle, draw(worker, 4), &ref, spans, sizeof spans[0],
                               draw(worker, 9), NULL),
          "xfer_batch_add_spans");
    plain(xfer_batch_put(batch->handle, worker->local[side], &ref, 0, draw(worker, kBlock)),
          "xfer_batch_put");
    plain(xfer_batch_get(batch->handle, worker->local[side], &ref, 0, draw(worker, kBlock)),
          "xfer_batch_get");
}

/* In `local`, whose size is 2 * kBlock; remotely past the end at times. */
static void batch_lists(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *batch = slot(worker, worker->batches[side]);
    xfer_ref_t ref = some_ref(worker, side), other = some_ref(worker, side);
    uint64_t local = (uint64_t)(uintptr_t)worker->local[side];
    uint64_t from[4], to[4];
    if (batch->handle == NULL) return;
    for (int i = 0; i < 4; i++) {
        from[i] = draw(worker, 8);
        to[i] = draw(worker, 17);
    }
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = local,
                              .local_stride = draw(worker, 512),
                              .remote = &ref,
                              .offset = draw(worker, kBlock / 2),
                              .remote_stride = draw(worker, 512),
                              .length = draw(worker, 512),
                              .count = draw(worker, 8)};
    xfer_page_base_t bases[] = {{local, &ref, 0}, {local + kBlock, &other, 0}};
    xfer_pages_t pages = {.size = sizeof pages,
                          .base_size = sizeof bases[0],
                          .index_size = draw(worker, 8) ? 8 : 4,
                          .length = draw(worker, 257),
                          .rows = draw(worker, 3),
                          .local_row_stride = draw(worker, 3) * 128,
                          .remote_stride = draw(worker, 2) * 512,
                          .count = draw(worker, 5),
                          .local_pages = from,
                          .remote_pages = to,
                          .bases = bases,
                          .base_count = draw(worker, 3)};
    plain(xfer_batch_add_strided(batch->handle, draw(worker, 4), &strided, NULL),
          "xfer_batch_add_strided");
    plain(xfer_batch_add_pages(batch->handle, draw(worker, 4), &pages, NULL),
          "xfer_batch_add_pages");
    if (draw(worker, 2))
        plain(xfer_batch_rebind(batch->handle, &ref, &other, NULL), "xfer_batch_rebind");
}

/* Twice at times: the second is refused, or the first has ended already. */
static void batch_submit(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *batch = slot(worker, worker->batches[side]);
    if (batch->handle == NULL) return;
    for (uint32_t i = 0; i <= draw(worker, 3); i++) {
        xfer_submit_options_t options = {.size = sizeof options,
                                         .timeout_ms = some_timeout(worker),
                                         .flags = draw(worker, 8),
                                         .notify_key = draw(worker, 4)};
        uint32_t word = begin(XFER_EVENT_BATCH, side, batch->word, true);
        end(word, xfer_batch_submit(batch->handle, word, &options), "xfer_batch_submit");
    }
}

static void batch_rest(Worker *worker) {
    Handle *batch = slot(worker, worker->batches[side_of(worker)]);
    xfer_status_t statuses[4];
    if (batch->handle == NULL) return;
    switch (draw(worker, 4)) {
    case 0:
        plain(xfer_batch_cancel(batch->handle), "xfer_batch_cancel");
        break;
    case 1:
        plain(xfer_batch_entries(batch->handle, draw(worker, 4), 4, statuses),
              "xfer_batch_entries");
        break;
    case 2:
        plain(xfer_batch_reset(batch->handle), "xfer_batch_reset");
        break;
    default:
        plain(xfer_batch_close(batch->handle), "xfer_batch_close");
        batch->handle = NULL;
    }
}

/* ---- counters and the engine ---- */

static void counter_open(Worker *worker) {
    uint32_t side = side_of(worker);
    Handle *counter = slot(worker, worker->counters[side]);
    if (counter->handle != NULL) return;
    uint32_t word = begin(XFER_EVENT_COUNTER, side, 0, false);
    const xfer_counter_options_t options = {
        .size = sizeof options, .timeout_ms = draw(worker, 4) * 10, .user = word};
    end(word,
        xfer_counter_open(sides[side].engine, draw(worker, 4), draw(worker, 3), &options,
                          (xfer_counter_t **)&counter->handle, NULL),
        "xfer_counter_open");
}

static void counter_close(Worker *worker) {
    Handle *counter = slot(worker, worker->counters[side_of(worker)]);
    if (counter->handle != NULL) plain(xfer_counter_close(counter->handle), "xfer_counter_close");
    counter->handle = NULL;
}

static void engine_look(Worker *worker) {
    xfer_engine_t *engine = sides[side_of(worker)].engine;
    xfer_engine_stats_t stats;
    char text[512];
    uint64_t needed;
    char bound[64];
    plain(xfer_engine_stats(engine, &stats, draw(worker, sizeof stats)), "xfer_engine_stats");
    plain(xfer_engine_describe(engine, text, draw(worker, sizeof text), &needed),
          "xfer_engine_describe");
    plain(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, bound, draw(worker, 64), NULL),
          "xfer_engine_listen");
    plain(xfer_engine_wake(engine), "xfer_engine_wake");
    plain(xfer_engine_kinds(engine, &needed), "xfer_engine_kinds");
    plain(xfer_engine_transports(engine, &needed), "xfer_engine_transports");
    plain(xfer_engine_addresses(engine, text, draw(worker, sizeof text), &needed),
          "xfer_engine_addresses");
}

static void constants(Worker *worker) {
    xfer_status_t status = (xfer_status_t)draw(worker, 100) - 80;
    if (xfer_status_name(status) == NULL || xfer_status_text(status) == NULL ||
        xfer_version_string() == NULL || xfer_version() == 0)
        broken("a status without words, or no version");
}

static void engine_drain(Worker *worker) {
    uint32_t side = side_of(worker);
    board->sides[side].draining = 1;
    uint32_t word = begin(XFER_EVENT_DRAINED, side, 0, true);
    end(word, xfer_engine_drain(sides[side].engine, word, WITHIN(some_timeout(worker))),
        "xfer_engine_drain");
}

/* While much is under way by several handles, of which one is closed; the loops that wait for a
 * callback to return see it all at once. */
static void drain_busy(Worker *worker) {
    for (int side = 0; side < kEngines; side++)
        pthread_mutex_lock(&sides[side].hold);
    for (uint32_t i = draw(worker, 200); i > 0; i--)
        (draw(worker, 2) ? put : get)(worker);
    engine_drain(worker);
    for (uint32_t i = draw(worker, 4); i > 0; i--)
        ep_close(worker);
    for (int side = 0; side < kEngines; side++)
        pthread_mutex_unlock(&sides[side].hold);
}

static void engine_close(Worker *worker) {
    uint32_t side = side_of(worker);
    board->sides[side].closing = 1;
    plain(xfer_engine_close(sides[side].engine), "xfer_engine_close");
}

/* ---- what must always be refused ---- */

static void wrong_handles(Worker *worker) {
    uint32_t side = side_of(worker);
    void *engine = sides[side].engine;
    void *ep = slot(worker, worker->eps[side])->handle;
    void *region = slot(worker, worker->regions[side])->handle;
    xfer_ref_t ref = some_ref(worker, side);
    xfer_region_t *opened = NULL;
    xfer_event_t event;
    uint32_t count;
    refused(xfer_put(engine, worker->local[side], &ref, 0, 1, UINT32_MAX, NULL), "put on engine");
    refused(xfer_put(region, worker->local[side], &ref, 0, 1, UINT32_MAX, NULL), "put on region");
    refused(xfer_region_open(ep, NULL, worker->local[side], 1, &opened, NULL), "region in ep");
    refused(xfer_region_close(engine), "closing an engine as a region");
    refused(xfer_ep_probe(NULL, UINT32_MAX, NULL), "probe of NULL");
    refused(xfer_batch_submit(ep, UINT32_MAX, NULL), "submit of an ep");
    refused(xfer_batch_cancel(NULL), "cancel of NULL");
    refused(xfer_counter_close(engine), "closing an engine as a counter");
    refused(xfer_engine_poll(engine, &event, sizeof event, 0, 0, &count), "poll for none");
    refused(xfer_engine_drain(ep, UINT32_MAX, NULL), "drain of an ep");
    if (ep != NULL) {
        refused(xfer_get(ep, NULL, &ref, 0, 1, UINT32_MAX, NULL), "get into NULL");
        refused(xfer_put(ep, worker->local[side], NULL, 0, 1, UINT32_MAX, NULL), "put to no ref");
        refused(xfer_ep_lookup(ep, NULL, UINT32_MAX, NULL, NULL), "lookup of no name");
        refused(xfer_batch_open(ep, NULL, NULL, NULL), "a batch to nowhere");
    }
}

/* So that most calls find something to be made on. */
void prepare(Worker *worker) {
    for (int i = 0; i < 2 * kSlots; i++) {
        region_open(worker);
        cells_open(worker);
        ep_open(worker);
        batch_open(worker);
    }
}

const CallRow calls[] = {
    {"region_open", 120, region_open},
    {"region_close", 40, region_close},
    {"region_grant", 40, region_grant},
    {"region_renew", 20, region_renew},
    {"region_look", 20, region_look},
    {"region_revoke", 20, region_revoke},
    {"ep_open", 120, ep_open},
    {"ep_add_address", 20, ep_add_address},
    {"ep_take", 60, ep_take},
    {"ep_close", 30, ep_close},
    {"cells_open", 60, cells_open},
    {"cells_close", 30, cells_close},
    {"cells_check", 60, cells_check},
    {"cell_put", 200, cell_put},
    {"cell_get", 60, cell_get},
    {"cell_batch", 60, cell_batch},
    {"put", 120, put},
    {"get", 120, get},
    {"atomic", 120, atomic},
    {"notify", 60, notify},
    {"ep_connect", 40, ep_connect},
    {"ep_probe", 40, ep_probe},
    {"put_quiet", 60, put_quiet},
    {"ep_flush", 40, ep_flush},
    {"ep_lookup", 60, ep_lookup},
    {"send", 60, message_send},
    {"recv", 40, message_recv},
    {"recv_any", 20, recv_any},
    {"cancel", 30, cancel},
    {"cancel_anywhere", 20, cancel_anywhere},
    {"ep_look", 20, ep_look},
    {"batch_open", 60, batch_open},
    {"batch_fill", 80, batch_fill},
    {"batch_lists", 60, batch_lists},
    {"batch_submit", 100, batch_submit},
    {"batch_rest", 60, batch_rest},
    {"counter_open", 30, counter_open},
    {"counter_close", 20, counter_close},
    {"engine_look", 20, engine_look},
    {"constants", 5, constants},
    {"engine_drain", 1, engine_drain},
    {"drain_busy", 1, drain_busy},
    {"engine_close", 1, engine_close},
    {"wrong_handles", 40, wrong_handles},
};
const uint32_t call_count = sizeof calls / sizeof calls[0];
