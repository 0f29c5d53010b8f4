/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of other versions. What an earlier one leaves out is default, and what a later one could
 * say is zero, or refused with the reason: no field, flag or number is passed over in silence. */
#include <string.h>
#include <xfer/text.h>

#include "inputs.h"

/* ---- structs that go in ---- */

/* Taken, whatever the call is about: what it begins ends with the scene. */
static void assert_taken(Scene *scene, const Input *input, const Given *given) {
    xfer_error_t err = {0};
    const xfer_status_t status = input->take(scene, given, &err);
    if (status != XFER_OK)
        fail_msg("%s with %u bytes of %s: %s: %s", input->function, given->size, input->name,
                 xfer_status_name(status), err.message);
}

static void test_longer_structs(void **state) {
    (void)state;
    static const uint32_t more[] = {8, 24, 1024};
    for (size_t i = 0; i < input_count; i++)
        for (size_t m = 0; m < sizeof more / sizeof more[0]; m++) {
            const Input *input = &inputs[i];
            Scene scene;
            Given given;
            char part[128];
            scene_open(&scene);
            fill_needed(&scene, input, &given);
            given.size = input->size + more[m];
            for (uint32_t at = input->size; at < given.size; at += more[m] - 1) {
                given.bytes[at] = 1;
                snprintf(part, sizeof part, "this library knows %u bytes of it, and byte %u is not",
                         input->size, at);
                assert_refusal(&scene, input, &given, XFER_E2BIG, part);
                given.bytes[at] = 0;
            }
            assert_taken(&scene, input, &given);
            host_end(scene.pair.client);
            host_end(scene.pair.server);
        }
}

/* Cut behind any field: what is not there is not read. */
static void test_shorter_structs(void **state) {
    (void)state;
    for (size_t i = 0; i < input_count; i++) {
        const Input *input = &inputs[i];
        uint32_t size = 8;
        do {
            Scene scene;
            Given given;
            scene_open(&scene); /* a drain is once, and a batch in flight takes nothing */
            const uint32_t needed = (uint32_t)fill_needed(&scene, input, &given);
            if (size < needed) size = needed;
            memset(given.bytes + size, 0xff, sizeof given.bytes - size);
            given.size = size;
            assert_taken(&scene, input, &given);
            host_end(scene.pair.client);
            host_end(scene.pair.server);
            size += 8;
        } while (size < input->size);
    }
}

/* ---- flags and numbers ---- */

/* Those that have a name: options that are flags set them, and nothing else. */
static uint32_t flags_of_engines(void) {
    uint32_t known = 0;
    xfer_option_info_t info;
    for (uint32_t i = 0; xfer_engine_option_at(i, &info, sizeof info) == XFER_OK; i++) {
        xfer_engine_options_t options = {.size = sizeof options};
        if (info.kind != XFER_OPTION_FLAG) continue;
        assert_status(xfer_engine_option_set(&options, info.name, "on", NULL), XFER_OK);
        assert_int_not_equal(options.flags, 0);
        known |= options.flags;
    }
    return known;
}

static void test_unknown_flags(void **state) {
    (void)state;
    Scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < input_count; i++) {
        const Input *input = &inputs[i];
        const bool engine = strcmp(input->name, "xfer_engine_options_t") == 0;
        const size_t at = engine ? offsetof(xfer_engine_options_t, flags) : input->flags_at;
        const uint32_t known = engine ? flags_of_engines() : input->flags;
        if (at == 0) continue;
        char part[64];
        snprintf(part, sizeof part, "%s.flags has unknown bits", input->name);
        for (int bit = 0; bit < 32; bit++) {
            Given given;
            const uint32_t flag = 1u << bit;
            if (known & flag) continue;
            fill_needed(&scene, input, &given);
            memcpy(given.bytes + at, &flag, sizeof flag);
            assert_refusal(&scene, input, &given, XFER_EINVAL, part);
        }
    }
}

/* Fields of numbers that have names. */
#define NUMBER(type, field_name, bad_value, refused, said)                        \
    {                                                                             \
        .type_name = #type, .at = offsetof(type, field_name), .value = bad_value, \
        .status = refused, .part = said                                           \
    }
