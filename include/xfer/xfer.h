/* SPDX-License-Identifier: Apache-2.0
 *
 * libxfer moves bytes between the memories of processes, on one host and across hosts.
 *
 * Sections: version, status, engine, region, endpoint, put/get/atomics, batch, messages, cancel, observation. Beside it
 * text.h: refs as text, names of numbers, options by name; rdma.h: options of RDMA; cuda.h: batches on CUDA streams.
 *
 * Words:
 *   owner          the engine whose region a put, get or atomic is about
 *   initiator      the engine that began the operation
 *   peer           the engine at the other end of an endpoint; a local peer runs on this host, as the same user
 *   connection     what engines have between them while they know each other; ends and comes back by itself
 *   incarnation    one life of an engine, from open to join; a restart is another
 *   quiet          of memory: neither the library nor a peer touches it any more
 *   held           of a message or notification: kept by the peer's engine until its application takes it
 *   stall limit    `stall_ms`: how long an operation may go on without any byte of it moving
 *
 * Rules, unless a function says otherwise:
 *   - Any thread may call it, also from within the event callback.
 *   - It returns a status: XFER_OK (0) or a negative number. Counts leave through out-parameters. Beside the statuses
 *     that it lists, a call may return XFER_EBADHANDLE, XFER_ECLOSED and XFER_EFORKED if it takes a handle,
 *     XFER_EINVAL (a pointer that must not be NULL is, or a field is wrong), XFER_E2BIG if it takes a struct, and
 *     XFER_ENOMEM. Statuses from "then one ... event" to the next semicolon are of that event, which may have others.
 *   - Nothing changes hands: what is passed in is copied before the call returns, what comes out is a value.
 *   - A call that began something and returned XFER_OK gets exactly one completion event; one that returned an error
 *     gets none. No event is delivered from inside the call that caused it.
 *   - Input structs begin with `size`, set to sizeof; zero in a field means "default", XFER_NONE "none" if it may be.
 *     A longer struct or array element whose tail is not zero is XFER_E2BIG, as is a reserved field that is not zero.
 *   - Output structs are zero-filled, and written up to the size that is passed beside them.
 *   - `err` may be NULL. Otherwise all of it is written, on success too.
 *   - Strings are UTF-8 and NUL-terminated.
 *   - Calls on a handle between its close and its end return XFER_ECLOSED, but for those that only look. Closing
 *     NULL does nothing.
 *   - Later versions may add enumerators and events: ignore what you do not know.
 *   - Find your object by the event's `user`. Pointers in events may be compared until the CLOSED event of their object
 *     was delivered; after that the next handle may have the same one.
 */
#ifndef XFER_XFER_H
#define XFER_XFER_H

#include <stddef.h>
#include <stdint.h>

#include "version.h"

#if defined(__GNUC__) && !defined(XFER_STATIC)
#define XFER_API __attribute__((visibility("default")))
#else
#define XFER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* cdef:begin */

/* "None" in fields of 32 bits that allow it: no time limit, no thread, no lane. */
#define XFER_NONE 0xFFFFFFFFu

/* The most bytes of a name, a blob, a key, a notification, of what XFER_FLAG_COPY copies. */
enum { XFER_MAX_NAME = 255, XFER_MAX_BLOB = 1024, XFER_MAX_KEY = 256, XFER_MAX_NOTIFY = 1024, XFER_MAX_COPY = 4096 };

/* ---- version ---- */

/* The version of the library that runs, as XFER_VERSION is that of the header.
 * Returns: 0x00MMmmpp. */
XFER_API uint32_t xfer_version(void);

/* The version as text, such as "0.1.0".
 * Returns: a static string. */
XFER_API const char *xfer_version_string(void);

/* ---- status ---- */

typedef int32_t xfer_status_t;

/* Numbers keep their meaning for ever and are never used again. */
enum {
    XFER_OK = 0,             /* done; or begun, where an event follows */
    XFER_EINVAL = -1,        /* an argument is wrong */
    XFER_EBADHANDLE = -2,    /* not a live handle of that type */
    XFER_E2BIG = -3,         /* an input struct has fields that this library does not know */
    XFER_ENOMEM = -4,        /* out of memory */
    XFER_EAGAIN = -5,        /* a queue is full now; a ROOM event follows once, of receives a RECV */
    XFER_ETOOBIG = -6,       /* exceeds a fixed limit: retrying will not help */
    XFER_EDEGRADED = -7,     /* the path is being rebuilt */
    XFER_EBUSY = -8,         /* in use: a batch in flight, a second poller, a drain that was begun */
    XFER_ECLOSED = -9,       /* the handle, or its engine, is closed or draining */
    XFER_EDEADLK = -10,      /* the call would wait for the thread that makes it */
    XFER_EFORKED = -11,      /* the handle belongs to the parent of this process */
    XFER_EUNSUPPORTED = -12, /* this build or this combination of options has no such thing */
    XFER_EEXIST = -13,       /* the name is taken */
    XFER_ENOTFOUND = -14,    /* nothing of that name, tag or index */
    XFER_EACCESS = -15,      /* refused by the region, by the peer's application, or by the system, as an address */
    XFER_ERANGE = -16,       /* outside the region or the allocation, or the range wraps */
    XFER_ESTALE = -17,       /* the ref names a region or an incarnation that is gone */
    XFER_ETIMEDOUT = -18,    /* the deadline passed, or nothing moved for the stall limit */
    XFER_ECANCELED = -19,    /* canceled by the user, or by a close */
    XFER_EPEERLOST = -20,    /* the connection, or the lane that carried it, ended while the operation was under way */
    XFER_EUNREACHABLE = -21, /* no connection could be made */
    XFER_ENAME = -22,        /* the host name has no address */
    XFER_EADDRINUSE = -23,   /* the port, or every port of the range, is taken */
    XFER_EADDR = -24,        /* the address is malformed or not one of this host */
    XFER_EAUTH = -25,        /* the peer could not prove that it has the key, or a listener needs one */
    XFER_EIDENTITY = -26,    /* not the engine that was expected answered, or owns the ref; or our id is used twice */
    XFER_EPROTO = -27,       /* the peer broke the protocol */
    XFER_EVERSION = -28,     /* a peer's, or a ref's, version or feature that this library does not know */
    XFER_ETRUNC = -29,       /* the message was longer than the buffer */
    XFER_ECHECKSUM = -30,    /* the payload changed on its way */
    XFER_EMEMKIND = -31,     /* no path serves memory of that kind */
    XFER_EOVERLOAD = -32,    /* the peer sheds load */
    XFER_EREVOKED = -33,     /* the grant was revoked or its lease ended */
    XFER_ENOFILES = -34,     /* out of file descriptors */
    XFER_EIO = -35,          /* the system or a device refused, as of memory that is not mapped; see native_code */
    XFER_ENOSPC = -36,       /* the caller's buffer is too small */
    XFER_EINTERNAL = -37     /* a defect of this library */
};

/* Where a native_code comes from. */
enum {
    XFER_ORIGIN_NONE = 0,
    XFER_ORIGIN_OS = 1,    /* native_code is an errno */
    XFER_ORIGIN_UV = 2,    /* a libuv error */
    XFER_ORIGIN_CARES = 3, /* a c-ares error */
    XFER_ORIGIN_VERBS = 4,
    XFER_ORIGIN_CUDA = 5,
    XFER_ORIGIN_PEER = 6 /* the peer decided the status; native_code is that of a refused connection */
};

/* What went wrong in a call, in detail. 256 bytes for ever; nothing in it needs freeing. */
typedef struct xfer_error {
    int32_t status;
    uint32_t origin;
    int32_t native_code;
    uint32_t reserved;
    char message[240]; /* NUL-terminated, empty on success */
} xfer_error_t;

/* The name of a status, such as "XFER_ESTALE".
 * Returns: a static string, "XFER_EUNKNOWN" for a number that is none. */
XFER_API const char *xfer_status_name(xfer_status_t status);

/* One sentence about a status.
 * Returns: a static string. */
XFER_API const char *xfer_status_text(xfer_status_t status);

/* ---- engine ---- */

