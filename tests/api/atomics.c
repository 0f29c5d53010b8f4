/* SPDX-License-Identifier: Apache-2.0 */
#include "atomics.h"

#include <string.h>

void words_open(Words *words, const Mode *mode, uint64_t count, bool made,
                const xfer_engine_options_t *options) {
    const xfer_engine_options_t usual = host_options(mode);
    *words = (Words){.server = host_open_with(mode, options ? options : &usual)};
    words->client = host_open_with(mode, options ? options : &usual);
    host_listen(words->server, "tcp://127.0.0.1:0");
    words->ep = open_ep(words->client, words->server->uri);
    words_of(words, count, made);
}

void words_of(Words *words, uint64_t count, bool made) {
    const char *const name = made ? "made" : "words";
    const uint32_t access = XFER_READ | XFER_ATOMIC;
    const uint64_t length = count * sizeof(uint64_t);
    if (made) {
        const xfer_region_options_t options = {
            .size = sizeof options, .access = access, .name = name};
        void *address = NULL;
        assert_status(xfer_region_alloc(words->server->engine, &options, length, &address,
                                        &words->region, NULL),
                      XFER_OK);
        words->memory = address;
    } else {
        words->memory = test_memory(length);
        words->region = open_region(words->server, name, access, words->memory, length);
    }
    words->ref = look_up(words->client, words->ep, name);
}

xfer_status_t atomic_now(const Words *words, uint32_t op, uint64_t *result, uint64_t offset,
                         uint64_t operand, uint64_t compare) {
    static uint64_t last = 1ull << 41;
    const uint64_t user = ++last;
    const xfer_status_t status =
        xfer_atomic(words->ep, op, result, &words->ref, offset, operand, compare, user, NULL);
    if (status != XFER_OK) return status;
    const xfer_event_t event = wait_event(words->client, XFER_EVENT_ATOMIC, user, kPatience);
    assert_completion(&event);
    assert_int_equal(event.bytes, event.status == XFER_OK ? 8 : 0);
    if (event.status != XFER_OK || result)
        assert_int_equal(event.index, event.status == XFER_OK ? *result : 0);
    return event.status;
}

void forge(xfer_ref_t *ref, size_t at, uint64_t number) {
    memcpy(ref->bytes + at, &number, sizeof number);
    uint64_t sum = 0;
    for (size_t i = 0; i < 88; i += 8) {
        uint64_t word;
        memcpy(&word, ref->bytes + i, sizeof word);
        word = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum = word << 29 | word >> 35;
    }
    memcpy(ref->bytes + 88, &sum, sizeof sum);
}
