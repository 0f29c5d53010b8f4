/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages from memory of a device, and into it, over any path (device_memory.h). What is in a copy
 * is left alone until that has ended, however the message ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device_memory.h"
#include "peer.h"

static const char kIn[] = "cuMemcpyHtoDAsync", kOut[] = "cuMemcpyDtoHAsync";
static const char kWait[] = "cuEventSynchronize";
enum { kEager = 4088, kLong = 3 * kChunk + 5, kLonger = 20 * kChunk, kTag = 7 };

static void send_to(xfer_ep_t *ep, const void *data, uint64_t length, uint64_t user,
                    uint32_t flags) {
    const xfer_op_options_t options = {.size = sizeof options, .flags = flags};
    assert_status(xfer_send(ep, data, length, kTag, user, &options), XFER_OK);
}

static void receive_at(Host *host, xfer_ep_t *ep, void *buffer, uint64_t capacity, uint64_t user,
                       uint32_t timeout_ms) {
    const xfer_op_options_t options = {.size = sizeof options, .timeout_ms = timeout_ms};
    assert_status(xfer_recv(host->engine, ep, buffer, capacity, kTag, ANY_USER, user, &options),
                  XFER_OK);
}

static void *host_memory(uint64_t length, uint64_t seed) {
    void *memory = test_memory(length);
    fill(memory, length, seed);
    return memory;
}

static void await_envelope(Host *host) {
    xfer_message_info_t info;
    const uint64_t end = now_ms() + kPatience;
    while (xfer_peek(host->engine, NULL, kTag, ANY_USER, &info, sizeof info) != XFER_OK) {
        assert_true(now_ms() < end);
        turn(1);
    }
}

/* ---- bytes ---- */

