/* SPDX-License-Identifier: Apache-2.0
 *
 * What is added to a batch is there as a whole, or not at all: also where memory or a limit ends in
 * the middle. */
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "inject.h"

enum { kLength = 4096, kSpans = 300, kBases = 3, kPages = 4, kMaxRemotes = 65536 };

typedef struct Scene {
    Pair pair;
    uint8_t *local;
    xfer_batch_t *batch;
    xfer_ref_t first;        /* what the batch names already */
    xfer_ref_t refs[kBases]; /* what it does not */
} Scene;

static xfer_ref_t grant_at(Scene *scene, uint64_t offset, uint64_t length) {
    const xfer_grant_options_t options = {
        .size = sizeof options, .access = XFER_WRITE, .offset = offset, .length = length};
    xfer_ref_t ref;
    assert_status(xfer_region_grant(scene->pair.region, &options, &ref, NULL), XFER_OK);
    return ref;
}

static void scene_open(Scene *scene, const Mode *mode, uint64_t length) {
    pair_open(&scene->pair, mode, length);
    scene->local = test_memory(kLength);
    assert_status(xfer_batch_open(scene->pair.ep, NULL, &scene->batch, NULL), XFER_OK);
    scene->first = grant_at(scene, 0, kLength);
    for (int i = 0; i < kBases; i++)
        scene->refs[i] = grant_at(scene, 0, kLength);
}

/* Each adds entries of one byte by refs that the batch does not name yet. */
typedef xfer_status_t (*Add)(Scene *scene, xfer_error_t *err);

static xfer_status_t add_put(Scene *scene, xfer_error_t *err) {
    *err = (xfer_error_t){0};
    return xfer_batch_put(scene->batch, scene->local, &scene->refs[0], 0, 1);
}

static xfer_status_t add_spans_of(Scene *scene, const xfer_ref_t *ref, xfer_error_t *err) {
    xfer_span_t spans[kSpans];
    for (uint64_t i = 0; i < kSpans; i++)
        spans[i] = (xfer_span_t){(uintptr_t)scene->local + i, i, 1};
    return xfer_batch_add_spans(scene->batch, XFER_OP_PUT, ref, spans, sizeof *spans, kSpans, err);
}

static xfer_status_t add_spans(Scene *scene, xfer_error_t *err) {
    return add_spans_of(scene, &scene->refs[0], err);
}

/* Behind others of the same ref, in their run. */
static xfer_status_t add_more_spans(Scene *scene, xfer_error_t *err) {
    return add_spans_of(scene, &scene->first, err);
}

static xfer_status_t add_strided(Scene *scene, xfer_error_t *err) {
    const xfer_strided_t strided = {.size = sizeof strided,
                                    .local = (uintptr_t)scene->local,
                                    .local_stride = 2,
                                    .remote = &scene->refs[0],
                                    .remote_stride = 2,
                                    .length = 1,
                                    .count = kSpans};
    return xfer_batch_add_strided(scene->batch, XFER_OP_PUT, &strided, err);
}

static xfer_status_t add_pages(Scene *scene, xfer_error_t *err) {
    const uint32_t numbers[kPages] = {0, 1, 2, 3};
    xfer_page_base_t bases[kBases];
    for (int i = 0; i < kBases; i++)
        bases[i] = (xfer_page_base_t){(uintptr_t)scene->local, &scene->refs[i], 0};
    const xfer_pages_t pages = {.size = sizeof pages,
                                .base_size = sizeof *bases,
                                .index_size = 4,
                                .length = 1,
                                .count = kPages,
                                .local_pages = numbers,
                                .remote_pages = numbers,
                                .bases = bases,
                                .base_count = kBases};
    return xfer_batch_add_pages(scene->batch, XFER_OP_PUT, &pages, err);
}

static const struct {
    Add add;
    uint64_t entries;
} adds[] = {{add_put, 1},
            {add_spans, kSpans},
            {add_more_spans, kSpans},
            {add_strided, kSpans},
            {add_pages, kBases *kPages}};
enum { kAdds = sizeof adds / sizeof *adds };

static void assert_moves(Scene *scene, uint64_t entries) {
    xfer_batch_info_t info;
    assert_status(submit_now(scene->pair.client, scene->batch), XFER_OK);
    assert_status(xfer_batch_info(scene->batch, &info, sizeof info), XFER_OK);
    assert_int_equal(info.entries, entries);
    assert_int_equal(info.bytes, entries);
}

/* Its refs are not named either. */
static void assert_unnamed(Scene *scene) {
    for (int i = 0; i < kBases; i++)
        assert_status(xfer_batch_rebind(scene->batch, &scene->refs[i], &scene->first, NULL),
                      XFER_ENOTFOUND);
}

static void test_memory_ends(void **state) {
    Scene scene;
    scene_open(&scene, *state, kLength);
    for (int i = 0; i < kAdds; i++) {
        xfer_status_t status = XFER_ENOMEM;
        for (long nth = 1; status != XFER_OK; nth++) {
            const Fault fault = {.call = kAlloc, .error = ENOMEM, .nth = nth, .here = true};
            xfer_error_t err;
            xfer_batch_close(scene.batch);
            assert_status(xfer_batch_open(scene.pair.ep, NULL, &scene.batch, NULL), XFER_OK);
            assert_status(xfer_batch_put(scene.batch, scene.local, &scene.first, 0, 1), XFER_OK);
            inject_arm(&fault);
            status = adds[i].add(&scene, &err);
            inject_disarm();
            if (status == XFER_OK) break;
            assert_status(status, XFER_ENOMEM);
            assert_unnamed(&scene);
            assert_moves(&scene, 1);
            assert_true(nth < 100);
        }
        assert_moves(&scene, 1 + adds[i].entries);
    }
}

/* All refs but one are taken: the second of the pages is one too many, and the first not named. */
static void test_refs_end(void **state) {
    Scene scene;
    scene_open(&scene, *state, kMaxRemotes);
    for (uint64_t i = 0; i < kMaxRemotes - 1; i++) {
        const xfer_ref_t ref = grant_at(&scene, i, 1);
        assert_status(xfer_batch_put(scene.batch, scene.local, &ref, 0, 1), XFER_OK);
    }
    xfer_error_t err;
    assert_status(add_pages(&scene, &err), XFER_ETOOBIG);
    assert_non_null(strstr(err.message, "65536 refs"));
    assert_unnamed(&scene);
    assert_status(add_spans(&scene, &err), XFER_OK); /* the last place is free */
    assert_moves(&scene, kMaxRemotes - 1 + kSpans);
}

static const struct CMUnitTest tests[] = {
    ONE_MODE(test_memory_ends),
    ONE_MODE(test_refs_end),
};

TEST_MAIN(tests)
