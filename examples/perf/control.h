/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two processes say to each other beside the measured traffic: one request, one answer.
 * Both run the same program; the two hosts must have the same byte order, which the magic number
 * tells. */
#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocks.h"

/* The owner's memory: any that it has, or made by xfer_region_alloc, which neighbours can map. */
enum memory { MEMORY_ANY, MEMORY_MADE };

/* How an engine is driven. */
struct mode {
    uint32_t dispatch;   /* XFER_DISPATCH_* */
    uint32_t io_threads; /* this one, spin_us and lanes as in xfer_engine_options_t */
    uint32_t spin_us;
    uint32_t lanes;
    uint32_t checksum;   /* of every payload */
    uint32_t busy;       /* POLL: the polling threads of both sides never sleep while a run lasts */
    uint32_t memory;     /* enum memory; the owner's */
    char transports[36]; /* as in xfer_engine_options_t; empty: all */
};

enum request_kind {
    ASK_MEMORY = 1,    /* make the owner's buffer of `number` bytes */
    ASK_RAW,           /* play the owner's side of a raw run of `plan` on the data connection */
    ASK_FIRST_CONTACT, /* answer `number` raw first contacts */
    ASK_ENGINE, /* open an engine in `mode`, with the buffer as region; answers where it listens */
    ASK_ENGINE_END,
    ASK_ECHO,  /* send messages of up to `number` bytes back, until the engine ends */
    ASK_SINK,  /* take messages and notifications that go one way, as of `plan` or less */
    ASK_RUN,   /* a run of `number` operations begins: busy pollers start to spin */
    ASK_REST,  /* it has ended */
    ASK_STATE, /* what this process used, what its engine counted */
    ASK_FILL,  /* write the pattern of seed `number` over the blocks of `plan` */
    ASK_CHECK  /* compare; answers how many pieces are wrong */
};

struct request {
    uint64_t magic;
    uint64_t kind;
    uint64_t number;
    struct plan plan;
    struct mode mode;
    uint32_t reserved;
};

struct answer {
    uint64_t magic;
    uint64_t number; /* wrong pieces */
    double cpu;      /* seconds, since the start of the process, of a raw run: during it */
    uint64_t resident;
    uint64_t wakeups;
    uint64_t connections;
    uint64_t served;  /* bytes that its engine moved for peers */
    uint64_t process; /* its number, and where its buffer lies, to whom is on the same host */
    uint64_t memory;
    uint64_t ports[2]; /* of the raw listener, of the engine */
};

/* This program again, in a process of its own that is told the number of its end of a channel to
 * us as the value of `option`; kept on `cpu` unless that is negative. Returns our end. */
int control_start(const char *option, int cpu);

void control_send(int fd, const void *bytes, size_t length);
/* Returns false when the other side has ended. */
bool control_receive(int fd, void *bytes, size_t length);

void control_send_request(int fd, const struct request *request);
/* Returns false when the other side has ended. */
bool control_receive_request(int fd, struct request *request);
void control_send_answer(int fd, const struct answer *answer);
void control_receive_answer(int fd, struct answer *answer);

#endif
