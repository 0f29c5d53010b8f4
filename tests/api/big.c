/* SPDX-License-Identifier: Apache-2.0
 *
 * More than 4 GiB in one operation. Most of the address range is one window of memory mapped again
 * and again, so that it costs little; the first window and those beside 4 GiB are their own, so
 * that a length or offset cut to 32 bits cannot go unseen. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

static const uint64_t kWindow = 32 << 20;
enum { kWindows = 129, kBelow = 127, kAbove = 128, kTail = 5, kPage = 4096 };
static const uint64_t kLength = (uint64_t)kWindows * (32 << 20) + kTail;

static void map_at(void *address, uint64_t length, int fd, uint64_t offset) {
    void *mapped =
        mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset);
    assert_ptr_equal(mapped, address);
}

static uint8_t *map_windows(void) {
    int fd = memfd_create("big", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(4 * kWindow + kPage)), 0);
    uint8_t *base =
        mmap(NULL, kLength + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(base != MAP_FAILED);
    for (uint64_t i = 0; i < kWindows; i++) {
        uint64_t from = i == 0 ? 0 : i == kBelow ? 2 : i == kAbove ? 3 : 1;
        map_at(base + i * kWindow, kWindow + (i == kAbove ? kPage : 0), fd, from * kWindow);
    }
    close(fd);
    return base;
}

static void fill_windows(uint8_t *base, uint64_t seed) {
    fill(base, kWindow, seed);
    fill(base + kWindow, kWindow, seed + 1);
    fill(base + kBelow * kWindow, kWindow, seed + 2);
    fill(base + kAbove * kWindow, kWindow + kTail, seed + 3);
}

static bool windows_filled(const uint8_t *base, uint64_t seed) {
    return filled(base, kWindow, seed, 0) && filled(base + kWindow, kWindow, seed + 1, 0) &&
           filled(base + kBelow * kWindow, kWindow, seed + 2, 0) &&
           filled(base + kAbove * kWindow, kWindow + kTail, seed + 3, 0);
}

static void test_more_than_4_gib(void **state) {
    xfer_engine_options_t options = host_options(*state);
    Pair pair = {.length = kLength};
    pair.memory = map_windows();
    uint8_t *local = map_windows();
    pair.server = host_open_with(*state, &options);
    pair.client = host_open_with(*state, &options);
    host_listen(pair.server, "tcp://127.0.0.1:0");
    open_region(pair.server, "big", XFER_READ | XFER_WRITE, pair.memory, kLength);
    pair.ep = open_ep(pair.client, pair.server->uri);
    pair.ref = look_up(pair.client, pair.ep, "big");

    fill_windows(local, 10);
    assert_status(xfer_put(pair.ep, local, &pair.ref, 0, kLength, 1, NULL), XFER_OK);
    xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, 1, 120000);
    assert_status(event.status, XFER_OK);
    assert_true(event.bytes == kLength);
    assert_true(windows_filled(pair.memory, 10));

    fill_windows(pair.memory, 20);
    assert_status(xfer_get(pair.ep, local, &pair.ref, 0, kLength, 2, NULL), XFER_OK);
    event = wait_event(pair.client, XFER_EVENT_GET, 2, 120000);
    assert_status(event.status, XFER_OK);
    assert_true(event.bytes == kLength);
    assert_true(windows_filled(local, 20));

    /* Small ones beyond 4 GiB. */
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, kLength - kTail, kTail), XFER_OK);
    assert_true(filled(pair.memory + kLength - kTail, kTail, 20, 0));
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, kLength - kTail, kTail + 1),
                  XFER_ERANGE);
    host_end(pair.client);
    host_end(pair.server);
    munmap(local, kLength + kPage);
    munmap(pair.memory, kLength + kPage);
}

static const struct CMUnitTest tests[] = {
    MODE_TEST(test_more_than_4_gib, 1, "thread/1"),
    MODE_TEST(test_more_than_4_gib, 6, "poll/none"),
};

TEST_MAIN(tests)