/* From either memory to the other, before its receive and behind it. */
static void test_sizes(void **state) {
    const uint64_t sizes[] = {1, 8, kEager, kEager + 1, 65536, kChunk + 1, 5 * kChunk + 3};
    enum { kSizes = sizeof sizes / sizeof *sizes };
    Pair pair;
    pair_open(&pair, *state, kChunk);
    for (uint64_t i = 0; i < kSizes * 6; i++) {
        const uint64_t length = sizes[i / 6];
        const int way = (int)(i % 3); /* of device to host, host to device, device to device */
        const bool unexpected = i % 6 > 2;
        uint8_t *device[2] = {device_memory(length + 16, i + 1), device_memory(length + 16, 99)};
        uint8_t *const from = way == 1 ? host_memory(length + 16, i + 1) : device[0];
        uint8_t *const to = way == 0 ? host_memory(length + 16, 99) : device[1];
        if (!unexpected) receive_at(pair.server, NULL, to + 3, length, i, 0);
        send_to(pair.ep, from + 7, length, i, i % 4 ? 0 : XFER_FLAG_SYNC);
        if (unexpected) await_envelope(pair.server);
        if (unexpected) receive_at(pair.server, NULL, to + 3, length, i, 0);
        const xfer_event_t event = wait_event(pair.server, XFER_EVENT_RECV, i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_int_equal(event.bytes, length);
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
        uint8_t *bytes = malloc(length + 16);
        if (way == 0)
            memcpy(bytes, to, length + 16);
        else
            fake_cuda_read(bytes, to, length + 16);
        assert_true(filled(bytes + 3, length, i + 1, 7));
        assert_true(filled(bytes, 3, 99, 0) && filled(bytes + 3 + length, 13, 99, 3 + length));
        free(bytes);
        fake_cuda_free(device[0]);
        fake_cuda_free(device[1]);
    }
}

/* Of one tag, they meet their receives in order, whichever way each of them goes. */
static void test_order(void **state) {
    enum { kCount = 200, kSlot = 8192 };
    Pair pair;
    pair_open(&pair, *state, kChunk);
    uint8_t *const from = device_memory(kCount * kSlot, 3), *const to =
                                                                device_memory(kCount * kSlot, 4);
    uint8_t *const host = host_memory(kCount * kSlot, 3);
    for (uint64_t i = 0; i < kCount / 2; i++)
        receive_at(pair.server, NULL, to + i * kSlot, kSlot, i, 0);
    for (uint64_t i = 0; i < kCount; i++) {
        const uint64_t length = i * 523 % kSlot + 1;
        send_to(pair.ep, (i % 2 ? from : host) + i * kSlot, length, i, 0);
    }
    for (uint64_t i = kCount / 2; i < kCount; i++)
        receive_at(pair.server, NULL, to + i * kSlot, kSlot, i, 0);
    for (uint64_t i = 0; i < kCount; i++) {
        const uint64_t length = i * 523 % kSlot + 1;
        const xfer_event_t event = wait_event(pair.server, XFER_EVENT_RECV, i, kPatience);
        assert_status(event.status, XFER_OK);
        assert_int_equal(event.bytes, length);
        assert_device_filled(to + i * kSlot, length, 3, i * kSlot);
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
    }
    fake_cuda_free(from);
    fake_cuda_free(to);
}

static void test_rules(void **state) {
    Pair pair;
    pair_open(&pair, *state, kChunk);
    uint8_t *const device = device_memory(kLong, 1);
    const xfer_op_options_t copy = {.size = sizeof copy, .flags = XFER_FLAG_COPY};
    assert_status(xfer_send(pair.ep, device, 64, kTag, 1, &copy), XFER_EMEMKIND);
    assert_status(xfer_send(pair.ep, device, kLong + 4096, kTag, 1, NULL), XFER_ERANGE);
    /* What is longer than its buffer fills that, and no more. */
    const uint64_t lengths[] = {100, kEager, kLong};
    for (uint64_t i = 0; i < 3; i++) {
        void *const from = host_memory(lengths[i], 5);
        receive_at(pair.server, NULL, device, lengths[i] / 2, i, 0);
        send_to(pair.ep, from, lengths[i], i, 0);
        const xfer_event_t event = wait_event(pair.server, XFER_EVENT_RECV, i, kPatience);
        assert_status(event.status, XFER_ETRUNC);
        assert_int_equal(event.bytes, lengths[i]);
        assert_device_filled(device, lengths[i] / 2, 5, 0);
        assert_device_filled(device + lengths[i] / 2, 50, 1, lengths[i] / 2);
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
    }
    /* Nothing from there, and into nothing of it. */
    receive_at(pair.server, NULL, device, 0, 10, 0);
    send_to(pair.ep, device, 0, 10, 0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 10, kPatience).status, XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_SEND, 10, kPatience).status, XFER_OK);
    /* To oneself. */
    xfer_ep_t *const self = open_ep(pair.server, pair.server->uri);
    uint8_t *const into = device_memory(kLong, 2);
    receive_at(pair.server, NULL, into, kLong, 11, 0);
    send_to(self, device + kHalf % 64, kLong - 64, 11, 0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 11, kPatience).status, XFER_OK);
    assert_status(wait_event(pair.server, XFER_EVENT_SEND, 11, kPatience).status, XFER_OK);
    fake_cuda_free(device);
    fake_cuda_free(into);
}

/* What is held outlives its sender. */
static void test_held(void **state) {
    Pair pair;
    pair_open(&pair, *state, kChunk);
    send_to(pair.ep, host_memory(kEager, 5), kEager, 1, 0);
    assert_status(wait_event(pair.client, XFER_EVENT_SEND, 1, kPatience).status, XFER_OK);
    host_end(pair.client);
    wait_event(pair.server, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    void *const into = device_memory(kEager, 1);
    receive_at(pair.server, NULL, into, kEager, 1, 0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 1, kPatience).status, XFER_OK);
    assert_device_filled(into, kEager, 5, 0);
    fake_cuda_free(into);
}

/* ---- copies that do not end ---- */

/* A receive that is over before its copy: its memory is free when that is told, and not before.
 * What waits for the same thread is told at once, and all else goes on. */
