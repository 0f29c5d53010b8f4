/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening an engine: which options are taken, what the size rules of structs say, and what an
 * engine costs. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xfer/rdma.h>
#include <xfer/text.h>

#include "fixture.h"

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

static xfer_engine_options_t thread_options(void) {
    return (xfer_engine_options_t){.size = sizeof(xfer_engine_options_t), .on_event = ignore_event};
}

static void assert_refused(const xfer_engine_options_t *options, xfer_status_t wanted,
                           const char *what) {
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    memset(&err, 0xff, sizeof err);
    xfer_status_t status = xfer_engine_open(options, &engine, &err);
    if (status == XFER_OK) xfer_engine_join(engine, XFER_NONE);
    if (status != wanted)
        fail_msg("%s: %s, not %s", what, xfer_status_name(status), xfer_status_name(wanted));
    assert_int_equal(err.status, status);
    assert_int_equal(err.reserved, 0);
    assert_non_null(memchr(err.message, 0, sizeof err.message));
    assert_true(err.message[0] != '\0');
    assert_status(xfer_engine_open(options, &engine, NULL), wanted); /* without `err` too */
}

/* Where there is no room for a loop or the stack of its thread, that is what is said. */
static void test_no_address_space(void **state) {
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    print_message("skip: a sanitizer needs all of the address space\n");
    skip();
#endif
    enum { kStep = 256 << 10, kEnough = 64 << 20 };
    struct rlimit all, little;
    assert_int_equal(getrlimit(RLIMIT_AS, &all), 0);
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    assert_non_null(statm);
    assert_int_equal(fscanf(statm, "%ld", &pages), 1);
    fclose(statm);
    const xfer_engine_options_t options = thread_options();
    xfer_status_t status = XFER_ENOMEM;
    for (rlim_t extra = 0; status != XFER_OK; extra += kStep) {
        assert_true(extra < kEnough);
        little = all;
        little.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + extra;
        assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
        xfer_engine_t *engine = NULL;
        status = xfer_engine_open(&options, &engine, NULL);
        assert_int_equal(setrlimit(RLIMIT_AS, &all), 0);
        if (status == XFER_OK)
            xfer_engine_join(engine, XFER_NONE);
        else
            assert_status(status, XFER_ENOMEM);
        if (extra == 0) assert_status(status, XFER_ENOMEM);
    }
}

static void test_wrong_options(void **state) {
    (void)state;
    static const uint8_t key[300];
    static const uint8_t blob[1025];
    uv_loop_t loop;
    const struct {
        const char *what;
        xfer_engine_options_t options;
        xfer_status_t status;
    } table[] = {
        {"no callback", {.size = sizeof(xfer_engine_options_t)}, XFER_EINVAL},
        {"no size", {.on_event = ignore_event}, XFER_EINVAL},
        {"a size below its own field", {.size = 3, .on_event = ignore_event}, XFER_EINVAL},
        {"a size that ends inside a pointer",
         {.size = offsetof(xfer_engine_options_t, on_event) + 4, .on_event = ignore_event},
         XFER_EINVAL},
        {"dispatch",
         {.size = sizeof(xfer_engine_options_t), .dispatch = 4, .on_event = ignore_event},
         XFER_EINVAL},
        {"loop without a loop",
         {.size = sizeof(xfer_engine_options_t),
          .dispatch = XFER_DISPATCH_LOOP,
          .on_event = ignore_event},
         XFER_EINVAL},
        {"loop without a callback",
         {.size = sizeof(xfer_engine_options_t), .dispatch = XFER_DISPATCH_LOOP, .uv_loop = &loop},
         XFER_EINVAL},
        {"a key of 31 bytes",
         {.size = sizeof(xfer_engine_options_t),
          .on_event = ignore_event,
          .key = key,
          .key_length = 31},
         XFER_EINVAL},
        {"a key of 257 bytes",
         {.size = sizeof(xfer_engine_options_t),
          .on_event = ignore_event,
          .key = key,
          .key_length = 257},
         XFER_EINVAL},
        {"a key of no bytes",
         {.size = sizeof(xfer_engine_options_t), .on_event = ignore_event, .key_length = 32},
         XFER_EINVAL},
        {"a blob of 1025 bytes",
         {.size = sizeof(xfer_engine_options_t),
          .on_event = ignore_event,
          .blob = blob,
          .blob_length = 1025},
         XFER_EINVAL},
        {"a blob of no bytes",
         {.size = sizeof(xfer_engine_options_t), .on_event = ignore_event, .blob_length = 1},
         XFER_EINVAL},
        {"a flag that does not exist",
         {.size = sizeof(xfer_engine_options_t), .on_event = ignore_event, .flags = 1u << 30},
         XFER_EINVAL},
        {"a million threads",
         {.size = sizeof(xfer_engine_options_t), .on_event = ignore_event, .io_threads = 1000000},
         XFER_EINVAL},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_refused(&table[i].options, table[i].status, table[i].what);
    }
    assert_refused(NULL, XFER_EINVAL, "no options");
    xfer_engine_options_t good = thread_options();
    assert_status(xfer_engine_open(&good, NULL, NULL), XFER_EINVAL);
}

