/* SPDX-License-Identifier: Apache-2.0
 *
 * Refs and identities as text, the names of numbers, and what native codes mean. */
#include <errno.h>
#include <string.h>
#include <xfer/text.h>

#include "fixture.h"
#include "lists.h" /* made of xfer.h */

static const char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* ---- base64url, by the RFC and not by the library ---- */

static void encode(const uint8_t *bytes, size_t length, char *text) {
    for (size_t i = 0; i < length; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        for (int shift = 18; shift >= 0; shift -= 6)
            *text++ = kAlphabet[group >> shift & 63];
    }
    *text = '\0';
}

static xfer_ref_t ref_of(Host *host) {
    xfer_region_t *region =
        open_region(host, "memory", XFER_READ | XFER_WRITE, test_memory(4096), 4096);
    xfer_ref_t ref;
    assert_status(xfer_region_ref(region, &ref), XFER_OK);
    return ref;
}

/* ---- refs ---- */

static void test_ref(void **state) {
    const xfer_ref_t ref = ref_of(host_open(*state));
    char *text = test_memory(XFER_REF_TEXT_SIZE);
    char wanted[XFER_REF_TEXT_SIZE];
    encode(ref.bytes, sizeof ref.bytes, wanted);
    assert_status(xfer_ref_text(&ref, text, XFER_REF_TEXT_SIZE), XFER_OK);
    assert_string_equal(text, wanted);
    assert_int_equal(strlen(text), XFER_REF_TEXT_SIZE - 1);
    assert_int_equal(strspn(text, kAlphabet), XFER_REF_TEXT_SIZE - 1);
    assert_true(text[0] != '-' && text[0] != '_'); /* or it is taken for an option */
    xfer_ref_t again;
    memset(&again, 0xee, sizeof again);
    assert_status(xfer_ref_parse(text, &again), XFER_OK);
    assert_memory_equal(&again, &ref, sizeof ref);
}

/* A text goes to another process, and what it names is reached there. */
static void test_ref_works(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    char text[XFER_REF_TEXT_SIZE];
    assert_status(xfer_ref_text(&pair.ref, text, sizeof text), XFER_OK);
    xfer_ref_t ref;
    assert_status(xfer_ref_parse(text, &ref), XFER_OK);
    uint8_t *local = test_memory(64);
    fill(local, 64, 7);
    assert_status(put_now(pair.client, pair.ep, local, &ref, 100, 64), XFER_OK);
    assert_true(filled(pair.memory + 100, 64, 7, 0));
}

static void assert_no_ref(const char *text, xfer_status_t wanted) {
    xfer_ref_t ref;
    memset(&ref, 0xee, sizeof ref);
    const xfer_ref_t before = ref;
    const xfer_status_t status = xfer_ref_parse(text, &ref);
    if (status != wanted) fail_msg("\"%s\": %s", text, xfer_status_name(status));
    assert_memory_equal(&ref, &before, sizeof ref);
}

static void test_no_ref(void **state) {
    xfer_ref_t ref = ref_of(host_open(*state));
    char good[XFER_REF_TEXT_SIZE];
    char text[XFER_REF_TEXT_SIZE + 8];
    assert_status(xfer_ref_text(&ref, good, sizeof good), XFER_OK);
    assert_no_ref("", XFER_EINVAL);
    static const char *const around[][2] = {{" ", ""},  {"", " "},    {"", "\n"}, {"", "="},
                                            {"", "=="}, {"", "AAAA"}, {"A", ""},  {"\t", "\n"}};
    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
        snprintf(text, sizeof text, "%s%s%s", around[i][0], good, around[i][1]);
        assert_no_ref(text, XFER_EINVAL);
    }
    for (size_t length = 0; length < sizeof good - 1; length++) {
        snprintf(text, sizeof text, "%.*s", (int)length, good);
        assert_no_ref(text, XFER_EINVAL);
    }
    /* Each place with what is no base64url there, the other alphabet's too. */
    for (size_t at = 0; at < sizeof good - 1; at++) {
        for (const char *wrong = "+/= .\n\x80~"; *wrong; wrong++) {
            memcpy(text, good, sizeof good);
            text[at] = *wrong;
            assert_no_ref(text, XFER_EINVAL);
        }
    }
    /* Each place with any other letter: the sum sees that. Of another version it can't be asked. */
    for (size_t at = 0; at < sizeof good - 1; at++) {
        if (at >= 5 && at <= 10) continue; /* bytes 4 to 7 */
        for (const char *other = kAlphabet; *other; other++) {
            if (*other == good[at]) continue;
            memcpy(text, good, sizeof good);
            text[at] = *other;
            assert_no_ref(text, XFER_EINVAL);
        }
    }
}