static void test_receive_ends_in_a_copy(void **state) {
    enum { kCancel, kDeadline, kWays };
    Pair pair;
    pair_open(&pair, *state, kChunk);
    for (uint64_t i = 0; i < 2 * kWays; i++) {
        const uint64_t length = i % 2 ? kLong : kEager, user = 10 + i, behind = 20 + i;
        const int way = (int)i / 2;
        /* What is here in full lands with the copy, and that was too late. */
        const xfer_status_t late = way == kCancel ? XFER_ECANCELED : XFER_ETIMEDOUT;
        const xfer_status_t status = length == kEager ? XFER_OK : late;
        void *const into = device_memory(length, 1), *const other = device_memory(length, 2);
        const unsigned before = fake_cuda_calls(kWait);
        fake_cuda_hold(1);
        receive_at(pair.server, NULL, into, length, user, way == kCancel ? 0 : 1500);
        send_to(pair.ep, host_memory(length, 5), length, user, XFER_FLAG_SYNC);
        await_copies(kWait, before, 1); /* what comes now has not begun */
        receive_at(pair.server, NULL, other, length, behind, 0);
        send_to(pair.ep, host_memory(length, 6), length, behind, XFER_FLAG_SYNC);
        pass_ms(way == kCancel ? 50 : 1700);
        assert_status(xfer_cancel(pair.server->engine, NULL, behind, ANY_USER), XFER_OK);
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, behind, kPatience).status,
                      XFER_ECANCELED);
        fake_cuda_free(other);
        if (way == kCancel)
            assert_status(xfer_cancel(pair.server->engine, NULL, user, ANY_USER), XFER_OK);
        pass_ms(100);
        assert_int_equal(count_events(pair.server, XFER_EVENT_RECV, user), 0);
        assert_int_equal(count_events(pair.client, XFER_EVENT_SEND, user), 0);
        assert_status(put_now(pair.client, pair.ep, host_memory(64, 1), &pair.ref, 0, 64), XFER_OK);
        fake_cuda_hold(0);
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, user, kPatience).status, status);
        if (status == XFER_OK) assert_device_filled(into, length, 5, 0);
        fake_cuda_free(into);
        const xfer_event_t sent = wait_event(pair.client, XFER_EVENT_SEND, user, kPatience);
        assert_true((sent.status == XFER_OK) == (status == XFER_OK));
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, behind, kPatience).status,
                      XFER_ECANCELED);
    }
}

/* Messages whose sends have succeeded are not lost with receives that are canceled before they are
 * copied: the next receives get them, in order, and those that were posted before get them at once.
 */
static void test_canceled_before_a_copy(void **state) {
    enum { kHeld = 6 };
    Pair pair;
    pair_open(&pair, *state, kChunk);
    uint8_t *const into = device_memory(kHeld * kEager, 1), *const host = test_memory(kEager);
    void *const busy = device_memory(64, 1);
    for (uint64_t i = 0; i < kHeld; i++) {
        send_to(pair.ep, host_memory(kEager, 10 + i), kEager, i, 0);
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
    }
    const unsigned before = fake_cuda_calls(kWait);
    fake_cuda_hold(1);
    for (uint64_t i = 0; i < 4; i++) {
        receive_at(pair.server, NULL, i ? into : busy, i ? kEager : 64, 100 + i, 0);
        if (i == 0) await_copies(kWait, before, 1); /* what comes now has not begun */
    }
    for (uint64_t i = 3; i > 0; i--) {
        if (i != 2)
            assert_status(xfer_cancel(pair.server->engine, NULL, 100 + i, ANY_USER), XFER_OK);
    }
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 101, kPatience).status, XFER_ECANCELED);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 103, kPatience).status, XFER_ECANCELED);
    receive_at(pair.server, NULL, host, kEager, 200, 0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 200, kPatience).status, XFER_OK);
    assert_true(filled(host, kEager, 11, 0));
    /* The last two, with one more receive than there are messages. */
    for (uint64_t i = 0; i < 4; i++)
        receive_at(pair.server, NULL, into + i * kEager, kEager, 300 + i, 0);
    assert_status(xfer_cancel(pair.server->engine, NULL, 300, ANY_USER), XFER_OK);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 300, kPatience).status, XFER_ECANCELED);
    fake_cuda_hold(0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 100, kPatience).status, XFER_ETRUNC);
    for (uint64_t i = 1; i < 4; i++)
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, 300 + i, kPatience).status, XFER_OK);
    assert_device_filled(into + kEager, kEager, 14, 0);
    assert_device_filled(into + 2 * kEager, kEager, 15, 0);
    assert_device_filled(into + 3 * kEager, kEager, 13, 0);
    fake_cuda_free(into);
    fake_cuda_free(busy);
}

