/* SPDX-License-Identifier: Apache-2.0
 *
 * What a refused call says: the struct and the field that are wrong, in the caller's xfer_error_t
 * where the call has one, and at debug in the engine's log with the name of the call. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inputs.h"

static void test_every_struct(void **state) {
    (void)state;
    Scene scene;
    scene_open(&scene);
    for (size_t i = 0; i < input_count; i++) {
        const Input *input = &inputs[i];
        Given given;
        char part[128];
        memset(&given, 0, sizeof given);
        snprintf(part, sizeof part, "%s.size is 0: set it to sizeof(%s)", input->name, input->name);
        assert_refusal(&scene, input, &given, XFER_EINVAL, part);
        given.size = 3;
        snprintf(part, sizeof part, "%s.size is 3: set it", input->name);
        assert_refusal(&scene, input, &given, XFER_EINVAL, part);
        given.size = 5;
        snprintf(part, sizeof part, "%s.size is 5: set it", input->name);
        assert_refusal(&scene, input, &given, XFER_EINVAL, part);
        given.size = 0xa5a5a5a5; /* never set: nothing is read past what could be a struct */
        snprintf(part, sizeof part, "%s.size is %u", input->name, 0xa5a5a5a5);
        assert_refusal(&scene, input, &given, XFER_E2BIG, part);
        given.size = input->size + 8;
        given.bytes[input->size + 7] = 1;
        snprintf(part, sizeof part, "%s.size is %u: this library knows %u bytes", input->name,
                 input->size + 8, input->size);
        assert_refusal(&scene, input, &given, XFER_E2BIG, part);
        if (input->reserved == NONE) continue;
        memset(&given, 0, sizeof given);
        given.size = input->size;
        given.bytes[input->reserved] = 1;
        snprintf(part, sizeof part, "%s.%s is not 0", input->name, input->field);
        assert_refusal(&scene, input, &given, XFER_E2BIG, part);
    }
}

/* ---- single fields ---- */

static void ignore_event(const xfer_event_t *event, uint64_t user) {
    (void)event;
    (void)user;
}

static void test_engine_options(void **state) {
    (void)state;
    static const uint8_t key[64];
    const struct {
        xfer_engine_options_t options;
        const char *part;
    } table[] = {
        {{.on_event = ignore_event, .dispatch = 9}, ".dispatch is 9"},
        {{.dispatch = 9}, ".dispatch is 9"},
        {{.dispatch = 0}, ".on_event is NULL"},
        {{.dispatch = XFER_DISPATCH_LOOP, .on_event = ignore_event}, ".uv_loop is NULL"},
        {{.dispatch = XFER_DISPATCH_POLL, .on_event = ignore_event}, ".on_event"},
        {{.on_event = ignore_event, .io_threads = 1000}, ".io_threads is more than"},
        {{.on_event = ignore_event, .spin_us = 1000001}, ".spin_us"},
        {{.on_event = ignore_event, .spin_us = UINT32_MAX - 1}, ".spin_us"},
        {{.on_event = ignore_event, .flags = XFER_ENGINE_UNREF},
         ".flags: XFER_ENGINE_UNREF is for XFER_DISPATCH_LOOP only"},
        {{.dispatch = XFER_DISPATCH_POLL, .flags = XFER_ENGINE_UNREF}, ".flags: XFER_ENGINE_UNREF"},
        {{.on_event = ignore_event, .flags = 1u << 30}, ".flags"},
        {{.on_event = ignore_event, .log_level = XFER_NONE}, ".log_level is XFER_NONE"},
        {{.on_event = ignore_event, .stall_ms = XFER_NONE}, ".stall_ms is XFER_NONE"},
        {{.on_event = ignore_event, .connect_ms = XFER_NONE}, ".connect_ms is XFER_NONE"},
        {{.on_event = ignore_event, .heartbeat_ms = XFER_NONE}, ".heartbeat_ms is XFER_NONE"},
        {{.on_event = ignore_event, .idle_ms = XFER_NONE}, ".idle_ms is XFER_NONE"},
        {{.on_event = ignore_event, .key = key, .key_length = 16}, ".key_length is 16"},
        {{.on_event = ignore_event, .key_length = 64}, ".key is NULL"},
        {{.on_event = ignore_event, .blob_length = 4}, ".blob is NULL"},
        {{.on_event = ignore_event, .blob = key, .blob_length = 4000}, ".blob_length is more than"},
        {{.on_event = ignore_event, .lanes = 17}, ".lanes"},
        {{.on_event = ignore_event, .max_connections = UINT32_MAX}, ".max_connections"},
        {{.on_event = ignore_event, .max_operations = UINT32_MAX}, ".max_operations"},
        {{.on_event = ignore_event, .advertise = "tcp://0.0.0.0:1"}, ".advertise"},
        {{.on_event = ignore_event, .transports = "tcp,pigeon"},
         ".transports: none is called \"pigeon\""},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_engine_options_t options = table[i].options;
        options.size = sizeof options;
        options.on_log = record_refusal;
        if (!options.log_level) options.log_level = XFER_LOG_DEBUG;
        xfer_engine_t *engine = NULL;
        xfer_error_t err;
        char line[kLine];
        uint32_t level = 0;
        take_refusal(line, &level);
        assert_true(xfer_engine_open(&options, &engine, &err) < 0);
        assert_null(engine);
        assert_has(err.message, "xfer_engine_options_t.");
        assert_has(err.message, table[i].part);
    }
    xfer_error_t err;
    xfer_engine_t *engine = NULL;
    assert_status(xfer_engine_open(NULL, &engine, &err), XFER_EINVAL);
    assert_has(err.message, "options is NULL");
}

