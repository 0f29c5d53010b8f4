/* SPDX-License-Identifier: Apache-2.0 */
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "limits.h"
#include "measure.h"

enum { PATIENCE_S = 20 };

static struct addrinfo *resolve(const char *host, uint16_t port, int flags) {
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    int problem = getaddrinfo(host, service, &hints, &found);
    if (problem != 0) errx(1, "%s: %s", host, gai_strerror(problem));
    return found;
}

/* A side that died must end the run, not hang it. */
static void prepare(int fd) {
    int on = 1;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0) {
        err(1, "setsockopt");
    }
}

int raw_listen(const char *host, uint16_t *port) {
    struct addrinfo *where = resolve(host, *port, AI_PASSIVE);
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, 128) != 0) {
        err(1, "listen at %s port %u", host, *port);
    }
    freeaddrinfo(where);
    struct sockaddr_storage bound;
    socklen_t length = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &length) != 0) err(1, "getsockname");
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((struct sockaddr_in *)&bound)->sin_port);
    return fd;
}

int raw_accept(int listener) {
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    if (poll(&ready, 1, PATIENCE_S * 1000) != 1) errx(1, "nobody connected");
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) err(1, "accept");
    prepare(fd);
    return fd;
}

int raw_connect(const char *host, uint16_t port) {
    struct addrinfo *where = resolve(host, port, 0);
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, where->ai_addr, where->ai_addrlen) != 0)
        err(1, "connect to %s port %u", host, port);
    freeaddrinfo(where);
    prepare(fd);
    return fd;
}

static const struct plan kFirstContact = {
    .size = FIRST_CONTACT_BYTES, .window = 1, .count = 1, .acked = true};

double raw_first_contact_us(const char *host, uint16_t port, const void *bytes) {
    struct iovec piece = {.iov_base = (void *)bytes, .iov_len = FIRST_CONTACT_BYTES};
    struct blocks blocks = {.pieces = &piece, .per_block = 1, .count = 1};
    uint64_t start = now_ns();
    int fd = raw_connect(host, port);
    raw_send(fd, &blocks, &kFirstContact, NULL);
    double elapsed = (double)(now_ns() - start) / 1e3;
    close(fd);
    return elapsed;
}

void raw_answer_first_contact(int listener, void *bytes) {
    struct iovec piece = {.iov_base = bytes, .iov_len = FIRST_CONTACT_BYTES};
    struct blocks blocks = {.pieces = &piece, .per_block = 1, .count = 1};
    /* A plain accept: the wait of raw_accept would be one system call more than the limit needs. */
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) err(1, "accept");
    prepare(fd);
    raw_receive(fd, &blocks, &kFirstContact, NULL);
    close(fd);
}
