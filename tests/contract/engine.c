/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract, of the library, its numbers, and the life of an engine. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xfer/text.h>

#include "contract.h"
#include "inputs.h"
#include "lists.h" /* made of xfer.h */

/* ---- the library and its header ---- */

/* The loader finds a library by its name, which has the minor version in it. */
static void version_matches(void **state) {
    (void)state;
    char text[32], name[32];
    snprintf(text, sizeof text, "%d.%d.%d", XFER_VERSION_MAJOR, XFER_VERSION_MINOR,
             XFER_VERSION_PATCH);
    assert_int_equal(xfer_version(), XFER_VERSION);
    assert_string_equal(xfer_version_string(), text);
    snprintf(name, sizeof name, "libxfer.so.%d.%d", XFER_VERSION_MAJOR, XFER_VERSION_MINOR);
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    dlclose(library);
    snprintf(name, sizeof name, "libxfer.so.%d.%d", XFER_VERSION_MAJOR, XFER_VERSION_MINOR + 1);
    assert_null(dlopen(name, RTLD_NOW));
    assert_has(dlerror(), name);
}

/* Whoever needs a later header hears it from pkg-config, when it is built. */
static void header_of_another_version(void **state) {
    (void)state;
    char command[512], says[512], later[32];
    snprintf(later, sizeof later, "%d.%d.0", XFER_VERSION_MAJOR, XFER_VERSION_MINOR + 1);
    snprintf(command, sizeof command, "%s --print-errors 'xfer >= %s' 2>&1", PKG_CONFIG, later);
    FILE *asked = popen(command, "r");
    assert_non_null(asked);
    const size_t length = fread(says, 1, sizeof says - 1, asked);
    says[length] = '\0';
    assert_int_not_equal(pclose(asked), 0);
    assert_has(says, later);
    assert_has(says, xfer_version_string());
}

#define ENTRY(name) {name, #name},
static const struct {
    xfer_status_t status;
    const char *name;
} statuses[] = {LISTED_STATUSES(ENTRY)};
enum { kStatuses = sizeof statuses / sizeof *statuses };

static void statuses_complete(void **state) {
    (void)state;
    bool seen[kStatuses] = {false};
    xfer_status_t status;
    uint32_t count = 0;
    for (; xfer_status_at(count, &status) == XFER_OK; count++) {
        size_t at = 0;
        while (at < kStatuses && statuses[at].status != status)
            at++;
        if (at == kStatuses) fail_msg("%s is not in the header", xfer_status_name(status));
        assert_false(seen[at]);
        seen[at] = true;
        assert_string_equal(xfer_status_name(status), statuses[at].name);
        assert_true(strlen(xfer_status_text(status)) > 1);
    }
    assert_int_equal(count, kStatuses);
}

/* The offsets are the compiler's, as tests/abi has them; the library tells which sizes it knows. */
static void layouts_match(void **state) {
    (void)state;
    Scene scene;
    scene_open_in(&scene, DOOR);
    for (size_t i = 0; i < input_count; i++) {
        const Input *input = &inputs[i];
        Given given;
        char part[64];
        fill_needed(&scene, input, &given);
        given.size = input->size + 8;
        given.bytes[input->size] = 1;
        snprintf(part, sizeof part, "this library knows %u bytes of it", input->size);
        assert_refusal(&scene, input, &given, XFER_E2BIG, part);
    }
}

/* What a program of a later header would ask, and one of this header would be told by a later
 * library. */
