/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of a meeting of two versions, so only what the oldest of them has is used. Every step of
 * the client must succeed, or be refused in the way that it is meant to be.
 *
 * Usage: peer serve URI      listens, prints its URI, then a line for each event; drains and ends
 *                            with its input
 *        peer call URI       does all steps, then closes
 *        peer wait URI       connects, and waits until the server has closed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xfer/xfer.h>

enum { kLength = 3 << 20, kPiece = 1000 };
enum { kKeyAlone = 7, kKeyBehind = 8, kKeyGone = 9, kKeyLater = 10 };
enum { kTagShort = 21, kTagLong = 22, kShort = 4000, kLong = 1 << 20 };

/* What is put alone, and what is put with a notification behind it: the next steps may not touch
 * what the server's callback still compares. */
static uint8_t memory[2 * kLength];
static uint8_t readonly[4096], shortlived[4096], later[4096];
static uint8_t inbox_short[kShort], inbox_long[kLong];

static void must(int true_, const char *what) {
    if (true_) return;
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
}

static void must_be(xfer_status_t status, xfer_status_t wanted, const char *what) {
    if (status == wanted) return;
    fprintf(stderr, "%s: %s, not %s\n", what, xfer_status_name(status), xfer_status_name(wanted));
    exit(1);
}

/* Byte i of what is put under `seed`. */
static uint8_t byte_at(uint64_t i, uint8_t seed) {
    return (uint8_t)((i * 2654435761u >> 13) + seed);
}

static void fill(uint8_t *bytes, uint64_t length, uint8_t seed) {
    for (uint64_t i = 0; i < length; i++)
        bytes[i] = byte_at(i, seed);
}

static int filled(const uint8_t *bytes, uint64_t length, uint8_t seed) {
    for (uint64_t i = 0; i < length; i++) {
        if (bytes[i] != byte_at(i, seed)) return 0;
    }
    return 1;
}

/* ---- the server ---- */

static xfer_engine_t *engine; /* the client's, too */
static xfer_region_t *gone;
static int drained[2];

static xfer_region_t *lend(const char *name, uint32_t access, void *address, uint64_t length) {
    xfer_region_options_t options = {.size = sizeof options, .access = access, .name = name};
    xfer_region_t *region = NULL;
    must_be(xfer_region_open(engine, &options, address, length, &region, NULL), XFER_OK, name);
    return region;
}

static const char *same(int equal) {
    return equal ? ", bytes equal" : ", bytes differ";
}

static const char *on_notify(const xfer_event_t *event) {
    if (event->tag == kKeyGone) must_be(xfer_region_close(gone), XFER_OK, "region_close");
    if (event->tag == kKeyLater) lend("later", XFER_READ, later, sizeof later);
    if (event->tag >= kKeyGone) return "";
    if (event->tag == kKeyAlone && (event->data_length != 5 || memcmp(event->data, "alone", 5)))
        return ", other bytes along";
    const uint8_t *part = memory + (event->tag == kKeyBehind ? kLength : 0);
    return same(filled(part, kLength, (uint8_t)event->tag));
}

static const char *on_recv(const xfer_event_t *event) {
    if (event->tag == kTagShort)
        return same(event->bytes == kShort && filled(inbox_short, kShort, kTagShort));
    return same(event->bytes == kLong && filled(inbox_long, kLong, kTagLong));
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    (void)user;
    const char *status = xfer_status_name(event->status);
    if (event->kind == XFER_EVENT_PEER_DOWN) printf("down %s\n", status);
    if (event->kind == XFER_EVENT_NOTIFY)
        printf("notify %" PRIu64 " %s%s\n", event->tag, status, on_notify(event));
    if (event->kind == XFER_EVENT_RECV && event->status != XFER_ECANCELED)
        printf("recv %" PRIu64 " %s%s\n", event->tag, status, on_recv(event));
    if (event->kind == XFER_EVENT_DRAINED)
        must(write(drained[1], status, 1) == 1, "tell of the drain");
}

static void receive(void *buffer, uint64_t capacity, uint64_t tag) {
    must_be(xfer_recv(engine, NULL, buffer, capacity, tag, UINT64_MAX, 1, NULL), XFER_OK, "recv");
}