/* One cancel of several receives: what it gives back is for none of them. */
static void test_all_canceled_before_a_copy(void **state) {
    Pair pair;
    xfer_message_info_t info;
    pair_open(&pair, *state, kChunk);
    void *const into = device_memory(kEager, 1), *const busy = device_memory(kEager, 1);
    for (uint64_t i = 0; i < 2; i++) {
        send_to(pair.ep, host_memory(kEager, 5), kEager, i, 0);
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
    }
    const unsigned before = fake_cuda_calls(kWait);
    fake_cuda_hold(1);
    receive_at(pair.server, NULL, busy, kEager, 1, 0);
    await_copies(kWait, before, 1);
    receive_at(pair.server, NULL, into, kEager, 100, 0);
    receive_at(pair.server, NULL, test_memory(kEager), kEager, 101, 0);
    assert_status(xfer_cancel(pair.server->engine, NULL, 100, ~UINT64_C(3)), XFER_OK);
    for (uint64_t i = 100; i < 102; i++)
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, i, kPatience).status,
                      XFER_ECANCELED);
    assert_status(xfer_peek(pair.server->engine, NULL, kTag, ANY_USER, &info, sizeof info),
                  XFER_OK);
    fake_cuda_hold(0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 1, kPatience).status, XFER_OK);
    fake_cuda_free(into);
    fake_cuda_free(busy);
}

static void hold_messages(Pair *pair, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        send_to(pair->ep, host_memory(kEager, 10 + i), kEager, i, 0);
        assert_status(wait_event(pair->client, XFER_EVENT_SEND, i, kPatience).status, XFER_OK);
    }
}

/* Receives that wait get what one cancel gives back in the order in which it was sent, whichever
 * copy was asked for first. */
static void test_given_back_in_order(void **state) {
    Pair pair;
    pair_open(&pair, *state, kChunk);
    uint8_t *const into = device_memory(3 * kEager, 1), *const host = test_memory(2 * kEager);
    hold_messages(&pair, 3);
    const unsigned before = fake_cuda_calls(kWait);
    fake_cuda_hold(1);
    receive_at(pair.server, NULL, into, kEager, 1, 0);
    await_copies(kWait, before, 1); /* what comes now has not begun */
    receive_at(pair.server, NULL, into + kEager, kEager, 40, 0);
    receive_at(pair.server, NULL, into + 2 * kEager, kEager, 100, 0);
    assert_status(xfer_cancel(pair.server->engine, NULL, 40, ANY_USER), XFER_OK);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 40, kPatience).status, XFER_ECANCELED);
    receive_at(pair.server, NULL, into + kEager, kEager, 101, 0); /* the older, asked for later */
    receive_at(pair.server, NULL, host, kEager, 50, 0);
    receive_at(pair.server, NULL, host + kEager, kEager, 51, 0);
    assert_status(xfer_cancel(pair.server->engine, NULL, 100, ~UINT64_C(3)), XFER_OK);
    for (uint64_t i = 0; i < 2; i++) {
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, 100 + i, kPatience).status,
                      XFER_ECANCELED);
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, 50 + i, kPatience).status, XFER_OK);
        assert_true(filled(host + i * kEager, kEager, 11 + i, 0));
    }
    fake_cuda_hold(0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 1, kPatience).status, XFER_OK);
    fake_cuda_free(into);
}

