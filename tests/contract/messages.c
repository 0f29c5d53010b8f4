/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract, of messages, notifications and counters. */
#include "message.h"

#include "contract.h"

static uint64_t receive_word(Pair *pair, uint64_t tag, uint64_t mask, uint64_t tag_of_it) {
    uint64_t word = 0;
    xfer_id_t sender;
    assert_status(xfer_recv(pair->server->engine, NULL, &word, 8, tag, mask, 1, NULL), XFER_OK);
    const xfer_event_t event = wait_event(pair->server, XFER_EVENT_RECV, 1, kPatience);
    assert_status(event.status, XFER_OK);
    assert_int_equal(event.bytes, 8);
    assert_int_equal(event.tag, tag_of_it);
    assert_status(xfer_engine_id(pair->client->engine, &sender), XFER_OK);
    assert_int_equal(event.data_length, sizeof sender);
    assert_memory_equal(event.data, &sender, sizeof sender);
    return word;
}

static void message_tags(void **state) {
    (void)state;
    static const struct {
        uint64_t tag, word;
    } sent[] = {{1, 10}, {2, 20}, {1, 11}, {0x102, 30}, {1, 12}};
    enum { kSent = sizeof sent / sizeof *sent };
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        open_either(&pair, itself, 64);
        for (uint64_t i = 0; i < kSent; i++)
            assert_status(xfer_send(pair.ep, &sent[i].word, 8, sent[i].tag, i, NULL), XFER_OK);
        for (uint64_t i = 0; i < kSent; i++)
            assert_status(wait_event(pair.client, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
        assert_int_equal(receive_word(&pair, 0x100, 0xff00, 0x102), 30);
        assert_int_equal(receive_word(&pair, 2, UINT64_MAX, 2), 20);
        assert_int_equal(receive_word(&pair, 1, UINT64_MAX, 1), 10);
        assert_int_equal(receive_word(&pair, 0, 0, 1), 11);
        assert_int_equal(receive_word(&pair, 1, UINT64_MAX, 1), 12);
    }
}

/* One that the peer holds, and one that is pulled. */
static const uint64_t lengths[] = {1000, 300000};

static void message_truncated(void **state) {
    (void)state;
    enum { kRoom = 100 };
    Letters letters;
    letters_open(&letters, DOOR);
    uint8_t *local = test_memory(lengths[1]), *buffer = test_memory(2 * kRoom);
    fill(local, lengths[1], 3);
    for (uint64_t i = 0; i < 2; i++) {
        memset(buffer, 0xee, 2 * kRoom);
        send_to(&letters, local, lengths[i], 1, i);
        receive(&letters, NULL, buffer, kRoom, 1, UINT64_MAX, i);
        const xfer_event_t event = received(&letters, i);
        assert_status(event.status, XFER_ETRUNC);
        assert_int_equal(event.bytes, lengths[i]);
        assert_true(filled(buffer, kRoom, 3, 0));
        assert_true(all_are(buffer + kRoom, kRoom, 0xee));
        assert_status(sent(&letters, i), XFER_OK);
    }
}

static void message_unknown_length(void **state) {
    (void)state;
    const xfer_op_options_t take = {.size = sizeof take, .flags = XFER_FLAG_TAKE};
    static const uint64_t capacities[] = {1 << 20, 64};
    Letters letters;
    letters_open(&letters, DOOR);
    uint8_t *local = test_memory(lengths[1]);
    fill(local, lengths[1], 4);
    for (uint64_t i = 0; i < 4; i++) {
        const uint64_t length = lengths[i % 2], capacity = capacities[i / 2];
        const uint64_t taken = length < capacity ? length : capacity;
        send_to(&letters, local, length, 1, i);
        assert_status(
            xfer_recv(letters.pair.server->engine, NULL, NULL, capacity, 1, UINT64_MAX, i, &take),
            XFER_OK);
        const xfer_event_t event = received(&letters, i);
        assert_status(event.status, taken == length ? XFER_OK : XFER_ETRUNC);
        assert_int_equal(event.bytes, length);
        assert_int_equal(event.data_length, sizeof(xfer_id_t) + taken);
        assert_true(filled((const uint8_t *)event.data + sizeof(xfer_id_t), taken, 4, 0));
        assert_status(sent(&letters, i), XFER_OK);
    }
}

static void wait_for_message(Host *host, uint64_t tag) {
    xfer_message_info_t info;
    for (uint64_t end = now_ms() + kPatience;; turn(1)) {
        if (xfer_peek(host->engine, NULL, tag, UINT64_MAX, &info, sizeof info) == XFER_OK) return;
        if (now_ms() >= end) fail_msg("no message of tag %llu", (unsigned long long)tag);
    }
}

/* The message is there before its receive, so it matches at once; the cancel finds it anywhere on
 * its way. */
static void message_canceled_late(void **state) {
    (void)state;
    enum { kLength = 8 << 20, kRounds = 30, kMost = 1000 };
    Letters letters;
    letters_open(&letters, DOOR);
    uint8_t *local = test_memory(kLength), *buffer = test_memory(kLength);
    fill(local, kLength, 5);
    uint64_t canceled = 0, i = 0;
    for (; i < kRounds || (canceled == 0 && i < kMost); i++) {
        send_to(&letters, local, kLength, i, i);
        wait_for_message(letters.pair.server, i);
        receive(&letters, NULL, buffer, kLength, i, UINT64_MAX, i);
        for (uint64_t turns = 0; turns < i / 3 % 10; turns++)
            turn(0);
        assert_status(xfer_cancel(letters.pair.server->engine, NULL, i, UINT64_MAX), XFER_OK);
        const xfer_status_t status = received(&letters, i).status;
        if (status == XFER_OK)
            assert_true(filled(buffer, kLength, 5, 0));
        else
            assert_status(status, XFER_ECANCELED);
        assert_status(sent(&letters, i), status);
        canceled += status == XFER_ECANCELED;
    }
    assert_true(canceled > 0);
    host_end(letters.pair.server);
    assert_int_equal(count_events(letters.pair.server, XFER_EVENT_RECV, ANY_USER), i);
}

static void notify_bytes(void **state) {
    (void)state;
    enum { kLength = 64, kNotes = 20 };
    for (int itself = 0; itself < 2; itself++) {
        Pair pair;
        uint8_t bytes[kLength];
        open_either(&pair, itself, 64);
        for (uint64_t i = 0; i < kNotes; i++) {
            fill(bytes, kLength, i);
            assert_status(xfer_notify(pair.ep, bytes, kLength, 100 + i, i, NULL), XFER_OK);
        }
        for (uint64_t i = 0; i < kNotes; i++) {
            const xfer_event_t told =
                wait_event(pair.server, XFER_EVENT_NOTIFY, ANY_USER, kPatience);
            assert_status(told.status, XFER_OK);
            assert_int_equal(told.tag, 100 + i);
            assert_int_equal(told.data_length, kLength);
            assert_true(filled(told.data, kLength, i, 0));
            assert_status(wait_event(pair.client, XFER_EVENT_NOTIFIED, i, kPatience).status,
                          XFER_OK);
        }
    }
}

/* Opens a counter that gets fewer than it expects, within `timeout_ms`. Returns how many it has
 * seen at its deadline. */
static uint64_t count_short(Pair *pair, uint32_t timeout_ms, uint64_t sent, uint64_t expected) {
    enum { kKey = 2 };
    const xfer_counter_options_t brief = {
        .size = sizeof brief, .timeout_ms = timeout_ms, .user = kKey};
    xfer_counter_t *counter = NULL;
    assert_status(xfer_counter_open(pair->server->engine, kKey, expected, &brief, &counter, NULL),
                  XFER_OK);
    for (uint64_t i = 0; i < sent; i++)
        assert_status(xfer_notify(pair->ep, NULL, 0, kKey, i, NULL), XFER_OK);
    const xfer_event_t event = wait_event(pair->server, XFER_EVENT_COUNTER, kKey, kPatience);
    assert_status(event.status, XFER_ETIMEDOUT);
    assert_ptr_equal(event.object, counter);
    assert_int_equal(event.tag, kKey);
    for (uint64_t i = 0; i < sent; i++) /* what came too late has come before the next try */
        assert_status(wait_event(pair->client, XFER_EVENT_NOTIFIED, i, kPatience).status, XFER_OK);
    assert_status(xfer_counter_close(counter), XFER_OK);
    return event.index;
}

static void counter_deadline(void **state) {
    (void)state;
    enum { kFull = 1, kExpected = 3, kSent = 2 };
    static const uint32_t deadlines[] = {300, 2000, 10000}; /* the later ones for a busy machine */
    const xfer_counter_options_t patient = {
        .size = sizeof patient, .timeout_ms = XFER_NONE, .user = kFull};
    Pair pair;
    xfer_counter_t *full = NULL;
    open_two(&pair, 64);
    assert_status(xfer_counter_open(pair.server->engine, kFull, kExpected, &patient, &full, NULL),
                  XFER_OK);
    for (uint64_t i = 0; i < kExpected; i++)
        assert_status(xfer_notify(pair.ep, NULL, 0, kFull, 100 + i, NULL), XFER_OK);
    const xfer_event_t event = wait_event(pair.server, XFER_EVENT_COUNTER, kFull, kPatience);
    assert_status(event.status, XFER_OK);
    assert_int_equal(event.index, kExpected);
    assert_ptr_equal(event.object, full);
    uint64_t seen = 0, tries = 0;
    while (seen != kSent && tries < 3)
        seen = count_short(&pair, deadlines[tries++], kSent, kExpected);
    assert_int_equal(seen, kSent);
    assert_status(xfer_counter_close(full), XFER_OK);
    host_end(pair.server);
    assert_int_equal(count_events(pair.server, XFER_EVENT_COUNTER, ANY_USER), 1 + tries);
    assert_int_equal(count_events(pair.server, XFER_EVENT_NOTIFY, ANY_USER), 0);
}

static const struct CMUnitTest tests[] = {
    TEST(message_tags),          TEST(message_truncated), TEST(message_unknown_length),
    TEST(message_canceled_late), TEST(notify_bytes),      TEST(counter_deadline),
};

TEST_MAIN(tests)
