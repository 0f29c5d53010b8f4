/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "engine.h"
#include "words.h"

enum command {
    COMMAND_NONE,
    COMMAND_PUT,
    COMMAND_GET,
    COMMAND_RATE,
    COMMAND_PAGES,
    COMMAND_LATENCY,
    COMMAND_MESSAGE,
    COMMAND_CONNECT,
    COMMAND_IDLE,
    COMMAND_LIMITS
};

enum { MAX_ENGINES = 100000 };

struct options {
    enum command command;
    struct list sizes;
    struct list windows;
    bool default_windows; /* nobody gave any */
    uint64_t rounds;
    double seconds; /* of one run, unless bytes is given */
    uint64_t bytes;
    uint64_t pages;
    uint64_t page_size;
    uint64_t connections;
    uint64_t engines; /* connect: of a storm; 0: none, but first contact */
    uint64_t processes;
    bool mesh;
    struct mode mode;
    enum submitter submitter;
    bool pin;
    enum op op;        /* rate and latency */
    bool quiet;        /* rate: no event each, but a flush behind each window */
    bool read;         /* pages and latency: get instead of put */
    const char *to;    /* tcp://host:port of a serving xfer_perf; NULL: start one here */
    const char *serve; /* tcp://host:port: be that */
    const char *json;
    const char *plot;
    bool insecure;
    uint8_t key[256];
    size_t key_length;
    int crowd_fd; /* the control channel of a process with a part of a storm; -1 otherwise */
    int role_fd; /* the control channel of a serving process that an initiator started; -1 otherwise
                  */
};

void options_parse(int count, char **words, struct options *options);

/* Sets what was not said, and ends the program if something makes no sense. */
void options_complete(struct options *options);

/* This process serves others instead of measuring. */
bool options_serve(const struct options *options);

const char *command_name(enum command command);

const char *dispatch_name(uint32_t dispatch);

/* As on the command line, and in a sentence. */
const char *submitter_word(enum submitter submitter);
const char *submitter_name(enum submitter submitter);

/* Whether the engines wait for what comes without sleeping. */
bool mode_spins(const struct mode *mode);

#endif