/* A drain waits for what is copied. */
static void test_drained_in_a_copy(void **state) {
    Pair pair;
    pair_open(&pair, *state, kChunk);
    void *const into = device_memory(kEager, 1);
    hold_messages(&pair, 1);
    const unsigned before = fake_cuda_calls(kWait);
    fake_cuda_hold(1);
    receive_at(pair.server, NULL, into, kEager, 1, 0);
    await_copies(kWait, before, 1);
    assert_status(xfer_engine_drain(pair.server->engine, 2, NULL), XFER_OK);
    wait_event(pair.client, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
    pass_ms(100);
    assert_int_equal(count_events(pair.server, XFER_EVENT_DRAINED, 2), 0);
    fake_cuda_hold(0);
    const xfer_event_t received = wait_event(pair.server, XFER_EVENT_RECV, 1, kPatience);
    const xfer_event_t drained = wait_event(pair.server, XFER_EVENT_DRAINED, 2, kPatience);
    assert_status(received.status, XFER_OK);
    assert_status(drained.status, XFER_OK);
    assert_true(drained.sequence > received.sequence);
    assert_device_filled(into, kEager, 10, 0);
    fake_cuda_free(into);
}

/* More of them into a device that does not go on than may be under way unseen: others go by, and
 * the stall limit ends those that have not begun. */
static void test_others_go_by(void **state) {
    enum { kCount = 20, kOther = kTag + 1 };
    xfer_engine_options_t options = host_options(*state);
    options.stall_ms = 4000;
    Pair pair;
    pair_open_with(&pair, &options, &options, *state, kChunk);
    uint8_t *const into = device_memory(kCount * kEager, 1), *const host = test_memory(kEager);
    const unsigned before = fake_cuda_calls(kWait);
    fake_cuda_hold(1);
    for (uint64_t i = 0; i < kCount; i++) {
        receive_at(pair.server, NULL, into + i * kEager, kEager, i, 0);
        send_to(pair.ep, host_memory(kEager, 10 + i), kEager, i, 0);
        if (i == 0) await_copies(kWait, before, 1);
    }
    assert_status(xfer_recv(pair.server->engine, NULL, host, kEager, kOther, ANY_USER, 100, NULL),
                  XFER_OK);
    assert_status(xfer_send(pair.ep, host_memory(kEager, 9), kEager, kOther, 100, NULL), XFER_OK);
    const xfer_event_t other = wait_event(pair.server, XFER_EVENT_RECV, 100, kPatience);
    assert_status(other.status, XFER_OK);
    assert_true(filled(host, kEager, 9, 0));
    for (uint64_t i = 1; i < kCount; i++) {
        const xfer_event_t event = wait_event(pair.server, XFER_EVENT_RECV, i, kPatience);
        assert_status(event.status, XFER_ETIMEDOUT);
        assert_true(event.sequence > other.sequence);
    }
    fake_cuda_hold(0);
    assert_status(wait_event(pair.server, XFER_EVENT_RECV, 0, kPatience).status, XFER_OK);
    assert_device_filled(into, kEager, 10, 0);
    fake_cuda_free(into);
    for (uint64_t i = 0; i < kCount; i++)
        wait_event(pair.client, XFER_EVENT_SEND, i, kPatience);
}

/* The same of a send. */
static void test_send_ends_in_a_copy(void **state) {
    Pair pair;
    pair_open(&pair, *state, kChunk);
    for (uint64_t i = 0; i < 2; i++) {
        void *const from = device_memory(kLong, 1), *const into = test_memory(kLong);
        const uint64_t user = 10 + i;
        const xfer_op_options_t options = {.size = sizeof options, .timeout_ms = i ? 1500 : 0};
        const unsigned before = fake_cuda_calls(kWait);
        fake_cuda_hold(1);
        receive_at(pair.server, NULL, into, kLong, user, 0);
        assert_status(xfer_send(pair.ep, from, kLong, kTag, user, &options), XFER_OK);
        await_copies(kWait, before, 1);
        pass_ms(i ? 1700 : 50);
        if (i == 0)
            assert_status(xfer_cancel(pair.client->engine, pair.ep, user, ANY_USER), XFER_OK);
        pass_ms(100);
        assert_int_equal(count_events(pair.client, XFER_EVENT_SEND, user), 0);
        fake_cuda_hold(0);
        const xfer_event_t event = wait_event(pair.client, XFER_EVENT_SEND, user, kPatience);
        fake_cuda_free(from);
        assert_completion(&event);
        assert_true(event.status != XFER_OK);
        assert_true(wait_event(pair.server, XFER_EVENT_RECV, user, kPatience).status != XFER_OK);
    }
}

/* CLOSED of an endpoint comes behind the receives that name it, and those behind their copies. */
static void test_endpoint_closed_in_a_copy(void **state) {
    Pair pair;
    pair_open(&pair, *state, kChunk);
    host_listen(pair.client, "tcp://127.0.0.1:0");
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t length = i ? kLong : kEager, user = 10 + 3 * i;
        void *const into = device_memory(length, 1), *const other = device_memory(length, 1);
        const unsigned before = fake_cuda_calls(kWait);
        xfer_ep_t *const ep = open_ep(pair.server, pair.client->uri);
        fake_cuda_hold(1);
        receive_at(pair.server, ep, into, length, user, 0);
        receive_at(pair.server, ep, other, length, user + 1, 0);
        receive_at(pair.server, ep, other, length, user + 2, 0);
        assert_status(connect_now(pair.server, ep, kPatience), XFER_OK);
        send_to(pair.ep, host_memory(length, 5), length, user, 0);
        await_copies(kWait, before, 1);
        send_to(pair.ep, host_memory(length, 5), length, user + 1, 0);
        pass_ms(50);
        assert_status(xfer_ep_close(ep), XFER_OK);
        for (uint64_t j = 1; j < 3; j++)
            assert_status(wait_event(pair.server, XFER_EVENT_RECV, user + j, kPatience).status,
                          XFER_ECANCELED);
        fake_cuda_free(other);
        pass_ms(100);
        assert_int_equal(count_events(pair.server, XFER_EVENT_RECV, user), 0);
        assert_int_equal(count_events(pair.server, XFER_EVENT_CLOSED, ANY_USER), i);
        fake_cuda_hold(0);
        const xfer_event_t told = wait_event(pair.server, XFER_EVENT_RECV, user, kPatience);
        fake_cuda_free(into);
        assert_status(told.status, i ? XFER_ECANCELED : XFER_OK);
        const xfer_event_t closed = wait_event(pair.server, XFER_EVENT_CLOSED, ANY_USER, kPatience);
        assert_true(closed.sequence > told.sequence);
        for (uint64_t j = 0; j < 2; j++)
            wait_event(pair.client, XFER_EVENT_SEND, user + j, kPatience);
    }
}