#ifdef XFER_WITH_RDMA
static void test_rdma_options(void **state) {
    (void)state;
    const struct {
        xfer_rdma_options_t options;
        const char *part;
    } table[] = {
        {{.devices = "mlx5_0:0"}, ".devices: `mlx5_0:0`: the port is a number from 1 to 255"},
        {{.devices = "mlx5_0,,"}, ".devices: ``: the name of a device has letters"},
        {{.devices = "\xff"}, ".devices: "},
        {{.devices = "none,mlx5_0"}, ".devices: `none`: stands alone"},
        {{.queue_depth = 32769}, ".queue_depth is more than 32768"},
        {{.queue_depth = XFER_NONE}, ".queue_depth is more than"},
        {{.ack_timeout = 32}, ".ack_timeout is more than 31"},
        {{.ack_timeout = XFER_NONE}, ".ack_timeout is more than 31"},
        {{.retries = 7}, ".retries is more than 6"},
        {{.traffic_class = 256}, ".traffic_class is more than 255"},
        {{.service_level = 16}, ".service_level is more than 15"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_rdma_options_t rdma = table[i].options;
        rdma.size = sizeof rdma;
        const xfer_engine_options_t options = {
            .size = sizeof options, .on_event = ignore_event, .rdma = &rdma};
        xfer_engine_t *engine = NULL;
        xfer_error_t err;
        assert_status(xfer_engine_open(&options, &engine, &err), XFER_EINVAL);
        assert_null(engine);
        assert_has(err.message, "xfer_rdma_options_t.");
        assert_has(err.message, table[i].part);
    }
}
#else
static void test_rdma_options(void **state) {
    (void)state;
    const xfer_rdma_options_t rdma = {.size = sizeof rdma};
    const xfer_engine_options_t options = {
        .size = sizeof options, .on_event = ignore_event, .rdma = &rdma};
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    assert_status(xfer_engine_open(&options, &engine, &err), XFER_EUNSUPPORTED);
    assert_has(err.message, "xfer_engine_options_t.rdma: this build has no RDMA");
}
#endif

static void test_regions(void **state) {
    (void)state;
    Scene scene;
    scene_open(&scene);
    xfer_engine_t *engine = scene.pair.client->engine;
    xfer_region_t *region = NULL;
    void *address = NULL;
    xfer_error_t err;
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_READ, .name = "r"};
    assert_status(xfer_region_open(engine, &options, scene.memory, 0, &region, &err), XFER_EINVAL);
    assert_has(err.message, "length is 0");
    assert_status(xfer_region_alloc(engine, &options, 0, &address, &region, &err), XFER_EINVAL);
    assert_has(err.message, "length is 0");
    options.access = 8;
    assert_status(xfer_region_open(engine, &options, scene.memory, 1, &region, &err), XFER_EINVAL);
    assert_has(err.message, "xfer_region_options_t.access has unknown bits: 0x8");
    options.access = 0;
    options.flags = 16;
    assert_status(xfer_region_open(engine, &options, scene.memory, 1, &region, &err), XFER_EINVAL);
    assert_has(err.message, "xfer_region_options_t.flags has unknown bits: 0x10");
}

