/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of an engine by name: each field and flag of the header has one, each can be set, and
 * an engine opens with it. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <xfer/text.h>

#include "fixture.h"
#include "lists.h" /* made of xfer.h */

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define ENTRY(name) {#name, name},
#define FIELD(field) \
    {#field, offsetof(xfer_engine_options_t, field), sizeof(((xfer_engine_options_t *)0)->field)},

static const struct Number {
    const char *name;
    uint32_t number;
} flags[] = {LISTED_ENGINE_FLAGS(ENTRY)}, dispatches[] = {LISTED_DISPATCHES(ENTRY)},
  log_levels[] = {LISTED_LOG_LEVELS(ENTRY)};

static const struct Field {
    const char *name;
    size_t offset, size;
} fields[] = {LISTED_ENGINE_OPTIONS(FIELD)};

/* Fields that no text stands for, as text.h says. */
static const char *const without[] = {"size",       "flags",   "reserved", "blob_length",
                                      "key_length", "uv_loop", "on_event", "on_log",
                                      "rdma",       "cuda",    "tls"};

static const struct Field *field_of(const char *name) {
    for (size_t i = 0; i < COUNT(fields); i++)
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

/* "checksum" of "XFER_ENGINE_CHECKSUM" */
static void lower(const char *from, const char *prefix, char *to) {
    assert_memory_equal(from, prefix, strlen(prefix));
    from += strlen(prefix);
    do
        *to++ = (char)tolower((unsigned char)*from);
    while (*from++);
}

static uint32_t flag_of(const char *name) {
    char known[64];
    for (size_t i = 0; i < COUNT(flags); i++) {
        lower(flags[i].name, "XFER_ENGINE_", known);
        if (strcmp(known, name) == 0) return flags[i].number;
    }
    return 0;
}

static bool find(const char *name, xfer_option_info_t *info) {
    for (uint32_t i = 0; xfer_engine_option_at(i, info, sizeof *info) == XFER_OK; i++)
        if (strcmp(info->name, name) == 0) return true;
    return false;
}

static xfer_engine_options_t empty(void) {
    return (xfer_engine_options_t){.size = sizeof(xfer_engine_options_t)};
}

/* ---- what there is ---- */

/* A field or a flag that is new in the header needs an option, or a line in text.h that says why it
 * has none. */
static void test_every_field_has_an_option(void **state) {
    (void)state;
    xfer_option_info_t info;
    char name[64];
    for (size_t i = 0; i < COUNT(fields); i++) {
        int listed = find(fields[i].name, &info) ? 1 : 0;
        for (size_t k = 0; k < COUNT(without); k++)
            listed += strcmp(fields[i].name, without[k]) == 0;
        if (listed != 1) fail_msg("%s has %d places", fields[i].name, listed);
    }
    for (size_t i = 0; i < COUNT(flags); i++) {
        lower(flags[i].name, "XFER_ENGINE_", name);
        if (!find(name, &info)) fail_msg("no option for %s", flags[i].name);
        assert_int_equal(info.kind, XFER_OPTION_FLAG);
    }
    for (size_t k = 0; k < COUNT(without); k++)
        if (!field_of(without[k])) fail_msg("%s is no field", without[k]);
}

static void test_enumeration(void **state) {
    (void)state;
    xfer_option_info_t info;
    xfer_option_info_t other;
    uint32_t count = 0;
    for (; xfer_engine_option_at(count, &info, sizeof info) == XFER_OK; count++) {
        if (!field_of(info.name) && !flag_of(info.name)) fail_msg("%s is nothing", info.name);
        assert_true(strlen(info.values) > 0);
        assert_true(strlen(info.help) > 0 && strlen(info.help) < 80);
        assert_true(info.kind >= XFER_OPTION_NUMBER && info.kind <= XFER_OPTION_CHOICE);
        assert_int_equal(info.reserved, 0);
        for (uint32_t i = 0; i < count; i++) {
            assert_status(xfer_engine_option_at(i, &other, sizeof other), XFER_OK);
            assert_string_not_equal(info.name, other.name);
        }
    }
    assert_true(count > COUNT(flags));
    assert_status(xfer_engine_option_at(count, &info, sizeof info), XFER_ENOTFOUND);
    assert_status(xfer_engine_option_at(UINT32_MAX, &info, sizeof info), XFER_ENOTFOUND);
    assert_status(xfer_engine_option_at(0, NULL, sizeof info), XFER_EINVAL);
    assert_status(xfer_engine_option_at(0, &info, 3), XFER_EINVAL);
    struct {
        xfer_option_info_t info;
        uint8_t beyond[8];
    } longer;
    memset(&longer, 0xee, sizeof longer);
    assert_status(xfer_engine_option_at(0, &longer.info, sizeof longer), XFER_OK);
    for (size_t i = 0; i < sizeof longer.beyond; i++)
        assert_int_equal(longer.beyond[i], 0);
}

/* ---- setting each ---- */

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event, (void)user;
}

/* With what no text can stand for. */
static void assert_opens(xfer_engine_options_t options, const char *name) {
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    if (options.flags & XFER_ENGINE_UNREF) options.dispatch = XFER_DISPATCH_LOOP;
    if (options.dispatch != XFER_DISPATCH_POLL) options.on_event = ignore_event;
    if (options.dispatch == XFER_DISPATCH_LOOP) options.uv_loop = &loop;
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    if (xfer_engine_open(&options, &engine, &err) != XFER_OK) fail_msg("%s: %s", name, err.message);
    assert_status(xfer_engine_close(engine), XFER_OK);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* `options` is one to which only `text` was set by that name: `wanted` at the field, else nothing.
 */
static void assert_set(const char *name, const char *text, const void *wanted, size_t size) {
    xfer_engine_options_t options = empty();
    xfer_engine_options_t expected = empty();
    xfer_error_t err;
    const struct Field *field = field_of(flag_of(name) ? "flags" : name);
    assert_non_null(field);
    assert_int_equal(field->size, size);
    memcpy((char *)&expected + field->offset, wanted, size);
    if (strcmp(name, "blob") == 0) expected.blob_length = strlen(text);
    if (strcmp(name, "key") == 0) expected.key_length = strlen(text);
    memset(&err, 0xee, sizeof err);
    const xfer_status_t status = xfer_engine_option_set(&options, name, text, &err);
    if (status != XFER_OK) fail_msg("%s: %s", name, err.message);
    assert_int_equal(err.status, XFER_OK);
    assert_string_equal(err.message, "");
    if (memcmp(&options, &expected, sizeof options) != 0) fail_msg("%s is set otherwise", name);
    assert_opens(options, name);
    /* A second text takes the place of the first, here of ones. */
    memset((char *)&options + field->offset, flag_of(name) ? 0 : 1, field->size);
    assert_status(xfer_engine_option_set(&options, name, text, NULL), XFER_OK);
    assert_memory_equal(&options, &expected, sizeof options);
}

static void set_number(const xfer_option_info_t *info) {
    const uint32_t seven = 7;
    const uint32_t none = XFER_NONE;
    const uint64_t wide = UINT64_MAX;
    const struct Field *field = field_of(info->name);
    assert_non_null(field);
    if (field->size == sizeof wide) {
        assert_set(info->name, "18446744073709551615", &wide, sizeof wide);
        return;
    }
    assert_set(info->name, "7", &seven, sizeof seven);
    assert_set(info->name, "007", &seven, sizeof seven);
    if (strcmp(info->values, "NUMBER|none") == 0)
        assert_set(info->name, "none", &none, sizeof none);
}

static void set_flag(const xfer_option_info_t *info) {
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};
    const uint32_t flag = flag_of(info->name);
    for (size_t i = 0; i < COUNT(yes); i++)
        assert_set(info->name, yes[i], &flag, sizeof flag);
    for (size_t i = 0; i < COUNT(no); i++) {
        xfer_engine_options_t options = empty();
        options.flags = UINT32_MAX;
        assert_status(xfer_engine_option_set(&options, info->name, no[i], NULL), XFER_OK);
        assert_int_equal(options.flags, UINT32_MAX & ~flag);
    }
}

static void set_text(const xfer_option_info_t *info) {
    static const struct {
        const char *name, *text;
    } texts[] = {{"blob", "dtype=f16"},
                 {"key", "an open secret of thirty-two b.."},
                 {"transports", "loopback,tcp"},
                 {"advertise", "tcp://127.0.0.1:7000,tcp://[::1]:7000"}};
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (strcmp(texts[i].name, info->name) != 0) continue;
        const char *text = texts[i].text;
        assert_set(info->name, text, &text, sizeof text);
        return;
    }
    fail_msg("no text for %s", info->name);
}

static void set_hex(const xfer_option_info_t *info) {
    static const uint8_t bytes[16] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                                      0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    assert_set(info->name, "00112233445566778899aabbccddeeff", bytes, sizeof bytes);
    assert_set(info->name, "00112233445566778899AABBCCDDEEFF", bytes, sizeof bytes);
}

/* The words are those of the enum, and in `values`. */
static void set_choice(const xfer_option_info_t *info) {
    const bool levels = strcmp(info->name, "log_level") == 0;
    const struct Number *numbers = levels ? log_levels : dispatches;
    const size_t count = levels ? COUNT(log_levels) : COUNT(dispatches);
    char word[64];
    char words[128] = "";
    for (size_t i = 0; i < count; i++) {
        lower(numbers[i].name, levels ? "XFER_LOG_" : "XFER_DISPATCH_", word);
        assert_set(info->name, word, &numbers[i].number, sizeof numbers[i].number);
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", i ? "|" : "", word);
    }
    assert_string_equal(info->values, words);
}

static void test_each(void **state) {
    (void)state;
    static void (*const sets[])(const xfer_option_info_t *) = {
        [XFER_OPTION_NUMBER] = set_number, [XFER_OPTION_TEXT] = set_text,
        [XFER_OPTION_FLAG] = set_flag,     [XFER_OPTION_HEX] = set_hex,
        [XFER_OPTION_CHOICE] = set_choice,
    };
    xfer_option_info_t info;
    for (uint32_t i = 0; xfer_engine_option_at(i, &info, sizeof info) == XFER_OK; i++)
        sets[info.kind](&info);
}

/* As a command line has them: an engine with all that it was told, and what it says of itself. */
static void test_together(void **state) {
    (void)state;
    static const char *const words[][2] = {{"dispatch", "poll"},
                                           {"io_threads", "none"},
                                           {"spin_us", "5"},
                                           {"lanes", "2"},
                                           {"stall_ms", "1234"},
                                           {"insecure", "yes"},
                                           {"checksum", "yes"},
                                           {"transports", "loopback,tcp"},
                                           {"checksum", "no"},
                                           {"max_connections", "9"},
                                           {"id", "0123456789abcdef0123456789abcdef"}};
    xfer_engine_options_t options = empty();
    for (size_t i = 0; i < COUNT(words); i++)
        assert_status(xfer_engine_option_set(&options, words[i][0], words[i][1], NULL), XFER_OK);
    xfer_engine_t *engine;
    assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
    char *json = test_memory(65536);
    uint64_t needed;
    assert_status(xfer_engine_describe(engine, json, 65536, &needed), XFER_OK);
    static const char *const parts[] = {"\"dispatch\": \"poll\"",
                                        "\"io_threads\": 0",
                                        "\"spin_us\": 5",
                                        "\"lanes\": 2",
                                        "\"stall_ms\": 1234",
                                        "\"insecure\": true",
                                        "\"checksum\": false",
                                        "\"max_connections\": 9",
                                        "\"id\": \"0123456789abcdef0123456789abcdef\""};
    for (size_t i = 0; i < COUNT(parts); i++)
        if (!strstr(json, parts[i])) fail_msg("no %s", parts[i]);
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
}

/* ---- mistakes ---- */

static void assert_refused(xfer_engine_options_t *options, const char *name, const char *text,
                           xfer_status_t wanted, const char *message) {
    const xfer_engine_options_t before = *options;
    xfer_error_t err;
    memset(&err, 0xee, sizeof err);
    const xfer_status_t status = xfer_engine_option_set(options, name, text, &err);
    if (status != wanted) fail_msg("%s = \"%s\": %s", name, text, xfer_status_name(status));
    assert_int_equal(err.status, wanted);
    if (!strstr(err.message, message)) fail_msg("\"%s\" has no \"%s\"", err.message, message);
    assert_memory_equal(options, &before, sizeof before);
    assert_status(xfer_engine_option_set(options, name, text, NULL), wanted);
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        xfer_status_t status;
        const char *message;
    } table[] = {
        {"lane", "1", XFER_ENOTFOUND, "no option is called \"lane\""},
        {"", "1", XFER_ENOTFOUND, "no option is called \"\""},
        {"flags", "1", XFER_ENOTFOUND, "no option is called \"flags\""},
        {"key_length", "1", XFER_ENOTFOUND, "no option is called \"key_length\""},
        {"Lanes", "1", XFER_ENOTFOUND, "no option is called \"Lanes\""},
        {"lanes", "many", XFER_EINVAL,
         "option lanes is \"many\": it may be a number up to 4294967294, or none"},
        {"lanes", "", XFER_EINVAL, "option lanes is \"\""},
        {"lanes", "-1", XFER_EINVAL, "a number"},
        {"lanes", "+1", XFER_EINVAL, "a number"},
        {"lanes", " 1", XFER_EINVAL, "a number"},
        {"lanes", "1 ", XFER_EINVAL, "a number"},
        {"lanes", "0x1", XFER_EINVAL, "a number"},
        {"lanes", "1e3", XFER_EINVAL, "a number"},
        {"lanes", "None", XFER_EINVAL, "or none"},
        {"lanes", "4294967295", XFER_EINVAL, "or none"},
        {"lanes", "4294967296", XFER_EINVAL, "a number"},
        {"lanes", "99999999999999999999", XFER_EINVAL, "a number"},
        {"stall_ms", "none", XFER_EINVAL, "it may be a number up to 4294967294"},
        {"user", "18446744073709551616", XFER_EINVAL, "up to 18446744073709551615"},
        {"user", "none", XFER_EINVAL, "a number"},
        {"dispatch", "pull", XFER_EINVAL,
         "option dispatch is \"pull\": it may be one of thread|loop|poll"},
        {"dispatch", "thread|loop", XFER_EINVAL, "one of"},
        {"dispatch", "thr", XFER_EINVAL, "one of"},
        {"dispatch", "", XFER_EINVAL, "one of"},
        {"dispatch", "1", XFER_EINVAL, "one of"},
        {"checksum", "maybe", XFER_EINVAL, "option checksum is \"maybe\": it may be one of yes|no"},
        {"checksum", "", XFER_EINVAL, "yes|no"},
        {"id", "0123456789abcdef0123456789abcde", XFER_EINVAL, "32 hexadecimal digits"},
        {"id", "0123456789abcdef0123456789abcdef0", XFER_EINVAL, "32 hexadecimal digits"},
        {"id", "0123456789abcdef0123456789abcdeg", XFER_EINVAL, "32 hexadecimal digits"},
        {"id", "0123456789abcdef0123456789abcde\x80", XFER_EINVAL, "32 hexadecimal digits"},
        {"id", "01234567-89ab-cdef-0123-456789abcdef", XFER_EINVAL, "32 hexadecimal digits"},
    };
    xfer_engine_options_t options = empty();
    for (size_t i = 0; i < COUNT(table); i++)
        assert_refused(&options, table[i].name, table[i].text, table[i].status, table[i].message);
    assert_refused(&options, NULL, "1", XFER_EINVAL, "name is NULL");
    assert_refused(&options, "lanes", NULL, XFER_EINVAL, "text is NULL");
    xfer_error_t err;
    assert_status(xfer_engine_option_set(NULL, "lanes", "1", &err), XFER_EINVAL);
    assert_string_equal(err.message, "options is NULL");
}