static void unknown_values(void **state) {
    (void)state;
    assert_string_equal(xfer_status_name(-1000), "XFER_EUNKNOWN");
    assert_true(strlen(xfer_status_text(-1000)) > 1);
    assert_string_equal(xfer_event_name(1000), "XFER_EVENT_UNKNOWN");
    assert_string_equal(xfer_memory_name(1000), "XFER_MEM_UNKNOWN");
    assert_string_equal(xfer_transport_name(1000), "XFER_TRANSPORT_UNKNOWN");
    char text[XFER_NATIVE_TEXT_SIZE];
    assert_status(xfer_native_text(1000, 7, text, sizeof text), XFER_OK);
    assert_has(text, "1000");
    assert_has(text, "7");

    Pair pair;
    uint8_t byte = 0;
    const xfer_op_options_t flagged = {.size = sizeof flagged, .flags = 1u << 30};
    open_two(&pair, 64);
    assert_status(xfer_put(pair.ep, &byte, &pair.ref, 0, 1, 1, &flagged), XFER_EINVAL);
    assert_status(xfer_atomic(pair.ep, 1000, NULL, &pair.ref, 0, 0, 0, 1, NULL), XFER_EINVAL);

    /* An event that is longer there ends in zeros here. */
    struct {
        xfer_event_t event;
        uint8_t later[40];
    } longer;
    memset(&longer, 0xee, sizeof longer);
    assert_status(xfer_ep_probe(pair.ep, 9, NULL), XFER_OK);
    uint32_t count = 0;
    assert_status(
        xfer_engine_poll(pair.client->engine, &longer.event, sizeof longer, 1, kPatience, &count),
        XFER_OK);
    assert_int_equal(count, 1);
    assert_int_equal(longer.event.user, 9);
    assert_true(all_are(longer.later, sizeof longer.later, 0));
    pair.client->last_sequence = longer.event.sequence; /* the fixture has not seen it */
}

/* ---- options and errors ---- */

/* A text that it takes, and that says something else than the default. */
static const char *text_of(const xfer_option_info_t *info, char *word, size_t cap) {
    switch (info->kind) {
    case XFER_OPTION_NUMBER:
        return "7";
    case XFER_OPTION_FLAG:
        return "yes";
    case XFER_OPTION_HEX:
        return "000102030405060708090a0b0c0d0e0f";
    case XFER_OPTION_CHOICE:
        snprintf(word, cap, "%.*s", (int)strcspn(info->values, "|"), info->values);
        return word;
    default:
        return "text";
    }
}

static void assert_rdma_options_settable(void) {
    const xfer_rdma_options_t given = {
        .size = sizeof given, .devices = "none", .queue_depth = 64, .retries = XFER_NONE};
    const xfer_rdma_options_t bad = {.size = sizeof bad, .retries = 7};
    xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .rdma = &bad};
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    const xfer_status_t refused = xfer_engine_open(&options, &engine, &err);
    assert_has(err.message, "rdma");
#ifdef XFER_WITH_RDMA
    assert_status(refused, XFER_EINVAL);
    assert_has(err.message, "retries");
    options.rdma = &given;
    uint64_t needed;
    char *text = test_memory(65536);
    assert_status(xfer_engine_open(&options, &engine, &err), XFER_OK);
    assert_status(xfer_engine_describe(engine, text, 65536, &needed), XFER_OK);
    assert_has(text, "\"devices\": \"none\"");
    assert_has(text, "\"queue_depth\": 64");
    assert_has(text, "\"retries\": 0");
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
#else
    (void)given;
    assert_status(refused, XFER_EUNSUPPORTED);
#endif
}

static void every_option_settable(void **state) {
    (void)state;
    const xfer_engine_options_t before = {.size = sizeof before};
    xfer_engine_options_t options = before;
    xfer_option_info_t info;
    xfer_error_t err;
    uint32_t count = 0;
    for (; xfer_engine_option_at(count, &info, sizeof info) == XFER_OK; count++) {
        char word[64];
        if (xfer_engine_option_set(&options, info.name, text_of(&info, word, sizeof word), &err))
            fail_msg("%s: %s", info.name, err.message);
        if (memcmp(&options, &before, sizeof options) == 0) fail_msg("%s: nothing", info.name);
        options = before;
        if (info.kind == XFER_OPTION_TEXT) continue; /* which takes any */
        assert_status(xfer_engine_option_set(&options, info.name, "?", &err), XFER_EINVAL);
        assert_has(err.message, info.name);
        assert_memory_equal(&options, &before, sizeof options);
    }
    assert_true(count > 0);
    assert_status(xfer_engine_option_set(&options, "of_tomorrow", "1", &err), XFER_ENOTFOUND);
    assert_has(err.message, "of_tomorrow");
    assert_rdma_options_settable();
}

