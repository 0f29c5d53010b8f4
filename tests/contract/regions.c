/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract, of regions, refs and grants. */
#include <string.h>
#include <unistd.h>
#include <xfer/text.h>

#include "contract.h"

static void lookup_waits(void **state) {
    (void)state;
    const xfer_op_options_t wait = {.size = sizeof wait, .flags = XFER_FLAG_WAIT};
    Pair pair;
    open_two(&pair, 64);
    uint8_t *memory = test_memory(64);
    assert_status(xfer_ep_lookup(pair.ep, "later", 1, &wait, NULL), XFER_OK);
    /* Its answer would be here before that of what was asked next. */
    look_up(pair.client, pair.ep, "memory");
    assert_int_equal(count_events(pair.client, XFER_EVENT_LOOKUP, 1), 0);
    open_region(pair.server, "later", XFER_WRITE, memory, 64);
    const xfer_event_t event = wait_event(pair.client, XFER_EVENT_LOOKUP, 1, kPatience);
    assert_status(event.status, XFER_OK);
    const xfer_ref_t ref = *(const xfer_ref_t *)event.data;
    assert_status(put_now(pair.client, pair.ep, "here", &ref, 0, 4), XFER_OK);
    assert_memory_equal(memory, "here", 4);
}

static void lookup_missing(void **state) {
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, 64);
        assert_status(xfer_ep_lookup(pair.ep, "none", 1, NULL, NULL), XFER_OK);
        const xfer_event_t event = wait_event(pair.client, XFER_EVENT_LOOKUP, 1, kPatience);
        assert_status(event.status, XFER_ENOTFOUND);
        assert_non_null(event.data);
        assert_non_null(strstr(event.data, "\"none\"")); /* the sentence says which */
    }
}

static void ref_as_bytes(void **state) {
    (void)state;
    Pair pair;
    xfer_ref_t ref, carried, parsed;
    char text[XFER_REF_TEXT_SIZE];
    int channel[2];
    open_two(&pair, 64);
    assert_status(xfer_region_ref(pair.region, &ref), XFER_OK);
    assert_int_equal(pipe(channel), 0);
    assert_int_equal(write(channel[1], ref.bytes, sizeof ref.bytes), sizeof ref.bytes);
    assert_int_equal(read(channel[0], carried.bytes, sizeof carried.bytes), sizeof carried.bytes);
    close(channel[0]);
    close(channel[1]);
    assert_status(put_now(pair.client, pair.ep, "by bytes", &carried, 0, 8), XFER_OK);
    assert_memory_equal(pair.memory, "by bytes", 8);
    assert_status(xfer_ref_text(&ref, text, sizeof text), XFER_OK);
    assert_status(xfer_ref_parse(text, &parsed), XFER_OK);
    assert_memory_equal(&parsed, &ref, sizeof ref);
    for (size_t i = 0; i < sizeof ref.bytes; i++) {
        carried = ref;
        carried.bytes[i] ^= 1;
        const xfer_status_t status = put_now(pair.client, pair.ep, "followed", &carried, 0, 8);
        if (status != XFER_EVERSION) assert_status(status, XFER_EINVAL);
    }
    assert_memory_equal(pair.memory, "by bytes", 8);
}

static void region_gone(void **state) {
    (void)state;
    Pair pair;
    open_two(&pair, 64);
    assert_status(xfer_region_close(pair.region), XFER_OK);
    const xfer_event_t gone = wait_event(pair.client, XFER_EVENT_REGION_GONE, ANY_USER, kPatience);
    assert_ptr_equal(gone.ep, pair.ep);
    assert_int_equal(gone.data_length, sizeof pair.ref);
    assert_memory_equal(gone.data, &pair.ref, sizeof pair.ref);
    assert_status(put_now(pair.client, pair.ep, "x", &pair.ref, 0, 1), XFER_ESTALE);
    wait_closed(pair.server, pair.region);
    assert_true(all_are(pair.memory, 64, 0));
}