static void test_unknown_transport(void **state) {
    (void)state;
    xfer_engine_options_t options = thread_options();
    options.transports = "pigeon";
    xfer_engine_t *engine = NULL;
    xfer_status_t status = xfer_engine_open(&options, &engine, NULL);
    assert_true(status == XFER_EINVAL || status == XFER_EUNSUPPORTED);
}

static void test_limits_of_key_and_blob(void **state) {
    (void)state;
    static uint8_t bytes[1024];
    const uint64_t keys[] = {32, 33, 255, 256};
    for (size_t i = 0; i < 4; i++) {
        xfer_engine_options_t options = host_options(THREAD_MODE);
        options.key = bytes;
        options.key_length = keys[i];
        options.blob = bytes;
        options.blob_length = sizeof bytes;
        host_end(host_open_with(THREAD_MODE, &options));
    }
}

/* `err` is written whole on success too. */
static void test_error_on_success(void **state) {
    (void)state;
    xfer_engine_options_t options = thread_options();
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    xfer_error_t zero;
    memset(&err, 0xff, sizeof err);
    memset(&zero, 0, sizeof zero);
    assert_status(xfer_engine_open(&options, &engine, &err), XFER_OK);
    assert_int_equal(err.status, XFER_OK);
    assert_int_equal(err.origin, XFER_ORIGIN_NONE);
    assert_int_equal(err.message[0], 0);
    assert_memory_equal(&err, &zero, offsetof(xfer_error_t, message));
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
}

/* ---- what an engine is and costs ---- */

#define BIT(number) (UINT64_C(1) << (number))

static void test_kinds_and_transports(void **state) {
    static const struct {
        const char *transports;
        uint64_t mask;
    } table[] = {
        {"loopback", BIT(XFER_TRANSPORT_LOOPBACK)},
        {"tcp", BIT(XFER_TRANSPORT_TCP)},
        {"unix", BIT(XFER_TRANSPORT_UNIX)},
        {"shm", BIT(XFER_TRANSPORT_SHM)},
        {"shm,tcp", BIT(XFER_TRANSPORT_SHM) | BIT(XFER_TRANSPORT_TCP)},
        {"loopback,tcp,unix,shm", BIT(XFER_TRANSPORT_LOOPBACK) | BIT(XFER_TRANSPORT_TCP) |
                                      BIT(XFER_TRANSPORT_UNIX) | BIT(XFER_TRANSPORT_SHM)},
#ifdef XFER_WITH_RDMA
        {"tcp,rdma", BIT(XFER_TRANSPORT_TCP) | BIT(XFER_TRANSPORT_RDMA)},
        {"", BIT(XFER_TRANSPORT_LOOPBACK) | BIT(XFER_TRANSPORT_TCP) | BIT(XFER_TRANSPORT_UNIX) |
                 BIT(XFER_TRANSPORT_SHM) | BIT(XFER_TRANSPORT_RDMA)},
#else
        {"", BIT(XFER_TRANSPORT_LOOPBACK) | BIT(XFER_TRANSPORT_TCP) | BIT(XFER_TRANSPORT_UNIX) |
                 BIT(XFER_TRANSPORT_SHM)},
#endif
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_engine_options_t options = host_options(*state);
        options.transports = table[i].transports;
        Host *host = host_open_with(*state, &options);
        uint64_t mask = UINT64_MAX;
        assert_status(xfer_engine_transports(host->engine, &mask), XFER_OK);
        assert_int_equal(mask, table[i].mask);
        mask = UINT64_MAX;
        assert_status(xfer_engine_kinds(host->engine, &mask), XFER_OK);
        assert_int_equal(mask, BIT(XFER_MEM_HOST));
        host_end(host);
    }
}

/* By the environment, where the option leaves it. */
static void test_transports_of_the_environment(void **state) {
    char before[64] = "";
    const char *was = getenv("XFER_TRANSPORTS");
    if (was) snprintf(before, sizeof before, "%s", was);
    assert_int_equal(setenv("XFER_TRANSPORTS", "loopback,unix", 1), 0);
    Host *host = host_open(*state);
    if (was)
        setenv("XFER_TRANSPORTS", before, 1);
    else
        unsetenv("XFER_TRANSPORTS");
    uint64_t mask = 0;
    assert_status(xfer_engine_transports(host->engine, &mask), XFER_OK);
    assert_int_equal(mask, BIT(XFER_TRANSPORT_LOOPBACK) | BIT(XFER_TRANSPORT_UNIX));
}