typedef struct xfer_engine xfer_engine_t;
typedef struct xfer_region xfer_region_t;
typedef struct xfer_ep xfer_ep_t;
typedef struct xfer_batch xfer_batch_t;
typedef struct xfer_counter xfer_counter_t;
struct uv_loop_s;
struct xfer_rdma_options;
struct xfer_cuda_options;
struct xfer_tls_options;

/* The identity of an engine: `bytes` stays over restarts if the user gives it, `incarnation` is new at every open. */
typedef struct xfer_id {
    uint8_t bytes[16];
    uint64_t incarnation;
} xfer_id_t;

/* The kind of an event. A PEER_DOWN, and what ends with XFER_EPEERLOST by that connection's end, has XFER_ORIGIN_PEER
 * after a goodbye; XFER_ORIGIN_OS with ETIMEDOUT if the peer was silent or did not read, or with the error of a reset;
 * XFER_ORIGIN_NONE if the connection ended without a goodbye. */
enum {
    XFER_EVENT_PUT = 1,          /* an xfer_put ended */
    XFER_EVENT_GET = 2,          /* an xfer_get ended */
    XFER_EVENT_BATCH = 3,        /* a submitted batch ended; object is the batch, index its first failed entry */
    XFER_EVENT_SEND = 4,         /* an xfer_send ended */
    XFER_EVENT_RECV = 5,         /* an xfer_recv ended; bytes is the message's length, tag its tag, data its sender */
    XFER_EVENT_LOOKUP = 6,       /* an xfer_ep_lookup ended; data is an xfer_ref_t, followed by the region's blob */
    XFER_EVENT_PROBE = 7,        /* an xfer_ep_probe ended; bytes is the round trip in nanoseconds */
    XFER_EVENT_CONNECT = 8,      /* an xfer_ep_connect ended */
    XFER_EVENT_PEER = 9,         /* a peer connected to us; who owns ep: xfer_ep_keep, XFER_ENGINE_OWN_PEERS */
    XFER_EVENT_PEER_UP = 10,     /* an endpoint has a connection; data is an xfer_id_t, followed by the peer's blob */
    XFER_EVENT_PEER_DOWN = 11,   /* that connection ended; status says why. Nothing of it lands any more */
    XFER_EVENT_REGION_GONE = 12, /* a region that we had looked up was closed; data is its ref */
    XFER_EVENT_NOTIFY = 13,      /* a peer's notification; tag is its key, data its bytes; not OK: its batch failed */
    XFER_EVENT_COUNTER = 14,     /* a counter ended; object is the counter, tag its key, index what came */
    XFER_EVENT_REVOKED = 15,     /* a grant is quiet; user is its options', object the region, tag the region's user */
    XFER_EVENT_ROOM = 16,        /* an endpoint that answered XFER_EAGAIN takes work again */
    XFER_EVENT_DRAINED = 18,     /* an xfer_engine_drain ended */
    XFER_EVENT_CLOSED = 19,      /* the last event of object: a region, an endpoint or the engine */
    XFER_EVENT_NOTIFIED = 20,    /* an xfer_notify ended */
    XFER_EVENT_ATOMIC = 21,      /* an xfer_atomic ended */
    XFER_EVENT_FLUSH = 22,       /* an xfer_ep_flush ended; status is the first failure that it covers */
    XFER_EVENT_STALLED = 23      /* ETIMEDOUT: no copy of a device ended for 1 s, or stall_ms if less; OK: one did */
};

/* Event flags. A completion that is not OK carries FENCED or MAYBE_APPLIED. */
enum {
    XFER_FENCED = 1,        /* the owner has confirmed that nothing of it can land any more (always set with OK) */
    XFER_MAYBE_APPLIED = 2, /* some bytes may have been written, and more may still be, until the owner
                               notices the lost connection: treat the range as undefined */
    XFER_RECONNECTED = 4,   /* PEER_UP: the same incarnation was connected before */
    XFER_RESTARTED = 8      /* PEER_UP: another incarnation, or another engine at an address; old refs are stale */
};

/* What an engine tells its user: 128 bytes. Every event has kind, status and sequence. The others, kind by kind:
 *
 *   PUT, GET          user, ep, bytes, flags; ATOMIC also index: the value before, with XFER_OK
 *   BATCH             user, ep, bytes, flags, object; index, if it failed
 *   SEND              user, ep, bytes, flags; tag, if a message was sent
 *   RECV              user, bytes, flags; once it has its message: tag, data, index: ep's user, and ep while it lives
 *   LOOKUP            user, ep, flags; data, with XFER_OK
 *   PROBE             user, ep, flags; bytes, with XFER_OK
 *   CONNECT, NOTIFIED user, ep, flags; FLUSH has the same
 *   PEER              user, ep; tag: the listener's user
 *   PEER_UP           user, ep, flags, data
 *   PEER_DOWN, ROOM   user, ep
 *   REGION_GONE       user, ep, data
 *   NOTIFY            user, ep while it lives, tag; data, with XFER_OK, if it has bytes
 *   REVOKED, COUNTER  user, object, tag; COUNTER also index: what it has counted
 *   DRAINED, CLOSED   user, object: the engine of DRAINED; CLOSED of an endpoint also ep
 *   STALLED           user: the engine's; tag: the device; index: the I/O thread; bytes: nanoseconds since a copy ended
 *
 * `user` of PEER, PEER_UP, PEER_DOWN, ROOM, REGION_GONE and NOTIFY is the endpoint's: of one that came with PEER, until
 * xfer_ep_keep, a number with its highest bit set that no other handle of the engine ever has. One that is not OK has
 * origin and native_code where they are known; such a PUT, GET, ATOMIC, SEND, NOTIFIED, FLUSH, LOOKUP, PROBE, CONNECT,
 * COUNTER, PEER_DOWN or STALLED may have a sentence in data: why, its NUL behind data_length. Others are zero. */
typedef struct xfer_event {
    uint32_t kind;
    xfer_status_t status;
    uint32_t flags;
    uint32_t origin;
    int32_t native_code;
    uint32_t reserved0;
    uint64_t user; /* the word that the operation, or its handle, was given */
    xfer_ep_t *ep;
    void *object;
    uint64_t bytes; /* bytes that are known to have moved */
    uint64_t tag;
    uint64_t sequence; /* counts the events of this engine from 1 */
    uint64_t index;
    const void *data; /* aligned to 8; valid until the callback returns, in POLL until the next poll begins */
    uint64_t data_length;
    uint64_t reserved[4];
} xfer_event_t;

/* The callback of an engine; `user` is the engine's. It must not throw, longjmp or block: one that takes a second or
 * more is logged. */
typedef void (*xfer_event_cb)(const xfer_event_t *event, uint64_t user);

/* Takes log lines, on the engine's threads and inside calls: no lock here that is held around one. Must not call. */
typedef void (*xfer_log_cb)(uint32_t level, const char *text, uint64_t user);

enum { XFER_LOG_ERROR = 1, XFER_LOG_WARN = 2, XFER_LOG_INFO = 3, XFER_LOG_DEBUG = 4 };

/* Where events arrive. */
enum {
    XFER_DISPATCH_THREAD = 1, /* on a thread of the engine (the default) */
    XFER_DISPATCH_LOOP = 2,   /* on the caller's uv_loop_t, in its thread; open the engine there too */
    XFER_DISPATCH_POLL = 3    /* in xfer_engine_poll */
};

enum {
    XFER_ENGINE_INSECURE = 1,  /* allows listening beyond loopback without a key */
    XFER_ENGINE_CHECKSUM = 2,  /* adds a CRC-32C to every payload that this engine puts or gets over a network */
    XFER_ENGINE_UNREF = 4,     /* LOOP: the engine's uv handles are unreferenced, as by uv_unref; see uv_loop */
    XFER_ENGINE_OWN_PEERS = 8, /* the handle of each PEER event that is delivered is the caller's, as accept() gives
                                  one: it stays until xfer_ep_close, past PEER_DOWN too, so close it */
    XFER_ENGINE_ASK = 16       /* a peer that connects to us is let in by xfer_ep_admit; until then nothing is served */
};

