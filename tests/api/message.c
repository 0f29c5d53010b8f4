/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: what arrives, in which order, who gets it, and how a send and a receive end when they
 * do not find each other. Floods, cancels and losses are in message_end.c. */
#include <stdlib.h>
#include <string.h>

#include "carried.h"
#include "fixture.h"
#include "message.h"

/* Lengths around every border: nothing, what travels along, what is pulled, several chunks. */
static const uint64_t lengths[] = {0, 1, 7, 4087, 4088, 4089, 65536, 300001, 5u << 20};
enum { kLengths = sizeof lengths / sizeof lengths[0] };

static void check_received(const xfer_event_t *event, Letters *letters, uint64_t tag,
                           uint64_t length) {
    assert_status(event->status, XFER_OK);
    assert_int_equal(event->bytes, length);
    assert_int_equal(event->tag, tag);
    assert_int_equal(event->data_length, sizeof(xfer_id_t));
    xfer_id_t id;
    assert_status(xfer_engine_id(letters->pair.client->engine, &id), XFER_OK);
    assert_memory_equal(event->data, &id, sizeof id);
}

static void test_every_length(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(5u << 20), *buffer = test_memory(5u << 20);
    fill(local, 5u << 20, 3);
    for (size_t i = 0; i < 2 * (size_t)kLengths; i++) {
        const uint64_t length = lengths[i / 2], tag = 1000 + i;
        memset(buffer, 0, length);
        if (i % 2 == 0) receive(&letters, NULL, buffer, length, tag, UINT64_MAX, i);
        send_to(&letters, local, length, tag, i);
        if (i % 2 == 1) {
            pass_ms(2); /* it is here, or its envelope is */
            receive(&letters, letters.back, buffer, length, tag, UINT64_MAX, i);
        }
        xfer_event_t event = received(&letters, i);
        check_received(&event, &letters, tag, length);
        assert_true(event.ep != NULL);
        assert_status(sent(&letters, i), XFER_OK);
        assert_true(filled(buffer, length, 3, 0));
    }
    xfer_engine_stats_t stats = host_stats(letters.pair.server);
    assert_int_equal(stats.recv.completed, 2 * kLengths);
    assert_int_equal(host_stats(letters.pair.client).send.completed, 2 * kLengths);
}

/* Where there are adapters what is long goes by them, as gets do. */
static void test_long(void **state) {
    const bool by_adapter = wanted_way() && strcmp(wanted_way(), "adapter") == 0;
    enum { kLong = 1 << 20, kRounds = 5 };
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(kLong), *buffer = test_memory(kLong);
    for (uint64_t i = 0; i < kRounds; i++) {
        const uint64_t before = carried_by(letters.pair.server->engine, "adapter");
        fill(local, kLong, i);
        send_to(&letters, local, kLong, 1, i);
        receive(&letters, NULL, buffer, kLong, 1, UINT64_MAX, i);
        xfer_event_t event = received(&letters, i);
        check_received(&event, &letters, 1, kLong);
        assert_status(sent(&letters, i), XFER_OK);
        assert_true(filled(buffer, kLong, i, 0));
        /* The first one may have come before this end's path was ready. */
        if (by_adapter && i > 0)
            assert_true(carried_by(letters.pair.server->engine, "adapter") > before);
    }
}

static void test_truncation(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    uint8_t *local = test_memory(100000), buffer[64];
    fill(local, 100000, 4);
    const uint64_t sizes[] = {33, 4000, 100000};
    for (uint64_t i = 0; i < 6; i++) {
        const uint64_t length = sizes[i / 2], room = i % 2 ? 32 : 0;
        memset(buffer, 0xee, sizeof buffer);
        send_to(&letters, local, length, 1, i);
        receive(&letters, NULL, buffer, room, 1, UINT64_MAX, i);
        xfer_event_t event = received(&letters, i);
        assert_status(event.status, XFER_ETRUNC);
        assert_int_equal(event.bytes, length);
        assert_true(filled(buffer, room, 4, 0));
        assert_int_equal(buffer[room], 0xee);
        assert_status(sent(&letters, i), XFER_OK);
    }
    /* As any event that is not OK, whether the message came along or was pulled. */
    const xfer_op_stats_t counted = host_stats(letters.pair.server).recv;
    assert_int_equal(counted.submitted, 6);
    assert_int_equal(counted.failed, 6);
    assert_int_equal(counted.completed, 0);
    assert_int_equal(counted.bytes, 0);
    assert_int_equal(host_stats(letters.pair.server).errors[-XFER_ETRUNC], 6);
}

/* Messages of one tag keep their order, whatever their lengths and whichever tag is asked first;
 * one that nobody wants is in nobody's way. */
