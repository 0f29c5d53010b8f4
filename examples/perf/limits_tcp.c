/* SPDX-License-Identifier: Apache-2.0 */
#include <err.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "limits.h"
#include "measure.h"

/* How many pieces one system call is given. The kernel takes up to 1,024, but copies the list at
 * every call, also when a receiver finds only a few pieces there. */
enum { SEND_PIECES = 1024, RECEIVE_PIECES = 64 };

/* What is left of one block: `first` has its first `skip` bytes behind it. */
struct progress {
    const struct iovec *first;
    size_t pieces;
    size_t skip;
};

static size_t next_pieces(const struct progress *left, struct iovec *window, size_t most) {
    size_t count = left->pieces < most ? left->pieces : most;
    memcpy(window, left->first, count * sizeof window[0]);
    window[0].iov_base = (char *)window[0].iov_base + left->skip;
    window[0].iov_len -= left->skip;
    return count;
}

static void advance(struct progress *left, size_t bytes) {
    while (left->pieces > 0 && bytes >= left->first->iov_len - left->skip) {
        bytes -= left->first->iov_len - left->skip;
        left->first++;
        left->pieces--;
        left->skip = 0;
    }
    left->skip += bytes;
}

typedef ssize_t move_fn(int fd, struct msghdr *message, int flags);

static ssize_t send_some(int fd, struct msghdr *message, int flags) {
    return sendmsg(fd, message, flags | MSG_NOSIGNAL);
}

static ssize_t receive_some(int fd, struct msghdr *message, int flags) {
    return recvmsg(fd, message, flags);
}

static void move_block(int fd, const struct iovec *pieces, size_t count, bool spin, move_fn *move,
                       size_t most) {
    struct iovec window[SEND_PIECES];
    struct progress left = {.first = pieces, .pieces = count};
    while (left.pieces > 0) {
        struct msghdr message = {.msg_iov = window};
        message.msg_iovlen = next_pieces(&left, window, most);
        ssize_t moved = move(fd, &message, spin ? MSG_DONTWAIT : 0);
        unsigned turns = 0;
        while (moved < 0 && errno == EAGAIN && spin) {
            spin_rest(&turns);
            moved = move(fd, &message, MSG_DONTWAIT);
        }
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) err(1, "raw TCP");
        if (moved == 0) errx(1, "raw TCP: the other side ended");
        advance(&left, (size_t)moved);
    }
}

void raw_post(int fd, bool spin) {
    char byte = 1;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    move_block(fd, &piece, 1, spin, send_some, 1);
}

void raw_wait(int fd, bool spin) {
    char byte;
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    move_block(fd, &piece, 1, spin, receive_some, 1);
}

/* The byte of the receiver goes behind a put, as its acknowledgement, and before a get, as the
 * request. In a stream there is only the last, or the first. */
static bool byte_before(const struct plan *plan, uint64_t i) {
    return plan_reads(plan) && (plan->acked || i == 0);
}

static bool byte_behind(const struct plan *plan, uint64_t i) {
    return !plan_reads(plan) && (plan->acked || i + 1 == plan->count);
}

void raw_send(int fd, const struct blocks *blocks, const struct plan *plan, double *times) {
    bool spin = plan->spin;
    for (uint64_t i = 0; i < plan->count; i++) {
        uint64_t start = times != NULL ? now_ns() : 0;
        if (byte_before(plan, i)) raw_wait(fd, spin);
        move_block(fd, blocks->pieces + (i % blocks->count) * blocks->per_block, blocks->per_block,
                   spin, send_some, SEND_PIECES);
        if (byte_behind(plan, i)) raw_wait(fd, spin);
        if (times != NULL) times[i] = (double)(now_ns() - start);
    }
}

void raw_receive(int fd, const struct blocks *blocks, const struct plan *plan, double *times) {
    bool spin = plan->spin;
    for (uint64_t i = 0; i < plan->count; i++) {
        uint64_t start = times != NULL ? now_ns() : 0;
        if (byte_before(plan, i)) raw_post(fd, spin);
        move_block(fd, blocks->pieces + (i % blocks->count) * blocks->per_block, blocks->per_block,
                   spin, receive_some, RECEIVE_PIECES);
        if (byte_behind(plan, i)) raw_post(fd, spin);
        if (times != NULL) times[i] = (double)(now_ns() - start);
    }
}