typedef struct xfer_engine_options {
    uint32_t size;
    uint32_t dispatch;         /* XFER_DISPATCH_*; default THREAD */
    uint32_t io_threads;       /* Threads that drive sockets. XFER_NONE: the dispatching side does it. Default: the
                                  engine's choice, today none with THREAD, else 1. */
    uint32_t spin_us;          /* How long to poll before sleeping. XFER_NONE: not at all. Default: the engine's choice,
                                  today up to 50, with 4 CPUs or more, while there is work as often as that. */
    struct uv_loop_s *uv_loop; /* For LOOP. The engine's handles keep uv_run running until its CLOSED; with
                                  XFER_ENGINE_UNREF only between xfer_engine_close, called in the loop's thread, and
                                  CLOSED: until then other handles must, even while operations are under way. */
    xfer_event_cb on_event;    /* for THREAD and LOOP */
    uint64_t user;             /* second argument of on_event, and in the engine's CLOSED and STALLED events */
    xfer_log_cb on_log;        /* default: none, or stderr when XFER_LOG is set in the environment */
    uint64_t log_user;
    uint32_t log_level; /* XFER_LOG_*; default WARN; a higher number than those is as DEBUG */
    uint32_t flags;     /* XFER_ENGINE_* */
    uint8_t id[16];     /* identity kept over restarts; default: random */
    const void *blob;   /* shown to peers, at most 1024 bytes */
    uint64_t blob_length;
    const void *key; /* shared secret of all members, 32 to 256 bytes; default: none */
    uint64_t key_length;
    const char *transports;   /* comma list of loopback, tcp, unix, shm, rdma that restricts; default: all */
    const char *advertise;    /* comma list of URIs that peers should dial; default: the bound addresses */
    uint32_t timeout_ms;      /* deadline of operations that give none; default and XFER_NONE: only the stall limit */
    uint32_t stall_ms;        /* an operation of which no byte moves this long ends; see STALLED; default 30,000 */
    uint32_t connect_ms;      /* one attempt to connect; default 5,000 */
    uint32_t heartbeat_ms;    /* A peer that is silent for half of this is pinged, and counts as lost after at most
                                 twice this. A local peer: only while operations are under way. Default 5,000. */
    uint32_t idle_ms;         /* A connection unused for this long is closed; the next operation opens it again.
                                 Default 300,000. */
    uint32_t lanes;           /* Data lanes for each peer. XFER_NONE: the control channel carries all. Default: the
                                 engine's choice, today 1. */
    uint32_t max_connections; /* peers connected at once; one more closes an idle connection, or waits; 1,024 */
    uint32_t max_operations;  /* operations queued or under way on one endpoint; default 1,024 */
    uint32_t yield_ms;        /* For full meshes: when both know each other's id, the larger id waits this long to be
                                 dialed before it dials, so that each pair connects once. Default and XFER_NONE: no
                                 wait. */
    uint32_t reserved[3];
    const struct xfer_rdma_options *rdma; /* see xfer/rdma.h; default: the default of each of its fields */
    const struct xfer_cuda_options *cuda; /* these two are NULL: no version has them yet */
    const struct xfer_tls_options *tls;
} xfer_engine_options_t;

/* In xfer_op_options_t.flags. A flag that a call does not take is XFER_EINVAL. */
enum {
    XFER_FLAG_SYNC = 1,  /* send: ends when the message was received, not when it is held */
    XFER_FLAG_QUIET = 2, /* put, get, atomic, send, notify: no event if it ends with XFER_OK; a failure still has one */
    XFER_FLAG_COPY = 4,  /* put, send: at most 4,096 bytes of host memory, else XFER_ETOOBIG; they are copied, and the
                            caller's again when the call returns */
    XFER_FLAG_TAKE = 8,  /* recv: without a buffer; the message is in the event */
    XFER_FLAG_WAIT = 16  /* lookup: if the name is not there, waits until it is */
};

/* Options of one operation. It ends with XFER_ETIMEDOUT at its deadline, or when no byte of it has moved for the stall
 * limit. The stall limit does not run while an application is waited for: in a receive until its message comes, in a
 * lookup that waits, a counter or a drain, and, if they have a deadline, in a send or notification until the peer takes
 * it. A connect, probe or lookup with a deadline has no stall limit. */
typedef struct xfer_op_options {
    uint32_t size;
    uint32_t timeout_ms; /* default: the engine's; XFER_NONE: no deadline, only the stall limit */
    uint32_t flags;      /* XFER_FLAG_* */
    uint32_t priority;   /* a hint; none is used yet */
    uint64_t trace;      /* shown in logs */
    uint64_t reserved[2];
} xfer_op_options_t;

/* Opens an engine. It neither listens nor connects yet.
 * Returns: XFER_OK; XFER_EINVAL, XFER_E2BIG, XFER_EUNSUPPORTED, XFER_ENOMEM, XFER_ENOFILES, XFER_EIO.
 * Thread: any; for LOOP that of the loop.
 * Ownership: the caller's until xfer_engine_join. */
XFER_API xfer_status_t xfer_engine_open(const xfer_engine_options_t *options, xfer_engine_t **engine,
                                        xfer_error_t *err);

enum { XFER_LISTEN_INSECURE = 1 }; /* allows listening beyond loopback without a key, here */

typedef struct xfer_listen_options {
    uint32_t size;
    uint32_t flags; /* XFER_LISTEN_* */
    uint32_t mode;  /* permission bits of a UNIX socket's file; default 0600 */
    uint32_t reserved;
    const char *advertise; /* comma list of URIs that peers should dial for this listener; "{port}" stands for the port
                              that was bound; default: the engine's list, or what was bound */
    uint64_t user;         /* comes back as tag in the PEER events of peers that were accepted here */
    uint64_t reserved1[4];
} xfer_listen_options_t;

/* Accepts peers at `uri`: tcp://127.0.0.1:0, tcp://[::1]:7000, tcp://127.0.0.1:15000-17000 (the first free port),
 * unix:///path (a killed process's socket is replaced; its mode says which users may connect), shm://name (this user).
 * The host is numeric or "localhost": a listener names an interface. tcp://0.0.0.0:7000, the same with "*" as its host
 * and tcp://:7000 mean every IPv4 interface, tcp://[::]:7000 every IPv6 interface; peers are told the address of each
 * that is up, of loopback only if there is no other. The address that was bound is written to `bound`, of `cap` bytes
 * (256 are enough), as a URI that peers can dial; of a wildcard it is the first, and xfer_engine_addresses has all.
 * Returns: XFER_OK; XFER_EADDR, XFER_EADDRINUSE, XFER_ENOSPC, XFER_EAUTH (beyond loopback without a key,
 *          XFER_LISTEN_INSECURE or XFER_ENGINE_INSECURE), XFER_EINVAL, XFER_EUNSUPPORTED (no transport of this engine
 *          serves it), XFER_EACCESS (as of a port that needs a privilege), XFER_ENOFILES, XFER_EIO. */
XFER_API xfer_status_t xfer_engine_listen(xfer_engine_t *engine, const char *uri, const xfer_listen_options_t *options,
                                          char *bound, uint64_t cap, xfer_error_t *err);

/* Where peers may dial this engine: a comma list of at most 64 addresses that xfer_ep_open takes as it is; for each
 * listener what it advertises, else what was bound; empty without a listener. *needed is the length with the NUL; call
 * with cap 0 to learn it.
 * Returns: XFER_OK; XFER_ENOSPC if `cap` is too small (then `text` holds what fits). */
XFER_API xfer_status_t xfer_engine_addresses(xfer_engine_t *engine, char *text, uint64_t cap, uint64_t *needed);

/* The identity of this engine.
 * Returns: XFER_OK; XFER_EINVAL. */
XFER_API xfer_status_t xfer_engine_id(xfer_engine_t *engine, xfer_id_t *id);

/* The descriptor that is readable when xfer_engine_poll can make progress (POLL only). If you busy-poll, do not call
 * this: without a descriptor, operations between engines of one host need no system call.
 * Returns: XFER_OK; XFER_EUNSUPPORTED in the other dispatch modes; the first time XFER_ENOFILES, XFER_ENOMEM, XFER_EIO.
 * Ownership: the engine's; watch it (level- or edge-triggered, a duplicate too), but do not close it nor read from it.
 *            After a poll that returned less than `max` it is not readable until something new happens. */