static void test_order_and_tags(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    enum { kEach = 60, kTags = 3, kRoom = 9000 };
    uint8_t *local = test_memory(kEach * kTags * kRoom), *buffer = test_memory(kRoom);
    uint8_t *unwanted = test_memory(1 << 20);
    send_to(&letters, unwanted, 1 << 20, 77, 9999);
    for (uint64_t i = 0; i < (uint64_t)kEach * kTags; i++) {
        uint64_t *bytes = (uint64_t *)(local + i * kRoom);
        bytes[0] = i;
        send_to(&letters, bytes, i % 7 == 0 ? kRoom : 8 + i % 50, i % kTags, i);
    }
    for (int tag = kTags - 1; tag >= 0; tag--)
        for (uint64_t i = 0; i < kEach; i++) {
            receive(&letters, i % 2 ? letters.back : NULL, buffer, kRoom, (uint64_t)tag, UINT64_MAX,
                    i);
            assert_status(received(&letters, i).status, XFER_OK);
            assert_int_equal(*(uint64_t *)buffer, i * kTags + (uint64_t)tag);
        }
    for (uint64_t i = 0; i < (uint64_t)kEach * kTags; i++)
        assert_status(sent(&letters, i), XFER_OK);
    assert_int_equal(count_events(letters.pair.client, XFER_EVENT_SEND, 9999), 0);
}

static void test_masks(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t words[4], got[5];
    /* The first that fits gets it: by posting, not by how narrow it asks. */
    receive(&letters, NULL, &got[0], 8, 0x100, 0xff00, 0);
    receive(&letters, NULL, &got[1], 8, 0x101, UINT64_MAX, 1);
    receive(&letters, letters.back, &got[2], 8, 0, 0, 2);
    for (uint64_t i = 0; i < 4; i++)
        words[i] = 10 + i;
    send_to(&letters, &words[0], 8, 0x101, 0);
    send_to(&letters, &words[1], 8, 0x101, 1);
    send_to(&letters, &words[2], 8, 0xffff0000, 2);
    send_to(&letters, &words[3], 8, 5, 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_status(received(&letters, i).status, XFER_OK);
    assert_int_equal(got[0], 10);
    assert_int_equal(got[1], 11);
    assert_int_equal(got[2], 12);
    receive(&letters, letters.back, &got[3], 8, 4, 4, 3);
    xfer_event_t event = received(&letters, 3);
    assert_int_equal(event.tag, 5);
    assert_int_equal(got[3], 13);
}

/* A receive that names one peer takes nothing of another. */
static void test_from_one(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    Host *other = host_open(*state);
    xfer_ep_t *other_ep = open_ep(other, letters.pair.server->uri);
    static uint64_t ours = 1, theirs = 2, got[2];
    receive(&letters, letters.back, &got[0], 8, 5, UINT64_MAX, 1);
    assert_status(xfer_send(other_ep, &theirs, 8, 5, 1, NULL), XFER_OK);
    assert_status(wait_event(other, XFER_EVENT_SEND, 1, kPatience).status, XFER_OK); /* held */
    assert_int_equal(count_events(letters.pair.server, XFER_EVENT_RECV, 1), 0);
    send_to(&letters, &ours, 8, 5, 1);
    assert_status(received(&letters, 1).status, XFER_OK);
    assert_int_equal(got[0], 1);
    receive(&letters, NULL, &got[1], 8, 5, UINT64_MAX, 2);
    xfer_event_t event = received(&letters, 2);
    assert_int_equal(got[1], 2);
    xfer_id_t id;
    assert_status(xfer_engine_id(other->engine, &id), XFER_OK);
    assert_memory_equal(event.data, &id, sizeof id);
    /* What named one peer and is over names none when it is used again. */
    receive(&letters, NULL, &got[0], 8, 5, UINT64_MAX, 3);
    assert_status(xfer_send(other_ep, &theirs, 8, 5, 2, NULL), XFER_OK);
    assert_status(received(&letters, 3).status, XFER_OK);
    assert_int_equal(got[0], 2);
}

/* What it has sent before it went is there for who asks for it by its identity. */
static void test_held_of_one_by_identity(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t sent_word = 5, got;
    xfer_id_t id;
    assert_status(xfer_engine_id(letters.pair.client->engine, &id), XFER_OK);
    send_to(&letters, &sent_word, 8, 5, 1);
    assert_status(sent(&letters, 1), XFER_OK);
    host_end(letters.pair.client);
    const xfer_ep_options_t options = {.size = sizeof options, .peer = &id};
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(letters.pair.server->engine, NULL, &options, &ep, NULL), XFER_OK);
    xfer_message_info_t info;
    assert_status(xfer_peek(letters.pair.server->engine, ep, 5, UINT64_MAX, &info, sizeof info),
                  XFER_OK);
    assert_int_equal(info.length, 8);
    receive(&letters, ep, &got, 8, 5, UINT64_MAX, 1);
    assert_status(received(&letters, 1).status, XFER_OK);
    assert_int_equal(got, 5);
    assert_status(xfer_peek(letters.pair.server->engine, ep, 5, UINT64_MAX, &info, sizeof info),
                  XFER_ENOTFOUND);
}

