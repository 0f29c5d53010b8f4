/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes on between two engines that are connected, while one allocation fails on whatever
 * thread: messages, notifications, memory that is taken back while a peer still reads it, and lanes
 * that end. Each operation ends, by what it was for or with a status, and none by its deadline:
 * somebody would have been forgotten. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "phases.h"

enum { kSmallBytes = 1000, kLongBytes = 100 * 1000, kStallMs = 8000 };

static const Mode plain = {"thread/1", XFER_DISPATCH_THREAD, 1};
static Host server, client;
static xfer_ep_t *ep; /* the client's, of the server */
static xfer_region_t *region;

static void meet(const Mode *mode, const Mode *client_mode) {
    stall_ms = kStallMs;
    client.id = 1; /* an odd one: the second loop's, where the server has two */
    host_open(&server, mode);
    host_listen(&server);
    must(region_try(&server, &region, NULL), "xfer_region_open");
    host_open(&client, client_mode);
    must(xfer_ep_open(client.engine, server.uri, NULL, &ep, NULL), "xfer_ep_open");
    must(xfer_ep_connect(ep, 1, NULL), "xfer_ep_connect");
    must(wait_event(&client, &server, XFER_EVENT_CONNECT, 1).status, "CONNECT");
    wait_event(&server, &client, XFER_EVENT_PEER_UP, ANY_USER);
}

/* Of an operation of `host`; what was refused has no event. */
static xfer_status_t ended(Host *host, Host *other, xfer_status_t status, uint32_t kind,
                           uint64_t user) {
    check_status(status, "a call");
    if (status == XFER_OK) status = wait_event(host, other, kind, user).status;
    if (status == XFER_ETIMEDOUT) fail_case("kind %u of %d was forgotten", kind, (int)user);
    return status;
}

static void part(const Fault *fault, bool all_well) {
    phase_disarm();
    if (fault->nth == 0 && !all_well) fail_case("it fails without a fault");
    talk(&client, &server);
    must(xfer_ep_close(ep), "xfer_ep_close");
    host_end(&client);
    must(xfer_region_close(region), "xfer_region_close");
    host_end(&server);
}

/* ---- messages ---- */

static uint8_t letter[kLongBytes], letter_box[kLongBytes];

static xfer_status_t receive(xfer_ep_t *from, uint64_t tag) {
    memset(letter_box, 0, sizeof letter_box);
    return xfer_recv(server.engine, from, letter_box, sizeof letter_box, tag, UINT64_MAX, tag,
                     NULL);
}

static bool is_over(Host *host, xfer_status_t *status, uint32_t kind, uint64_t user) {
    check_status(*status, "a call");
    if (*status != XFER_OK) return true;
    if (count_events(host, kind, user) == 0) return false;
    *status = wait_event(host, NULL, kind, user).status;
    if (*status == XFER_ETIMEDOUT) fail_case("kind %u of %d was forgotten", kind, (int)user);
    return true;
}

/* A send, as it was accepted, and its receive. The one for which the other has failed has nothing
 * to wait for. */
static void settle(xfer_status_t *sending, xfer_status_t *receiving, uint64_t tag) {
    for (;;) {
        bool sent = is_over(&client, sending, XFER_EVENT_SEND, tag);
        bool received = is_over(&server, receiving, XFER_EVENT_RECV, tag);
        if (sent && received) return;
        if (sent && *sending != XFER_OK)
            must(xfer_cancel(server.engine, NULL, tag, UINT64_MAX), "xfer_cancel");
        if (received && *receiving != XFER_OK)
            must(xfer_cancel(client.engine, ep, tag, UINT64_MAX), "xfer_cancel");
        turn(&server, &client);
    }
}

/* From the client to the server: `early`, its receive is there before it. */
static bool message(xfer_ep_t *from, bool early, uint64_t length, uint64_t tag) {
    memset(letter, (int)tag, sizeof letter);
    xfer_status_t receiving = XFER_OK, sending;
    if (early) receiving = receive(from, tag);
    sending = xfer_send(ep, letter, length, tag, tag, NULL);
    /* A small one that nobody waits for ends when it is held. */
    if (!early && length == kSmallBytes)
        sending = ended(&client, &server, sending, XFER_EVENT_SEND, tag);
    if (!early) receiving = receive(from, tag);
    settle(&sending, &receiving, tag);
    if (receiving == XFER_OK && memcmp(letter, letter_box, length) != 0)
        fail_case("other bytes were received");
    return sending == XFER_OK && receiving == XFER_OK;
}