static void test_ref_of_later_version(void **state) {
    xfer_ref_t ref = ref_of(host_open(*state));
    xfer_ref_info_t info;
    char text[XFER_REF_TEXT_SIZE];
    ref.bytes[4] = 3;
    assert_status(xfer_ref_info(&ref, &info, sizeof info), XFER_EVERSION);
    assert_status(xfer_ref_text(&ref, text, sizeof text), XFER_EVERSION);
    encode(ref.bytes, sizeof ref.bytes, text);
    assert_no_ref(text, XFER_EVERSION);
    memset(&ref, 0, sizeof ref);
    assert_status(xfer_ref_text(&ref, text, sizeof text), XFER_EINVAL);
    encode(ref.bytes, sizeof ref.bytes, text);
    assert_no_ref(text, XFER_EINVAL);
}

/* ---- identities ---- */

static void test_id(void **state) {
    xfer_id_t id = {.incarnation = 0x0123456789abcdef};
    for (uint8_t i = 0; i < sizeof id.bytes; i++)
        id.bytes[i] = (uint8_t)(i * 0x11);
    char *text = test_memory(XFER_ID_TEXT_SIZE);
    assert_status(xfer_id_text(&id, text, XFER_ID_TEXT_SIZE), XFER_OK);
    assert_string_equal(text, "00112233445566778899aabbccddeeff-0123456789abcdef");
    Host *host = host_open(*state);
    const xfer_id_t none = {.incarnation = 0};
    xfer_id_t ids[3] = {id, none};
    assert_status(xfer_engine_id(host->engine, &ids[2]), XFER_OK);
    for (int i = 0; i < 3; i++) {
        xfer_id_t again;
        memset(&again, 0xee, sizeof again);
        assert_status(xfer_id_text(&ids[i], text, XFER_ID_TEXT_SIZE), XFER_OK);
        assert_int_equal(strlen(text), XFER_ID_TEXT_SIZE - 1);
        assert_status(xfer_id_parse(text, &again), XFER_OK);
        assert_memory_equal(&again, &ids[i], sizeof again);
    }
}

static void assert_no_id(const char *text) {
    xfer_id_t id;
    memset(&id, 0xee, sizeof id);
    const xfer_id_t before = id;
    const xfer_status_t status = xfer_id_parse(text, &id);
    if (status != XFER_EINVAL) fail_msg("\"%s\": %s", text, xfer_status_name(status));
    assert_memory_equal(&id, &before, sizeof id);
}

static void test_no_id(void **state) {
    (void)state;
    static const char good[] = "00112233445566778899aabbccddeeff-0123456789abcdef";
    char text[XFER_ID_TEXT_SIZE + 8];
    xfer_id_t id;
    assert_status(xfer_id_parse(good, &id), XFER_OK);
    for (size_t length = 0; length < sizeof good - 1; length++) {
        snprintf(text, sizeof text, "%.*s", (int)length, good);
        assert_no_id(text);
    }
    for (size_t at = 0; at < sizeof good - 1; at++) {
        for (const char *wrong = "gABCDEF. :+\n\x80"; *wrong; wrong++) {
            memcpy(text, good, sizeof good);
            text[at] = *wrong;
            assert_no_id(text);
        }
        memcpy(text, good, sizeof good);
        text[at] = good[at] == '-' ? '0' : '-';
        assert_no_id(text);
    }
    snprintf(text, sizeof text, "%s0", good);
    assert_no_id(text);
    snprintf(text, sizeof text, " %s", good);
    assert_no_id(text);
}

/* ---- room ---- */

static xfer_status_t write_ref(const void *ref, char *text, uint64_t cap) {
    return xfer_ref_text(ref, text, cap);
}
static xfer_status_t write_id(const void *id, char *text, uint64_t cap) {
    return xfer_id_text(id, text, cap);
}
static xfer_status_t write_native(const void *code, char *text, uint64_t cap) {
    return xfer_native_text(XFER_ORIGIN_PEER, *(const int32_t *)code, text, cap);
}

static void test_room(void **state) {
    const xfer_ref_t ref = ref_of(host_open(*state));
    const xfer_id_t id = {.incarnation = 5};
    const int32_t code = XFER_EAUTH;
    const struct {
        xfer_status_t (*write)(const void *from, char *text, uint64_t cap);
        const void *from;
    } writers[] = {{write_ref, &ref}, {write_id, &id}, {write_native, &code}};
    for (size_t i = 0; i < sizeof writers / sizeof writers[0]; i++) {
        char whole[XFER_REF_TEXT_SIZE];
        assert_status(writers[i].write(writers[i].from, whole, sizeof whole), XFER_OK);
        for (uint64_t cap = 0; cap <= strlen(whole) + 1; cap++) {
            char *text = test_memory(cap ? cap : 1);
            const xfer_status_t status = writers[i].write(writers[i].from, text, cap);
            assert_status(status, cap > strlen(whole) ? XFER_OK : XFER_ENOSPC);
            if (cap == 0) continue;
            assert_int_equal(strlen(text), cap - 1);
            assert_memory_equal(text, whole, cap - 1);
        }
        assert_status(writers[i].write(writers[i].from, NULL, 0), XFER_EINVAL);
        assert_status(writers[i].write(writers[i].from, NULL, 200), XFER_EINVAL);
    }
}

