/* SPDX-License-Identifier: Apache-2.0
 *
 * Sustained pressure before the proof: thousands of sockets without the key say hello under the id
 * of a member, and dial again whenever they are closed. Meanwhile members get in and are served,
 * idle ones stay connected, memory is bounded, and the engine tells of it. What a bare loop of
 * accept, read, write and close takes in the same run gives the rate. Prints its figures.
 *
 * Usage: hostile_pressure [SOCKETS]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <xfer/xfer.h>

#include "process.h"

/* Attempts per second that are no attack, and how often it is measured until there are more. */
enum { FEW = 2000, TRIES = 5 };
enum { IDLE = 8, NEWCOMERS = 20, BYTES = 4096, PATIENCE_MS = 60000, MEMORY_KIB = 64 << 10 };
static const char KEY[] = "a key of the hostile test, 32 bytes or more";
static const uint8_t MEMBER[16] = "member-of-all-16"; /* whose id all attackers claim */

/* What the processes share. */
static struct Shared {
    _Atomic uint32_t source; /* whom attackers come from; 0: they rest */
    _Atomic uint64_t rate;   /* attempts per second */
    _Atomic uint16_t port;
    _Atomic uint64_t closed;     /* attempts that ended */
    _Atomic uint64_t taken, cpu; /* of the bare loop, and its CPU in ns */
} * shared;

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void check(int holds, const char *what) {
    if (!holds) fail(what);
}

static void must(xfer_status_t status, const char *what) {
    if (status == XFER_OK) return;
    fprintf(stderr, "%s: %s\n", what, xfer_status_name(status));
    exit(1);
}

static uint64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double ms_since(uint64_t began) {
    return (double)(now_ns(CLOCK_MONOTONIC) - began) / 1e6;
}