/* Names stand in logs and in describe(), which is JSON. */
static void test_names_are_utf8(void **state) {
    (void)state;
    Scene scene;
    scene_open(&scene);
    xfer_engine_t *engine = scene.pair.client->engine;
    static const char *const bad[] = {"\xff",         "a\x80",
                                      "\xc3",         "\xc0\xaf",
                                      "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                      "\xe2\x82",     "\xf8\x88\x80\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        xfer_region_t *region = NULL;
        xfer_error_t err;
        xfer_region_options_t options = {.size = sizeof options, .name = bad[i]};
        assert_status(xfer_region_open(engine, &options, scene.memory, 8, &region, &err),
                      XFER_EINVAL);
        assert_has(err.message, "xfer_region_options_t.name is not UTF-8");
        assert_status(xfer_ep_lookup(scene.pair.ep, bad[i], 1, NULL, NULL), XFER_EINVAL);
    }
    static const char *const good[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                                       "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        xfer_region_t *region = NULL;
        xfer_region_options_t options = {.size = sizeof options, .name = good[i]};
        assert_status(xfer_region_open(engine, &options, scene.memory, 8, &region, NULL), XFER_OK);
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(scene.pair.client, region);
    }
}

/* A full queue and a small buffer are no mistakes. */
static void test_not_logged(void **state) {
    (void)state;
    Scene scene;
    scene_open(&scene);
    char line[kLine];
    uint32_t level = 0;
    uint64_t needed = 0;
    take_refusal(line, &level);
    assert_status(xfer_engine_describe(scene.pair.client->engine, NULL, 0, &needed), XFER_ENOSPC);
    take_refusal(line, &level);
    assert_string_equal(line, "");
}

/* ---- refusals that are not about structs ----
 *
 * The loop stands meanwhile: a handle is there until it has turned. */

static xfer_status_t close_region_twice(Scene *scene) {
    xfer_region_t *region = NULL;
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_READ, .name = "twice"};
    assert_status(
        xfer_region_open(scene->pair.client->engine, &options, scene->memory, 64, &region, NULL),
        XFER_OK);
    assert_status(xfer_region_close(region), XFER_OK);
    return xfer_region_close(region);
}
static xfer_status_t put_nothing(Scene *scene) {
    return xfer_put(scene->pair.ep, NULL, &scene->pair.ref, 0, 64, 1, NULL);
}
static xfer_status_t put_past_end(Scene *scene) {
    return xfer_put(scene->pair.ep, scene->memory, &scene->pair.ref, 4090, 64, 1, NULL);
}
static xfer_status_t connect_closed(Scene *scene) {
    xfer_engine_t *engine = scene->pair.client->engine;
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(engine, scene->pair.server->uri, NULL, &ep, NULL), XFER_OK);
    assert_status(xfer_ep_close(ep), XFER_OK);
    return xfer_ep_connect(ep, 1, NULL);
}
static xfer_status_t close_ep_twice(Scene *scene) {
    xfer_engine_t *engine = scene->pair.client->engine;
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(engine, scene->pair.server->uri, NULL, &ep, NULL), XFER_OK);
    assert_status(xfer_ep_close(ep), XFER_OK);
    return xfer_ep_close(ep);
}
static xfer_status_t keep_own(Scene *scene) {
    return xfer_ep_keep(scene->pair.ep, 1);
}
static xfer_status_t admit_own(Scene *scene) {
    return xfer_ep_admit(scene->pair.ep, XFER_OK);
}
static xfer_status_t add_no_address(Scene *scene) {
    return xfer_ep_add_address(scene->pair.ep, NULL, NULL);
}
static xfer_status_t add_to_closed(Scene *scene) {
    xfer_ep_t *ep = NULL;
    assert_status(xfer_ep_open(scene->pair.client->engine, "tcp://127.0.0.1:1", NULL, &ep, NULL),
                  XFER_OK);
    assert_status(xfer_ep_close(ep), XFER_OK);
    return xfer_ep_add_address(ep, "tcp://127.0.0.1:2", NULL);
}
static xfer_status_t addresses_to_nowhere(Scene *scene) {
    return xfer_engine_addresses(scene->pair.client->engine, NULL, 0, NULL);
}
static xfer_status_t no_id(Scene *scene) {
    return xfer_engine_id(scene->pair.client->engine, NULL);
}
static xfer_status_t join_early(Scene *scene) {
    return xfer_engine_join(scene->pair.client->engine, XFER_NONE);
}
static xfer_status_t poll_loop(Scene *scene) {
    xfer_event_t event;
    uint32_t count = 0;
    return xfer_engine_poll(scene->pair.client->engine, &event, sizeof event, 1, 0, &count);
}
static xfer_status_t close_engine_twice(Scene *scene) {
    assert_status(xfer_engine_close(scene->pair.server->engine), XFER_OK);
    return xfer_engine_close(scene->pair.server->engine);
}