#ifdef XFER_WITH_RDMA
static void assert_described(Host *host, const char *part) {
    char *json = test_memory(65536);
    uint64_t needed;
    assert_status(xfer_engine_describe(host->engine, json, 65536, &needed), XFER_OK);
    if (!strstr(json, part)) fail_msg("no %s in %s", part, json);
}

static Host *open_with_devices(const Mode *mode, const char *environment,
                               const xfer_rdma_options_t *rdma) {
    xfer_engine_options_t options = host_options(mode);
    options.rdma = rdma;
    assert_int_equal(setenv("XFER_RDMA_DEVICES", environment, 1), 0);
    Host *host = host_open_with(mode, &options);
    unsetenv("XFER_RDMA_DEVICES");
    return host;
}

/* By the environment, where the options leave it; an empty list is one. */
static void test_devices_of_the_environment(void **state) {
    const xfer_rdma_options_t open = {.size = sizeof open, .queue_depth = 7};
    const xfer_rdma_options_t one = {.size = sizeof one, .devices = "mlx5_0:1"};
    const xfer_rdma_options_t all = {.size = sizeof all, .devices = ""};
    unsetenv("XFER_RDMA_DEVICES");
    assert_described(host_open(*state), "\"devices\": \"\"");
    assert_described(open_with_devices(*state, "^mlx5_3", NULL), "\"devices\": \"^mlx5_3\"");
    Host *host = open_with_devices(*state, "none", &open);
    assert_described(host, "\"devices\": \"none\"");
    assert_described(host, "\"queue_depth\": 7");
    assert_described(open_with_devices(*state, "none", &one), "\"devices\": \"mlx5_0:1\"");
    assert_described(open_with_devices(*state, "none", &all), "\"devices\": \"\"");
}

static void test_rdma_options(void **state) {
    xfer_rdma_options_t rdma = {.size = sizeof rdma,
                                .queue_depth = 32768,
                                .ack_timeout = 31,
                                .retries = XFER_NONE,
                                .traffic_class = 255,
                                .service_level = 15};
    Host *host = open_with_devices(*state, "", &rdma);
    assert_described(host, "\"queue_depth\": 32768");
    assert_described(host, "\"ack_timeout\": 31");
    assert_described(host, "\"retries\": 0");
    assert_described(host, "\"traffic_class\": 255");
    assert_described(host, "\"service_level\": 15");
    rdma = (xfer_rdma_options_t){.size = sizeof rdma};
    host = open_with_devices(*state, "", &rdma);
    assert_described(host, "\"queue_depth\": 128");
    assert_described(host, "\"ack_timeout\": 14");
    assert_described(host, "\"retries\": 6");
    assert_described(host, "\"traffic_class\": 0");
    assert_described(host, "\"service_level\": 0");
}
#endif

/* Where the default is the engine's choice, none can be asked for. */
static void test_exactly_none(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.io_threads = options.spin_us = options.lanes = XFER_NONE;
    Host *host = host_open_with(*state, &options);
    char *json = test_memory(65536);
    uint64_t needed;
    assert_status(xfer_engine_describe(host->engine, json, 65536, &needed), XFER_OK);
    assert_non_null(strstr(json, "\"io_threads\": 0"));
    assert_non_null(strstr(json, "\"spin_us\": 0"));
    assert_non_null(strstr(json, "\"lanes\": 0"));
}

