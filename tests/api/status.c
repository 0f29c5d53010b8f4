/* SPDX-License-Identifier: Apache-2.0
 *
 * Version and status: what needs no engine. */
#include <stdio.h>
#include <string.h>
#include <xfer/text.h>

#include "fixture.h"

#define NAMED(status) \
    { status, #status }
static const struct {
    xfer_status_t status;
    const char *name;
} statuses[] = {
    NAMED(XFER_OK),           NAMED(XFER_EINVAL),    NAMED(XFER_EBADHANDLE),
    NAMED(XFER_E2BIG),        NAMED(XFER_ENOMEM),    NAMED(XFER_EAGAIN),
    NAMED(XFER_ETOOBIG),      NAMED(XFER_EDEGRADED), NAMED(XFER_EBUSY),
    NAMED(XFER_ECLOSED),      NAMED(XFER_EDEADLK),   NAMED(XFER_EFORKED),
    NAMED(XFER_EUNSUPPORTED), NAMED(XFER_EEXIST),    NAMED(XFER_ENOTFOUND),
    NAMED(XFER_EACCESS),      NAMED(XFER_ERANGE),    NAMED(XFER_ESTALE),
    NAMED(XFER_ETIMEDOUT),    NAMED(XFER_ECANCELED), NAMED(XFER_EPEERLOST),
    NAMED(XFER_EUNREACHABLE), NAMED(XFER_ENAME),     NAMED(XFER_EADDRINUSE),
    NAMED(XFER_EADDR),        NAMED(XFER_EAUTH),     NAMED(XFER_EIDENTITY),
    NAMED(XFER_EPROTO),       NAMED(XFER_EVERSION),  NAMED(XFER_ETRUNC),
    NAMED(XFER_ECHECKSUM),    NAMED(XFER_EMEMKIND),  NAMED(XFER_EOVERLOAD),
    NAMED(XFER_EREVOKED),     NAMED(XFER_ENOFILES),  NAMED(XFER_EIO),
    NAMED(XFER_ENOSPC),       NAMED(XFER_EINTERNAL),
};
enum { kStatusCount = sizeof statuses / sizeof statuses[0] };

_Static_assert(sizeof(xfer_error_t) == 256, "for ever");
_Static_assert(sizeof(xfer_event_t) == 128, "for ever");
_Static_assert(sizeof(xfer_ref_t) == 96, "for ever");
_Static_assert(sizeof(xfer_id_t) == 24, "for ever");

static void test_version(void **state) {
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", XFER_VERSION_MAJOR, XFER_VERSION_MINOR,
             XFER_VERSION_PATCH);
    assert_int_equal(xfer_version(), XFER_VERSION);
    assert_string_equal(xfer_version_string(), text);
}

static void test_names_and_texts(void **state) {
    (void)state;
    for (int i = 0; i < kStatusCount; i++) {
        assert_int_equal(statuses[i].status, -i);
        assert_string_equal(xfer_status_name(statuses[i].status), statuses[i].name);
        assert_true(strlen(xfer_status_text(statuses[i].status)) > 1);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(xfer_status_text(statuses[i].status),
                                    xfer_status_text(statuses[k].status));
        }
    }
}

static void test_unknown_numbers(void **state) {
    (void)state;
    const xfer_status_t unknown[] = {1, 7, INT32_MAX, -kStatusCount, -1000, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_string_equal(xfer_status_name(unknown[i]), "XFER_EUNKNOWN");
        assert_non_null(xfer_status_text(unknown[i]));
    }
}

static void test_enumeration(void **state) {
    (void)state;
    bool seen[kStatusCount] = {false};
    xfer_status_t status;
    uint32_t index = 0;
    while (xfer_status_at(index, &status) == XFER_OK) {
        assert_true(status <= 0 && status > -kStatusCount);
        assert_false(seen[-status]);
        seen[-status] = true;
        index++;
    }
    assert_int_equal(index, kStatusCount);
    assert_status(xfer_status_at(index, &status), XFER_ENOTFOUND);
    assert_status(xfer_status_at(UINT32_MAX, &status), XFER_ENOTFOUND);
    assert_status(xfer_status_at(0, NULL), XFER_EINVAL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_version),
    cmocka_unit_test(test_names_and_texts),
    cmocka_unit_test(test_unknown_numbers),
    cmocka_unit_test(test_enumeration),
};

TEST_MAIN(tests)