static void run_message(const Mode *mode, const Fault *fault) {
    meet(mode, &plain);
    inject_arm(fault);
    bool well = message(NULL, true, kSmallBytes, 1);
    well = message(NULL, false, kSmallBytes, 2) && well;
    well = message(NULL, true, kLongBytes, 3) && well;
    well = message(NULL, false, kLongBytes, 4) && well;
    phase_disarm();
    for (uint64_t tag = 1; tag <= 4; tag++)
        if (count_events(&client, XFER_EVENT_SEND, tag) > 1 ||
            count_events(&server, XFER_EVENT_RECV, tag) > 1)
            fail_case("two events of one call");
    if (!message(NULL, true, kLongBytes, 5)) fail_case("no message passes any more");
    part(fault, well);
}

/* What the call lacks memory for is asked for again. */
static void cancel_send(xfer_engine_t *engine, xfer_ep_t *of, uint64_t user) {
    xfer_status_t status = xfer_cancel(engine, of, user, UINT64_MAX);
    if (status == XFER_ENOMEM) status = xfer_cancel(engine, of, user, UINT64_MAX);
    must(status, "xfer_cancel");
}

/* One that nobody receives is taken back. */
static void run_withdraw(const Mode *mode, const Fault *fault) {
    meet(mode, &plain);
    inject_arm(fault);
    xfer_status_t sending = xfer_send(ep, letter, sizeof letter, 1, 1, NULL);
    for (int i = 0; i < 20; i++)
        turn(&server, &client);
    cancel_send(client.engine, ep, 1);
    bool well = ended(&client, &server, sending, XFER_EVENT_SEND, 1) == XFER_ECANCELED;
    part(fault, well);
}

/* Receives that name an endpoint: whose peer is not known yet, and that closes. */
static void run_named(const Mode *mode, const Fault *fault) {
    xfer_ep_t *named = NULL;
    bool well = false;
    meet(mode, &plain);
    host_listen(&client);
    inject_arm(fault);
    xfer_status_t status = xfer_ep_open(server.engine, client.uri, NULL, &named, NULL);
    check_status(status, "xfer_ep_open");
    if (status == XFER_OK) {
        xfer_status_t early = receive(named, 10);
        status = xfer_ep_connect(named, 11, NULL);
        well = ended(&server, &client, status, XFER_EVENT_CONNECT, 11) == XFER_OK;
        if (well) {
            status = xfer_send(ep, letter, kSmallBytes, 10, 10, NULL);
            settle(&status, &early, 10);
            well = status == XFER_OK && early == XFER_OK;
        } else {
            must(xfer_cancel(server.engine, NULL, 10, UINT64_MAX), "xfer_cancel");
            ended(&server, &client, early, XFER_EVENT_RECV, 10);
        }
        xfer_status_t late = receive(named, 12);
        must(xfer_ep_close(named), "xfer_ep_close");
        late = ended(&server, &client, late, XFER_EVENT_RECV, 12);
        well = well && late == XFER_ECANCELED;
        wait_object(&server, &client, XFER_EVENT_CLOSED, named);
    }
    part(fault, well);
}

/* ---- notifications ---- */

enum { kCounted = 9, kTold = 10, kBatch = 11 };

static bool notified(uint64_t key, uint64_t user) {
    xfer_status_t status = xfer_notify(ep, letter, kSmallBytes, key, user, NULL);
    return ended(&client, &server, status, XFER_EVENT_NOTIFIED, user) == XFER_OK;
}

static bool put_and_notify(void) {
    static uint8_t local[sizeof served];
    xfer_submit_options_t options = {.size = sizeof options,
                                     .flags = XFER_SUBMIT_NOTIFY,
                                     .notify_key = kBatch,
                                     .notify_data = letter,
                                     .notify_length = kSmallBytes};
    xfer_batch_t *batch = NULL;
    xfer_status_t status = xfer_batch_open(ep, NULL, &batch, NULL);
    check_status(status, "xfer_batch_open");
    if (status != XFER_OK) return false;
    for (uint64_t at = 0; status == XFER_OK && at < sizeof local; at += sizeof local / 4)
        status = xfer_batch_put(batch, local, &client.ref, at, sizeof local / 4);
    if (status == XFER_OK) status = xfer_batch_submit(batch, kBatch, &options);
    status = ended(&client, &server, status, XFER_EVENT_BATCH, kBatch);
    must(xfer_batch_close(batch), "xfer_batch_close");
    return status == XFER_OK;
}

static void wait_notified(uint64_t key) {
    for (uint64_t end = now_ms() + kLimitMs;;) {
        for (int i = 0; i < server.count; i++)
            if (server.events[i].kind == XFER_EVENT_NOTIFY && server.events[i].tag == key) return;
        turn(&server, &client);
        if (now_ms() > end) fail_case("no NOTIFY of %llu", (unsigned long long)key);
    }
}