static void wait_ms(uint64_t ms) {
    struct timespec time = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static struct sockaddr_in at(uint32_t host, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(host);
    return address;
}

static pid_t process(void (*run)(int), int argument) {
    const pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a check has failed */
    if (getppid() != parent) exit(1);
    run(argument);
    exit(0);
}

/* ---- attackers */

static const uint8_t kHello[] = {
    0x58, 0x46, 0x45, 0x52, 1,   1,   1,    0,   0x57, 0,   0,    0,    0,    0,   0,
    0,    0xa9, 0x62, 'a',  'b', 0,   0x64, 'f', 'e',  'a', 't',  0,    0x64, 'h', 'e',
    'l',  'd',  0,    0x62, 'i', 'd', 0x50, 0,   0,    0,   0,    0,    0,    0,   0,
    0,    0,    0,    0,    0,   0,   0,    0,   0x63, 'i', 'n',  'c',  0x1b, 2,   2,
    2,    2,    2,    2,    2,   2,   0x63, 'k', 'e',  'y', 0xf5, 0x63, 'n',  'o', 'n',
    0x50, 3,    3,    3,    3,   3,   3,    3,   3,    3,   3,    3,    3,    3,   3,
    3,    3,    0x64, 's',  'e', 'e', 'n',  0,   0x63, 's', 'e',  'q',  1};
enum { ID_AT = 37 };

static int dial(int poll, const uint8_t *hello) {
    const struct sockaddr_in from = at(shared->source, 0), to = at(INADDR_LOOPBACK, shared->port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    const struct linger reset = {1, 0};
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
    if (bind(fd, (const struct sockaddr *)&from, sizeof from) != 0 ||
        (connect(fd, (const struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) ||
        epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) {
        close(fd);
        return -1;
    }
    send(fd, hello, sizeof kHello, MSG_NOSIGNAL);
    return fd;
}

/* True: the socket was closed by the other end. */
static int listen_to(int fd, uint32_t events, const uint8_t *hello, uint8_t *said) {
    if ((events & EPOLLOUT) && !*said) *said = send(fd, hello, sizeof kHello, MSG_NOSIGNAL) > 0;
    char words[512];
    ssize_t got;
    while ((got = read(fd, words, sizeof words)) > 0) {}
    return got == 0 || errno != EAGAIN;
}

static void attack(int sockets) {
    static uint8_t said[1 << 16];
    uint8_t hello[sizeof kHello];
    memcpy(hello, kHello, sizeof hello);
    memcpy(hello + ID_AT, MEMBER, sizeof MEMBER);
    const int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[256];
    int open = 0;
    double tokens = 0;
    uint64_t last = now_ns(CLOCK_MONOTONIC);
    for (;;) {
        const int ready = epoll_wait(poll, events, 256, 1);
        for (int i = 0; i < ready; ++i) {
            const int fd = events[i].data.fd;
            if (!listen_to(fd, events[i].events, hello, &said[fd]) && shared->source) continue;
            close(fd);
            --open;
            ++shared->closed;
        }
        const uint64_t now = now_ns(CLOCK_MONOTONIC);
        tokens += (double)shared->rate * (double)(now - last) / 1e9;
        if (tokens > 1000) tokens = 1000;
        last = now;
        if (!shared->source) tokens = 0;
        for (; open < sockets && tokens >= 1; --tokens) {
            const int fd = dial(poll, hello);
            if (fd < 0) break;
            said[fd] = 1;
            ++open;
        }
    }
}

static void attack_from(uint32_t source, uint64_t rate) {
    shared->rate = rate;
    shared->source = source;
}

/* ---- the bare loop */

static void bare(int argument) {
    (void)argument;
    const struct sockaddr_in any = at(INADDR_LOOPBACK, 0);
    struct sockaddr_in bound;
    socklen_t size = sizeof bound;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (const struct sockaddr *)&any, sizeof any) != 0 ||
        listen(listener, 1024) != 0 || getsockname(listener, (struct sockaddr *)&bound, &size) != 0)
        fail("the bare loop does not listen");
    shared->port = ntohs(bound.sin_port);
    for (char words[512];;) {
        const int fd = accept(listener, NULL, NULL);
        if (fd < 0) continue;
        const ssize_t heard = read(fd, words, sizeof words);
        if (heard > 0) send(fd, words, 64, MSG_NOSIGNAL);
        close(fd);
        ++shared->taken;
        shared->cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    }
}

/* What the attackers cost it, in us each to *us (0: there were none); how many it takes in a
 * second. */
static uint64_t bare_cost(int sockets, double *us) {
    const uint64_t taken = shared->taken, cpu = shared->cpu, began = now_ns(CLOCK_MONOTONIC);
    wait_ms(2000);
    const double attempts = (double)(shared->taken - taken);
    const uint64_t rate = (uint64_t)(attempts / ms_since(began) * 1e3);
    *us = attempts > 0 ? (double)(shared->cpu - cpu) / attempts / 1e3 : 0;
    printf("bare loop: %" PRIu64 " attempts/s of %d sockets, %.1f us of CPU each\n", rate, sockets,
           *us);
    fflush(stdout);
    return rate;
}

/* The rate of attackers that are not held back, and what they cost at that and at half of it. A
 * machine that stands still meanwhile is given time; one that has no such attackers shows nothing.
 */
static uint64_t bare_rate(int sockets, uint32_t from, double *full_us, double *half_us) {
    for (int i = 0; i < TRIES; ++i) {
        attack_from(from, 1u << 30);
        wait_ms(500);
        const uint64_t rate = bare_cost(sockets, full_us);
        attack_from(from, rate / 2);
        wait_ms(500);
        const uint64_t half = bare_cost(sockets, half_us);
        if (rate >= FEW && half >= FEW / 4) return rate;
    }
    printf("skip: this machine dials fewer than %d times a second, which is no attack\n", FEW);
    exit(77);
}

/* ---- the engine */

static char desk[BYTES];

static void on_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

/* The warning about half-open connections has the address of the attackers. */
static _Atomic int logged;
static void on_log(uint32_t level, const char *text, uint64_t user) {
    (void)user;
    if (level == XFER_LOG_WARN && strstr(text, "half-open") && strstr(text, " from 127.0.0.2"))
        logged = 1;
}

static void serve(int pipe_in) {
    xfer_engine_options_t options = {.size = sizeof options,
                                     .on_event = on_event,
                                     .on_log = on_log,
                                     .key = KEY,
                                     .key_length = sizeof KEY - 1,
                                     .max_connections = 64};
    xfer_engine_t *engine = NULL;
    xfer_region_t *region = NULL;
    xfer_region_options_t lent = {
        .size = sizeof lent, .access = XFER_READ | XFER_WRITE, .name = "desk"};
    char uri[256], text[1 << 18];
    uint64_t needed;
    must(xfer_engine_open(&options, &engine, NULL), "open");
    must(xfer_region_open(engine, &lent, desk, sizeof desk, &region, NULL), "desk");
    must(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, NULL), "listen");
    FILE *in = fdopen(pipe_in, "r"), *out = fdopen(pipe_in, "w");
    fprintf(out, "%s\n", uri);
    fflush(out);
    for (char line[64]; fgets(line, sizeof line, in);) {
        xfer_engine_stats_t stats;
        must(xfer_engine_stats(engine, &stats, sizeof stats), "stats");
        must(xfer_engine_describe(engine, text, sizeof text, &needed), "describe");
        fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d %d\n", stats.accepts,
                stats.errors[-XFER_EOVERLOAD], now_ns(CLOCK_PROCESS_CPUTIME_ID), resident(),
                strstr(text, "\"under_pressure\": true") != NULL,
                strstr(text, "\"most_from\": \"127.0.0.2\"") != NULL, logged);
        fflush(out);
    }
    must(xfer_region_close(region), "close");
    must(xfer_engine_join(engine, XFER_NONE), "join");
}