static void test_other_refusals(void **state) {
    static const struct {
        const char *function;
        xfer_status_t (*call)(Scene *scene);
        xfer_status_t status;
    } table[] = {
        {"xfer_region_close", close_region_twice, XFER_ECLOSED},
        {"xfer_put", put_nothing, XFER_EINVAL},
        {"xfer_put", put_past_end, XFER_ERANGE},
        {"xfer_ep_connect", connect_closed, XFER_ECLOSED},
        {"xfer_ep_close", close_ep_twice, XFER_ECLOSED},
        {"xfer_ep_keep", keep_own, XFER_EINVAL},
        {"xfer_ep_admit", admit_own, XFER_EINVAL},
        {"xfer_ep_add_address", add_no_address, XFER_EINVAL},
        {"xfer_ep_add_address", add_to_closed, XFER_ECLOSED},
        {"xfer_engine_addresses", addresses_to_nowhere, XFER_EINVAL},
        {"xfer_engine_id", no_id, XFER_EINVAL},
        {"xfer_engine_poll", poll_loop, XFER_EUNSUPPORTED},
        {"xfer_engine_join", join_early, XFER_EBUSY},
        {"xfer_engine_close", close_engine_twice, XFER_ECLOSED},
    };
    Scene scene;
    scene_open_in(&scene, *state);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char line[kLine];
        uint32_t level = 0;
        take_refusal(line, &level);
        xfer_status_t status = table[i].call(&scene);
        if (status != table[i].status)
            fail_msg("%s: %s", table[i].function, xfer_status_name(status));
        take_refusal(line, &level);
        assert_int_equal(level, XFER_LOG_DEBUG);
        char wanted[64];
        snprintf(wanted, sizeof wanted, ": %s: %s: ", table[i].function, xfer_status_name(status));
        assert_has(line, wanted);
        assert_int_equal(strncmp(line, "engine ", 7), 0);
    }
}

/* ---- the lines on stderr ---- */

/* What an engine that is opened, and refused something, leaves on stderr. */
static void capture_size(char *text, size_t cap, const char *log, uint32_t engine_size,
                         xfer_status_t *opened) {
    FILE *file = tmpfile();
    assert_non_null(file);
    int kept = dup(STDERR_FILENO);
    assert_true(kept >= 0);
    fflush(stderr);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    assert_int_equal(setenv("XFER_LOG", log, 1), 0);
    xfer_engine_options_t options = {
        .size = engine_size, .on_event = ignore_event, .id = {0xab, 0xcd, 0xef, 1}};
    xfer_engine_t *engine = NULL;
    *opened = xfer_engine_open(&options, &engine, NULL);
    if (engine) {
        xfer_region_options_t unset = {0};
        xfer_region_t *region = NULL;
        xfer_region_open(engine, &unset, text, 1, &region, NULL);
        xfer_engine_join(engine, XFER_NONE);
    }
    unsetenv("XFER_LOG");
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    size_t length = fread(text, 1, cap - 1, file);
    text[length] = '\0';
    fclose(file);
}

static void capture(char *text, size_t cap, const char *log, xfer_status_t *opened) {
    capture_size(text, cap, log, sizeof(xfer_engine_options_t), opened);
}

/* The environment's choice is known also where the options can't be read. */
static void test_engine_without_size(void **state) {
    (void)state;
    char text[4096];
    xfer_status_t opened;
    capture_size(text, sizeof text, "debug", 0, &opened);
    assert_status(opened, XFER_EINVAL);
    assert_has(text,
               "debug: xfer_engine_open: XFER_EINVAL: xfer_engine_options_t.size is 0: set it to "
               "sizeof(xfer_engine_options_t)\n");
}