static void error_detail(void **state) {
    (void)state;
    Host *first = host_open(DOOR), *second = host_open(DOOR);
    char bound[256];
    xfer_error_t err;
    host_listen(first, "tcp://127.0.0.1:0");
    assert_status(xfer_engine_listen(second->engine, first->uri, NULL, bound, sizeof bound, &err),
                  XFER_EADDRINUSE);
    assert_int_equal(err.status, XFER_EADDRINUSE);
    assert_int_equal(err.origin, XFER_ORIGIN_OS);
    assert_int_equal(err.native_code, EADDRINUSE);
    assert_has(err.message, strrchr(first->uri, ':') + 1);
    assert_string_equal(xfer_status_name(err.status), "XFER_EADDRINUSE");
}

/* ---- life ---- */

static int count_entries(const char *folder) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int count = 0;
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void open_close_join_once(void) {
    const xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .io_threads = 1};
    xfer_engine_t *engine = NULL;
    xfer_event_t event = {0};
    char bound[256];
    uint32_t count;
    assert_status(xfer_engine_open(&options, &engine, NULL), XFER_OK);
    assert_status(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, bound, sizeof bound, NULL),
                  XFER_OK);
    assert_status(xfer_engine_close(engine), XFER_OK);
    assert_status(xfer_engine_poll(engine, &event, sizeof event, 1, kPatience, &count), XFER_OK);
    assert_int_equal(event.kind, XFER_EVENT_CLOSED);
    assert_ptr_equal(event.object, engine);
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
}

static void open_close_join(void **state) {
    (void)state;
    enum { kFirst = 10, kEngines = 100, kSlack = 64 * kEngines };
    for (int i = 0; i < kFirst; i++) /* what is made once for the process is made now */
        open_close_join_once();
    const int threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
    const size_t memory = mallinfo2().uordblks; /* 0 where a sanitizer has its own, which looks */
    for (int i = 0; i < kEngines; i++)
        open_close_join_once();
    assert_int_equal(count_entries("/proc/self/fd"), files);
    assert_true(mallinfo2().uordblks < memory + kSlack);
    /* A thread that has ended is listed for a moment. */
    for (uint64_t end = now_ms() + kPatience; count_entries("/proc/self/task") > threads; turn(1))
        assert_true(now_ms() < end);
}

typedef struct Elsewhere {
    Pair pair;
    _Atomic int polling;
    xfer_status_t put, polled;
} Elsewhere;

static void *use_elsewhere(void *argument) {
    Elsewhere *elsewhere = argument;
    xfer_event_t event;
    uint32_t count;
    elsewhere->put = xfer_put(elsewhere->pair.ep, "thread", &elsewhere->pair.ref, 0, 6, 1, NULL);
    elsewhere->polling = 1;
    do /* while it is the other that polls */
        elsewhere->polled = xfer_engine_poll(elsewhere->pair.server->engine, &event, sizeof event,
                                             1, kPatience, &count);
    while (elsewhere->polled == XFER_EBUSY);
    return NULL;
}