static void test_unknown_numbers(void **state) {
    (void)state;
    static const struct {
        const char *type_name;
        size_t at;
        uint32_t value;
        xfer_status_t status;
        const char *part;
    } table[] = {
        NUMBER(xfer_engine_options_t, dispatch, 4, XFER_EINVAL, "dispatch is 4"),
        NUMBER(xfer_engine_options_t, dispatch, XFER_NONE, XFER_EINVAL, "dispatch is 4294967295"),
        NUMBER(xfer_region_options_t, access, 8, XFER_EINVAL, "access has unknown bits: 0x8"),
        NUMBER(xfer_region_options_t, access, 1u << 31, XFER_EINVAL, "unknown bits: 0x80000000"),
        NUMBER(xfer_grant_options_t, access, 9, XFER_EINVAL, "access has unknown bits: 0x8"),
        NUMBER(xfer_region_options_t, kind, 6, XFER_EMEMKIND, "xfer_region_options_t.kind"),
        NUMBER(xfer_region_options_t, kind, XFER_NONE, XFER_EMEMKIND, "xfer_region_options_t.kind"),
        NUMBER(xfer_listen_options_t, mode, 01000, XFER_EINVAL, "mode"),
        NUMBER(xfer_pages_t, index_size, 16, XFER_EINVAL, "index_size is neither 4 nor 8"),
    };
    Scene scene;
    scene_open(&scene);
    for (size_t t = 0; t < sizeof table / sizeof table[0]; t++)
        for (size_t i = 0; i < input_count; i++) {
            Given given;
            if (strcmp(inputs[i].name, table[t].type_name) != 0) continue;
            fill_needed(&scene, &inputs[i], &given);
            memcpy(given.bytes + table[t].at, &table[t].value, sizeof table[t].value);
            assert_refusal(&scene, &inputs[i], &given, table[t].status, table[t].part);
        }
}

static void assert_said(xfer_status_t status, xfer_status_t wanted, const char *part) {
    char line[kLine];
    uint32_t level;
    take_refusal(line, &level);
    assert_status(status, wanted);
    assert_has(line, part);
}

static void test_unknown_operations(void **state) {
    (void)state;
    static const uint32_t ops[] = {0, 3, XFER_NONE};
    Scene scene;
    scene_open(&scene);
    const xfer_span_t span = {.local = (uintptr_t)scene.memory, .length = 8};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        Given given;
        const char *part = "op is neither XFER_OP_PUT nor XFER_OP_GET";
        assert_said(
            xfer_batch_add_spans(scene.batch, ops[i], &scene.pair.ref, &span, sizeof span, 1, NULL),
            XFER_EINVAL, part);
        for (size_t n = 0; n < input_count; n++) {
            fill_needed(&scene, &inputs[n], &given);
            if (strcmp(inputs[n].name, "xfer_strided_t") == 0)
                assert_said(xfer_batch_add_strided(scene.batch, ops[i], (void *)&given, NULL),
                            XFER_EINVAL, part);
            if (strcmp(inputs[n].name, "xfer_pages_t") == 0)
                assert_said(xfer_batch_add_pages(scene.batch, ops[i], (void *)&given, NULL),
                            XFER_EINVAL, part);
        }
        assert_said(xfer_atomic(scene.pair.ep, ops[i], NULL, &scene.words, 0, 1, 0, 1, NULL),
                    XFER_EINVAL, "which is no atomic");
    }
}

/* A level to come is above all that there are. */
static void test_a_level_to_come(void **state) {
    (void)state;
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_POLL,
                                     .on_log = record_refusal,
                                     .log_level = XFER_LOG_DEBUG + 1};
    xfer_engine_t *engine = NULL;
    assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
    assert_said(xfer_engine_id(engine, NULL), XFER_EINVAL, "xfer_engine_id");
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
}

static void test_options_to_come(void **state) {
    (void)state;
    xfer_engine_options_t options = {.size = sizeof options}, before = options;
    xfer_error_t err;
    assert_status(xfer_engine_option_set(&options, "later", "1", &err), XFER_ENOTFOUND);
    assert_has(err.message, "later");
    assert_status(xfer_engine_option_set(&options, "dispatch", "later", &err), XFER_EINVAL);
    assert_has(err.message, "thread|loop|poll");
    assert_memory_equal(&options, &before, sizeof options);
    assert_string_equal(xfer_event_name(1000), "XFER_EVENT_UNKNOWN");
    assert_string_equal(xfer_memory_name(1000), "XFER_MEM_UNKNOWN");
    assert_string_equal(xfer_transport_name(1000), "XFER_TRANSPORT_UNKNOWN");
    assert_string_equal(xfer_status_name(-1000), "XFER_EUNKNOWN");
}

/* ---- arrays ---- */

static xfer_status_t add_spans(Scene *scene, const void *spans, uint32_t size, xfer_error_t *err) {
    return xfer_batch_add_spans(scene->batch, XFER_OP_PUT, &scene->pair.ref, spans, size, 2, err);
}