static int serve(const char *at) {
    xfer_engine_options_t options = {.size = sizeof options, .on_event = on_event};
    must_be(xfer_engine_open(&options, &engine, NULL), XFER_OK, "engine_open");
    must(pipe(drained) == 0, "pipe");
    fill(readonly, sizeof readonly, 1);
    lend("memory", XFER_READ | XFER_WRITE, memory, sizeof memory);
    lend("readonly", XFER_READ, readonly, sizeof readonly);
    gone = lend("shortlived", XFER_READ | XFER_WRITE, shortlived, sizeof shortlived);
    xfer_region_options_t words = {.size = sizeof words, .access = XFER_ATOMIC, .name = "words"};
    xfer_region_t *region = NULL;
    void *address = NULL;
    must_be(xfer_region_alloc(engine, &words, 4096, &address, &region, NULL), XFER_OK, "alloc");
    receive(inbox_short, sizeof inbox_short, kTagShort);
    receive(inbox_long, sizeof inbox_long, kTagLong);
    char uri[256], byte;
    must_be(xfer_engine_listen(engine, at, NULL, uri, sizeof uri, NULL), XFER_OK, "listen");
    printf("%s\n", uri);
    while (getchar() != EOF)
        continue;
    const xfer_op_options_t soon = {.size = sizeof soon, .timeout_ms = 5000};
    must_be(xfer_engine_drain(engine, 1, &soon), XFER_OK, "drain");
    must(read(drained[0], &byte, 1) == 1, "drained");
    must_be(xfer_engine_join(engine, XFER_NONE), XFER_OK, "join");
    return 0;
}

/* ---- the client ---- */

static xfer_ep_t *ep;

/* The next event of that kind; others are passed over. */
static xfer_event_t wait_for(uint32_t kind, const char *what) {
    xfer_event_t event = {0};
    uint32_t count = 1;
    while (count && event.kind != kind)
        must_be(xfer_engine_poll(engine, &event, sizeof event, 1, 10000, &count), XFER_OK, "poll");
    must(count != 0, what);
    return event;
}

static xfer_ref_t look_up(const char *name, xfer_status_t wanted) {
    must_be(xfer_ep_lookup(ep, name, 0, NULL, NULL), XFER_OK, name);
    xfer_event_t event = wait_for(XFER_EVENT_LOOKUP, name);
    must_be(event.status, wanted, name);
    xfer_ref_t ref = {{0}};
    if (event.status == XFER_OK) memcpy(&ref, event.data, sizeof ref);
    return ref;
}

static void put(const xfer_ref_t *ref, const void *bytes, uint64_t length, xfer_status_t wanted,
                const char *what) {
    must_be(xfer_put(ep, bytes, ref, 0, length, 0, NULL), XFER_OK, what);
    must_be(wait_for(XFER_EVENT_PUT, what).status, wanted, what);
}

/* The second half of the owner's memory, in one piece and two small ones. */
static void submit(uint32_t op, uint8_t *bytes, const xfer_ref_t *ref, uint32_t flags, uint64_t key,
                   const char *what) {
    xfer_batch_t *batch = NULL;
    const uint64_t lengths[] = {kPiece, kLength - 2 * kPiece, kPiece};
    xfer_span_t spans[3];
    for (uint64_t i = 0, at = 0; i < 3; at += lengths[i++])
        spans[i] = (xfer_span_t){(uintptr_t)bytes + at, kLength + at, lengths[i]};
    xfer_submit_options_t options = {.size = sizeof options, .flags = flags, .notify_key = key};
    must_be(xfer_batch_open(ep, NULL, &batch, NULL), XFER_OK, "batch_open");
    must_be(xfer_batch_add_spans(batch, op, ref, spans, sizeof *spans, 3, NULL), XFER_OK,
            "add_spans");
    must_be(xfer_batch_submit(batch, 0, &options), XFER_OK, what);
    must_be(wait_for(XFER_EVENT_BATCH, what).status, XFER_OK, what);
    must_be(xfer_batch_close(batch), XFER_OK, "batch_close");
}

static void notify(uint64_t key, const char *text) {
    must_be(xfer_notify(ep, text, strlen(text), key, 0, NULL), XFER_OK, "notify");
    must_be(wait_for(XFER_EVENT_NOTIFIED, "notify").status, XFER_OK, "notify");
}

static void move_bytes(void) {
    static uint8_t bytes[kLength], back[kLength];
    xfer_ref_t ref = look_up("memory", XFER_OK);
    look_up("nothing", XFER_ENOTFOUND);

    fill(bytes, kLength, kKeyAlone);
    put(&ref, bytes, kLength, XFER_OK, "put");
    notify(kKeyAlone, "alone");
    must_be(xfer_get(ep, back, &ref, 0, kLength, 0, NULL), XFER_OK, "get");
    must_be(wait_for(XFER_EVENT_GET, "get").status, XFER_OK, "get");
    must(memcmp(bytes, back, kLength) == 0, "a get gives what was put");

    fill(bytes, kLength, kKeyBehind);
    submit(XFER_OP_PUT, bytes, &ref, XFER_SUBMIT_NOTIFY | XFER_SUBMIT_CHECKSUM, kKeyBehind, "puts");
    submit(XFER_OP_GET, back, &ref, XFER_SUBMIT_CHECKSUM, 0, "gets");
    must(memcmp(bytes, back, kLength) == 0, "a batch of gets gives what was put");
}

