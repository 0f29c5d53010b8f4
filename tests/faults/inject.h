/* SPDX-License-Identifier: Apache-2.0
 *
 * System calls and allocations that fail when they are told to. The functions of the C library that
 * are named below are defined by the test program, so that the dynamic linker leads every caller to
 * them: libxfer, libuv, c-ares, the C++ library, on any thread. While nothing is armed they only
 * pass on. */
#ifndef XFER_TESTS_FAULTS_INJECT_H
#define XFER_TESTS_FAULTS_INJECT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum Call {
    kSocket,
    kBind,
    kListen,
    kAccept,
    kConnect,
    kEpollCreate,
    kEpollCtl,
    kEventfd,
    kTimerfdCreate,
    kTimerfdSettime,
    kSetsockopt,
    kGetsockopt,
    kGetsockname,
    kGetpeername,
    kIoctl,
    kFcntl,
    kOpen,
    kGetrandom,
    kThread,
    kMmap,
    kRead,
    kWrite,
    kSendmsg,
    kRecvmsg,
    kAlloc,
    kDescriptors, /* no call: from the nth new descriptor on, the process may have no more */
    kCallCount
} Call;

extern const char *const call_names[kCallCount];

/* In place of an errno: the call succeeds, but moves one byte only. */
enum { kShort = -1 };

typedef struct Fault {
    Call call;
    int error;   /* an errno, or kShort */
    long nth;    /* from 1; 0: none fails, all are counted */
    bool onward; /* all from the nth on */
    bool here;   /* only calls of the thread that arms */
} Fault;

/* From here to the disarm calls are counted from 1. */
void inject_arm(const Fault *fault);
void inject_disarm(void);
/* What was counted since the last arm. */
long inject_count(Call call);
/* How many failed since the last arm. */
long inject_hits(void);
/* Allocations that were not freed yet, of the whole process; 0 where a sanitizer has its own. */
long inject_live(void);
/* From here on sockets that connect hold little, so that who sends to them soon has to wait. */
void inject_narrow(void);
/* From here on whoever dials a UNIX socket is hung up on as soon as it is accepted. */
void inject_hang_up(void);
/* How many sockets that are no UNIX sockets were ever dialed, and the last of them. */
long inject_dials(void);
int inject_dialed(void);

#endif
