/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <err.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

/* The owner ends when the control channel does. */
static int start_owner(bool pin) {
    int control = control_start("--role", pin ? 1 : -1);
    if (pin) pin_to_cpu(0);
    return control;
}

void session_open(struct session *session, const struct options *options, uint64_t length,
                  uint64_t ring) {
    *session = (struct session){.options = options, .length = length};
    for (int i = 0; i < MAX_STREAMS; i++)
        session->data[i] = -1;
    bool turns = options->command == COMMAND_MESSAGE || options->command == COMMAND_LATENCY ||
                 options->command == COMMAND_LIMITS;
    /* Before there are threads, and channels that it would keep open. */
    if ((turns || ring > 0) && options->to == NULL)
        partner_start(&session->partner, options->pin ? 1 : -1, ring);
    if (options->to != NULL) {
        uint16_t port;
        split_uri(options->to, session->host, sizeof session->host, &port);
        session->control = raw_connect(session->host, port);
    } else {
        snprintf(session->host, sizeof session->host, "127.0.0.1");
        session->control = start_owner(options->pin);
    }
    session->memory = memory_map(length);
    struct answer answer = session_ask(session, ASK_MEMORY, length, NULL);
    session->raw_port = (uint16_t)answer.ports[0];
}

void session_close(struct session *session) {
    partner_end(&session->partner);
    if (session->mapped != NULL) munmap(session->mapped, session->length);
    close(session->control);
    for (int i = 0; i < MAX_STREAMS; i++) {
        if (session->data[i] >= 0) close(session->data[i]);
    }
    munmap(session->memory, session->length);
    if (session->options->to == NULL) wait(NULL);
}

static void tell(struct session *session, enum request_kind kind, uint64_t number,
                 const struct plan *plan) {
    struct request request = {.kind = kind, .number = number, .mode = session->options->mode};
    if (plan != NULL) request.plan = *plan;
    control_send_request(session->control, &request);
}

struct answer session_ask(struct session *session, enum request_kind kind, uint64_t number,
                          const struct plan *plan) {
    struct answer answer;
    tell(session, kind, number, plan);
    control_receive_answer(session->control, &answer);
    session->owner = (pid_t)answer.process;
    session->owner_memory = answer.memory;
    return answer;
}

void session_engine(struct session *session, char *uri, size_t capacity) {
    struct answer answer = session_ask(session, ASK_ENGINE, 0, NULL);
    bool six = strchr(session->host, ':') != NULL;
    snprintf(uri, capacity, six ? "tcp://[%s]:%u" : "tcp://%s:%u", session->host,
             (unsigned)answer.ports[1]);
}

struct cost session_raw(struct session *session, const struct plan *plan, double *times) {
    struct blocks blocks = blocks_make(plan, session->memory, INITIATOR);
    tell(session, ASK_RAW, 0, plan);
    for (uint32_t i = 0; i == 0 || i < plan->streams; i++) {
        if (session->data[i] < 0) session->data[i] = raw_connect(session->host, session->raw_port);
    }
    raw_wait(session->data[0], false);
    double cpu = cpu_seconds();
    uint64_t start = now_ns();
    if (plan->windowed)
        raw_ask(session->data[0], &blocks, plan);
    else if (plan->streams > 0)
        raw_streams(session->data, &blocks, plan, !plan_reads(plan));
    else
        (plan_reads(plan) ? raw_receive : raw_send)(session->data[0], &blocks, plan, times);
    struct cost cost = {.seconds = (double)(now_ns() - start) / 1e9};
    cost.cpu = cpu_seconds() - cpu;
    struct answer answer;
    control_receive_answer(session->control, &answer);
    cost.cpu += answer.cpu;
    blocks_free(&blocks);
    return cost;
}

