/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <err.h>
#include <sys/socket.h>

static const uint64_t kRequestMagic = 0x31717265702d7866U;
static const uint64_t kAnswerMagic = 0x31736e61702d7866U;

static void send_all(int fd, const void *bytes, size_t length) {
    if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length) err(1, "control channel");
}

void control_send_request(int fd, const struct request *request) {
    struct request sent = *request;
    sent.magic = kRequestMagic;
    send_all(fd, &sent, sizeof sent);
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
    send_all(fd, &sent, sizeof sent);
}

void control_receive_answer(int fd, struct answer *answer) {
    ssize_t got = recv(fd, answer, sizeof *answer, MSG_WAITALL);
    if (got < 0) err(1, "control channel");
    if (got != (ssize_t)sizeof *answer) errx(1, "the serving process ended");
    if (answer->magic != kAnswerMagic)
        errx(1, "the other side is no xfer_perf of this version and byte order");
}
