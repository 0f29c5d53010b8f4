/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory whose bytes are verified. A word of a region tells the region's number, its place and its
 * version. Each cell of a region is written by one thread of the other engine's process, one put at
 * a time, with versions that go up. So its owner can tell at any time that every word is one of
 * this region, at its place, not older than the newest put that succeeded and not newer than the
 * newest that was begun; and who gets it knows what it must hold. Memory that is given back is
 * overwritten at once: lent again as another region, or looked at when all is over.
 *
 * The owner reads while the library writes, which is no race of the library: see look_at(). */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "random.h"

enum { kMaxVersion = 250, kMaxOwned = 2 * kMaxLent, kMaxWords = 2048, kGivenBack = 0xdd };

static Owned owned[kMaxOwned];
static _Atomic uint32_t owned_count;
static _Atomic uint32_t messages;

void cells_begin(void) {
    owned_count = 0;
    messages = 0;
    memset(owned, 0, sizeof owned);
}

/* ---- words ---- */

static uint64_t word_of(uint32_t number, uint64_t place, uint8_t version) {
    return (uint64_t)number << 32 | place << 8 | version;
}

static void stamp(uint64_t *words, uint32_t number, uint64_t place, uint64_t count,
                  uint8_t version) {
    for (uint64_t i = 0; i < count; i++)
        words[i] = word_of(number, place + i, version);
}

static uint64_t region_length(const Lent *lent) {
    return (uint64_t)kCells * lent->words * sizeof(uint64_t);
}

/* One word of memory that others write to. A word may be met half written, but of two versions only
 * the lowest byte differs. */
__attribute__((no_sanitize("thread"), noinline)) static uint64_t look_at(
    const volatile uint64_t *word) {
    return *word;
}

static void check_cell(const Lent *lent, uint32_t cell, const uint64_t *words, uint8_t oldest,
                       const char *who) {
    uint64_t seen[kMaxWords];
    for (uint32_t i = 0; i < lent->words; i++)
        seen[i] = look_at(&words[i]);
    const uint8_t newest = lent->begun[cell];
    for (uint32_t i = 0; i < lent->words; i++) {
        const uint64_t expected = word_of(lent->number, (uint64_t)cell * lent->words + i, 0);
        const uint8_t version = (uint8_t)seen[i];
        if ((seen[i] ^ expected) >> 8 != 0 || version < oldest || version > newest) {
            broken("%s: word %u of cell %u is %016llx, not %016llx with version %u to %u", who, i,
                   cell, (unsigned long long)seen[i], (unsigned long long)expected, oldest, newest);
            return;
        }
    }
}

static bool all_are(const uint8_t *memory, uint64_t length, uint8_t value) {
    for (uint64_t i = 0; i < length; i++)
        if (memory[i] != value) return false;
    return true;
}

/* ---- the owner ---- */

/* Memory that has been given back, of that length, to be lent again at once; else new. */
static uint8_t *memory_to_lend(uint64_t length) {
    for (uint32_t i = 0; i < owned_count; i++) {
        Owned *old = &owned[i];
        int given_back = 1;
        if (old->closed != 1 || old->memory == NULL || region_length(old->lent) != length) continue;
        if (!atomic_compare_exchange_strong(&old->closed, &given_back, 2)) continue;
        if (!all_are(old->memory, length, kGivenBack))
            broken("a region's memory was written to after its CLOSED");
        return old->memory;
    }
    return script_memory(length);
}