static void send_messages(void) {
    static uint8_t bytes[kLong];
    static const struct {
        uint64_t tag, length;
    } messages[] = {{kTagShort, kShort}, {kTagLong, kLong}};
    const xfer_op_options_t sync = {.size = sizeof sync, .flags = XFER_FLAG_SYNC};
    for (int i = 0; i < 2; i++) {
        fill(bytes, messages[i].length, (uint8_t)messages[i].tag);
        must_be(xfer_send(ep, bytes, messages[i].length, messages[i].tag, 0, &sync), XFER_OK,
                "send");
        must_be(wait_for(XFER_EVENT_SEND, "send").status, XFER_OK, "send");
    }
}

static uint64_t atomic(const xfer_ref_t *ref, uint32_t op, uint64_t operand, uint64_t compare) {
    uint64_t before = UINT64_MAX;
    must_be(xfer_atomic(ep, op, &before, ref, 8, operand, compare, 0, NULL), XFER_OK, "atomic");
    must_be(wait_for(XFER_EVENT_ATOMIC, "atomic").status, XFER_OK, "atomic");
    return before;
}

static void change_words(void) {
    xfer_ref_t ref = look_up("words", XFER_OK);
    must(atomic(&ref, XFER_ATOMIC_ADD, 5, 0) == 0, "an add gives what was there");
    must(atomic(&ref, XFER_ATOMIC_CAS, 9, 5) == 5, "a swap gives what was there");
    must(atomic(&ref, XFER_ATOMIC_ADD, 0, 0) == 9, "a swap has stored");
}

static void wait_for_a_name(void) {
    const xfer_op_options_t wait = {
        .size = sizeof wait, .flags = XFER_FLAG_WAIT, .timeout_ms = 5000};
    must_be(xfer_ep_lookup(ep, "later", 0, &wait, NULL), XFER_OK, "later");
    must_be(xfer_notify(ep, NULL, 0, kKeyLater, 0, NULL), XFER_OK, "notify");
    must_be(wait_for(XFER_EVENT_LOOKUP, "later").status, XFER_OK, "later");
}

/* Both sides refuse: the client what its ref doesn't allow, the owner what it lends no more. */
static void be_refused(void) {
    uint8_t byte = 0;
    xfer_ref_t ref = look_up("readonly", XFER_OK);
    must_be(xfer_put(ep, &byte, &ref, 0, 1, 0, NULL), XFER_EACCESS, "put to what is read only");
    ref = look_up("shortlived", XFER_OK);
    put(&ref, &byte, 1, XFER_OK, "put before the end of the region");
    notify(kKeyGone, "");
    wait_for(XFER_EVENT_REGION_GONE, "region gone");
    put(&ref, &byte, 1, XFER_ESTALE, "put after the end of the region");
    look_up("shortlived", XFER_ENOTFOUND);
    must_be(xfer_ep_probe(
                ep, 0, &(xfer_op_options_t){.size = sizeof(xfer_op_options_t), .timeout_ms = 5000}),
            XFER_OK, "probe");
    must_be(wait_for(XFER_EVENT_PROBE, "probe").status, XFER_OK, "still connected");
}

static int call(const char *uri, int until_down) {
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    must_be(xfer_engine_open(&options, &engine, NULL), XFER_OK, "engine_open");
    must_be(xfer_ep_open(engine, uri, NULL, &ep, NULL), XFER_OK, "ep_open");
    must_be(xfer_ep_connect(
                ep, 0, &(xfer_op_options_t){.size = sizeof(xfer_op_options_t), .timeout_ms = 5000}),
            XFER_OK, "connect");
    must_be(wait_for(XFER_EVENT_CONNECT, "connect").status, XFER_OK, "connect");
    if (until_down) {
        printf("connected\n");
        must_be(wait_for(XFER_EVENT_PEER_DOWN, "down").status, XFER_ECLOSED, "down");
    } else {
        move_bytes();
        send_messages();
        change_words();
        be_refused();
        wait_for_a_name();
    }
    must_be(xfer_engine_join(engine, XFER_NONE), XFER_OK, "join");
    printf("done\n");
    return 0;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "serve") == 0) return serve(argv[2]);
    if (argc == 3 && strcmp(argv[1], "call") == 0) return call(argv[2], 0);
    if (argc == 3 && strcmp(argv[1], "wait") == 0) return call(argv[2], 1);
    return 2;
}
