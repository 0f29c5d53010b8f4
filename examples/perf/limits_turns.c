/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns between two processes of one host: a word from one to the other and back, without any
 * bytes. Whose turn it is either is seen in shared memory, or wakes who sleeps in epoll. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "limits.h"
#include "measure.h"

/* As in limits_memory.c: a line and its neighbour. */
struct flag {
    _Alignas(128) _Atomic uint64_t turn;
    char rest[128 - sizeof(uint64_t)];
};

/* The partner's order. */
struct game {
    struct plan plan;
    bool ring;
};

/* ---- one turn ---- */

static void say(struct partner *partner, int side, bool spin, uint64_t turn) {
    if (spin) {
        atomic_store_explicit(&partner->flags[side].turn, turn, memory_order_release);
        return;
    }
    uint64_t one = 1;
    if (write(partner->wakes[side], &one, sizeof one) != (ssize_t)sizeof one) err(1, "eventfd");
}

static void hear(struct partner *partner, int side, int epoll, bool spin, uint64_t turn) {
    unsigned turns = 0;
    if (spin) {
        while (atomic_load_explicit(&partner->flags[side].turn, memory_order_acquire) != turn)
            spin_rest(&turns);
        return;
    }
    struct epoll_event event;
    uint64_t count;
    int ready;
    while ((ready = epoll_wait(epoll, &event, 1, -1)) != 1) {
        if (ready < 0 && errno != EINTR) err(1, "epoll_wait");
    }
    if (read(partner->wakes[side], &count, sizeof count) != (ssize_t)sizeof count)
        err(1, "eventfd");
}

static int watch(int fd) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) err(1, "epoll");
    return epoll;
}

/* ---- the partner ---- */

static void play_along(struct partner *partner, int orders) {
    int epoll = watch(partner->wakes[0]);
    struct game game;
    while (read(orders, &game, sizeof game) == (ssize_t)sizeof game) {
        if (game.ring) {
            ring_answer(partner->ring, &game.plan);
            continue;
        }
        for (uint64_t turn = 1; turn <= game.plan.count; turn++) {
            hear(partner, 0, epoll, game.plan.spin, turn);
            say(partner, 1, game.plan.spin, turn);
        }
    }
}

static void *share(uint64_t length) {
    void *shared = mmap(NULL, length, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (shared == MAP_FAILED) err(1, "shared memory of %llu bytes", (unsigned long long)length);
    return shared;
}

void partner_start(struct partner *partner, int cpu, uint64_t ring_length) {
    int orders[2];
    if (pipe2(orders, O_CLOEXEC) != 0) err(1, "partner");
    *partner = (struct partner){.flags = share(2 * sizeof(struct flag)),
                                .ring = ring_length > 0 ? share(ring_length) : NULL,
                                .ring_length = ring_length,
                                .orders = orders[1]};
    for (int side = 0; side < 2; side++) {
        partner->wakes[side] = eventfd(0, EFD_CLOEXEC);
        if (partner->wakes[side] < 0) err(1, "eventfd");
    }
    partner->epoll = watch(partner->wakes[1]);
    partner->process = fork();
    if (partner->process < 0) err(1, "fork");
    if (partner->process > 0) {
        close(orders[0]);
        return;
    }
    /* One that spins would not notice that nobody plays any more. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(orders[1]);
    if (cpu >= 0) pin_to_cpu(cpu);
    play_along(partner, orders[0]);
    _exit(0);
}

static void order(struct partner *partner, const struct plan *plan, bool ring) {
    struct game game = {.plan = *plan, .ring = ring};
    if (write(partner->orders, &game, sizeof game) != (ssize_t)sizeof game) err(1, "partner");
}

void partner_play(struct partner *partner, const struct plan *plan, double *times) {
    atomic_store(&partner->flags[0].turn, 0);
    atomic_store(&partner->flags[1].turn, 0);
    order(partner, plan, false);
    for (uint64_t turn = 1; turn <= plan->count; turn++) {
        uint64_t start = times != NULL ? now_ns() : 0;
        say(partner, 0, plan->spin, turn);
        hear(partner, 1, partner->epoll, plan->spin, turn);
        if (times != NULL) times[turn - 1] = (double)(now_ns() - start);
    }
}

void partner_ring(struct partner *partner, const struct blocks *blocks, const struct plan *plan,
                  double *times) {
    ring_reset(partner->ring, plan);
    order(partner, plan, true);
    ring_ask(partner->ring, blocks, plan, times);
}

void partner_end(struct partner *partner) {
    if (partner->process <= 0) return;
    close(partner->orders);
    waitpid(partner->process, NULL, 0);
    close(partner->wakes[0]);
    close(partner->wakes[1]);
    close(partner->epoll);
    munmap(partner->flags, 2 * sizeof(struct flag));
    if (partner->ring != NULL) munmap(partner->ring, partner->ring_length);
}
