/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine can do, measured by plain C in the same run and over the same buffers as
 * libxfer. */
#ifndef PERF_LIMITS_H
#define PERF_LIMITS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "blocks.h"

/* In the loop of who waits without sleeping; `turns` counts them. Whom it waits for may need this
 * very CPU. */
static inline void spin_rest(unsigned *turns) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (++*turns % 1024 == 0) sched_yield();
}

/* Nanoseconds that one cache line needs from one CPU to the other: half a round trip between two
 * pinned threads, 0 on a machine with one CPU. */
double core_to_core_ns(void);

/* GB/s of memcpy from one buffer of `size` bytes to another. */
double memcpy_rate(uint64_t size, double seconds);

/* Copies of the pieces of `here` to those of `there`, or back for a get: within a mapping of a
 * memfd, or through the kernel, where `there` are addresses of the process `owner`. */
enum near_way { NEAR_MEMCPY, NEAR_STREAMING, NEAR_KERNEL };
uint8_t *memfd_map(uint64_t length);
bool has_streaming_copy(void);
void near_copy(enum near_way way, pid_t owner, const struct blocks *here,
               const struct blocks *there, const struct plan *plan, double *times);

/* A process that takes turns with this one; it has nothing of libxfer. */
struct flag;
struct ring;
struct partner {
    struct flag *flags; /* of both sides */
    struct ring *ring;
    uint64_t ring_length;
    int wakes[2]; /* eventfds of both sides */
    int epoll;    /* ours */
    int orders;
    pid_t process; /* 0: none */
};
/* With a ring of `ring_length` bytes between the two; 0: none. */
void partner_start(struct partner *partner, int cpu, uint64_t ring_length);
/* `count` turns each of `plan`, in its way of waiting. */
void partner_play(struct partner *partner, const struct plan *plan, double *times);
/* The operations of `plan` by the ring, of which as many are under way as the window has. */
void partner_ring(struct partner *partner, const struct blocks *blocks, const struct plan *plan,
                  double *times);
void partner_end(struct partner *partner);

/* The ring: slots in shared memory, each with a flag and the bytes of one operation. Both sides
 * spin. */
uint64_t ring_length(const struct plan *plan);
void ring_ask(struct ring *ring, const struct blocks *blocks, const struct plan *plan,
              double *times);
void ring_answer(struct ring *ring, const struct plan *plan);
void ring_reset(struct ring *ring, const struct plan *plan);

/* One side of a raw TCP run over `fd`, connected and with TCP_NODELAY. The sender is the initiator
 * of a put and the owner of a get. In `times`, if not NULL, it leaves the nanoseconds of each
 * operation. */
void raw_send(int fd, const struct blocks *blocks, const struct plan *plan, double *times);
void raw_receive(int fd, const struct blocks *blocks, const struct plan *plan, double *times);

/* The same over several connections, each with a part of the operations. */
enum { MAX_STREAMS = 16 };
void raw_streams(const int *fds, const struct blocks *blocks, const struct plan *plan, bool sends);

/* The same with a window: each operation goes as a header with its bytes, those that fit the window
 * in one system call, and is answered by its bytes or by a byte, again as many at once as came. */
void raw_ask(int fd, const struct blocks *blocks, const struct plan *plan);
void raw_answer(int fd, const struct blocks *blocks, const struct plan *plan);

/* One byte from one side to the other. */
void raw_post(int fd, bool spin);
void raw_wait(int fd, bool spin);

/* First contact: connect, 4 KiB there, one byte back. */
enum { FIRST_CONTACT_BYTES = 4096 };
int raw_listen(const char *host, uint16_t *port);
int raw_accept(int listener);
int raw_connect(const char *host, uint16_t port);
double raw_first_contact_us(const char *host, uint16_t port, const void *bytes);
void raw_answer_first_contact(int listener, void *bytes);

#endif
