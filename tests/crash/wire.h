/* SPDX-License-Identifier: Apache-2.0
 *
 * Two network namespaces and the cable between them, in the test's own hand. Each end is a TUN
 * device, and a thread carries the packets from one to the other: late, with losses, or not at all,
 * each way by itself, or some connections of TCP alone, as a switch does that sends them by routes
 * of which one is broken. So no module of the kernel is needed for a bad network. The namespaces
 * have no names: they end with the process, whatever becomes of the test. */
#ifndef XFER_TESTS_CRASH_WIRE_H
#define XFER_TESTS_CRASH_WIRE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* From end 0 to end 1, or back. To be changed at any time. */
typedef struct WireWay {
    _Atomic bool cut;
    _Atomic uint32_t delay_us, lost_per_mille;
    _Atomic uint64_t carried;
    _Atomic uint32_t carried_flows; /* of TCP, in the order of their first packets; 0: all */
} WireWay;

enum { kFlows = 256 };

typedef struct Wire {
    int home, spaces[2], ends[2]; /* descriptors */
    WireWay ways[2];
    uint16_t flows[kFlows]; /* connections of TCP, by the port at end 0 */
    _Atomic uint32_t flow_count;
    pthread_t carrier;
    bool running; /* the carrier is */
    _Atomic bool over;
} Wire;

/* NULL, or why that can't be had here. Before the first thread of the process. */
const char *wire_open(Wire *wire);
/* The calling thread, with the threads and sockets that it makes, is at that end; -1: at home. */
void wire_stand_at(Wire *wire, int end);
/* The address of an end. */
const char *wire_address(int end);
/* Both ways alike. */
void wire_set(Wire *wire, bool cut, uint32_t delay_us, uint32_t lost_per_mille);
/* Of one that is open, else nothing. */
void wire_close(Wire *wire);

#endif