struct cost session_near(struct session *session, enum near_way way, const struct plan *plan,
                         double *times) {
    if (way != NEAR_KERNEL && session->mapped == NULL) session->mapped = memfd_map(session->length);
    uint8_t *there =
        way == NEAR_KERNEL ? (uint8_t *)(uintptr_t)session->owner_memory : session->mapped;
    struct blocks here = blocks_make(plan, session->memory, INITIATOR);
    struct blocks theirs = blocks_make(plan, there, OWNER);
    /* A poller that spins takes its part of the machine from this one, too. */
    session_ask(session, ASK_RUN, 0, NULL);
    double cpu = cpu_seconds();
    uint64_t start = now_ns();
    near_copy(way, session->owner, &here, &theirs, plan, times);
    struct cost cost = {.seconds = (double)(now_ns() - start) / 1e9};
    cost.cpu = cpu_seconds() - cpu;
    session_ask(session, ASK_REST, 0, NULL);
    blocks_free(&here);
    blocks_free(&theirs);
    return cost;
}

struct cost session_turns(struct session *session, const struct plan *plan, double *times) {
    double cpu = cpu_seconds();
    uint64_t start = now_ns();
    partner_play(&session->partner, plan, times);
    struct cost cost = {.seconds = (double)(now_ns() - start) / 1e9};
    cost.cpu = cpu_seconds() - cpu;
    return cost;
}

struct cost session_ring(struct session *session, const struct plan *plan, double *times) {
    struct blocks blocks = blocks_make(plan, session->memory, INITIATOR);
    double cpu = cpu_seconds();
    uint64_t start = now_ns();
    partner_ring(&session->partner, &blocks, plan, times);
    struct cost cost = {.seconds = (double)(now_ns() - start) / 1e9};
    cost.cpu = cpu_seconds() - cpu;
    blocks_free(&blocks);
    return cost;
}

struct cost session_xfer(struct session *session, struct client *client, const struct plan *plan,
                         double *times) {
    struct answer before = session_ask(session, ASK_RUN, plan->count, NULL);
    double cpu = cpu_seconds();
    struct cost cost;
    cost.seconds = client_run(client, plan, session->memory, session->options->submitter, times);
    cost.cpu = cpu_seconds() - cpu;
    struct answer behind = session_ask(session, ASK_REST, 0, NULL);
    cost.cpu += behind.cpu - before.cpu;
    return cost;
}

/* What is `wanted` at the destination lies at the source before, and something else there. */
static void fill_here(const struct blocks *blocks, const struct plan *plan, uint64_t wanted,
                      uint64_t stale) {
    if (plan->op == OP_ATOMIC)
        blocks_fill_difference(blocks, stale, wanted);
    else
        blocks_fill(blocks, plan_reads(plan) ? stale : wanted);
}

static uint64_t wrong_here(const struct session *session, const struct blocks *blocks,
                           const struct plan *plan, uint64_t wanted, uint64_t stale) {
    switch ((enum op)plan->op) {
    case OP_GET:
        return blocks_wrong(blocks, wanted);
    case OP_ATOMIC: /* what was there before */
        return blocks_wrong(blocks, stale);
    case OP_ECHO:
        return memcmp(session->memory, session->memory + plan->size, plan->size) != 0;
    default:
        return 0;
    }
}

void session_verify(struct session *session, struct client *client, const struct plan *plan) {
    static uint64_t seed;
    uint64_t wanted = ++seed;
    uint64_t stale = ++seed;
    struct plan once = *plan;
    once.count = plan->window;
    struct blocks blocks = blocks_make(plan, session->memory, INITIATOR);
    fill_here(&blocks, plan, wanted, stale);
    session_ask(session, ASK_FILL, plan_reads(plan) ? wanted : stale, plan);
    session_xfer(session, client, &once, NULL);
    uint64_t wrong = wrong_here(session, &blocks, plan, wanted, stale);
    /* An echo leaves nothing at the owner. */
    uint64_t left = plan->op == OP_ECHO ? stale : wanted;
    wrong += session_ask(session, ASK_CHECK, left, plan).number;
    blocks_free(&blocks);
    if (wrong != 0) errx(1, "verify: %llu pieces are wrong", (unsigned long long)wrong);
}