static uint64_t applied(void) {
    xfer_engine_stats_t stats;
    must(xfer_engine_stats(server.engine, &stats, sizeof stats), "xfer_engine_stats");
    return stats.served_put;
}

static void run_notify(const Mode *mode, const Fault *fault) {
    xfer_counter_t *counter = NULL;
    meet(mode, &plain);
    must(xfer_ep_lookup(ep, "memory", 2, NULL, NULL), "xfer_ep_lookup");
    must(wait_event(&client, &server, XFER_EVENT_LOOKUP, 2).status, "LOOKUP");
    inject_arm(fault);
    const xfer_counter_options_t options = {
        .size = sizeof options, .timeout_ms = 600000, .user = 77};
    xfer_status_t status = xfer_counter_open(server.engine, kCounted, 2, &options, &counter, NULL);
    check_status(status, "xfer_counter_open");
    bool well = notified(kCounted, 20);
    well = notified(kCounted, 21) && well;
    if (well && status == XFER_OK) wait_event(&server, &client, XFER_EVENT_COUNTER, 77);
    bool told = notified(kTold, 22);
    if (told) wait_notified(kTold);
    uint64_t before = applied();
    bool put = put_and_notify();
    /* Of what has begun to land the owner hears, if only that it failed. */
    if (put || applied() > before) wait_notified(kBatch);
    phase_disarm();
    if (status == XFER_OK) must(xfer_counter_close(counter), "xfer_counter_close");
    part(fault, well && told && put && status == XFER_OK);
}

/* ---- memory that is taken back ---- */

static uint8_t large[8 << 20], large_box[8 << 20];

/* The reader stands still as soon as it is served, and then its server does, too: something of the
 * memory is on its way out. */
static void jam(Host *sender, Host *reader) {
    xfer_engine_stats_t stats;
    uint64_t before = 0;
    for (int quiet = 0; quiet < 20; before = stats.served_get) {
        must(xfer_engine_stats(sender->engine, &stats, sizeof stats), "xfer_engine_stats");
        turn(sender, stats.served_get == 0 ? reader : NULL);
        usleep(500);
        quiet = stats.served_get != 0 && stats.served_get == before ? quiet + 1 : 0;
    }
}

static const Mode driven = {"poll/none", XFER_DISPATCH_POLL, XFER_NONE};

static void run_retire(const Mode *mode, const Fault *fault) {
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_READ, .name = "large"};
    xfer_region_t *read = NULL;
    inject_narrow();
    meet(mode, &driven);
    must(xfer_region_open(server.engine, &options, large, sizeof large, &read, NULL),
         "xfer_region_open");
    must(xfer_ep_lookup(ep, "large", 2, NULL, NULL), "xfer_ep_lookup");
    must(wait_event(&client, &server, XFER_EVENT_LOOKUP, 2).status, "LOOKUP");
    must(xfer_get(ep, large_box, &client.ref, 0, sizeof large_box, 3, NULL), "xfer_get");
    jam(&server, &client);
    inject_arm(fault);
    must(xfer_region_close(read), "xfer_region_close");
    xfer_status_t status = ended(&client, &server, XFER_OK, XFER_EVENT_GET, 3);
    wait_object(&server, &client, XFER_EVENT_CLOSED, read);
    part(fault, status == XFER_ESTALE);
}

/* The same with a message that is being pulled. */
static void run_pulled(const Mode *mode, const Fault *fault) {
    xfer_ep_t *back;
    inject_narrow();
    meet(mode, &driven);
    back = wait_event(&server, &client, XFER_EVENT_PEER, ANY_USER).ep;
    must(xfer_recv(client.engine, NULL, large_box, sizeof large_box, 1, UINT64_MAX, 4, NULL),
         "xfer_recv");
    must(xfer_send(back, large, sizeof large, 1, 5, NULL), "xfer_send");
    jam(&server, &client);
    inject_arm(fault);
    cancel_send(server.engine, back, 5);
    xfer_status_t sent = ended(&server, &client, XFER_OK, XFER_EVENT_SEND, 5);
    xfer_status_t received = ended(&client, &server, XFER_OK, XFER_EVENT_RECV, 4);
    part(fault, sent == XFER_ECANCELED && received != XFER_OK);
}

/* ---- lanes that end ---- */

enum { kBulk = 512 * 1024, kPutWord = 10 };

static uint8_t bulk[kBulk], bulk_box[kBulk];
static uint64_t bulk_puts;

