/* SPDX-License-Identifier: Apache-2.0
 *
 * raw_tcp MEGABYTES: what this machine's TCP does over loopback when nobody does anything else. A
 * child sends that many bytes from its memory, once through; the parent receives them into 64 MiB
 * that it uses again, as xfer_tree does. Prints the median of five rounds in GB/s.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, BUFFER = 64 << 20, BLOCK = 1 << 20 };

static void *memory(size_t bytes, int more_flags) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | more_flags;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) exit(1);
    memset(at, 1, bytes);
    return at;
}

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void send_all(const struct sockaddr_in *address, const char *bytes, size_t total) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) _exit(1);
    for (size_t at = 0; at < total;) {
        size_t left = total - at;
        ssize_t sent = send(fd, bytes + at, left < BLOCK ? left : BLOCK, MSG_NOSIGNAL);
        if (sent <= 0) _exit(1);
        at += (size_t)sent;
    }
    _exit(0);
}

/* The first block starts the clock, so that forking and connecting are not counted. */
static double receive_all(int fd, char *buffer, size_t total) {
    double began = 0;
    size_t at = 0;
    while (at < total) {
        size_t room = BUFFER - at % BUFFER;
        ssize_t got = recv(fd, buffer + at % BUFFER, room < BLOCK ? room : BLOCK, 0);
        if (got <= 0) exit(1);
        if (at == 0) began = now_seconds();
        at += (size_t)got;
    }
    return (double)total / (now_seconds() - began) / 1e9;
}

static int ascending(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
    size_t total = (size_t)(argc > 1 ? atoi(argv[1]) : 400) * 1000000;
    if (total == 0) return 2;
    char *source = memory(total, MAP_NORESERVE);
    char *buffer = memory(BUFFER, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0)
        return 1;
    if (getsockname(listener, (struct sockaddr *)&address, &length) != 0) return 1;
    double rates[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (child == 0) send_all(&address, source, total);
        int fd = accept(listener, NULL, NULL);
        rates[round] = receive_all(fd, buffer, total);
        close(fd);
        waitpid(child, NULL, 0);
    }
    qsort(rates, ROUNDS, sizeof rates[0], ascending);
    printf("%.2f\n", rates[ROUNDS / 2]);
    return 0;
}
