/* SPDX-License-Identifier: Apache-2.0
 *
 * Many small operations under way over one TCP connection, as a good plain program has them: what
 * goes the same way goes in one system call. */
#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "limits.h"

/* Of an operation: the number of its block. */
struct header {
    uint64_t block;
};

/* What was received and is not dealt with yet. */
struct inbox {
    uint8_t *bytes;
    size_t capacity;
    size_t filled;
};

static size_t ask_length(const struct plan *plan) {
    return sizeof(struct header) + (plan_reads(plan) ? 0 : plan->size);
}

static bool answer_has_bytes(const struct plan *plan) {
    return plan_reads(plan) || plan->op == OP_ATOMIC;
}

static size_t answer_length(const struct plan *plan) {
    return answer_has_bytes(plan) ? plan->size : 1;
}

static uint8_t *room(uint64_t count, size_t each) {
    uint8_t *bytes = calloc(count, each);
    if (bytes == NULL) err(1, "window");
    return bytes;
}

static bool try_again(ssize_t moved, bool spin, unsigned *turns) {
    if (moved > 0) return false;
    if (moved == 0) errx(1, "raw TCP: the other side ended");
    if (errno == EAGAIN && spin) {
        spin_rest(turns);
        return true;
    }
    if (errno != EINTR) err(1, "raw TCP");
    return true;
}

static void send_all(int fd, const uint8_t *bytes, size_t length, bool spin) {
    unsigned turns = 0;
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL | (spin ? MSG_DONTWAIT : 0));
        if (try_again(sent, spin, &turns)) continue;
        bytes += sent;
        length -= (size_t)sent;
    }
}

/* Waits for some bytes; returns how many entries of `each` bytes are there. */
static size_t receive(int fd, struct inbox *inbox, size_t each, bool spin) {
    ssize_t got;
    unsigned turns = 0;
    do {
        got = recv(fd, inbox->bytes + inbox->filled, inbox->capacity - inbox->filled,
                   spin ? MSG_DONTWAIT : 0);
    } while (try_again(got, spin, &turns));
    inbox->filled += (size_t)got;
    return inbox->filled / each;
}

static void drop(struct inbox *inbox, size_t length) {
    inbox->filled -= length;
    memmove(inbox->bytes, inbox->bytes + length, inbox->filled);
}

static void *block_of(const struct blocks *blocks, uint64_t i) {
    return blocks->pieces[i % blocks->count].iov_base;
}

/* ---- the initiator ---- */

static void write_ask(uint8_t *out, const struct blocks *blocks, const struct plan *plan,
                      uint64_t i) {
    struct header header = {.block = i % plan->window};
    memcpy(out, &header, sizeof header);
    if (!plan_reads(plan)) memcpy(out + sizeof header, block_of(blocks, i), plan->size);
}

void raw_ask(int fd, const struct blocks *blocks, const struct plan *plan) {
    size_t ask = ask_length(plan);
    size_t answer = answer_length(plan);
    uint8_t *out = room(plan->window, ask);
    struct inbox inbox = {.bytes = room(plan->window, answer), .capacity = plan->window * answer};
    uint64_t asked = 0;
    uint64_t done = 0;
    while (done < plan->count) {
        size_t length = 0;
        for (; asked < plan->count && asked - done < plan->window; asked++) {
            write_ask(out + length, blocks, plan, asked);
            length += ask;
        }
        send_all(fd, out, length, plan->spin);
        size_t answers = receive(fd, &inbox, answer, plan->spin);
        for (size_t i = 0; answer_has_bytes(plan) && i < answers; i++)
            memcpy(block_of(blocks, done + i), inbox.bytes + i * answer, answer);
        done += answers;
        drop(&inbox, answers * answer);
    }
    free(inbox.bytes);
    free(out);
}

/* ---- the owner ---- */

static void serve(const uint8_t *ask, uint8_t *answer, const struct blocks *blocks,
                  const struct plan *plan) {
    struct header header;
    memcpy(&header, ask, sizeof header);
    void *block = block_of(blocks, header.block);
    if (plan->op == OP_ATOMIC) {
        uint64_t operand;
        memcpy(&operand, ask + sizeof header, sizeof operand);
        uint64_t before = __atomic_fetch_add((uint64_t *)block, operand, __ATOMIC_SEQ_CST);
        memcpy(answer, &before, sizeof before);
    } else if (plan_reads(plan)) {
        memcpy(answer, block, plan->size);
    } else {
        memcpy(block, ask + sizeof header, plan->size);
    }
}

void raw_answer(int fd, const struct blocks *blocks, const struct plan *plan) {
    size_t ask = ask_length(plan);
    size_t answer = answer_length(plan);
    uint8_t *out = room(plan->window, answer);
    struct inbox inbox = {.bytes = room(plan->window, ask), .capacity = plan->window * ask};
    for (uint64_t done = 0; done < plan->count;) {
        size_t asks = receive(fd, &inbox, ask, plan->spin);
        for (size_t i = 0; i < asks; i++)
            serve(inbox.bytes + i * ask, out + i * answer, blocks, plan);
        done += asks;
        drop(&inbox, asks * ask);
        send_all(fd, out, asks * answer, plan->spin);
    }
    free(inbox.bytes);
    free(out);
}