void cells_open(Worker *worker) {
    static const uint32_t words[] = {1, 64, 64, 512, kMaxWords};
    const uint32_t side = side_of(worker), at = draw(worker, kSlots);
    Shown *shown = &board->sides[side];
    if (worker->owned[side][at] != NULL || shown->lent_count >= kMaxLent - kMaxWorkers) return;
    const uint32_t entry = shown->lent_count++, mine = owned_count++;
    Lent *lent = &shown->lent[entry];
    Owned *region = &owned[mine];
    lent->words = words[draw(worker, 5)];
    char name[32];
    snprintf(name, sizeof name, "cells %u", entry);
    const xfer_region_options_t options = {
        .size = sizeof options, .access = XFER_READ | XFER_WRITE, .name = name};
    const uint32_t number = 1 + (side << 30 | entry);
    const uint64_t length = region_length(lent);
    xfer_engine_t *engine = sides[side].engine;
    xfer_region_t *handle = NULL;
    xfer_status_t status;
    void *memory = NULL;
    region->lent = lent;
    pthread_mutex_lock(&sides[side].hold); /* its CLOSED is told when its handle is known */
    if (draw(worker, 2)) {
        status = xfer_region_alloc(engine, &options, length, &memory, &handle, NULL);
        if (status == XFER_OK) stamp(memory, number, 0, length / 8, 0);
    } else {
        memory = memory_to_lend(length);
        stamp(memory, number, 0, length / 8, 0);
        status = xfer_region_open(engine, &options, memory, length, &handle, NULL);
        if (status == XFER_OK) region->memory = memory;
    }
    end_object(handle, status, "xfer_region_open or _alloc");
    region->words = memory;
    region->handle = handle;
    if (status == XFER_OK) status = xfer_region_ref(handle, &lent->ref);
    pthread_mutex_unlock(&sides[side].hold);
    plain(status, "xfer_region_ref");
    if (handle == NULL) return;
    worker->owned[side][at] = region;
    if (status == XFER_OK) lent->number = number;
}

/* The engine is held: its CLOSED can't come while its memory is looked at. */
static void check_owned(const Owned *region) {
    const Lent *lent = region->lent;
    if (region->closed || lent->number == 0) return;
    for (uint32_t cell = 0; cell < kCells; cell++) {
        const uint8_t oldest = lent->applied[cell]; /* before it is looked at */
        check_cell(lent, cell, region->words + (uint64_t)cell * lent->words, oldest, "owner");
    }
}

void cells_check(Worker *worker) {
    for (uint32_t side = 0; side < kEngines; side++) {
        pthread_mutex_lock(&sides[side].hold);
        for (uint32_t i = 0; i < kSlots; i++)
            if (worker->owned[side][i] != NULL) check_owned(worker->owned[side][i]);
        pthread_mutex_unlock(&sides[side].hold);
    }
}

void cells_close(Worker *worker) {
    const uint32_t side = side_of(worker), at = draw(worker, kSlots);
    Owned *region = worker->owned[side][at];
    if (region == NULL) return;
    plain(xfer_region_close(region->handle), "xfer_region_close");
    worker->owned[side][at] = NULL;
}

/* Where CLOSED is told. */
void cells_closed(const void *handle) {
    for (uint32_t i = 0; i < owned_count; i++) {
        Owned *region = &owned[i];
        if (region->handle != handle || region->closed) continue;
        if (region->memory != NULL) memset(region->memory, kGivenBack, region_length(region->lent));
        region->closed = 1;
    }
}

void cells_end(void) {
    for (uint32_t i = 0; i < owned_count; i++)
        if (owned[i].closed == 1 && owned[i].memory != NULL &&
            !all_are(owned[i].memory, region_length(owned[i].lent), kGivenBack))
            broken("a region's memory was written to after its CLOSED");
}

/* ---- the writer ---- */

/* A verified region of the other engine, mostly one of the newest. */
static Lent *some_lent(Worker *worker, uint32_t side) {
    Shown *other = &board->sides[1 - side];
    const uint32_t count = other->lent_count;
    if (count == 0) return NULL;
    const uint32_t newest = count < 8 || draw(worker, 8) == 0 ? count : 8;
    Lent *lent = &other->lent[count - 1 - draw(worker, newest)];
    return lent->number == 0 ? NULL : lent;
}