/* An engine ends behind the copies of both its sides. */
static void test_engine_closed_in_a_copy(void **state) {
    for (uint64_t i = 0; i < 3; i++) {
        Pair pair;
        pair_open(&pair, *state, kChunk);
        const uint64_t length = i == 0 ? kEager : kLong;
        void *const from = i == 2 ? device_memory(length, 1) : host_memory(length, 1);
        void *const into = i == 2 ? host_memory(length, 2) : device_memory(length, 2);
        Host *const closes = i == 2 ? pair.client : pair.server;
        const uint32_t kind = i == 2 ? XFER_EVENT_SEND : XFER_EVENT_RECV;
        const unsigned before = fake_cuda_calls(kWait);
        fake_cuda_hold(1);
        receive_at(pair.server, NULL, into, length, 1, 0);
        send_to(pair.ep, from, length, 1, 0);
        await_copies(kWait, before, 1);
        assert_status(xfer_engine_close(closes->engine), XFER_OK);
        pass_ms(100);
        assert_int_equal(count_events(closes, kind, 1), 0);
        fake_cuda_hold(0);
        const xfer_event_t event = wait_event(closes, kind, 1, kPatience);
        assert_true((event.status == XFER_OK) == (i == 0));
        fake_cuda_free(i == 2 ? from : into);
        host_end(pair.client);
        host_end(pair.server);
    }
}

