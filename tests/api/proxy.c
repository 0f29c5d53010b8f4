/* SPDX-License-Identifier: Apache-2.0 */
#include "proxy.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kMaxPipes = 64, kChunk = 65536 };

typedef struct Way {
    struct Pipe *pipe;
    int from, to, way;
    pthread_t thread;
} Way;

typedef struct Pipe {
    int client, server;
    Way ways[2];
    atomic_bool hold;
    _Atomic uint64_t held;
} Pipe;

static int listener = -1;
static uint16_t server_port;
static Pipe pipes[kMaxPipes];
static atomic_int count, refusing;
static pthread_t acceptor;
static _Atomic int flip_way = -1;
static _Atomic uint64_t flip_at;

static bool pass(const Way *way, const uint8_t *bytes, size_t size) {
    for (size_t sent = 0; sent < size;) {
        ssize_t more = send(way->to, bytes + sent, size - sent, MSG_NOSIGNAL);
        if (more <= 0) return false;
        sent += (size_t)more;
    }
    return true;
}

static void *forward(void *argument) {
    Way *way = argument;
    static _Thread_local uint8_t bytes[kChunk];
    uint64_t at = 0;
    for (;;) {
        ssize_t got = read(way->from, bytes, sizeof bytes);
        if (got <= 0) break;
        at += (uint64_t)got;
        int wanted = way->way;
        if (at > flip_at && atomic_compare_exchange_strong(&flip_way, &wanted, -1))
            bytes[(size_t)got / 2] ^= 4;
        if (way->way == kToServer && way->pipe->hold) {
            way->pipe->held += (uint64_t)got;
            while (way->pipe->hold)
                usleep(1000);
        }
        if (!pass(way, bytes, (size_t)got)) break;
    }
    shutdown(way->to, SHUT_WR);
    return NULL;
}

static void *accept_all(void *unused) {
    (void)unused;
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0 || count == kMaxPipes) break;
        if (refusing > 0) {
            refusing--;
            close(client);
            continue;
        }
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(server_port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(server, (struct sockaddr *)&address, sizeof address) != 0) break;
        Pipe *pipe = &pipes[count];
        pipe->client = client;
        pipe->server = server;
        pipe->held = 0;
        pipe->ways[0] = (Way){.pipe = pipe, .from = client, .to = server, .way = kToServer};
        pipe->ways[1] = (Way){.pipe = pipe, .from = server, .to = client, .way = kToClient};
        count++; /* first: its lane may be there as soon as bytes pass */
        for (int i = 0; i < 2; i++)
            pthread_create(&pipe->ways[i].thread, NULL, forward, &pipe->ways[i]);
    }
    return NULL;
}

void proxy_start(const char *server_uri, char *uri, size_t cap) {
    unsigned port = 0;
    uint16_t own = 0;
    assert_int_equal(sscanf(server_uri, "tcp://127.0.0.1:%u", &port), 1);
    server_port = (uint16_t)port;
    listener = raw_listener(&own);
    assert_true(listener >= 0);
    snprintf(uri, cap, "tcp://127.0.0.1:%u", own);
    count = refusing = 0;
    for (int i = 0; i < kMaxPipes; i++)
        pipes[i].hold = false;
    flip_way = -1;
    assert_int_equal(pthread_create(&acceptor, NULL, accept_all, NULL), 0);
}

void proxy_end(void) {
    shutdown(listener, SHUT_RDWR);
    pthread_join(acceptor, NULL);
    close(listener);
    for (int i = 0; i < count; i++) {
        pipes[i].hold = false;
        proxy_cut(i);
        for (int way = 0; way < 2; way++)
            pthread_join(pipes[i].ways[way].thread, NULL);
        close(pipes[i].client);
        close(pipes[i].server);
    }
}

void proxy_flip(int way, uint64_t at) {
    flip_at = at;
    flip_way = way;
}

bool proxy_has_flipped(void) {
    return flip_way == -1;
}

int proxy_count(void) {
    return count;
}

void proxy_hold(int pipe) {
    pipes[pipe].hold = true;
}

void proxy_release(int pipe) {
    pipes[pipe].hold = false;
}

uint64_t proxy_held(int pipe) {
    return pipes[pipe].held;
}

void proxy_cut_client(int pipe) {
    shutdown(pipes[pipe].client, SHUT_RDWR);
}

void proxy_cut(int pipe) {
    shutdown(pipes[pipe].client, SHUT_RDWR);
    shutdown(pipes[pipe].server, SHUT_RDWR);
}

void proxy_refuse(int connections) {
    refusing = connections;
}

void proxy_pair_open(Pair *pair, const xfer_engine_options_t *server,
                     const xfer_engine_options_t *client, const Mode *mode, uint64_t length) {
    char uri[64];
    *pair = (Pair){.length = length, .memory = test_memory(length)};
    pair->server = host_open_with(mode, server);
    pair->client = host_open_with(mode, client);
    host_listen(pair->server, "tcp://127.0.0.1:0");
    pair->region =
        open_region(pair->server, "memory", XFER_READ | XFER_WRITE, pair->memory, length);
    proxy_start(pair->server->uri, uri, sizeof uri);
    pair->ep = open_ep(pair->client, uri);
    pair->ref = look_up(pair->client, pair->ep, "memory");
}

void proxy_pair_end(Pair *pair) {
    host_end(pair->client);
    host_end(pair->server);
    proxy_end();
}