/* One of this thread's cells of it that nothing is under way for. */
static bool claim(Worker *worker, Lent *lent, uint32_t *cell) {
    *cell = worker->index + kMaxWorkers * draw(worker, kCells / kMaxWorkers);
    if (lent->busy[*cell] || lent->begun[*cell] >= kMaxVersion) return false;
    lent->busy[*cell] = 1;
    return true;
}

static void let_go(const Op *op) {
    for (uint32_t cell = 0; cell < kCells; cell++)
        if (op->cells >> cell & 1) op->lent->busy[cell] = 0;
}

static uint64_t offset_of(const Lent *lent, uint32_t cell) {
    return (uint64_t)cell * lent->words * sizeof(uint64_t);
}

static void stamp_put(Lent *lent, uint32_t cell, uint64_t *words) {
    const uint8_t version = ++lent->begun[cell];
    stamp(words, lent->number, (uint64_t)cell * lent->words, lent->words, version);
}

/* Memory for cells that have been claimed. */
static Op *begin_cells(uint32_t word, Lent *lent, uint32_t cells, uint32_t gets) {
    Op *op = op_of(word);
    op->lent = lent;
    op->cells = cells;
    op->gets = gets;
    op->length = (uint64_t)__builtin_popcount(cells) * lent->words * sizeof(uint64_t);
    op->memory = script_memory(op->length);
    return op;
}

static void end_cells(uint32_t word, xfer_status_t status, const char *call) {
    if (status != XFER_OK) let_go(op_of(word));
    end(word, status, call);
}

static void cell_move(Worker *worker, bool get) {
    const uint32_t side = side_of(worker);
    const Handle *ep = slot(worker, worker->eps[side]);
    Lent *lent = some_lent(worker, side);
    OpOptions room;
    uint32_t cell;
    const xfer_op_options_t *options = op_options(worker, &room);
    if (ep->handle == NULL || lent == NULL || !claim(worker, lent, &cell)) return;
    const uint32_t word = begin(get ? XFER_EVENT_GET : XFER_EVENT_PUT, side, ep->word, true);
    Op *op = begin_cells(word, lent, 1u << cell, get ? 1u << cell : 0);
    const uint64_t at = offset_of(lent, cell);
    if (get) {
        end_cells(word, xfer_get(ep->handle, op->memory, &lent->ref, at, op->length, word, options),
                  "xfer_get of a cell");
    } else {
        stamp_put(lent, cell, (uint64_t *)op->memory);
        end_cells(word, xfer_put(ep->handle, op->memory, &lent->ref, at, op->length, word, options),
                  "xfer_put of a cell");
    }
}

void cell_put(Worker *worker) {
    cell_move(worker, false);
}

void cell_get(Worker *worker) {
    cell_move(worker, true);
}

/* An empty batch that is not in flight. */
static Handle *cell_batch_of(Worker *worker, uint32_t side) {
    const Handle *ep = slot(worker, worker->eps[side]);
    Handle *batch = &worker->cell_batches[side][draw(worker, kCellBatches)];
    if (batch->handle == NULL) {
        if (ep->handle == NULL) return NULL;
        plain(xfer_batch_open(ep->handle, NULL, (xfer_batch_t **)&batch->handle, NULL),
              "xfer_batch_open");
        batch->word = ep->word;
        return batch->handle == NULL ? NULL : batch;
    }
    const xfer_status_t status = xfer_batch_reset(batch->handle);
    plain(status, "xfer_batch_reset");
    if (status == XFER_OK) return batch;
    if (status == XFER_EBUSY && draw(worker, 4) != 0) return NULL;
    plain(xfer_batch_close(batch->handle), "xfer_batch_close");
    batch->handle = NULL;
    return NULL;
}

