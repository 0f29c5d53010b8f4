/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine as a guest of the caller's own epoll. Nothing here has a thread: with io_threads none
 * the engines do all their work inside xfer_engine_poll, when epoll says that there is some. Two
 * engines and a timer share the one epoll; each put is submitted when the one before has ended,
 * while the timer ticks on.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "must.h"

enum { PUTS = 2000 };
enum { EVENT_BURST = 32 };

static struct {
    xfer_ep_t *ep;
    xfer_ref_t counter; /* the owner's number */
    uint64_t value;     /* what the next put writes: 1, 2, 3 ... */
} job;

static void put_next(void) {
    job.value++;
    MUST(xfer_put(job.ep, &job.value, &job.counter, 0, sizeof job.value, job.value, NULL));
}

static void on_event(const xfer_event_t *event) {
    if (event->kind == XFER_EVENT_LOOKUP) {
        MUST(event->status);
        memcpy(&job.counter, event->data, sizeof job.counter);
        put_next();
    } else if (event->kind == XFER_EVENT_PUT) {
        MUST(event->status);
        EXPECT(event->user == job.value);
        if (job.value < PUTS) put_next();
    }
}

/* Takes all there is. A poll that returned less than it could has left the descriptor quiet. */
static void drive(xfer_engine_t *engine) {
    xfer_event_t events[EVENT_BURST];
    uint32_t count = EVENT_BURST;
    while (count == EVENT_BURST) {
        MUST(xfer_engine_poll(engine, events, sizeof events[0], EVENT_BURST, 0, &count));
        for (uint32_t i = 0; i < count; i++)
            on_event(&events[i]);
    }
}

static void watch(int epoll_fd, int fd, void *what) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    EXPECT(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

static xfer_engine_t *open_engine(int epoll_fd) {
    xfer_error_t error = {0};
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .io_threads = XFER_NONE};
    xfer_engine_t *engine = NULL;
    MUST_ERR(xfer_engine_open(&options, &engine, &error));
    int32_t fd = -1;
    MUST(xfer_engine_fd(engine, &fd));
    watch(epoll_fd, fd, engine);
    return engine;
}

int main(void) {
    xfer_error_t error = {0};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    EXPECT(epoll_fd >= 0);

    /* The caller's own business: a timer every 10 ms. */
    int timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec every = {.it_interval.tv_nsec = 10000000, .it_value.tv_nsec = 10000000};
    EXPECT(timer_fd >= 0 && timerfd_settime(timer_fd, 0, &every, NULL) == 0);
    watch(epoll_fd, timer_fd, NULL);

    xfer_engine_t *owner = open_engine(epoll_fd);
    xfer_engine_t *engine = open_engine(epoll_fd);

    char uri[256];
    MUST_ERR(xfer_engine_listen(owner, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));
    static uint64_t counter;
    xfer_region_options_t region_options = {
        .size = sizeof region_options, .access = XFER_WRITE, .name = "counter"};
    xfer_region_t *region = NULL;
    MUST_ERR(xfer_region_open(owner, &region_options, &counter, sizeof counter, &region, &error));

    MUST_ERR(xfer_ep_open(engine, uri, NULL, &job.ep, &error));
    MUST(xfer_ep_lookup(job.ep, "counter", 0, NULL, NULL));

    uint64_t ticks = 0;
    while (counter < PUTS) {
        struct epoll_event ready[4];
        int count = epoll_wait(epoll_fd, ready, 4, 5000);
        EXPECT(count > 0);
        for (int i = 0; i < count; i++) {
            uint64_t expired = 0;
            if (ready[i].data.ptr)
                drive(ready[i].data.ptr);
            else if (read(timer_fd, &expired, sizeof expired) == sizeof expired)
                ticks += expired;
        }
        EXPECT(ticks < 2000); /* 20 seconds */
    }
    printf("%d puts one after the other, %llu timer ticks beside them, one thread\n", PUTS,
           (unsigned long long)ticks);

    /* Join drives what is left of an engine by itself. Handles that outlive it are only freed. */
    MUST(xfer_engine_join(engine, XFER_NONE));
    MUST(xfer_engine_join(owner, XFER_NONE));
    (void)xfer_ep_close(job.ep);
    (void)xfer_region_close(region);
    close(timer_fd);
    close(epoll_fd);
    printf("ok\n");
    return 0;
}