static xfer_status_t add_bases(Scene *scene, const void *bases, uint32_t size, xfer_error_t *err) {
    static const uint64_t page = 0;
    const xfer_pages_t pages = {.size = sizeof pages,
                                .base_size = size,
                                .index_size = sizeof page,
                                .length = 8,
                                .count = 1,
                                .local_pages = &page,
                                .remote_pages = &page,
                                .bases = bases,
                                .base_count = 2};
    return xfer_batch_add_pages(scene->batch, XFER_OP_PUT, &pages, err);
}

static void test_longer_elements(void **state) {
    (void)state;
    enum { kKnown = sizeof(xfer_span_t), kLater = kKnown + 16 };
    _Static_assert(sizeof(xfer_page_base_t) == kKnown, "both may lie in one array");
    Scene scene;
    scene_open(&scene);
    const uint64_t local = (uintptr_t)scene.memory;
    const xfer_span_t span = {.local = local, .length = 8};
    const xfer_page_base_t base = {.local = local, .remote = &scene.pair.ref};
    const struct {
        xfer_status_t (*add)(Scene *, const void *, uint32_t, xfer_error_t *);
        const void *element;
        const char *part, *size;
    } table[] = {
        {add_spans, &span,
         "span 1: this library knows 24 bytes of xfer_span_t, and byte 39 is not 0", "span_size"},
        {add_bases, &base,
         "base 1: this library knows 24 bytes of xfer_page_base_t, and byte 39 is not 0",
         "xfer_pages_t.base_size"},
    };
    for (int i = 0; i < 2; i++) {
        xfer_error_t err;
        char part[64];
        _Alignas(8) uint8_t array[2 * kLater] = {0};
        memcpy(array, table[i].element, kKnown);
        memcpy(array + kLater, table[i].element, kKnown);
        assert_status(table[i].add(&scene, array, kLater, &err), XFER_OK);
        assert_status(submit_now(scene.pair.client, scene.batch), XFER_OK);
        xfer_status_t statuses[2];
        assert_status(xfer_batch_entries(scene.batch, 0, 2, statuses), XFER_OK);
        array[sizeof array - 1] = 1;
        assert_status(table[i].add(&scene, array, kLater, &err), XFER_E2BIG);
        assert_has(err.message, table[i].part);
        assert_status(xfer_batch_entries(scene.batch, 0, 3, statuses), XFER_ERANGE);
        assert_status(table[i].add(&scene, array, kKnown - 1, &err), XFER_EINVAL);
        snprintf(part, sizeof part, "%s is 23: set it to sizeof", table[i].size);
        assert_has(err.message, part);
        assert_status(table[i].add(&scene, array, 0xa5a5a5a5, &err), XFER_E2BIG);
        assert_has(err.message, table[i].size);
        assert_status(xfer_batch_reset(scene.batch), XFER_OK);
    }
}

/* ---- what comes out ---- */

typedef xfer_status_t (*Give)(Scene *scene, void *out, uint32_t size);

static xfer_status_t region_info(Scene *scene, void *out, uint32_t size) {
    return xfer_region_info(scene->pair.region, out, size);
}
static xfer_status_t ref_info(Scene *scene, void *out, uint32_t size) {
    return xfer_ref_info(&scene->pair.ref, out, size);
}
static xfer_status_t ep_peer(Scene *scene, void *out, uint32_t size) {
    return xfer_ep_peer(scene->pair.ep, out, size);
}
static xfer_status_t ep_stats(Scene *scene, void *out, uint32_t size) {
    return xfer_ep_stats(scene->pair.ep, out, size);
}
static xfer_status_t engine_stats(Scene *scene, void *out, uint32_t size) {
    return xfer_engine_stats(scene->pair.server->engine, out, size);
}
static xfer_status_t peek(Scene *scene, void *out, uint32_t size) {
    return xfer_peek(scene->pair.server->engine, NULL, 0, 0, out, size);
}
static xfer_status_t option_at(Scene *scene, void *out, uint32_t size) {
    (void)scene;
    return xfer_engine_option_at(1, out, size);
}