XFER_API xfer_status_t xfer_engine_fd(xfer_engine_t *engine, int32_t *fd);

/* Takes up to `max` events into `events`, an array whose elements are `event_size` bytes apart; waits for the
 * first one up to `timeout_ms` (0: do not wait; XFER_NONE: without limit). With io_threads none this also drives
 * the sockets. After the engine's CLOSED it returns at once, with nothing.
 * To end a loop of polls from another thread: xfer_engine_close there; poll on until the engine's CLOSED; then join.
 * A join meanwhile interrupts a poll: it returns XFER_ECLOSED (with *count events, whose data is gone), and must not
 * be repeated, since the engine is gone with the join.
 * Returns: XFER_OK, also when *count is 0; XFER_EBUSY while another thread polls; XFER_ECLOSED once another thread
 *          joins; XFER_EUNSUPPORTED unless POLL.
 * Thread: one at a time.
 * In callback: no.
 * Ownership: data of the events is the engine's and valid until the next poll begins. */
XFER_API xfer_status_t xfer_engine_poll(xfer_engine_t *engine, xfer_event_t *events, uint32_t event_size, uint32_t max,
                                        uint32_t timeout_ms, uint32_t *count);

/* Lets the poll that waits return at once, with what there is; the next one, if none waits (POLL only).
 * Returns: XFER_OK; XFER_EUNSUPPORTED unless POLL. */
XFER_API xfer_status_t xfer_engine_wake(xfer_engine_t *engine);

/* Ends all work before an engine's end, as for a rolling restart. From here on calls that begin or open anything answer
 * XFER_ECLOSED, and no connection is accepted. Peers are told: they begin nothing new here, and operations that they
 * have not begun wait for the next engine with this id, within their deadlines. What is under way on either side ends,
 * then the connections do; xfer_engine_close is to come. Without a drain a peer's last send may end XFER_EPEERLOST.
 * Returns: XFER_OK, then one DRAINED event: XFER_ETIMEDOUT if not all of it has ended, XFER_ECANCELED if the engine was
 *          closed meanwhile; XFER_EBUSY the second time; XFER_ECLOSED. */
XFER_API xfer_status_t xfer_engine_drain(xfer_engine_t *engine, uint64_t user, const xfer_op_options_t *options);

/* Starts the end: closes all regions and endpoints (their CLOSED events come), then delivers the engine's own CLOSED,
 * its last event. From here on calls that begin something answer XFER_ECLOSED; looking, polling, closing go on.
 * Returns: XFER_OK; XFER_ECLOSED the second time.
 * Ownership: the handle stays until xfer_engine_join. */
XFER_API xfer_status_t xfer_engine_close(xfer_engine_t *engine);

/* Closes if that was not done, waits for the end up to `timeout_ms` (0: do not wait; XFER_NONE: without limit), ends
 * the threads, frees. In POLL it takes the events that are left, and drops them; in LOOP the engine's CLOSED event must
 * have come before. A poll in another thread is interrupted, and waited for. The end takes long if a local peer was
 * stopped in the middle of a copy: it comes when that peer runs or dies.
 * Returns: XFER_OK; XFER_ETIMEDOUT: the engine is closing, join again; XFER_EDEADLK on the dispatching thread;
 *          XFER_EBUSY in LOOP before CLOSED.
 * Thread: any but the dispatching one; in LOOP that of the loop.
 * In callback: no.
 * Ownership: takes the engine's handle. Regions, endpoints, batches and counters that you have not closed must still be
 *            closed afterwards; that only frees the handle. */
XFER_API xfer_status_t xfer_engine_join(xfer_engine_t *engine, uint32_t timeout_ms);

/* ---- region ---- */

/* What peers may do: get, put, xfer_atomic. */
enum { XFER_READ = 1, XFER_WRITE = 2, XFER_ATOMIC = 4 };

/* Memory kinds; numbers for ever. HIP, Level Zero and files are reserved. */
enum { XFER_MEM_HOST = 1, XFER_MEM_CUDA = 2, XFER_MEM_HIP = 3, XFER_MEM_ZE = 4, XFER_MEM_FILE = 5 };

/* Transports; numbers for ever. */
enum {
    XFER_TRANSPORT_LOOPBACK = 1,
    XFER_TRANSPORT_TCP = 2,
    XFER_TRANSPORT_SHM = 3,
    XFER_TRANSPORT_RDMA = 4,
    XFER_TRANSPORT_CUDA = 5,
    XFER_TRANSPORT_UNIX = 6
};

/* Names a peer's region or a part of it, for as long as that region lives. Opaque and versioned: copy it as bytes, send
 * it by any means. Whoever holds it and has the key may use it. */
typedef struct xfer_ref {
    uint8_t bytes[96];
} xfer_ref_t;

typedef struct xfer_region_options {
    uint32_t size;
    uint32_t access;  /* XFER_READ | XFER_WRITE | XFER_ATOMIC; default: none, local use only */
    uint32_t kind;    /* XFER_MEM_*, a hint that is checked; default: ask the driver */
    uint32_t flags;   /* XFER_REGION_* */
    const char *name; /* 1 to 255 bytes, unique in the engine, for xfer_ep_lookup; default: none */
    const void *blob; /* shown to peers that look it up (dtype, shape ...), at most 1024 bytes */
    uint64_t blob_length;
    uint32_t numa_node; /* xfer_region_alloc: 1 + the node to be preferred; default: the system's choice */
    uint32_t reserved;
    uint64_t user; /* comes back in the region's CLOSED event, and as tag in the REVOKED events of its grants */
} xfer_region_options_t;

enum { XFER_REGION_HUGE_PAGES = 1 }; /* xfer_region_alloc: huge pages, if the system has some */

typedef struct xfer_region_info {
    uint64_t address;
    uint64_t length;
    uint64_t id; /* unique in the engine, never used again */
    uint32_t generation;
    uint32_t access;
    uint32_t kind; /* what the driver said */
    uint32_t reserved;
} xfer_region_info_t;

typedef struct xfer_ref_info {
    xfer_id_t owner;
    uint64_t region; /* the owner's number of the region, or of the grant */
    uint64_t offset;
    uint64_t length;
    uint32_t generation;
    uint32_t access;
    uint32_t kind;
    uint32_t reserved;
} xfer_ref_info_t;

typedef struct xfer_grant_options {
    uint32_t size;
    uint32_t access; /* XFER_READ | XFER_WRITE | XFER_ATOMIC, whatever the region's own access is */
    uint64_t offset; /* in the region */
    uint64_t length;
    uint32_t lease_ms; /* ends by itself unless renewed; default and XFER_NONE: never */
    uint32_t reserved;
    uint64_t user; /* comes back in the REVOKED event */
} xfer_grant_options_t;

/* Lends memory to the engine, and to peers as `access` says. Peers find it by its name from now on, or have its ref.
 * Returns: XFER_OK; XFER_EINVAL (no length; with XFER_ATOMIC also an address that is not divisible by 8), XFER_E2BIG,
 *          XFER_ERANGE (it wraps, or a driver says that its allocation ends before), XFER_EEXIST, XFER_EMEMKIND (the
 *          hint is wrong, or no transport serves that kind), XFER_ETOOBIG (too many regions), XFER_ENOMEM.
 * Ownership: the memory is borrowed until the CLOSED event of the region. Operations on memory unmapped before that
 *            fail with XFER_EIO; the log names the region. Streams of a device are over before a peer touches it. */
XFER_API xfer_status_t xfer_region_open(xfer_engine_t *engine, const xfer_region_options_t *options, void *address,
                                        uint64_t length, xfer_region_t **region, xfer_error_t *err);

/* As xfer_region_open, with memory that it allocates, zeroed. Security: local peers map all of it, even if only a part
 * was granted to them.
 * Returns: XFER_OK; XFER_EINVAL (no length), XFER_E2BIG, XFER_EEXIST, XFER_EMEMKIND (the hint is not host memory),
 *          XFER_ETOOBIG (too many regions), XFER_ENOMEM, XFER_ENOFILES, XFER_EIO.
 * Ownership: the memory is the region's and ends with it: after xfer_region_close, with the CLOSED event. */