/* Any thread may put; one at a time may poll. */
static void wrong_thread(void **state) {
    (void)state;
    static Elsewhere elsewhere;
    pthread_t thread;
    xfer_event_t event;
    uint32_t count;
    open_two(&elsewhere.pair, 64);
    Host *server = elsewhere.pair.server;
    wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
    wait_event(server, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
    elsewhere.polling = 0;
    server->paused = true; /* the thread's */
    assert_int_equal(pthread_create(&thread, NULL, use_elsewhere, &elsewhere), 0);
    wait_atomic(&elsewhere.polling, 1, kPatience);
    xfer_status_t status = XFER_OK;
    for (uint64_t end = now_ms() + kPatience / 2; status == XFER_OK && now_ms() < end;)
        status = xfer_engine_poll(server->engine, &event, sizeof event, 1, 0, &count);
    const xfer_status_t woken = xfer_engine_wake(server->engine);
    assert_int_equal(pthread_join(thread, NULL), 0);
    server->paused = false;
    assert_status(status, XFER_EBUSY);
    assert_status(woken, XFER_OK);
    assert_status(elsewhere.polled, XFER_OK);
    assert_status(elsewhere.put, XFER_OK);
    assert_status(wait_event(elsewhere.pair.client, XFER_EVENT_PUT, 1, kPatience).status, XFER_OK);
    assert_memory_equal(elsewhere.pair.memory, "thread", 6);
}

static jmp_buf out;
static int thrown;

static void throws(Host *host, const xfer_event_t *event) {
    (void)host;
    if (event->kind != XFER_EVENT_LOOKUP || thrown) return;
    thrown = 1;
    longjmp(out, 1);
}

/* No exceptions: a longjmp out of what is done with a polled event, which may not leave a callback
 * of the library, and leaves a poll as it is. */
static void exception_in_callback(void **state) {
    (void)state;
    static xfer_event_t events[2];
    Pair pair;
    open_two(&pair, 64);
    Host *client = pair.client;
    thrown = 0;
    client->paused = true;
    for (uint64_t user = 1; user <= 2; user++)
        assert_status(xfer_ep_lookup(pair.ep, "memory", user, NULL, NULL), XFER_OK);
    volatile uint32_t seen = 0;
    if (setjmp(out) == 0) {
        uint32_t count = 0;
        assert_status(
            xfer_engine_poll(client->engine, &events[0], sizeof events[0], 1, kPatience, &count),
            XFER_OK);
        assert_int_equal(count, 1);
        throws(client, &events[0]);
        seen = 1;
    }
    assert_int_equal(seen, 0);
    assert_int_equal(thrown, 1);
    client->last_sequence = events[0].sequence; /* the fixture has not seen it */
    client->paused = false;
    assert_status(wait_event(client, XFER_EVENT_LOOKUP, 2, kPatience).status, XFER_OK);
    assert_int_equal(events[0].user, 1);
}

/* In the child: a number for the first call that is not refused. A join frees what the child has.
 */
static int after_fork(Pair *pair, xfer_batch_t *batch, xfer_counter_t *counter) {
    xfer_engine_t *engine = pair->client->engine;
    const xfer_region_options_t lent = {.size = sizeof lent};
    const xfer_grant_options_t all = {.size = sizeof all, .access = XFER_READ, .length = 8};
    xfer_region_t *region;
    xfer_batch_t *another;
    xfer_counter_t *other;
    xfer_ep_t *ep;
    xfer_engine_stats_t stats;
    xfer_id_t id;
    xfer_ref_t ref;
    xfer_event_t event;
    uint64_t needed;
    uint32_t count, ep_state;
    char text[256];
    uint8_t byte = 0;
    const xfer_status_t refused[] = {
        xfer_engine_id(engine, &id),
        xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, text, sizeof text, NULL),
        xfer_engine_describe(engine, text, sizeof text, &needed),
        xfer_engine_stats(engine, &stats, sizeof stats),
        xfer_engine_poll(engine, &event, sizeof event, 1, 0, &count),
        xfer_engine_wake(engine),
        xfer_engine_drain(engine, 1, NULL),
        xfer_cancel(engine, NULL, 1, 0),
        xfer_recv(engine, NULL, &byte, 1, 1, 0, 1, NULL),
        xfer_ep_open(engine, pair->server->uri, NULL, &ep, NULL),
        xfer_region_open(engine, &lent, &byte, 1, &region, NULL),
        xfer_counter_open(engine, 2, 1, NULL, &other, NULL),
        xfer_put(pair->ep, &byte, &pair->ref, 0, 1, 1, NULL),
        xfer_get(pair->ep, &byte, &pair->ref, 0, 1, 1, NULL),
        xfer_send(pair->ep, &byte, 1, 1, 1, NULL),
        xfer_notify(pair->ep, NULL, 0, 1, 1, NULL),
        xfer_ep_lookup(pair->ep, "memory", 1, NULL, NULL),
        xfer_ep_connect(pair->ep, 1, NULL),
        xfer_ep_flush(pair->ep, NULL, 1, NULL),
        xfer_ep_state(pair->ep, &ep_state),
        xfer_batch_open(pair->ep, NULL, &another, NULL),
        xfer_batch_put(batch, &byte, &pair->ref, 0, 1),
        xfer_batch_submit(batch, 1, NULL),
        xfer_region_ref(pair->region, &ref),
        xfer_region_grant(pair->region, &all, &ref, NULL),
        xfer_counter_close(counter),
        xfer_batch_close(batch),
        xfer_ep_close(pair->ep),
        xfer_region_close(pair->region),
        xfer_engine_close(engine),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i] != XFER_EFORKED) return (int)i + 1;
    return 0;
}