/* A long text still leaves room for what would be right. */
static void test_long_text(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    xfer_engine_options_t options = empty();
    assert_refused(&options, "lanes", text, XFER_EINVAL, "it may be a number");
    assert_refused(&options, text, "1", XFER_ENOTFOUND, "no option is called \"xxx");
}

/* Those of an earlier version end before fields that this one knows; nothing behind is written. */
static void test_other_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(fields); i++) {
        xfer_option_info_t info;
        if (!find(fields[i].name, &info) || info.kind == XFER_OPTION_HEX) continue;
        const char *text = "1";
        if (info.kind == XFER_OPTION_CHOICE) text = strcmp(info.name, "dispatch") ? "warn" : "poll";
        size_t end = fields[i].offset + fields[i].size;
        if (strcmp(info.name, "blob") == 0 || strcmp(info.name, "key") == 0) end += 8;
        const size_t before = (end - 1) & ~(size_t)7;
        const size_t after = (end + 7) & ~(size_t)7;
        xfer_engine_options_t *options = test_memory(after);
        options->size = (uint32_t)after;
        assert_status(xfer_engine_option_set(options, info.name, text, NULL), XFER_OK);
        if (before == 0) continue; /* there is always a size */
        options = test_memory(before);
        options->size = (uint32_t)before;
        xfer_error_t err;
        assert_status(xfer_engine_option_set(options, info.name, text, &err), XFER_EINVAL);
        if (!strstr(err.message, "that one has no")) fail_msg("%s", err.message);
    }
    xfer_engine_options_t options = {.size = 0};
    assert_refused(&options, "lanes", "1", XFER_EINVAL, "set it to sizeof(xfer_engine_options_t)");
    options = empty();
    options.reserved[1] = 1;
    assert_refused(&options, "lanes", "1", XFER_E2BIG, "reserved");
}

static const struct CMUnitTest tests[] = {
    TEST(test_every_field_has_an_option),
    TEST(test_enumeration),
    TEST(test_each),
    TEST(test_together),
    TEST(test_mistakes),
    TEST(test_long_text),
    TEST(test_other_sizes),
};

TEST_MAIN(tests)