XFER_API xfer_status_t xfer_region_alloc(xfer_engine_t *engine, const xfer_region_options_t *options, uint64_t length,
                                         void **address, xfer_region_t **region, xfer_error_t *err);

/* The ref of the whole region, to be sent to peers by your own means.
 * Returns: XFER_OK; XFER_EACCESS if the region is for local use only. */
XFER_API xfer_status_t xfer_region_ref(xfer_region_t *region, xfer_ref_t *ref);

/* A ref of a part of the region with its own access and lease, revocable by itself. A region without access can be
 * lent by grants alone. What a grant names ends with the region at the latest.
 * Returns: XFER_OK, then one REVOKED event at its end: XFER_OK when it was revoked, XFER_ETIMEDOUT when its lease
 *          ended, XFER_ECLOSED with the region; XFER_EINVAL (no access or length; with XFER_ATOMIC also a start that is
 *          not divisible by 8), XFER_ERANGE, XFER_EMEMKIND, XFER_ETOOBIG, XFER_ECLOSED. */
XFER_API xfer_status_t xfer_region_grant(xfer_region_t *region, const xfer_grant_options_t *options, xfer_ref_t *ref,
                                         xfer_error_t *err);

/* Renews the lease of a grant: `lease_ms` from now; 0 and XFER_NONE: it never ends by itself.
 * Returns: XFER_OK; XFER_EREVOKED if it has ended, or is of another region; XFER_EINVAL if the ref is no grant of this
 *          engine; XFER_EVERSION. */
XFER_API xfer_status_t xfer_region_renew(xfer_region_t *region, const xfer_ref_t *grant, uint32_t lease_ms);

/* Takes a grant back: later uses of it end with XFER_EREVOKED; the REVOKED event says that its memory is quiet, as far
 * as this grant goes.
 * Returns: as xfer_region_renew. */
XFER_API xfer_status_t xfer_region_revoke(xfer_region_t *region, const xfer_ref_t *grant);

/* What a region is.
 * Returns: XFER_OK. */
XFER_API xfer_status_t xfer_region_info(xfer_region_t *region, xfer_region_info_t *info, uint32_t info_size);

/* Takes the memory back. Refs of it are stale at once, and peers that have looked it up get REGION_GONE, each of 65,536
 * at most. CLOSED says that the memory is quiet; it waits for a local peer that was stopped in the middle of a copy.
 * Returns: XFER_OK, then one CLOSED event; XFER_ECLOSED if the engine's end came first.
 * Ownership: takes the handle; the memory is the caller's again with the event. */
XFER_API xfer_status_t xfer_region_close(xfer_region_t *region);

/* What a ref says of itself, without asking its owner.
 * Returns: XFER_OK; XFER_EINVAL if these bytes are no ref; XFER_EVERSION. */
XFER_API xfer_status_t xfer_ref_info(const xfer_ref_t *ref, xfer_ref_info_t *info, uint32_t info_size);

/* ---- endpoint ---- */

enum {
    XFER_EP_IDLE = 1,       /* no connection, none wanted */
    XFER_EP_CONNECTING = 2, /* an attempt is under way, or the next one waits for its time */
    XFER_EP_READY = 3,
    XFER_EP_CLOSED = 4
};

typedef struct xfer_ep_options {
    uint32_t size;
    uint32_t reserved;
    const xfer_id_t *peer; /* the identity expected (its incarnation is ignored), not all zero; default: any */
    uint64_t user;         /* comes back in PEER_UP, PEER_DOWN, REGION_GONE, ROOM and CLOSED of this handle */
} xfer_ep_options_t;

typedef struct xfer_peer_info {
    xfer_id_t id; /* all zero until the first connection */
    uint32_t state;
    uint32_t blob_length;
    char address[256]; /* where we dial, or where it came from */
    uint8_t blob[1024];
} xfer_peer_info_t;

/* A handle for the engine at `uri`, or at each address of a comma list, which are tried in turn; one that no transport
 * of this engine serves is left out. Does not connect: the first use does. Who answers first is the peer; another
 * engine at another address of the list is a failed attempt there, XFER_EIDENTITY. With `peer` it is a handle for that
 * engine wherever it is: any connection that the two have serves it, whoever dialed it. Then `uri` may be NULL, and
 * operations wait until the peer comes. With this engine's own id it is a handle for itself, which needs no listener.
 * Returns: XFER_OK; XFER_EADDR (`err` says which address), XFER_EINVAL (neither `uri` nor `peer`), XFER_EUNSUPPORTED
 *          (no address is left; no loopback, if `peer` is this engine), XFER_ETOOBIG (more than 64 addresses).
 * Ownership: the caller's until xfer_ep_close. */
XFER_API xfer_status_t xfer_ep_open(xfer_engine_t *engine, const char *uri, const xfer_ep_options_t *options,
                                    xfer_ep_t **ep, xfer_error_t *err);

/* Adds an address, or a comma list, to those of the peer, such as where it was restarted. What waits for the peer dials
 * there at once; an attempt elsewhere that is under way has half a second left. If another engine answers there than
 * before, a handle that was opened without `peer` follows it.
 * Returns: XFER_OK; XFER_EADDR, XFER_EINVAL, XFER_EUNSUPPORTED, XFER_ETOOBIG, as xfer_ep_open; XFER_ECLOSED. */
XFER_API xfer_status_t xfer_ep_add_address(xfer_ep_t *ep, const char *uri, xfer_error_t *err);

/* Keeps the handle of a PEER event past its PEER_DOWN: from then on it is like one that was opened, IDLE if the peer is
 * down; the peer's next connection is its next PEER_UP. `user` is in the events that this handle has from now on, as in
 * xfer_ep_options_t. A peer whose idle connection was closed counts as down when it has not come back within idle_ms.
 * With XFER_ENGINE_OWN_PEERS the handle is the caller's without this, which only sets `user`, once.
 * Returns: XFER_OK; XFER_EINVAL if it was opened, or kept before.
 * Thread: any, until the callback of the PEER_DOWN event, or of the engine's CLOSED, has returned; in POLL until the
 *         next poll begins.
 * Ownership: the handle is the caller's until xfer_ep_close. */
XFER_API xfer_status_t xfer_ep_keep(xfer_ep_t *ep, uint64_t user);

/* Lets the peer of a PEER event in, or turns it away. With XFER_ENGINE_ASK a peer that connects to us raises PEER once
 * it has proved that it has the key, and waits; xfer_ep_peer has its id, which is its own word, and its blob. XFER_OK
 * lets it in: PEER_UP follows. XFER_EACCESS fails what waits there for us; XFER_EOVERLOAD has the peer try again later.
 * Without a verdict within three quarters of connect_ms the status is XFER_ETIMEDOUT; if the handle of
 * XFER_ENGINE_OWN_PEERS is closed before, XFER_EACCESS. A peer that is turned away raises PEER_DOWN with that status.
 * A verdict holds for an incarnation until PEER_DOWN. Peers for which an endpoint is open are let in. Those that wait
 * do not count as max_connections; past a bound of their own more are told to try again later. Also without that flag
 * either status ends a connection that is up.
 * Returns: XFER_OK; XFER_EINVAL (another verdict, or a handle that was opened). */
XFER_API xfer_status_t xfer_ep_admit(xfer_ep_t *ep, xfer_status_t verdict);

/* Connects now, so that the first operation need not. Operations wait for a peer that is away until their deadline;
 * this ends with the status of the last failed attempt when no address is left to try.
 * Returns: XFER_OK, then one CONNECT event; XFER_EAGAIN, XFER_ECLOSED. */
XFER_API xfer_status_t xfer_ep_connect(xfer_ep_t *ep, uint64_t user, const xfer_op_options_t *options);

/* Asks the peer for the ref and blob of its region `name`. Of one connection 1,024 may wait there (XFER_FLAG_WAIT).
 * Returns: XFER_OK, then one LOOKUP event: XFER_ENOTFOUND, XFER_EVERSION, XFER_EOVERLOAD; XFER_EINVAL, XFER_EAGAIN. */
XFER_API xfer_status_t xfer_ep_lookup(xfer_ep_t *ep, const char *name, uint64_t user, const xfer_op_options_t *options,
                                      xfer_error_t *err);

