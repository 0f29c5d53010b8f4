/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

extern char **environ;

enum { kMaxPeers = 8, kMaxRoles = 8, kMaxAddresses = 16 };
static pid_t running[kMaxPeers];
static int held[kMaxAddresses];
static int held_count;
static struct {
    const char *name;
    PeerRole run;
} roles[kMaxRoles];
static int role_count;

/* ---- the parent's side ---- */

static void forget(pid_t pid) {
    for (int i = 0; i < kMaxPeers; i++) {
        if (running[i] == pid) running[i] = 0;
    }
}

static void remember(pid_t pid) {
    for (int i = 0; i < kMaxPeers; i++) {
        if (running[i] == 0) {
            running[i] = pid;
            return;
        }
    }
    fail_msg("too many peers");
}

/* Of a bound socket that does not listen, Linux gives the port to nobody who asks for any port, and
 * to everybody with SO_REUSEADDR who asks for this one. */
const char *own_address(void) {
    static char uri[64];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    assert_true(held_count < kMaxAddresses);
    held[held_count++] = fd;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    snprintf(uri, sizeof uri, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
    return uri;
}

void peer_start_role(Peer *peer, const char *role, const char *argument) {
    int in[2];
    int out[2];
    *peer = (Peer){.in = -1, .out = -1};
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    char *argv[] = {"peer", (char *)role, (char *)argument, NULL};
    assert_int_equal(posix_spawn(&peer->pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    peer->in = in[1];
    peer->out = out[0];
    remember(peer->pid);
}

void peer_read_line(Peer *peer, char *line, size_t cap) {
    size_t length = 0;
    while (length + 1 < cap) {
        struct pollfd readable = {.fd = peer->out, .events = POLLIN};
        if (poll(&readable, 1, kPatience) != 1 || read(peer->out, line + length, 1) != 1)
            fail_msg("the peer says nothing");
        if (line[length] == '\n') break;
        length++;
    }
    line[length] = '\0';
}

void peer_start_shared(Peer *peer, const char *uri, uint64_t length, int id, int fd) {
    char argument[400];
    snprintf(argument, sizeof argument, "%llu %d %s %d", (unsigned long long)length, id, uri, fd);
    peer_start_role(peer, "serve", argument);
    peer_read_line(peer, peer->uri, sizeof peer->uri);
}

void peer_start(Peer *peer, const char *uri, uint64_t length, int id) {
    peer_start_shared(peer, uri, length, id, -1);
}

void peer_signal(Peer *peer, int signal_number) {
    assert_int_equal(kill(peer->pid, signal_number), 0);
    /* A stop takes its time on a busy machine. */
    int status = 0;
    if (signal_number != SIGSTOP) return;
    assert_int_equal(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
    assert_true(WIFSTOPPED(status));
}

int peer_wait(Peer *peer) {
    int status = 0;
    if (peer->in >= 0) close(peer->in);
    peer->in = -1;
    uint64_t end = now_ms() + kPatience;
    while (waitpid(peer->pid, &status, WNOHANG) == 0) {
        if (now_ms() >= end) fail_msg("the peer does not end");
        turn(5);
    }
    forget(peer->pid);
    close(peer->out);
    peer->out = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void peer_kill(Peer *peer) {
    peer_signal(peer, SIGKILL);
    assert_int_equal(peer_wait(peer), 128 + SIGKILL);
    if (strncmp(peer->uri, "unix://", 7) == 0) unlink(peer->uri + 7);
}

void peers_end(void) {
    for (int i = 0; i < kMaxPeers; i++) {
        if (running[i] == 0) continue;
        kill(running[i], SIGKILL);
        waitpid(running[i], NULL, 0);
        running[i] = 0;
    }
    while (held_count > 0)
        close(held[--held_count]);
}

/* ---- the peer's side: no asserts, exit codes ---- */

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

static int serve(const char *argument) {
    unsigned long long length = 0;
    int id = 0, fd = -1;
    char uri[256];
    if (sscanf(argument, "%llu %d %255s %d", &length, &id, uri, &fd) != 4) return 2;
    const int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, kind, fd, 0);
    if (memory == MAP_FAILED) return 2;
    xfer_engine_options_t options = {
        .size = sizeof options, .on_event = ignore_event, .id = {(uint8_t)id}};
    xfer_region_options_t named = {
        .size = sizeof named, .access = XFER_READ | XFER_WRITE, .name = "memory"};
    xfer_engine_t *engine = NULL;
    xfer_region_t *region = NULL;
    xfer_error_t err = {0};
    char bound[256];
    if (xfer_engine_open(&options, &engine, &err) != XFER_OK ||
        xfer_region_open(engine, &named, memory, length, &region, &err) != XFER_OK ||
        xfer_engine_listen(engine, uri, NULL, bound, sizeof bound, &err) != XFER_OK) {
        fprintf(stderr, "peer: %s\n", err.message);
        return 3;
    }
    printf("%s\n", bound);
    fflush(stdout);
    char ignored;
    while (read(STDIN_FILENO, &ignored, 1) > 0) {}
    xfer_region_close(region);
    return xfer_engine_join(engine, XFER_NONE) == XFER_OK ? 0 : 4;
}

void peer_role(const char *name, PeerRole role) {
    roles[role_count].name = name;
    roles[role_count++].run = role;
}

bool peer_main(int argc, char **argv, int *code) {
    if (argc != 3 || strcmp(argv[0], "peer") != 0) return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that was killed leaves nothing behind */
    *code = 2;
    if (strcmp(argv[1], "serve") == 0) *code = serve(argv[2]);
    for (int i = 0; i < role_count; i++) {
        if (strcmp(argv[1], roles[i].name) == 0) *code = roles[i].run(argv[2]);
    }
    return true;
}
