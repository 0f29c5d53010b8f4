/* SPDX-License-Identifier: Apache-2.0
 *
 * Another process: this very program, started again with a role. Only for what one process cannot
 * show, such as a peer that dies. */
#ifndef XFER_TESTS_API_PEER_H
#define XFER_TESTS_API_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct Peer {
    pid_t pid;
    int in;  /* its standard input */
    int out; /* its standard output */
    char uri[256];
} Peer;

/* "tcp://127.0.0.1:PORT" with a port that no other process gets until the test ends, also while
 * nobody listens at it: for peers that are started again. Valid until the next call. */
const char *own_address(void);
/* The role that every program can play: an engine that serves the region "memory" of `length` bytes
 * at `uri` until its input ends. Byte 0 of its identity is `id`; 0: random. Returns when it
 * listens. */
void peer_start(Peer *peer, const char *uri, uint64_t length, int id);
/* The same with the memory of `fd`, which the test can see too, also when the peer is dead. */
void peer_start_shared(Peer *peer, const char *uri, uint64_t length, int id, int fd);
/* Any other role: argv[1] is `role`, argv[2] `argument`. Its output is left to the caller. */
void peer_start_role(Peer *peer, const char *role, const char *argument);
/* The next line that it says, without its end. */
void peer_read_line(Peer *peer, char *line, size_t cap);
/* Returns from SIGSTOP when it has stopped. */
void peer_signal(Peer *peer, int signal_number);
/* Waits for its end: the exit code, or 128 + the signal. */
int peer_wait(Peer *peer);
/* SIGKILL and wait. */
void peer_kill(Peer *peer);
/* Kills what a failed test left, and gives the addresses back. */
void peers_end(void);

/* The first line of every main: runs the role and returns true if this process is such a peer. */
bool peer_main(int argc, char **argv, int *code);

/* A role of one program's own. */
typedef int (*PeerRole)(const char *argument);
void peer_role(const char *name, PeerRole role);

#endif