typedef struct Report {
    uint64_t accepts, turned_away, cpu, rss;
    int pressed, named, logged;
} Report;
static FILE *ask, *answer;

static Report report(void) {
    Report now;
    fprintf(ask, "report\n");
    fflush(ask);
    char line[256];
    if (!fgets(line, sizeof line, answer) ||
        sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %d %d %d", &now.accepts,
               &now.turned_away, &now.cpu, &now.rss, &now.pressed, &now.named, &now.logged) != 7)
        fail("the engine does not report");
    return now;
}

/* ---- members */

typedef struct Member {
    xfer_engine_t *engine;
    xfer_ep_t *ep;
    xfer_ref_t desk;
} Member;
static char uri[256];

/* The next event of that kind; anything that tells of a lost connection on the way fails. */
static xfer_status_t next(Member *member, uint32_t kind) {
    for (;;) {
        xfer_event_t event;
        uint32_t count = 0;
        must(xfer_engine_poll(member->engine, &event, sizeof event, 1, PATIENCE_MS, &count),
             "poll");
        check(count == 1, "an event does not come");
        check(event.kind != XFER_EVENT_PEER_DOWN || kind == XFER_EVENT_CLOSED,
              "a member's connection was ended");
        if (event.kind == XFER_EVENT_LOOKUP && event.status == XFER_OK)
            memcpy(&member->desk, event.data, sizeof member->desk);
        if (event.kind == kind) return event.status;
    }
}

static void enter(Member *member, const uint8_t *id) {
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_POLL,
                                     .key = KEY,
                                     .key_length = sizeof KEY - 1};
    if (id) memcpy(options.id, id, sizeof options.id);
    must(xfer_engine_open(&options, &member->engine, NULL), "open");
    must(xfer_ep_open(member->engine, uri, NULL, &member->ep, NULL), "open an endpoint");
    xfer_op_options_t patience = {.size = sizeof patience, .timeout_ms = PATIENCE_MS};
    must(xfer_ep_lookup(member->ep, "desk", 0, &patience, NULL), "lookup");
    must(next(member, XFER_EVENT_LOOKUP), "a member does not get in");
}

static void leave(Member *member) {
    must(xfer_ep_close(member->ep), "close");
    next(member, XFER_EVENT_CLOSED);
    must(xfer_engine_join(member->engine, XFER_NONE), "join");
}

/* A put and a get of its own bytes; how long they took. */
static double work(Member *member, uint8_t mark) {
    char out[BYTES], in[BYTES];
    const uint64_t began = now_ns(CLOCK_MONOTONIC);
    memset(out, mark, sizeof out);
    must(xfer_put(member->ep, out, &member->desk, 0, sizeof out, 0, NULL), "put");
    must(next(member, XFER_EVENT_PUT), "put");
    must(xfer_get(member->ep, in, &member->desk, 0, sizeof in, 0, NULL), "get");
    must(next(member, XFER_EVENT_GET), "get");
    check(memcmp(in, out, sizeof in) == 0, "other bytes than those that were put");
    return ms_since(began);
}