static xfer_region_t *lend_bulk(Host *host) {
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_WRITE, .name = "bulk"};
    xfer_region_t *region = NULL;
    must(xfer_region_open(host->engine, &options, bulk_box, sizeof bulk_box, &region, NULL),
         "xfer_region_open");
    return region;
}

static void find_bulk(Host *host, Host *other, xfer_ep_t *at) {
    must(xfer_ep_lookup(at, "bulk", 2, NULL, NULL), "xfer_ep_lookup");
    must(wait_event(host, other, XFER_EVENT_LOOKUP, 2).status, "LOOKUP");
}

/* How a put of so much ended that data lanes are opened for it. */
static xfer_status_t put_bulk(Host *host, Host *other, xfer_ep_t *at) {
    const uint64_t user = kPutWord + bulk_puts++;
    memset(bulk, (int)user, sizeof bulk);
    xfer_status_t status =
        ended(host, other, xfer_put(at, bulk, &host->ref, 0, sizeof bulk, user, NULL),
              XFER_EVENT_PUT, user);
    if (status == XFER_OK && memcmp(bulk, bulk_box, sizeof bulk) != 0)
        fail_case("other bytes came");
    return status;
}

static void some_turns(void) {
    for (int i = 0; i < 50; i++)
        turn(&server, &client);
}

static bool data_lane_comes(void) {
    static char text[1 << 16];
    for (uint64_t end = now_ms() + kLimitMs; now_ms() < end; some_turns()) {
        uint64_t needed = 0;
        must(xfer_engine_describe(client.engine, text, sizeof text, &needed),
             "xfer_engine_describe");
        const char *lane = strstr(text, "\"data 1\"");
        if (lane != NULL && strstr(lane, "\"ready\"") != NULL) return true;
    }
    return false;
}

/* The acceptor asks for both kinds of lanes: the local path fails, time and again, and then data
 * lanes are due. */
static void run_local(const Mode *mode, const Fault *fault) {
    inject_hang_up();
    meet(mode, &plain);
    xfer_region_t *lent = lend_bulk(&client);
    xfer_ep_t *back = wait_event(&server, &client, XFER_EVENT_PEER, ANY_USER).ep;
    find_bulk(&server, &client, back);
    const long lane = inject_dials() + 1;
    const int most = fault->nth == 0 ? kMaxEvents : 8; /* for want of memory one may be left out */
    inject_arm(fault);
    xfer_status_t status = put_bulk(&server, &client, back);
    for (int i = 0; i < most && status == XFER_OK && inject_dials() < lane; i++) {
        some_turns();
        /* The handle goes with its connection. */
        const bool over = count_events(&server, XFER_EVENT_PEER_DOWN, ANY_USER) != 0;
        status = over ? XFER_EPEERLOST : put_bulk(&server, &client, back);
    }
    some_turns(); /* it is let in */
    phase_disarm();
    must(xfer_region_close(lent), "xfer_region_close");
    part(fault, status == XFER_OK && (fault->nth != 0 || data_lane_comes()));
}

/* The last socket that was dialed is that of the data lane. */
static void run_lane(const Mode *mode, const Fault *fault) {
    inject_hang_up();
    meet(mode, &plain);
    xfer_region_t *lent = lend_bulk(&server);
    find_bulk(&client, &server, ep);
    const long lane = inject_dials() + 1;
    for (; inject_dials() < lane; some_turns())
        must(put_bulk(&client, &server, ep), "PUT");
    if (!data_lane_comes()) fail_case("no data lane");
    inject_arm(fault);
    if (shutdown(inject_dialed(), SHUT_RDWR) != 0) fail_case("the lane is not there");
    for (; inject_dials() == lane; some_turns())
        put_bulk(&client, &server, ep);
    some_turns(); /* it is let in */
    const xfer_status_t status = put_bulk(&client, &server, ep);
    phase_disarm();
    xfer_engine_stats_t stats;
    must(xfer_engine_stats(client.engine, &stats, sizeof stats), "xfer_engine_stats");
    must(xfer_region_close(lent), "xfer_region_close");
    const bool again = fault->nth != 0 || (stats.lane_falls == 1 && data_lane_comes());
    part(fault, status == XFER_OK && again);
}

const Phase phase_message = {"message", false, true, true, run_message};
const Phase phase_withdraw = {"withdraw", false, true, true, run_withdraw};
const Phase phase_named = {"named", false, true, true, run_named};
const Phase phase_notify = {"notify", false, true, true, run_notify};
const Phase phase_retire = {"retire", false, true, true, run_retire};
const Phase phase_pulled = {"pulled", false, true, true, run_pulled};
const Phase phase_local = {"local", false, true, true, run_local};
const Phase phase_lane = {"lane", false, true, true, run_lane};
