/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <err.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "measure.h"

static const uint64_t kRequestMagic = 0x31717265702d7866U;
static const uint64_t kAnswerMagic = 0x31736e61702d7866U;

int control_start(const char *option, int cpu) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) err(1, "socketpair");
    pid_t child = fork();
    if (child < 0) err(1, "fork");
    if (child == 0) {
        if (cpu >= 0) pin_to_cpu(cpu);
        int inherited = dup(pair[1]);
        char number[16];
        snprintf(number, sizeof number, "%d", inherited);
        execl("/proc/self/exe", "xfer_perf", option, number, (char *)NULL);
        err(1, "/proc/self/exe");
    }
    close(pair[1]);
    return pair[0];
}

void control_send(int fd, const void *bytes, size_t length) {
    if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) err(1, "control channel");
}

bool control_receive(int fd, void *bytes, size_t length) {
    return recv(fd, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

void control_send_request(int fd, const struct request *request) {
    struct request sent = *request;
    sent.magic = kRequestMagic;
    control_send(fd, &sent, sizeof sent);
}

bool control_receive_request(int fd, struct request *request) {
    ssize_t got = recv(fd, request, sizeof *request, MSG_WAITALL);
    if (got == 0) return false;
    if (got != (ssize_t)sizeof *request) {
        warn("control channel");
        return false;
    }
    if (request->magic != kRequestMagic) {
        warnx("control channel: not an xfer_perf of this version and byte order");
        return false;
    }
    return true;
}

void control_send_answer(int fd, const struct answer *answer) {
    struct answer sent = *answer;
    sent.magic = kAnswerMagic;
    control_send(fd, &sent, sizeof sent);
}

void control_receive_answer(int fd, struct answer *answer) {
    ssize_t got = recv(fd, answer, sizeof *answer, MSG_WAITALL);
    if (got < 0) err(1, "control channel");
    if (got != (ssize_t)sizeof *answer) errx(1, "the serving process ended");
    if (answer->magic != kAnswerMagic)
        errx(1, "the other side is no xfer_perf of this version and byte order");
}