/* Written up to the size that is passed; zeros past what the library knows. */
static void test_outputs_of_every_size(void **state) {
    (void)state;
    static const struct {
        const char *name;
        Give give;
        uint32_t known;
        uint32_t steady; /* bytes at the start that do not move meanwhile */
    } table[] = {
        {"xfer_region_info_t", region_info, sizeof(xfer_region_info_t), UINT32_MAX},
        {"xfer_ref_info_t", ref_info, sizeof(xfer_ref_info_t), UINT32_MAX},
        {"xfer_peer_info_t", ep_peer, sizeof(xfer_peer_info_t), UINT32_MAX},
        {"xfer_message_info_t", peek, sizeof(xfer_message_info_t), UINT32_MAX},
        {"xfer_option_info_t", option_at, sizeof(xfer_option_info_t), UINT32_MAX},
        {"xfer_ep_stats_t", ep_stats, sizeof(xfer_ep_stats_t), offsetof(xfer_ep_stats_t, queued)},
        {"xfer_engine_stats_t", engine_stats, sizeof(xfer_engine_stats_t),
         offsetof(xfer_engine_stats_t, errors)},
    };
    enum { kRoom = 8192, kMore = 64 };
    Scene scene;
    scene_open(&scene);
    assert_status(xfer_send(scene.pair.ep, "later", 5, 1, 1, NULL), XFER_OK);
    assert_status(wait_event(scene.pair.client, XFER_EVENT_SEND, 1, kPatience).status, XFER_OK);
    uint8_t *whole = test_memory(kRoom), *part = test_memory(kRoom);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const uint32_t known = table[i].known;
        assert_true(known + kMore < kRoom);
        assert_status(table[i].give(&scene, whole, known), XFER_OK);
        assert_status(table[i].give(&scene, part, 3), XFER_EINVAL);
        for (uint32_t size = 4; size <= known + kMore; size += 4) {
            const uint32_t steady = table[i].steady < known ? table[i].steady : known;
            memset(part, 0xee, kRoom);
            assert_status(table[i].give(&scene, part, size), XFER_OK);
            if (memcmp(part, whole, size < steady ? size : steady) != 0)
                fail_msg("%s of %u bytes is another", table[i].name, size);
            for (uint32_t at = known; at < size; at++)
                assert_int_equal(part[at], 0);
            for (uint32_t at = size; at < size + kMore; at++)
                assert_int_equal(part[at], 0xee);
        }
    }
}

/* What is wrong with events that lie `size` bytes apart; NULL: nothing. */
static const char *wrong_events(const uint8_t *room, uint32_t size, uint32_t count) {
    const uint32_t known = size < sizeof(xfer_event_t) ? size : sizeof(xfer_event_t);
    for (uint32_t i = 0; i < count; i++) {
        xfer_event_t event = {.status = XFER_ETIMEDOUT, .user = 7};
        memcpy(&event, room + i * size, known);
        if (event.kind != XFER_EVENT_COUNTER || event.status != XFER_ETIMEDOUT || event.user != 7)
            return "an event is not where it should be";
        for (uint32_t at = known; at < size; at++)
            if (room[i * size + at] != 0) return "an event does not end with zeros";
    }
    return room[count * size] == 0xee ? NULL : "what is behind the last event was written to";
}

/* Events lie one behind the other, as far apart as the caller says. */
static void test_events_of_every_size(void **state) {
    (void)state;
    enum { kEvents = 3, kMore = 40, kRoom = (kEvents + 1) * (sizeof(xfer_event_t) + kMore) };
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *engine = NULL;
    assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
    uint8_t *room = test_memory(kRoom);
    const char *wrong = NULL;
    uint32_t count = 0;
    uint64_t key = 0;
    for (uint32_t size = 4; size <= sizeof(xfer_event_t) + kMore && !wrong; size += 12) {
        for (int i = 0; i < kEvents; i++) {
            const xfer_counter_options_t soon = {.size = sizeof soon, .timeout_ms = 1, .user = 7};
            xfer_counter_t *counter;
            assert_status(xfer_counter_open(engine, ++key, 1, &soon, &counter, NULL), XFER_OK);
        }
        for (uint32_t came = 0; came < kEvents && !wrong; came += count) {
            memset(room, 0xee, kRoom);
            assert_status(
                xfer_engine_poll(engine, (xfer_event_t *)room, size, kEvents, kPatience, &count),
                XFER_OK);
            wrong = count == 0 ? "the events do not come" : wrong_events(room, size, count);
        }
    }
    xfer_event_t event;
    const xfer_status_t too_small = xfer_engine_poll(engine, &event, 3, 1, 0, &count);
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
    assert_status(too_small, XFER_EINVAL);
    if (wrong) fail_msg("%s", wrong);
}

static const struct CMUnitTest tests[] = {
    TEST(test_longer_structs),        TEST(test_shorter_structs),
    TEST(test_unknown_flags),         TEST(test_unknown_numbers),
    TEST(test_unknown_operations),    TEST(test_a_level_to_come),
    TEST(test_options_to_come),       TEST(test_longer_elements),
    TEST(test_outputs_of_every_size), TEST(test_events_of_every_size),
};

TEST_MAIN(tests)