static void fork_refused(void **state) {
    (void)state;
    Pair pair;
    open_two(&pair, 64);
    xfer_batch_t *batch = open_batch(pair.ep);
    xfer_counter_t *counter = NULL;
    assert_status(xfer_counter_open(pair.client->engine, 1, 1, NULL, &counter, NULL), XFER_OK);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(after_fork(&pair, batch, counter));
    int status = 0;
    for (uint64_t end = now_ms() + kPatience; waitpid(pid, &status, WNOHANG) == 0; turn(5))
        assert_true(now_ms() < end);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_status(put_now(pair.client, pair.ep, "parent", &pair.ref, 0, 6), XFER_OK);
    assert_memory_equal(pair.memory, "parent", 6);
    assert_status(xfer_counter_close(counter), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
}

/* A process that ends with all it has open, and operations under way. */
static int leave(const char *argument) {
    enum { kLength = 16 << 20, kPuts = 8 };
    static uint8_t memory[kLength], local[kLength];
    static xfer_engine_t *server, *client; /* still known at its end: what they have is no leak */
    static xfer_region_t *region;
    static xfer_ep_t *ep;
    static xfer_batch_t *batch;
    const xfer_engine_options_t options = {
        .size = sizeof options, .dispatch = XFER_DISPATCH_POLL, .io_threads = 1};
    const xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE};
    char uri[256];
    xfer_ref_t ref;
    (void)argument;
    if (xfer_engine_open(&options, &server, NULL) || xfer_engine_open(&options, &client, NULL) ||
        xfer_engine_listen(server, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, NULL) ||
        xfer_region_open(server, &lent, memory, kLength, &region, NULL) ||
        xfer_region_ref(region, &ref) || xfer_ep_open(client, uri, NULL, &ep, NULL) ||
        xfer_batch_open(ep, NULL, &batch, NULL) || xfer_batch_put(batch, local, &ref, 0, kLength) ||
        xfer_batch_submit(batch, 1, NULL))
        return 2;
    for (uint64_t i = 0; i < kPuts; i++)
        if (xfer_put(ep, local, &ref, 0, kLength, i, NULL)) return 3;
    xfer_event_t event;
    uint32_t count = 0;
    return xfer_engine_poll(client, &event, sizeof event, 1, kPatience, &count) || count != 1;
}

/* No collector: the end of a program is what takes all. Within one, a join closes what is open, as
 * it does at the end of each test here, and a close frees each handle. */
static void drop_without_close(void **state) {
    (void)state;
    for (int round = 0; round < 3; round++) {
        Peer peer;
        peer_start_role(&peer, "leave", "-");
        assert_int_equal(peer_wait(&peer), 0);
    }
}

static const struct CMUnitTest tests[] = {
    TEST(version_matches),   TEST(header_of_another_version),
    TEST(statuses_complete), TEST(layouts_match),
    TEST(unknown_values),    TEST(every_option_settable),
    TEST(error_detail),      TEST(open_close_join),
    TEST(wrong_thread),      TEST(exception_in_callback),
    TEST(fork_refused),      TEST(drop_without_close),
};

TEST_MAIN_AFTER(tests, peer_role("leave", leave))