static int count_entries(const char *path) {
    DIR *dir = opendir(path);
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* The task directory still lists a thread for a moment after it was joined. */
static void wait_threads(int least, int most) {
    uint64_t end = now_ms() + kPatience;
    for (;;) {
        const int now = count_entries("/proc/self/task");
        if (now >= least && now <= most) return;
        if (now_ms() > end) fail_msg("%d threads, not %d to %d", now, least, most);
        turn(5);
    }
}

/* Without those of engines that were closed before. */
static int count_threads_left(void) {
    int least = count_entries("/proc/self/task");
    for (int i = 0; i < 20; i++) {
        turn(5);
        const int now = count_entries("/proc/self/task");
        if (now < least) least = now;
    }
    return least;
}

static void test_threads(void **state) {
    const Mode *mode = *state;
    int before = count_threads_left();
    Host *host = host_open(mode);
    host_listen(host, "tcp://127.0.0.1:0");
    pass_ms(20);
    int io = mode->io_threads == XFER_NONE ? 0 : (int)mode->io_threads;
    /* The engine's own thread may drive sockets as well. */
    if (mode->dispatch == XFER_DISPATCH_THREAD)
        wait_threads(before + 1, before + io + 1);
    else
        wait_threads(before + io, before + io);
    host_end(host);
    wait_threads(before, before);
}

static void test_descriptors_return(void **state) {
    const Mode *mode = *state;
    Host *first = host_open(mode); /* what is made once for the process is made now */
    host_listen(first, "tcp://127.0.0.1:0");
    host_end(first);
    int before = count_entries("/proc/self/fd");
    for (int i = 0; i < 20; i++) {
        Host *host = host_open(mode);
        host_listen(host, "tcp://127.0.0.1:0");
        host_end(host);
    }
    assert_int_equal(count_entries("/proc/self/fd"), before);
}

static int count_fds_role(const char *argument) {
    return count_entries("/proc/self/fd") == atoi(argument) ? 0 : 1;
}

/* Every descriptor is closed by exec: a child that has an engine's sockets would keep its port. */
static void test_close_on_exec(void **state) {
    Peer peer;
    char bare[16];
    /* The same child without an engine has its three, the directory, and whatever the test runner
     * left open. */
    int inherited = 4;
    for (; inherited < 32; inherited++) {
        snprintf(bare, sizeof bare, "%d", inherited);
        peer_start_role(&peer, "count_fds", bare);
        if (peer_wait(&peer) == 0) break;
    }
    assert_true(inherited < 32);
    Pair pair;
    pair_open(&pair, *state, 4096);
    peer_start_role(&peer, "count_fds", bare);
    assert_int_equal(peer_wait(&peer), 0);
}

static void test_identity(void **state) {
    (void)state;
    xfer_engine_options_t options = host_options(THREAD_MODE);
    memset(options.id, 0x5a, sizeof options.id);
    xfer_id_t a, b, c, d;
    Host *host = host_open_with(THREAD_MODE, &options);
    assert_status(xfer_engine_id(host->engine, &a), XFER_OK);
    assert_status(xfer_engine_id(host->engine, NULL), XFER_EINVAL);
    host_end(host);
    host = host_open_with(THREAD_MODE, &options);
    assert_status(xfer_engine_id(host->engine, &b), XFER_OK);
    assert_memory_equal(a.bytes, options.id, sizeof options.id);
    assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
    assert_true(a.incarnation != b.incarnation);
    assert_status(xfer_engine_id(host_open(THREAD_MODE)->engine, &c), XFER_OK);
    assert_status(xfer_engine_id(host_open(THREAD_MODE)->engine, &d), XFER_OK);
    assert_memory_not_equal(c.bytes, d.bytes, sizeof c.bytes);
}

static void test_describe(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint64_t needed = 0;
    xfer_status_t status = xfer_engine_describe(pair.server->engine, NULL, 0, &needed);
    assert_true(status == XFER_OK || status == XFER_ENOSPC);
    assert_true(needed > 2);
    size_t room = needed + 4096; /* it may grow between the calls */
    char *text = test_memory(room);
    assert_status(xfer_engine_describe(pair.server->engine, text, room, &needed), XFER_OK);
    assert_int_equal(strlen(text) + 1, needed);
    assert_int_equal(text[0], '{');
    assert_int_equal(text[needed - 2], '}');
    assert_non_null(strstr(text, "memory"));
    assert_non_null(strstr(text, pair.server->uri));
    char small[8];
    memset(small, 0x7f, sizeof small);
    assert_status(xfer_engine_describe(pair.server->engine, small, sizeof small, &needed),
                  XFER_ENOSPC);
    assert_int_equal(small[sizeof small - 1], 0);
    assert_memory_equal(small, text, sizeof small - 1);
}

static const struct CMUnitTest tests[] = {
    TEST(test_wrong_options),
    TEST(test_no_address_space),
    TEST(test_unknown_transport),
    TEST(test_limits_of_key_and_blob),
    TEST(test_error_on_success),
    EACH_MODE(test_threads),
    EACH_MODE(test_descriptors_return),
    EACH_DISPATCH(test_close_on_exec),
    TEST(test_identity),
    EACH_MODE(test_describe),
    ONE_MODE(test_kinds_and_transports),
    ONE_MODE(test_transports_of_the_environment),
#ifdef XFER_WITH_RDMA
    ONE_MODE(test_devices_of_the_environment),
    ONE_MODE(test_rdma_options),
#endif
    EACH_DISPATCH(test_exactly_none),
};

TEST_MAIN_AFTER(tests, peer_role("count_fds", count_fds_role))