/* Measures a round trip to the peer's engine and back.
 * Returns: XFER_OK, then one PROBE event; XFER_EAGAIN, XFER_ECLOSED. */
XFER_API xfer_status_t xfer_ep_probe(xfer_ep_t *ep, uint64_t user, const xfer_op_options_t *options);

/* Writes XFER_EP_* to *state.
 * Returns: XFER_OK. */
XFER_API xfer_status_t xfer_ep_state(xfer_ep_t *ep, uint32_t *state);

/* What is known of the peer.
 * Returns: XFER_OK. */
XFER_API xfer_status_t xfer_ep_peer(xfer_ep_t *ep, xfer_peer_info_t *info, uint32_t info_size);

/* Ends the handle: its operations end with XFER_ECANCELED, then comes CLOSED. The connection stays while another handle
 * uses it.
 * Returns: XFER_OK, then one CLOSED event; XFER_ECLOSED if the engine's end came first; XFER_EINVAL if it is a PEER
 *          event's and not the caller's.
 * Ownership: takes the handle. */
XFER_API xfer_status_t xfer_ep_close(xfer_ep_t *ep);

/* ---- put, get, atomics ---- */

/* Writes `length` bytes from `local` to `offset` of what `remote` names.
 * Returns: XFER_OK, then one PUT event; XFER_EINVAL, XFER_ERANGE, XFER_EACCESS, XFER_EVERSION, XFER_EMEMKIND,
 *          XFER_EAGAIN, XFER_ETOOBIG (XFER_FLAG_COPY), XFER_EIDENTITY (the ref is not of the `peer` of `ep`).
 * Ownership: the bytes at `local` are borrowed until the event. What streams write to a device is there before. */
XFER_API xfer_status_t xfer_put(xfer_ep_t *ep, const void *local, const xfer_ref_t *remote, uint64_t offset,
                                uint64_t length, uint64_t user, const xfer_op_options_t *options);

/* Reads `length` bytes at `offset` of what `remote` names into `local`.
 * Returns: XFER_OK, then one GET event; XFER_EINVAL, XFER_ERANGE, XFER_EACCESS, XFER_EVERSION, XFER_EMEMKIND,
 *          XFER_EAGAIN, XFER_EIDENTITY (see xfer_put).
 * Ownership: the bytes at `local` are borrowed until the event. Streams that touch them on a device are over before. */
XFER_API xfer_status_t xfer_get(xfer_ep_t *ep, void *local, const xfer_ref_t *remote, uint64_t offset, uint64_t length,
                                uint64_t user, const xfer_op_options_t *options);

enum {
    XFER_ATOMIC_ADD = 1, /* adds `operand`, modulo 2^64; `compare` is 0 */
    XFER_ATOMIC_CAS = 2  /* stores `operand` if the value equals `compare` */
};

/* Changes the 8 bytes at `offset` of what `remote` names, a uint64_t in the owner's byte order. The value before the
 * change is the event's index, and is written to *result, unless that is NULL. A CPU of the owner's host does it in one
 * step: it is atomic with the atomics of all peers, by whatever path, and with sequentially consistent ones of the
 * owner's program; not with puts, gets and plain stores. What must come after it begins after its event.
 * It is never done twice. XFER_OK: it was done, once. FENCED with another status: it was not done, and will not be.
 * MAYBE_APPLIED: it may have been done, or may be until the owner notices the lost connection. A deadline or a cancel
 * that finds it sent waits for the owner's word, 100 ms at most: so it may end with XFER_OK all the same.
 * Returns: XFER_OK, then one ATOMIC event; XFER_EINVAL (also an unknown `op`, or an offset that is not divisible by 8),
 *          XFER_ERANGE, XFER_EACCESS, XFER_EMEMKIND, XFER_EVERSION, XFER_EIDENTITY (see xfer_put), XFER_EAGAIN.
 * Ownership: *result is borrowed until the event; it is written only with XFER_OK. */
XFER_API xfer_status_t xfer_atomic(xfer_ep_t *ep, uint32_t op, uint64_t *result, const xfer_ref_t *remote,
                                   uint64_t offset, uint64_t operand, uint64_t compare, uint64_t user,
                                   const xfer_op_options_t *options);

/* Waits for all puts, gets, atomics, sends, notifications and batches that were begun with this handle by calls that
 * returned before this one; FLUSH comes behind the events of those that failed. Its status, flags and reason are those
 * of the first failure of the handle's operations since the last flush that ended by itself, if there was one. A flush
 * that ends by its deadline (by default the engine's; it has no stall limit) or by xfer_cancel tells no failure, and
 * leaves the operations alone. It counts as an operation, but is taken also where others are refused.
 * `idle` may be NULL. Otherwise it is 1, and no event comes, if nothing is under way and nothing has failed; else 0.
 * Returns: XFER_OK, then one FLUSH event unless *idle is 1; XFER_EAGAIN if twice max_operations are under way. */
XFER_API xfer_status_t xfer_ep_flush(xfer_ep_t *ep, uint32_t *idle, uint64_t user, const xfer_op_options_t *options);

/* ---- batch ---- */

enum { XFER_OP_PUT = 1, XFER_OP_GET = 2 };

typedef struct xfer_span {
    uint64_t local;  /* an address of this process */
    uint64_t offset; /* in what the ref names */
    uint64_t length;
} xfer_span_t;

/* `count` blocks of `length` bytes, `local_stride` and `remote_stride` bytes from one to the next. */
typedef struct xfer_strided {
    uint32_t size;
    uint32_t reserved;
    uint64_t local;
    uint64_t local_stride;
    const xfer_ref_t *remote;
    uint64_t offset;
    uint64_t remote_stride;
    uint64_t length;
    uint64_t count;
} xfer_strided_t;

/* One pair of bases that a page table applies to, such as one layer of a KV cache. */
typedef struct xfer_page_base {
    uint64_t local;           /* the address of local page 0 */
    const xfer_ref_t *remote; /* what holds the remote pages */
    uint64_t offset;          /* of remote page 0 in it */
} xfer_page_base_t;

/* For every base, and every i below `count`: local page local_pages[i] <-> remote page remote_pages[i]. A page is
 * `rows` blocks of `length` bytes; where they lie may differ between the two sides, as it does between two degrees of
 * tensor parallelism. Each page of each base is an entry: base b, page i is entry b * count + i. */
typedef struct xfer_pages {
    uint32_t size;
    uint32_t base_size;  /* sizeof(xfer_page_base_t) */
    uint32_t index_size; /* bytes of a page number: 4 or 8. They are unsigned; one of all ones is XFER_ERANGE */
    uint32_t reserved;
    uint64_t length;        /* bytes of each row, not 0 */
    uint64_t local_stride;  /* from page n to page n + 1; default: rows times the row stride */
    uint64_t remote_stride; /* the same on the remote side */
    uint64_t count;
    const void *local_pages; /* the numbers, each of index_size bytes */
    const void *remote_pages;
    const xfer_page_base_t *bases;
    uint64_t base_count;
    uint64_t rows;             /* of each page; default 1 */
    uint64_t local_row_stride; /* from row to row; default: length */
    uint64_t remote_row_stride;
} xfer_pages_t;

typedef struct xfer_batch_options {
    uint32_t size;
    uint32_t flags; /* none yet */
} xfer_batch_options_t;

enum {
    XFER_SUBMIT_NOTIFY = 1,  /* raises a NOTIFY event with notify_key at the owner, after all of the batch's data */
    XFER_SUBMIT_ORDERED = 2, /* begins when all that was submitted on its endpoint before has ended, well or not */
    XFER_SUBMIT_CHECKSUM = 4 /* a CRC-32C goes with every payload; a mismatch is XFER_ECHECKSUM */
};

typedef struct xfer_submit_options {
    uint32_t size;
    uint32_t timeout_ms;     /* default: the engine's; XFER_NONE: only the stall limit */
    uint32_t flags;          /* XFER_SUBMIT_* */
    uint32_t priority;       /* a hint; none is used yet */
    uint64_t notify_key;     /* with XFER_SUBMIT_NOTIFY */
    uint64_t trace;          /* shown in logs */
    const void *notify_data; /* in the NOTIFY event, if the batch succeeds; copied; at most 1,024 bytes */
    uint64_t notify_length;
    uint64_t stream[2]; /* for device streams */
} xfer_submit_options_t;