static xfer_ref_t grant(Pair *pair, uint64_t offset, uint64_t length, uint32_t lease_ms) {
    const xfer_grant_options_t options = {.size = sizeof options,
                                          .access = XFER_WRITE,
                                          .offset = offset,
                                          .length = length,
                                          .lease_ms = lease_ms,
                                          .user = 77};
    xfer_ref_t ref;
    assert_status(xfer_region_grant(pair->region, &options, &ref, NULL), XFER_OK);
    return ref;
}

static void grant_lease(void **state) {
    (void)state;
    enum { kPage = 4096 };
    Pair pair;
    open_two(&pair, 3 * kPage);
    uint8_t *local = test_memory(kPage);
    memset(local, 0xaa, kPage);
    xfer_ref_t ref = grant(&pair, kPage, kPage, XFER_NONE);
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, kPage), XFER_OK);
    assert_status(put_now(pair.client, pair.ep, local, &ref, 1, kPage), XFER_ERANGE);
    assert_status(get_now(pair.client, pair.ep, local, &ref, 0, kPage), XFER_EACCESS);
    assert_true(all_are(pair.memory, kPage, 0));
    assert_true(all_are(pair.memory + kPage, kPage, 0xaa));
    assert_true(all_are(pair.memory + 2 * kPage, kPage, 0));
    assert_status(xfer_region_renew(pair.region, &ref, 50), XFER_OK);
    const xfer_event_t ended = wait_event(pair.server, XFER_EVENT_REVOKED, 77, kPatience);
    assert_status(ended.status, XFER_ETIMEDOUT);
    assert_ptr_equal(ended.object, pair.region);
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 1), XFER_EREVOKED);
    assert_status(xfer_region_renew(pair.region, &ref, 50), XFER_EREVOKED);
}

/* The owner writes its memory again when it is told that the grant is quiet. */
static void rewrite(Host *host, const xfer_event_t *event) {
    const Pair *pair = host->hook_data;
    if (event->kind == XFER_EVENT_REVOKED) memset(pair->memory, 0xee, pair->length);
}

static void grant_revoked(void **state) {
    (void)state;
    enum { kLength = 8 << 20, kPuts = 4, kRounds = 10, kMost = 1000 };
    static Pair pair;
    open_two(&pair, kLength);
    uint8_t *local = test_memory(kLength);
    pair.server->hook_data = &pair;
    pair.server->hook = rewrite;
    int cut = 0;
    /* The puts may be quicker than the revocation in each of a few rounds. */
    for (int round = 0; round < kRounds || (cut == 0 && round < kMost); round++) {
        const xfer_ref_t ref = grant(&pair, 0, kLength, XFER_NONE);
        for (uint64_t i = 0; i < kPuts; i++)
            assert_status(xfer_put(pair.ep, local, &ref, 0, kLength, i, NULL), XFER_OK);
        for (int turns = 0; turns < round % kRounds; turns++)
            turn(0);
        assert_status(xfer_region_revoke(pair.region, &ref), XFER_OK);
        assert_status(wait_event(pair.server, XFER_EVENT_REVOKED, 77, kPatience).status, XFER_OK);
        for (uint64_t i = 0; i < kPuts; i++) {
            const xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, i, kPatience);
            assert_completion(&event);
            if (event.status != XFER_OK) assert_status(event.status, XFER_EREVOKED);
            cut += event.status == XFER_EREVOKED;
        }
        assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 8), XFER_EREVOKED);
        assert_true(all_are(pair.memory, kLength, 0xee));
    }
    assert_true(cut > 0);
}

static const struct CMUnitTest tests[] = {
    TEST(lookup_waits), TEST(lookup_missing), TEST(ref_as_bytes),
    TEST(region_gone),  TEST(grant_lease),    TEST(grant_revoked),
};

TEST_MAIN(tests)