static void test_nothing_given(void **state) {
    (void)state;
    char text[XFER_REF_TEXT_SIZE] = "";
    xfer_ref_t ref;
    xfer_id_t id;
    assert_status(xfer_ref_text(NULL, text, sizeof text), XFER_EINVAL);
    assert_status(xfer_id_text(NULL, text, sizeof text), XFER_EINVAL);
    assert_status(xfer_ref_parse(NULL, &ref), XFER_EINVAL);
    assert_status(xfer_ref_parse(text, NULL), XFER_EINVAL);
    assert_status(xfer_id_parse(NULL, &id), XFER_EINVAL);
    assert_status(xfer_id_parse(text, NULL), XFER_EINVAL);
}

/* ---- names ---- */

#define NUMBERED(number) {number, #number},
static const struct Name {
    uint32_t number;
    const char *name;
} events[] = {LISTED_EVENTS(NUMBERED)}, kinds[] = {LISTED_MEMORY_KINDS(NUMBERED)},
  transports[] = {LISTED_TRANSPORTS(NUMBERED)};

static void assert_names(const char *(*name)(uint32_t), const struct Name *names, size_t count,
                         const char *unknown) {
    uint32_t last = 0;
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(name(names[i].number), names[i].name);
        assert_true(names[i].number > last); /* each number once */
        last = names[i].number;
    }
    const uint32_t others[] = {0, last + 1, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_string_equal(name(others[i]), unknown);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void test_names(void **state) {
    (void)state;
    assert_names(xfer_event_name, events, COUNT(events), "XFER_EVENT_UNKNOWN");
    assert_names(xfer_memory_name, kinds, COUNT(kinds), "XFER_MEM_UNKNOWN");
    assert_names(xfer_transport_name, transports, COUNT(transports), "XFER_TRANSPORT_UNKNOWN");
}

/* ---- native codes ---- */

static void assert_words(uint32_t origin, int32_t code, const char *wanted) {
    char text[XFER_NATIVE_TEXT_SIZE];
    assert_status(xfer_native_text(origin, code, text, sizeof text), XFER_OK);
    assert_string_equal(text, wanted);
}

static void test_native_codes(void **state) {
    (void)state;
    assert_words(XFER_ORIGIN_NONE, 0, "no native code");
    assert_words(XFER_ORIGIN_NONE, 5, "no native code");
    const int codes[] = {1, ECONNREFUSED, ENOMEM, EFAULT, 12345, -1};
    for (size_t i = 0; i < COUNT(codes); i++)
        assert_words(XFER_ORIGIN_OS, codes[i], strerror(codes[i]));
    assert_words(XFER_ORIGIN_UV, UV_EADDRINUSE, uv_strerror(UV_EADDRINUSE));
    assert_words(XFER_ORIGIN_UV, -7777, "Unknown system error -7777");
    assert_words(XFER_ORIGIN_CARES, 4, "Domain name not found");
    assert_words(XFER_ORIGIN_VERBS, 7, "origin 4, code 7");
    assert_words(XFER_ORIGIN_CUDA, -2, "origin 5, code -2");
    assert_words(XFER_ORIGIN_PEER, XFER_EAUTH, "the peer answered XFER_EAUTH");
    assert_words(XFER_ORIGIN_PEER, XFER_OK, "the peer decided the status");
    assert_words(99, INT32_MIN, "origin 99, code -2147483648");
}

/* As they come in events. */
static void test_native_code_of_event(void **state) {
    Host *host = host_open(*state);
    xfer_ep_t *nobody = open_ep(host, own_address());
    assert_status(xfer_ep_connect(nobody, 9, NULL), XFER_OK);
    const xfer_event_t event = wait_event(host, XFER_EVENT_CONNECT, 9, kPatience);
    assert_words(event.origin, event.native_code, strerror(ECONNREFUSED));
}

static const struct CMUnitTest tests[] = {
    ONE_MODE(test_ref),
    ONE_MODE(test_ref_works),
    ONE_MODE(test_no_ref),
    ONE_MODE(test_ref_of_later_version),
    ONE_MODE(test_id),
    TEST(test_no_id),
    ONE_MODE(test_room),
    TEST(test_nothing_given),
    TEST(test_names),
    TEST(test_native_codes),
    ONE_MODE(test_native_code_of_event),
};

TEST_MAIN(tests)