static void test_line_on_stderr(void **state) {
    (void)state;
    char text[4096];
    xfer_status_t opened;
    capture(text, sizeof text, "debug", &opened);
    assert_status(opened, XFER_OK);
    const char *line = strstr(text, "xfer_region_open");
    assert_non_null(line);
    while (line > text && line[-1] != '\n')
        line--;
    int year, month, day, hour, minute, second, ms, pid, used = 0;
    assert_int_equal(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ xfer[%d] %n", &year, &month, &day,
                            &hour, &minute, &second, &ms, &pid, &used),
                     8);
    assert_true(year >= 2024);
    assert_int_equal(pid, getpid());
    const char *rest =
        "debug: engine abcdef01: xfer_region_open: XFER_EINVAL: "
        "xfer_region_options_t.size is 0: set it to sizeof(xfer_region_options_t)\n";
    assert_memory_equal(line + used, rest, strlen(rest));
}

static void test_unknown_level(void **state) {
    (void)state;
    char text[4096];
    xfer_status_t opened;
    capture(text, sizeof text, "verbose", &opened);
    assert_status(opened, XFER_OK);
    assert_has(text, "XFER_LOG is \"verbose\", none of error, warn, info and debug");
    assert_null(strstr(strstr(text, "verbose") + 1, "verbose")); /* once */
    assert_null(strstr(text, "xfer_region_open"));
    capture(text, sizeof text, "warn", &opened);
    assert_null(strstr(text, "XFER_LOG"));
}

/* Half a restriction is none. */
static void test_unknown_transports(void **state) {
    (void)state;
    xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore_event};
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    char before[64] = "";
    const char *was = getenv("XFER_TRANSPORTS");
    if (was) snprintf(before, sizeof before, "%s", was);
    assert_int_equal(setenv("XFER_TRANSPORTS", "loopback,tpc", 1), 0);
    xfer_status_t status = xfer_engine_open(&options, &engine, &err);
    if (was)
        setenv("XFER_TRANSPORTS", before, 1);
    else
        unsetenv("XFER_TRANSPORTS");
    assert_status(status, XFER_EUNSUPPORTED);
    assert_has(err.message, "XFER_TRANSPORTS");
    assert_has(err.message, "\"tpc\"");
#ifdef XFER_WITH_RDMA
    assert_has(err.message, "this build has loopback, tcp, unix, shm, rdma");
#else
    assert_has(err.message, "this build has loopback, tcp, unix, shm");
    options.transports = "tcp,rdma";
    assert_status(xfer_engine_open(&options, &engine, &err), XFER_EUNSUPPORTED);
    assert_has(err.message, "none is called \"rdma\"");
#endif
}

/* Nor is half a list of adapters; where there can be none, all of it is obeyed. */
static void test_malformed_devices(void **state) {
    (void)state;
    const xfer_engine_options_t options = {.size = sizeof options, .on_event = ignore_event};
    xfer_engine_t *engine = NULL;
    xfer_error_t err;
    char before[64] = "";
    const char *was = getenv("XFER_RDMA_DEVICES");
    if (was) snprintf(before, sizeof before, "%s", was);
    assert_int_equal(setenv("XFER_RDMA_DEVICES", "mlx5_0:1,mlx5_1:one", 1), 0);
    xfer_status_t status = xfer_engine_open(&options, &engine, &err);
    if (was)
        setenv("XFER_RDMA_DEVICES", before, 1);
    else
        unsetenv("XFER_RDMA_DEVICES");
#ifdef XFER_WITH_RDMA
    assert_status(status, XFER_EINVAL);
    assert_has(err.message, "XFER_RDMA_DEVICES: `mlx5_1:one`: the port is a number");
#else
    assert_status(status, XFER_OK);
    assert_status(xfer_engine_join(engine, XFER_NONE), XFER_OK);
#endif
}

static const struct CMUnitTest tests[] = {
    TEST(test_every_struct),
    TEST(test_engine_options),
    TEST(test_rdma_options),
    TEST(test_regions),
    TEST(test_names_are_utf8),
    TEST(test_not_logged),
    TEST(test_line_on_stderr),
    TEST(test_unknown_level),
    TEST(test_unknown_transports),
    TEST(test_malformed_devices),
    MODE_TEST(test_other_refusals, 3, "loop/none"),
    TEST(test_engine_without_size),
};

TEST_MAIN(tests)