/* ---- ends of a peer ---- */

/* Sends, or receives, messages of more chunks than are copied at once, until it is killed. */
static int talk(const char *uri) {
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *engine = NULL;
    xfer_ep_t *ep = NULL;
    xfer_event_t event;
    const bool sends = *uri++ == 's';
    uint8_t *local = calloc(1, kLonger);
    if (local == NULL || xfer_engine_open(&options, &engine, NULL) != XFER_OK ||
        xfer_ep_open(engine, uri, NULL, &ep, NULL) != XFER_OK ||
        xfer_ep_connect(ep, 1, NULL) != XFER_OK)
        return 3;
    for (int i = 0; i < 4; i++)
        if ((sends ? xfer_send(ep, local, kLonger, kTag, 1, NULL)
                   : xfer_recv(engine, ep, local, kLonger, kTag, ANY_USER, 1, NULL)) != XFER_OK)
            return 4;
    for (uint32_t count = 0;;)
        if (xfer_engine_poll(engine, &event, sizeof event, 1, XFER_NONE, &count) != XFER_OK)
            return 5;
}

static void test_peer_killed_in_a_copy(void **state) {
    for (int sends = 0; sends < 2; sends++) {
        Peer peer;
        char argument[300];
        Host *const host = host_open(*state);
        host_listen(host, "tcp://127.0.0.1:0");
        void *const memory = device_memory(kLonger, 1);
        const uint32_t kind = sends ? XFER_EVENT_RECV : XFER_EVENT_SEND;
        const unsigned before = fake_cuda_calls(kWait);
        fake_cuda_hold(1);
        snprintf(argument, sizeof argument, "%s%s", sends ? "s" : "r", host->uri);
        peer_start_role(&peer, "talk", argument);
        xfer_ep_t *const ep = wait_event(host, XFER_EVENT_PEER, ANY_USER, kPatience).ep;
        if (sends)
            receive_at(host, NULL, memory, kLonger, 1, 0);
        else
            send_to(ep, memory, kLonger, 1, 0);
        await_copies(kWait, before, 1);
        peer_kill(&peer);
        pass_ms(150);
        assert_int_equal(count_events(host, kind, 1), 0);
        assert_int_equal(count_events(host, XFER_EVENT_PEER_DOWN, ANY_USER), 0);
        fake_cuda_hold(0);
        const xfer_event_t event = wait_event(host, kind, 1, kPatience);
        fake_cuda_free(memory);
        assert_completion(&event);
        assert_status(event.status, XFER_EPEERLOST);
        wait_event(host, XFER_EVENT_PEER_DOWN, ANY_USER, kPatience);
        host_end(host);
    }
}

/* ---- copies that fail ---- */

/* Either end tells of it: the one whose device it was with the error of its driver. */
static void test_failing_copies(void **state) {
    for (uint64_t i = 0; i < 4; i++) {
        Pair pair;
        pair_open(&pair, *state, kChunk);
        const bool out = i > 1;
        const uint64_t length = i % 2 ? kLong : 100;
        void *const device = device_memory(length, 1), *const host = host_memory(length, 2);
        fake_cuda_fail(out ? kOut : kIn, 1, CUDA_ERROR_ILLEGAL_ADDRESS, 0);
        receive_at(pair.server, NULL, out ? host : device, length, 1, 0);
        send_to(pair.ep, out ? device : host, length, 1, XFER_FLAG_SYNC);
        const xfer_event_t received = wait_event(pair.server, XFER_EVENT_RECV, 1, kPatience);
        const xfer_event_t sent = wait_event(pair.client, XFER_EVENT_SEND, 1, kPatience);
        assert_status(received.status, XFER_EIO);
        assert_status(sent.status, XFER_EIO);
        assert_int_equal(received.origin, out ? XFER_ORIGIN_PEER : XFER_ORIGIN_CUDA);
        assert_int_equal(sent.origin, out ? XFER_ORIGIN_CUDA : XFER_ORIGIN_PEER);
        assert_int_equal((out ? sent : received).native_code, CUDA_ERROR_ILLEGAL_ADDRESS);
        receive_at(pair.server, NULL, out ? host : device, length, 2, 0);
        send_to(pair.ep, out ? device : host, length, 2, XFER_FLAG_SYNC);
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, 2, kPatience).status, XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, 2, kPatience).status, XFER_OK);
        host_end(pair.client);
        host_end(pair.server);
        fake_cuda_free(device);
    }
}