static int by_size(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* What the attackers alone cost the engine, and the bare loop at that rate. */
static void cost(const char *what, double bare_us) {
    const Report before = report();
    const uint64_t began = now_ns(CLOCK_MONOTONIC);
    wait_ms(2000);
    const Report after = report();
    const double attempts = (double)(after.accepts - before.accepts);
    const double us = (double)(after.cpu - before.cpu) / attempts / 1e3;
    printf(
        "%s: %.0f attempts/s, %.0f %% refused, %.1f us of CPU each (%.2f of the bare loop), "
        "%" PRIu64 " KiB\n",
        what, attempts / ms_since(began) * 1e3,
        100 * (double)(after.turned_away - before.turned_away) / attempts, us, us / bare_us,
        after.rss);
}

/* Newcomers one after the other, while one inside works. Neither takes longer than `limit_ms`. */
static void newcomers(const char *what, Member *inside, int count, double limit_ms) {
    double took[NEWCOMERS], longest = 0;
    const Report before = report();
    const uint64_t began = now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < count; ++i) {
        Member member;
        const uint64_t start = now_ns(CLOCK_MONOTONIC);
        enter(&member, MEMBER);
        took[i] = ms_since(start);
        leave(&member);
        for (int k = 0; k < 50; ++k) {
            const double one = work(inside, (uint8_t)(i * 50 + k));
            if (one > longest) longest = one;
        }
    }
    const Report after = report();
    qsort(took, (size_t)count, sizeof *took, by_size);
    const double attempts = (double)(after.accepts - before.accepts);
    printf(
        "%s: in after %.0f ms (median of %d), %.0f at most; a put and a get inside %.1f ms at "
        "most; %.0f attempts/s, %.0f %% refused, %.1f us of CPU each, %" PRIu64 " KiB\n",
        what, took[count / 2], count, took[count - 1], longest, attempts / ms_since(began) * 1e3,
        100 * (double)(after.turned_away - before.turned_away) / attempts,
        (double)(after.cpu - before.cpu) / attempts / 1e3, after.rss);
    fflush(stdout);
    check(took[count - 1] < limit_ms, "a member was kept out");
    check(longest < limit_ms, "somebody inside was stalled");
    check(after.pressed, "describe does not tell of the pressure");
    check(after.rss < before.rss + MEMORY_KIB, "memory is not bounded");
}

int main(int argc, char **argv) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    setrlimit(RLIMIT_NOFILE, &limit);
    int sockets = argc > 1 ? atoi(argv[1]) : 5000;
    if ((rlim_t)sockets + 100 > limit.rlim_cur) sockets = (int)limit.rlim_cur - 100;
    setenv("XFER_TRANSPORTS", "loopback,tcp", 1);
    signal(SIGPIPE, SIG_IGN);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int pair[2];
    check(shared != MAP_FAILED, "no memory");
    const uint32_t own = INADDR_LOOPBACK, other = INADDR_LOOPBACK + 1;
    pid_t attackers = process(attack, sockets), loop = process(bare, 0), engine;

    double full_us, half_us;
    const uint64_t rate = bare_rate(sockets, other, &full_us, &half_us);
    attack_from(0, 0);
    wait_ms(500);
    kill(loop, SIGKILL);
    waitpid(loop, NULL, 0);

    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no socket pair");
    engine = process(serve, pair[1]);
    close(pair[1]);
    ask = fdopen(pair[0], "w"), answer = fdopen(pair[0], "r");
    if (!fgets(uri, sizeof uri, answer)) fail("the engine does not listen");
    uri[strcspn(uri, "\n")] = 0;
    shared->port = (uint16_t)atoi(strrchr(uri, ':') + 1);
    Member inside[IDLE + 1];
    for (int i = 0; i <= IDLE; ++i)
        enter(&inside[i], NULL);

    attack_from(other, rate / 2);
    wait_ms(1000);
    newcomers("half the rate, from another address", &inside[IDLE], NEWCOMERS, 3000);
    check(report().named, "describe does not tell where the pressure comes from");
    check(report().logged, "the log does not tell where the pressure comes from");
    cost("half the rate, nobody else", half_us);
    attack_from(own, rate / 2);
    wait_ms(1000);
    newcomers("half the rate, from the same address", &inside[IDLE], NEWCOMERS / 2, PATIENCE_MS);
    attack_from(other, 1u << 30);
    wait_ms(1000);
    newcomers("full rate, from another address", &inside[IDLE], 5, 3000);
    attack_from(own, 1u << 30);
    wait_ms(1000);
    newcomers("full rate, from the same address", &inside[IDLE], 3, PATIENCE_MS);
    cost("full rate, nobody else", full_us);
    kill(attackers, SIGKILL);
    waitpid(attackers, NULL, 0);

    for (int i = 0; i <= IDLE; ++i) {
        work(&inside[i], (uint8_t)i); /* fails if its connection was ended meanwhile */
        leave(&inside[i]);
    }
    shutdown(pair[0], SHUT_WR);
    int status = 1;
    waitpid(engine, &status, 0);
    check(status == 0, "the engine does not end well");
    return 0;
}