/* An empty batch of operations with one endpoint, to be filled, submitted, and submitted again.
 * Returns: XFER_OK; XFER_EINVAL, XFER_E2BIG, XFER_ECLOSED, XFER_ENOMEM.
 * Thread: any. Here and below: calls on one batch come from one thread at a time, else XFER_EBUSY; but for cancel.
 * Ownership: the caller's until xfer_batch_close. */
XFER_API xfer_status_t xfer_batch_open(xfer_ep_t *ep, const xfer_batch_options_t *options, xfer_batch_t **batch,
                                       xfer_error_t *err);

/* Adds one put, as one entry.
 * Returns: XFER_OK; XFER_EINVAL, XFER_ERANGE, XFER_EACCESS, XFER_EVERSION, XFER_EMEMKIND, XFER_ETOOBIG,
 *          XFER_EIDENTITY (see xfer_put); XFER_EBUSY in flight.
 * Ownership: the ref is copied; the memory is borrowed only from submit to completion. */
XFER_API xfer_status_t xfer_batch_put(xfer_batch_t *batch, const void *local, const xfer_ref_t *remote, uint64_t offset,
                                      uint64_t length);

/* Adds one get, as one entry.
 * Returns: as xfer_batch_put. */
XFER_API xfer_status_t xfer_batch_get(xfer_batch_t *batch, void *local, const xfer_ref_t *remote, uint64_t offset,
                                      uint64_t length);

/* Adds `count` spans of one ref, each of `span_size` bytes, sizeof(xfer_span_t); each is an entry. `op` is XFER_OP_*.
 * Returns: as xfer_batch_put; XFER_E2BIG; after an error nothing was added, and `err` says which span is wrong. */
XFER_API xfer_status_t xfer_batch_add_spans(xfer_batch_t *batch, uint32_t op, const xfer_ref_t *remote,
                                            const xfer_span_t *spans, uint32_t span_size, uint64_t count,
                                            xfer_error_t *err);

/* Adds equal blocks at equal distances; each block is an entry.
 * Returns: as xfer_batch_put; after an error nothing was added. */
XFER_API xfer_status_t xfer_batch_add_strided(xfer_batch_t *batch, uint32_t op, const xfer_strided_t *strided,
                                              xfer_error_t *err);

/* Adds the pages of a page table, for one or many pairs of bases; each page of each base is an entry.
 * Returns: as xfer_batch_put; after an error nothing was added. */
XFER_API xfer_status_t xfer_batch_add_pages(xfer_batch_t *batch, uint32_t op, const xfer_pages_t *pages,
                                            xfer_error_t *err);

/* Replaces the ref `from` by `to` in all entries; offsets stay. After the owner's restart: look the region up again,
 * rebind, submit.
 * Returns: XFER_OK; XFER_ENOTFOUND if nothing names `from`; XFER_ERANGE if `to` is shorter, XFER_EACCESS if it allows
 *          less; XFER_EINVAL, XFER_EVERSION, XFER_EIDENTITY (see xfer_put); XFER_EBUSY in flight. */
XFER_API xfer_status_t xfer_batch_rebind(xfer_batch_t *batch, const xfer_ref_t *from, const xfer_ref_t *to,
                                         xfer_error_t *err);

/* Starts the batch. It may be submitted again after its event, unchanged or with more entries. With XFER_SUBMIT_NOTIFY
 * the owner's application gets one NOTIFY event: XFER_OK once all data were applied, or why the batch failed (also if
 * this process dies on the way); after it nothing of the batch lands. The batch ends with XFER_OK only when the owner
 * holds that notification.
 * Returns: XFER_OK, then one BATCH event; XFER_EBUSY in flight, XFER_EAGAIN, XFER_ECLOSED, XFER_EINVAL; of notify_data
 *          XFER_ETOOBIG, XFER_ERANGE, XFER_EMEMKIND.
 * Ownership: the local memory of all entries is borrowed until the event. */
XFER_API xfer_status_t xfer_batch_submit(xfer_batch_t *batch, uint64_t user, const xfer_submit_options_t *options);

/* Asks for an early end. The event still comes, with XFER_ECANCELED, or as it would have come anyway.
 * Returns: XFER_OK; XFER_EINVAL if the batch is not in flight. */
XFER_API xfer_status_t xfer_batch_cancel(xfer_batch_t *batch);

enum { XFER_BATCH_IDLE = 1, XFER_BATCH_INFLIGHT = 2 }; /* in flight from its submit to its event */

/* Of the submit that is under way, or else of the last one. */
typedef struct xfer_batch_info {
    uint32_t state;        /* XFER_BATCH_* */
    xfer_status_t status;  /* with which it ended; XFER_OK while it is under way */
    uint64_t entries;      /* how many it has */
    uint64_t bytes;        /* known to have moved */
    uint64_t first_failed; /* the index in its event, if it failed */
    uint64_t reserved[3];
} xfer_batch_info_t;

/* How far a batch is.
 * Returns: XFER_OK.
 * Thread: any, also beside other calls on the batch, but for its close. */
XFER_API xfer_status_t xfer_batch_info(xfer_batch_t *batch, xfer_batch_info_t *info, uint32_t info_size);

/* Writes the statuses of entries `first` to `first + count - 1` of the last completed submit; XFER_ECANCELED stands for
 * what was not attempted. Works until xfer_batch_close, also when the endpoint is closed or the engine drains.
 * Returns: XFER_OK; XFER_EBUSY in flight, XFER_EINVAL never submitted, XFER_ERANGE; XFER_ECLOSED. */
XFER_API xfer_status_t xfer_batch_entries(xfer_batch_t *batch, uint64_t first, uint64_t count, xfer_status_t *statuses);

/* Empties the batch, so that other entries can be added. Works until xfer_batch_close.
 * Returns: XFER_OK; XFER_EBUSY in flight; XFER_ECLOSED. */
XFER_API xfer_status_t xfer_batch_reset(xfer_batch_t *batch);

/* Ends the batch. In flight it is canceled first, and its completion is its last event.
 * Returns: XFER_OK; XFER_ECLOSED if the engine's end came first.
 * Ownership: takes the handle. */
XFER_API xfer_status_t xfer_batch_close(xfer_batch_t *batch);

/* ---- messages ---- */

/* Sends a message to the peer's application. Up to 4,088 bytes travel at once and are held by the peer's engine. It
 * holds at most 256 KiB of one connection, 1 MiB of one sender over all its connections, and 64 MiB in all, where each
 * message counts 256 bytes more than its length. What is longer, lies in a device's memory, or is past those bounds
 * stays here until a receive matches and pulls it: a message that nobody receives stops no other tag. At most 1,024
 * messages of one connection wait at the peer; more wait here. Messages of one endpoint with one tag are matched in the
 * order of their sends; the event of one that is long, or for a device, may come after that of the next.
 * Returns: XFER_OK, then one SEND event: XFER_OK when the message was received or is held (with XFER_FLAG_SYNC: was
 *          received), XFER_ECANCELED from the peer if its receive was canceled; XFER_EINVAL, XFER_ERANGE (as of
 *          a region), XFER_EMEMKIND, XFER_ETOOBIG (XFER_FLAG_COPY), XFER_EAGAIN.
 * Ownership: the bytes are borrowed until the event. What streams write to a device is there before. */
XFER_API xfer_status_t xfer_send(xfer_ep_t *ep, const void *data, uint64_t length, uint64_t tag, uint64_t user,
                                 const xfer_op_options_t *options);