/* ---- memory that is not what was sent, or lent to a receive ---- */

/* It was freed, and its addresses are another allocation, with other bytes. */
static void give_to_another(uint8_t *device, uint64_t length) {
    fake_cuda_free(device);
    assert_ptr_equal(fake_cuda_alloc_at(length, device), device);
    fake_cuda_write(device, host_memory(length, 9), length);
}

static void test_allocation_that_is_another(void **state) {
    for (uint64_t i = 0; i < 4; i++) {
        Pair pair;
        pair_open(&pair, *state, kChunk);
        const bool sent = i > 1;
        const uint64_t length = i % 2 ? kLong : 100;
        uint8_t *const device = device_memory(length, 1), *const host = host_memory(length, 2);
        if (sent) {
            send_to(pair.ep, device, length, 1, 0);
            await_envelope(pair.server);
            give_to_another(device, length);
            receive_at(pair.server, NULL, host, length, 1, 0);
        } else {
            receive_at(pair.server, NULL, device, length, 1, 0);
            give_to_another(device, length);
            send_to(pair.ep, host, length, 1, 0);
        }
        const xfer_event_t received = wait_event(pair.server, XFER_EVENT_RECV, 1, kPatience);
        const xfer_event_t ended = wait_event(pair.client, XFER_EVENT_SEND, 1, kPatience);
        assert_status(received.status, XFER_EIO);
        assert_status(ended.status, XFER_EIO);
        assert_int_equal(received.origin, sent ? XFER_ORIGIN_PEER : XFER_ORIGIN_OS);
        assert_int_equal(ended.origin, sent ? XFER_ORIGIN_OS : XFER_ORIGIN_PEER);
        assert_int_equal((sent ? ended : received).native_code, EFAULT);
        assert_true(filled(host, length, 2, 0));
        assert_device_filled(device, length, 9, 0);
        receive_at(pair.server, NULL, sent ? host : device, length, 2, 0);
        send_to(pair.ep, sent ? device : host, length, 2, 0);
        assert_status(wait_event(pair.server, XFER_EVENT_RECV, 2, kPatience).status, XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_SEND, 2, kPatience).status, XFER_OK);
        host_end(pair.client);
        host_end(pair.server);
        fake_cuda_free(device);
    }
}

#define EACH(test) EACH_WAY(test), DEVICE_TEST(test, 2, "thread/2")

static const struct CMUnitTest tests[] = {
    EACH(test_sizes),
    EACH(test_order),
    EACH(test_rules),
    EACH(test_held),
    EACH(test_receive_ends_in_a_copy),
    EACH(test_canceled_before_a_copy),
    EACH(test_all_canceled_before_a_copy),
    EACH_WAY(test_others_go_by),
    EACH(test_given_back_in_order),
    EACH(test_drained_in_a_copy),
    EACH(test_send_ends_in_a_copy),
    EACH(test_endpoint_closed_in_a_copy),
    EACH(test_engine_closed_in_a_copy),
    EACH(test_peer_killed_in_a_copy),
    EACH(test_failing_copies),
    EACH(test_allocation_that_is_another),
};

TEST_MAIN_AFTER(tests, peer_role("talk", talk))