/* Puts and gets of several cells. */
void cell_batch(Worker *worker) {
    const uint32_t side = side_of(worker);
    Lent *lent = some_lent(worker, side);
    if (lent == NULL) return;
    Handle *batch = cell_batch_of(worker, side);
    if (batch == NULL) return;
    uint32_t cells = 0, cell;
    for (uint32_t i = 0; i < kCells / kMaxWorkers; i++)
        if (claim(worker, lent, &cell)) cells |= 1u << cell;
    if (cells == 0) return;
    const uint32_t word = begin(XFER_EVENT_BATCH, side, batch->word, true);
    const Op *op = begin_cells(word, lent, cells, cells & draw(worker, 1u << kCells));
    uint8_t *memory = op->memory;
    xfer_status_t status = XFER_OK;
    for (cell = 0; cell < kCells && status == XFER_OK; cell++) {
        const uint64_t length = (uint64_t)lent->words * sizeof(uint64_t);
        if (!(cells >> cell & 1)) continue;
        if (op->gets >> cell & 1) {
            status =
                xfer_batch_get(batch->handle, memory, &lent->ref, offset_of(lent, cell), length);
        } else {
            stamp_put(lent, cell, (uint64_t *)memory);
            status =
                xfer_batch_put(batch->handle, memory, &lent->ref, offset_of(lent, cell), length);
        }
        memory += length;
    }
    const xfer_submit_options_t options = {.size = sizeof options,
                                           .timeout_ms = some_timeout(worker),
                                           .flags = draw(worker, 8),
                                           .notify_key = draw(worker, 4)};
    if (status == XFER_OK) status = xfer_batch_submit(batch->handle, word, &options);
    end_cells(word, status, "a batch of cells");
}

/* ---- messages ---- */

static const uint32_t kMessage = 1u << 31;

uint8_t *message_to_send(uint32_t word, uint64_t length) {
    Op *op = op_of(word);
    const uint64_t count = (length + 7) / 8;
    op->length = length;
    op->memory = script_memory(8 * count);
    stamp((uint64_t *)op->memory, kMessage | op->side << 30 | ++messages, 0, count, 0);
    return op->memory;
}

uint8_t *message_room(uint32_t word, uint64_t length) {
    Op *op = op_of(word);
    op->length = length;
    return op->memory = script_memory(length);
}

static void check_message(const Op *op, const xfer_event_t *event) {
    const uint64_t length = event->bytes < op->length ? event->bytes : op->length;
    uint64_t first = 0;
    memcpy(&first, op->memory, length < 8 ? length : 8);
    if (length >= 8 && first >> 63 == 0)
        broken("a message begins with %llx", (unsigned long long)first);
    for (uint64_t at = 0; at < length; at += 8) {
        const uint64_t expected = word_of((uint32_t)(first >> 32), at / 8, 0);
        if (length >= 8 &&
            memcmp(op->memory + at, &expected, length - at < 8 ? length - at : 8) != 0) {
            broken("byte %llu of %llu of a message is not its own", (unsigned long long)at,
                   (unsigned long long)length);
            return;
        }
    }
}

/* ---- what ended ---- */

static void settle_cells(const Op *op) {
    const uint8_t *memory = op->memory;
    for (uint32_t cell = 0; cell < kCells; cell++) {
        if (!(op->cells >> cell & 1)) continue;
        if (op->gets >> cell & 1)
            check_cell(op->lent, cell, (const uint64_t *)memory, op->lent->applied[cell], "get");
        else
            op->lent->applied[cell] = op->lent->begun[cell];
        memory += op->lent->words * sizeof(uint64_t);
    }
}

void cells_told(Op *op, const xfer_event_t *event) {
    const bool came = event->status == XFER_OK || event->status == XFER_ETRUNC;
    if (op->lent != NULL && event->status == XFER_OK) settle_cells(op);
    if (op->kind == XFER_EVENT_RECV && came && !sides[op->side].met_others)
        check_message(op, event);
    memset(op->memory, kGivenBack, op->length);
    if (op->lent != NULL) let_go(op);
}

void cells_quiet(const Op *op) {
    if (op->memory != NULL && op->events != 0 && !all_are(op->memory, op->length, kGivenBack))
        broken("memory was written to after the event %u that gave it back", op->kind);
}