/* The server knows its peers by their messages alone, and answers each by the event's handle. */
static void test_request_and_reply(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t question, answer, reply, request;
    for (uint64_t i = 0; i < 50; i++) {
        question = i;
        receive(&letters, NULL, &request, 8, 1, UINT64_MAX, i);
        assert_status(xfer_recv(letters.pair.client->engine, letters.pair.ep, &answer, 8, i,
                                UINT64_MAX, i, NULL),
                      XFER_OK);
        send_to(&letters, &question, 8, 1, i);
        xfer_event_t event = received(&letters, i);
        reply = request * 2;
        assert_status(xfer_send(event.ep, &reply, 8, i, i, NULL), XFER_OK);
        event = wait_event(letters.pair.client, XFER_EVENT_RECV, i, kPatience);
        assert_ptr_equal(event.ep, letters.pair.ep);
        assert_int_equal(answer, 2 * i);
        assert_status(wait_event(letters.pair.server, XFER_EVENT_SEND, i, kPatience).status,
                      XFER_OK);
        assert_status(sent(&letters, i), XFER_OK);
    }
}

/* The receive names an endpoint that has no connection yet, so nobody knows who that is. */
static void test_receive_before_connecting(void **state) {
    Host *server = host_open(*state), *client = host_open(*state);
    host_listen(server, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_ep(client, server->uri);
    static uint64_t word = 41, got;
    assert_status(xfer_recv(client->engine, ep, &got, 8, 1, UINT64_MAX, 1, NULL), XFER_OK);
    pass_ms(20);
    assert_status(connect_now(client, ep, 0), XFER_OK);
    xfer_event_t event = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
    assert_status(xfer_send(event.ep, &word, 8, 1, 1, NULL), XFER_OK);
    assert_status(wait_event(client, XFER_EVENT_RECV, 1, kPatience).status, XFER_OK);
    assert_int_equal(got, 41);
}

/* And the other way round: the message is there before anyone has asked for its sender. */
static void test_endpoint_after_the_message(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t word = 42, got;
    send_to(&letters, &word, 8, 1, 1);
    assert_status(sent(&letters, 1), XFER_OK);
    xfer_ep_t *back = letters.back;
    assert_status(xfer_ep_keep(back, 77), XFER_OK);
    assert_status(xfer_recv(letters.pair.server->engine, back, &got, 8, 1, UINT64_MAX, 2, NULL),
                  XFER_OK);
    assert_status(received(&letters, 2).status, XFER_OK);
    assert_int_equal(got, 42);
}

static void test_to_itself(void **state) {
    Host *host = host_open(*state);
    host_listen(host, "tcp://127.0.0.1:0");
    xfer_ep_t *ep = open_ep(host, host->uri);
    uint8_t *local = test_memory(1 << 20), *buffer = test_memory(1 << 20);
    fill(local, 1 << 20, 9);
    for (uint64_t i = 0; i < 6; i++) {
        const uint64_t length = i % 2 ? 1 << 20 : 100;
        memset(buffer, 0, 1 << 20);
        xfer_ep_t *from = i < 3 ? ep : NULL;
        assert_status(xfer_recv(host->engine, from, buffer, length, i, UINT64_MAX, i, NULL),
                      XFER_OK);
        assert_status(xfer_send(ep, local, length, i, i, NULL), XFER_OK);
        assert_status(wait_event(host, XFER_EVENT_RECV, i, kPatience).status, XFER_OK);
        assert_status(wait_event(host, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
        assert_true(filled(buffer, length, 9, 0));
    }
}

/* SYNC is complete when received, not when held. */
static void test_sync(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    static uint64_t word = 1, got;
    xfer_op_options_t sync = {.size = sizeof sync, .flags = XFER_FLAG_SYNC};
    assert_status(xfer_send(letters.pair.ep, &word, 8, 1, 1, &sync), XFER_OK);
    send_to(&letters, &word, 8, 2, 2);
    assert_status(sent(&letters, 2), XFER_OK); /* so the other is there too */
    assert_int_equal(count_events(letters.pair.client, XFER_EVENT_SEND, 1), 0);
    receive(&letters, NULL, &got, 8, 1, UINT64_MAX, 1);
    assert_status(received(&letters, 1).status, XFER_OK);
    assert_status(sent(&letters, 1), XFER_OK);
}

static void test_checksums(void **state) {
    Letters letters;
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_CHECKSUM;
    letters_open_with(&letters, &options, *state);
    uint8_t *local = test_memory(100000), *buffer = test_memory(100000);
    fill(local, 100000, 6);
    const uint64_t sizes[] = {0, 5, 4088, 100000};
    for (uint64_t i = 0; i < 4; i++) {
        receive(&letters, NULL, buffer, 100000, 1, UINT64_MAX, i);
        send_to(&letters, local, sizes[i], 1, i);
        assert_status(received(&letters, i).status, XFER_OK);
        assert_true(filled(buffer, sizes[i], 6, 0));
    }
}

static void test_misuse(void **state) {
    Letters letters;
    letters_open(&letters, *state);
    xfer_engine_t *engine = letters.pair.client->engine;
    xfer_ep_t *ep = letters.pair.ep;
    uint8_t word[8] = {0};
    xfer_op_options_t unknown = {.size = sizeof unknown, .flags = 8};
    xfer_op_options_t flagged = {.size = sizeof flagged, .flags = XFER_FLAG_SYNC};
    assert_status(xfer_send(ep, NULL, 1, 1, 1, NULL), XFER_EINVAL);
    assert_status(xfer_send(NULL, word, 1, 1, 1, NULL), XFER_EBADHANDLE);
    assert_status(xfer_send(ep, word, 1, 1, 1, &unknown), XFER_EINVAL);
    assert_status(xfer_send(ep, word, UINT64_MAX, 1, 1, NULL), XFER_ERANGE);
    assert_status(xfer_recv(engine, ep, NULL, 1, 1, 0, 1, NULL), XFER_EINVAL);
    assert_status(xfer_recv(engine, ep, word, UINT64_MAX, 1, 0, 1, NULL), XFER_ERANGE);
    assert_status(xfer_recv(engine, ep, word, 1, 1, 0, 1, &flagged), XFER_EINVAL);
    assert_status(xfer_recv(NULL, NULL, word, 1, 1, 0, 1, NULL), XFER_EBADHANDLE);
    /* An endpoint of another engine. */
    assert_status(xfer_recv(letters.pair.server->engine, ep, word, 1, 1, 0, 1, NULL), XFER_EINVAL);
    assert_status(xfer_cancel(NULL, NULL, 1, UINT64_MAX), XFER_EBADHANDLE);
    assert_status(xfer_cancel(engine, NULL, 1, UINT64_MAX), XFER_OK);
    assert_status(xfer_put(ep, word, &letters.pair.ref, 0, 1, 1, &flagged), XFER_EINVAL);
    pass_ms(10);
    assert_int_equal(count_events(letters.pair.client, XFER_EVENT_SEND, 1), 0);
    assert_int_equal(count_events(letters.pair.client, XFER_EVENT_RECV, 1), 0);
}

/* Polled until it has what it wants, and not again: who sent is told all the same. */
static void test_receiver_rests(void **state) {
    Letters letters;
    const bool spins = getenv("XFER_TEST_SPIN") != NULL;
    setenv("XFER_TEST_SPIN", "1", 0);
    letters_open(&letters, *state);
    if (!spins) unsetenv("XFER_TEST_SPIN");
    uint8_t buffer[64], local[64] = {0};
    for (uint64_t i = 0; i < 5; i++) {
        receive(&letters, NULL, buffer, sizeof buffer, 1, UINT64_MAX, i);
        send_to(&letters, local, sizeof local, 1, i);
        assert_status(received(&letters, i).status, XFER_OK);
        letters.pair.server->paused = true;
        assert_status(sent(&letters, i), XFER_OK);
        letters.pair.server->paused = false;
    }
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_every_length),
    EACH_MODE(test_long),
    EACH_DISPATCH(test_truncation),
    EACH_MODE(test_order_and_tags),
    EACH_DISPATCH(test_masks),
    EACH_MODE(test_from_one),
    EACH_MODE(test_held_of_one_by_identity),
    EACH_MODE(test_request_and_reply),
    EACH_MODE(test_receive_before_connecting),
    EACH_DISPATCH(test_endpoint_after_the_message),
    EACH_MODE(test_to_itself),
    EACH_MODE(test_sync),
    EACH_DISPATCH(test_checksums),
    EACH_MODE(test_receiver_rests),
    ONE_MODE(test_misuse),
};

TEST_MAIN(tests)
