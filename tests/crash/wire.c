/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scene.h"

enum { kPacket = 2048, kQueue = 1024 }; /* past that they are lost, as in a router */

typedef struct Packet {
    uint64_t due;
    uint32_t length;
    uint8_t bytes[kPacket];
} Packet;

/* What is on its way, in order. */
typedef struct Queue {
    Packet packets[kQueue];
    uint32_t first, count;
} Queue;

const char *wire_address(int end) {
    return end == 0 ? "10.91.7.1" : "10.91.7.2";
}

/* ---- the ends ---- */

static bool set_flags(int control, const char *name) {
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return ioctl(control, SIOCSIFFLAGS, &request) == 0;
}

static bool set_address(int control, const char *name, unsigned long what, const char *text) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct ifreq request = {.ifr_flags = 0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    inet_pton(AF_INET, text, &address.sin_addr);
    memcpy(&request.ifr_addr, &address, sizeof address);
    return ioctl(control, what, &request) == 0;
}

/* A namespace that the calling thread is in from now on, with a device that is the wire's end. */
static const char *make_end(Wire *wire, int end) {
    if (unshare(CLONE_NEWNET) != 0) return "a network namespace is not allowed here";
    wire->spaces[end] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    wire->ends[end] = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (wire->ends[end] < 0) return "there is no /dev/net/tun that may be opened here";
    struct ifreq request = {.ifr_name = "wire", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (ioctl(wire->ends[end], TUNSETIFF, &request) != 0) return "a TUN device is not allowed here";
    const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool up = control >= 0 && set_flags(control, "lo") &&
                    set_address(control, "wire", SIOCSIFADDR, wire_address(end)) &&
                    set_address(control, "wire", SIOCSIFNETMASK, "255.255.255.0") &&
                    set_flags(control, "wire");
    if (control >= 0) close(control);
    return up ? NULL : "a TUN device can't be set up here";
}

/* ---- the carrier ---- */

/* By its number in the order of first packets; what is no TCP is of the first. */
static uint32_t flow_of(Wire *wire, int from, const Packet *packet) {
    const uint32_t header = (packet->bytes[0] & 15) * 4;
    if (packet->bytes[0] >> 4 != 4 || packet->bytes[9] != IPPROTO_TCP) return 0;
    if (packet->length < header + 4) return 0;
    const uint8_t *port = packet->bytes + header + (from == 0 ? 0 : 2);
    const uint16_t number = (uint16_t)(port[0] << 8 | port[1]);
    uint32_t flow = 0;
    while (flow < wire->flow_count && wire->flows[flow] != number)
        flow++;
    if (flow == wire->flow_count && flow < kFlows) wire->flows[wire->flow_count++] = number;
    return flow;
}

static bool is_carried(Wire *wire, int from, const Packet *packet) {
    const WireWay *way = &wire->ways[from];
    const uint32_t flow = flow_of(wire, from, packet);
    return !way->cut && (way->carried_flows == 0 || flow < way->carried_flows);
}

/* Takes in what an end has sent. */
static void take(Wire *wire, int from, Queue *queue, uint64_t *seed) {
    WireWay *way = &wire->ways[from];
    uint8_t lost[kPacket];
    for (;;) {
        const bool full = queue->count == kQueue;
        Packet *packet = &queue->packets[(queue->first + queue->count) % kQueue];
        const ssize_t length = read(wire->ends[from], full ? lost : packet->bytes, kPacket);
        if (length <= 0) return;
        if (full || way->cut || draw(seed, 1000) < way->lost_per_mille) continue;
        packet->length = (uint32_t)length;
        packet->due = now_us() + way->delay_us;
        queue->count++;
    }
}

/* Gives the other end what is due; returns the microseconds until the next. */
static uint64_t give(Wire *wire, int from, Queue *queue) {
    while (queue->count > 0) {
        Packet *packet = &queue->packets[queue->first];
        const uint64_t now = now_us();
        if (packet->due > now) return packet->due - now;
        /* The cable was cut under it. */
        if (is_carried(wire, from, packet) &&
            write(wire->ends[1 - from], packet->bytes, packet->length) > 0)
            wire->ways[from].carried++;
        queue->first = (queue->first + 1) % kQueue;
        queue->count--;
    }
    return 20000;
}

static void *carry(void *data) {
    static Queue queues[2];
    Wire *wire = data;
    uint64_t seed = 1;
    memset(queues, 0, sizeof queues);
    while (!wire->over) {
        uint64_t wait = 20000;
        for (int from = 0; from < 2; from++) {
            take(wire, from, &queues[from], &seed);
            const uint64_t next = give(wire, from, &queues[from]);
            if (next < wait) wait = next;
        }
        struct pollfd fds[2] = {{.fd = wire->ends[0], .events = POLLIN},
                                {.fd = wire->ends[1], .events = POLLIN}};
        const struct timespec limit = {.tv_nsec = (long)wait * 1000};
        ppoll(fds, 2, &limit, NULL);
    }
    return NULL;
}

/* ---- the whole ---- */

const char *wire_open(Wire *wire) {
    *wire = (Wire){.home = -1, .spaces = {-1, -1}, .ends = {-1, -1}};
    if (geteuid() != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return "needs root, or user namespaces";
    wire->home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    const char *why = NULL;
    for (int end = 0; end < 2 && why == NULL; end++)
        why = make_end(wire, end);
    if (why == NULL && pthread_create(&wire->carrier, NULL, carry, wire) != 0) why = "no thread";
    wire->running = why == NULL;
    setns(wire->home, CLONE_NEWNET);
    return why;
}

void wire_stand_at(Wire *wire, int end) {
    const int space = end < 0 ? wire->home : wire->spaces[end];
    if (setns(space, CLONE_NEWNET) != 0) fail_msg("setns: %s", strerror(errno));
}

void wire_set(Wire *wire, bool cut, uint32_t delay_us, uint32_t lost_per_mille) {
    for (int from = 0; from < 2; from++) {
        wire->ways[from].delay_us = delay_us;
        wire->ways[from].lost_per_mille = lost_per_mille;
        wire->ways[from].cut = cut;
    }
}

void wire_close(Wire *wire) {
    if (!wire->running) return;
    wire->running = false;
    wire->over = true;
    pthread_join(wire->carrier, NULL);
    for (int end = 0; end < 2; end++) {
        close(wire->ends[end]);
        close(wire->spaces[end]);
    }
    close(wire->home);
}