/* Receives the first message whose tag equals `tag` in the bits of `mask`, from the peer of `ep` by whichever of its
 * handles, or from any peer if `ep` is NULL. Receives are served in the order of these calls. Without a deadline a
 * receive waits for ever; once its message has come the stall limit applies.
 * The RECV event has the tag, the full length in bytes, in data the sender's xfer_id_t, and in ep the endpoint given,
 * else a handle of the sender as PEER events have it, NULL if it is gone. With XFER_FLAG_TAKE `buffer` is NULL, and
 * data is the sender's xfer_id_t followed by the message: `capacity` bounds the memory that is allocated for it.
 * Returns: XFER_OK, then one RECV event: XFER_ETRUNC if the message was longer (the buffer holds its beginning),
 *          XFER_EPEERLOST if the sender was lost with it; XFER_EAGAIN if 65,536 receives wait (there is room with the
 *          next RECV event, in its callback too); XFER_EINVAL, XFER_ERANGE (as of a region), XFER_EMEMKIND.
 * Ownership: the buffer is borrowed until the event. Streams that touch it on a device are over before. */
XFER_API xfer_status_t xfer_recv(xfer_engine_t *engine, xfer_ep_t *ep, void *buffer, uint64_t capacity, uint64_t tag,
                                 uint64_t mask, uint64_t user, const xfer_op_options_t *options);

typedef struct xfer_message_info {
    xfer_id_t sender;
    uint64_t tag;
    uint64_t length;
    uint64_t reserved[2];
} xfer_message_info_t;

/* Looks at the message that a receive with the same endpoint, tag and mask would get now. It stays where it is: another
 * receive may get it meanwhile.
 * Returns: XFER_OK; XFER_ENOTFOUND if none waits; XFER_EINVAL.
 * Thread: any; blocks while an event callback runs on the thread that drives the sockets. */
XFER_API xfer_status_t xfer_peek(xfer_engine_t *engine, xfer_ep_t *ep, uint64_t tag, uint64_t mask,
                                 xfer_message_info_t *info, uint32_t info_size);

/* Raises a NOTIFY event with `key` and the `length` bytes at `data`, at most 1,024, in the peer's application. The peer
 * holds at most 256 of one connection that its application has not taken; more wait here.
 * Returns: XFER_OK, then one NOTIFIED event when the peer's engine has it; XFER_ETOOBIG, XFER_EINVAL, XFER_ERANGE,
 *          XFER_EMEMKIND (`data` is not host memory), XFER_EAGAIN, XFER_ECLOSED. */
XFER_API xfer_status_t xfer_notify(xfer_ep_t *ep, const void *data, uint64_t length, uint64_t key, uint64_t user,
                                   const xfer_op_options_t *options);

typedef struct xfer_counter_options {
    uint32_t size;
    uint32_t timeout_ms; /* from now; default: the engine's; XFER_NONE, or none there: it waits for ever */
    uint64_t user;       /* in the COUNTER event */
    uint64_t reserved[2];
} xfer_counter_options_t;

/* Counts notifications with `key`, from whatever peer. Successful ones are counted and not delivered, nor their bytes,
 * also those that come after the event; failed ones still arrive as NOTIFY events.
 * Returns: XFER_OK, then one COUNTER event unless it is closed before: XFER_OK when `expected` have come,
 *          XFER_ETIMEDOUT at its deadline, XFER_ECANCELED at the engine's close; XFER_EEXIST (of its key), XFER_EINVAL.
 * Ownership: the caller's until xfer_counter_close. */
XFER_API xfer_status_t xfer_counter_open(xfer_engine_t *engine, uint64_t key, uint64_t expected,
                                         const xfer_counter_options_t *options, xfer_counter_t **counter,
                                         xfer_error_t *err);

/* Ends a counter; later notifications with its key are ordinary events again. A COUNTER event that is on its way still
 * comes.
 * Returns: XFER_OK; XFER_ECLOSED if the engine's end came first.
 * Ownership: takes the handle. */
XFER_API xfer_status_t xfer_counter_close(xfer_counter_t *counter);

/* ---- cancel ---- */

/* Asks for an early end of everything that was begun with a word equal to `user` in the bits of `mask`: puts, gets,
 * atomics, batches, sends, receives, notifications, lookups, connects, probes, flushes and a drain. With `ep`, only
 * what was begun with that endpoint, and the receives that name it; with NULL, through whatever endpoint, or none.
 * UINT64_MAX as `mask` means one word, 0 every word. Reaches what was begun by calls that returned before this one.
 * Each canceled operation still has its event, with XFER_ECANCELED unless it ended before. A receive that has matched a
 * message discards it, and the sender is told; what is held waits for the next receive. Of a flush or a drain only the
 * wait ends: what is under way goes on, and a draining engine still takes no new work. Needs no memory for what is
 * under way. It costs as much as the operations with that word, with another mask than UINT64_MAX as all.
 * Returns: XFER_OK, also if there is none, and while the engine drains or closes; XFER_EINVAL if `ep` is of another
 *          engine. */
XFER_API xfer_status_t xfer_cancel(xfer_engine_t *engine, xfer_ep_t *ep, uint64_t user, uint64_t mask);

/* ---- observation ---- */

/* Since the open. Histogram bucket b counts operations that took from 2^b to 2^(b+1) - 1 nanoseconds. */
typedef struct xfer_op_stats {
    uint64_t submitted;
    uint64_t completed; /* OK */
    uint64_t failed;    /* neither OK, expired nor canceled */
    uint64_t expired;   /* XFER_ETIMEDOUT */
    uint64_t canceled;
    uint64_t bytes; /* moved by operations that completed OK */
    uint64_t latency[40];
    uint64_t reserved[7];
} xfer_op_stats_t;

typedef struct xfer_engine_stats {
    xfer_op_stats_t put, get, batch;
    xfer_op_stats_t notify; /* xfer_notify */
    xfer_op_stats_t send, recv;
    uint64_t errors[64];        /* by status: errors[-status] */
    uint64_t served_put;        /* bytes that peers put here; copies that a local peer makes itself are not seen */
    uint64_t served_get;        /* bytes that peers got from here; the same */
    uint64_t refused;           /* requests of peers that were refused */
    uint64_t queued, inflight;  /* operations that wait (connection, credit, peer's word); with bytes under way; now */
    uint64_t events_queued;     /* events not yet delivered, now */
    uint64_t events;            /* delivered */
    uint64_t connects, accepts; /* attempts made, and attempts of peers */
    uint64_t connections, connection_ends; /* live, now; and how many have ended */
    uint64_t wakeups;                      /* of the loops, from sleep */
    uint64_t regions, grants;              /* open, now */
    uint64_t served_atomic; /* atomics of peers that were done here; those that a local peer does itself are not seen */
    xfer_op_stats_t atomic;
    uint64_t lane_falls; /* data lanes that ended while their connection went on */
} xfer_engine_stats_t;

typedef struct xfer_ep_stats {
    xfer_op_stats_t put, get, batch;
    xfer_op_stats_t notify; /* xfer_notify */
    xfer_op_stats_t send;
    uint64_t queued, inflight; /* as the engine's */
    uint64_t connections;      /* how many there were */
    uint64_t rtt_ns;           /* of the last probe or heartbeat */
    xfer_op_stats_t atomic;
} xfer_ep_stats_t;

/* Counters of the engine. They are read one by one while they move.
 * Returns: XFER_OK. */
XFER_API xfer_status_t xfer_engine_stats(xfer_engine_t *engine, xfer_engine_stats_t *stats, uint32_t stats_size);

/* Counters of one endpoint.
 * Returns: XFER_OK. */
XFER_API xfer_status_t xfer_ep_stats(xfer_ep_t *ep, xfer_ep_stats_t *stats, uint32_t stats_size);

/* The engine as JSON: identity, options as they took effect, counters, listeners, peers, connections and lanes with
 * what they carried and how, the last errors, regions, grants.
 * Within one value of "schema" members are only added, in any order, so ignore those that you do not know; it is
 * another when a member goes, or changes its type or meaning. Texts may be new words. Numbers are integers that count
 * or measure; ids and incarnations are text, in hexadecimal digits, as many readers keep only 53 bits of a number.
 * *needed is the length with the NUL; call with cap 0 to learn it.
 * Returns: XFER_OK; XFER_ENOSPC if `cap` is too small (then `text` holds what fits).
 * Thread: any; with io_threads none it is the state at the last turn of the loop. */
XFER_API xfer_status_t xfer_engine_describe(xfer_engine_t *engine, char *text, uint64_t cap, uint64_t *needed);

/* cdef:end */

#ifdef __cplusplus
}
#endif

#endif
