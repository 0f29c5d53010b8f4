/* SPDX-License-Identifier: Apache-2.0
 *
 * Each status that the header lists for a function is provoked, and the lists have no gap: what the
 * header lists and nothing here shows fails, as does what is shown here and the header does not
 * list. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "returns.h"
#include "returns_list.h"

enum { kPolled = 6 }; /* of modes: nothing happens but in calls of the test */

void scene_open(Scene *scene, const Mode *mode, uint32_t max_operations) {
    char uri[64];
    xfer_engine_options_t options = host_options(mode);
    options.max_operations = max_operations;
    *scene = (Scene){.host = host_open_with(mode, &options)};
    scene->engine = scene->host->engine;
    scene->local = test_memory(2 * kLength);
    scene->region = open_region(scene->host, "memory", XFER_READ | XFER_WRITE | XFER_ATOMIC,
                                test_memory(kLength), kLength);
    assert_status(xfer_region_ref(scene->region, &scene->ref), XFER_OK);
    assert_status(xfer_ref_text(&scene->ref, scene->text, sizeof scene->text), XFER_OK);
    xfer_grant_options_t grant = {.size = sizeof grant, .access = XFER_READ, .length = 8};
    assert_status(xfer_region_grant(scene->region, &grant, &scene->grant, NULL), XFER_OK);
    scene->hole = black_hole(uri, sizeof uri);
    scene->ep = open_ep(scene->host, uri);
    assert_status(xfer_batch_open(scene->ep, NULL, &scene->batch, NULL), XFER_OK);
    assert_status(xfer_counter_open(scene->engine, kKey, 1, NULL, &scene->counter, NULL), XFER_OK);
}

void scene_end(Scene *scene) {
    host_end(scene->host);
    close(scene->hole);
}

xfer_ref_t later_version(const xfer_ref_t *ref) {
    xfer_ref_t later = *ref;
    assert_in_range(later.bytes[4], 1, 2);
    later.bytes[4] = 3;
    return later;
}

xfer_ref_t ref_with(Scene *scene, uint32_t access) {
    xfer_ref_t ref;
    xfer_region_t *region = open_region(scene->host, "other", access, scene->local, kLength);
    assert_status(xfer_region_ref(region, &ref), XFER_OK);
    return ref;
}

/* ---- circumstances: the same for many functions ---- */

static const struct Circumstance {
    Shown shown;
    xfer_status_t status;
} circumstances[] = {
    {kBadHandle, XFER_EBADHANDLE}, {kForked, XFER_EFORKED},   {kClosed, XFER_ECLOSED},
    {kInvalid, XFER_EINVAL},       {kBig, XFER_E2BIG},        {kMemory, XFER_ENOMEM},
    {kFull, XFER_EAGAIN},          {kVersion, XFER_EVERSION}, {kWraps, XFER_ERANGE},
    {kKind, XFER_EMEMKIND},        {kReadOnly, XFER_EACCESS}, {kInFlight, XFER_EBUSY},
    {kEntries, XFER_ETOOBIG},
};
enum { kCircumstances = sizeof circumstances / sizeof circumstances[0] };

static xfer_status_t status_in(Shown shown) {
    for (size_t i = 0; i < kCircumstances; i++)
        if (circumstances[i].shown == shown) return circumstances[i].status;
    fail_msg("no such circumstance");
    return XFER_OK;
}

static int wrong;

/* One that says it never returns that status is called as well. */
static void judge(const Function *function, Shown shown, xfer_status_t status) {
    xfer_status_t wanted = status_in(shown);
    bool never = (function->never & shown) != 0;
    if ((status == wanted) != never) return;
    print_message("  %s: %s, %s %s\n", function->name, xfer_status_name(status),
                  never ? "and never" : "not", xfer_status_name(wanted));
    wrong++;
}

static bool takes_part(const Function *function, Shown shown) {
    return ((function->shown | function->never) & shown) != 0;
}

static void call_all(const Scene *scene, Shown shown) {
    wrong = 0;
    for (size_t i = 0; i < function_count; i++)
        if (takes_part(&functions[i], shown)) judge(&functions[i], shown, functions[i].call(scene));
    assert_int_equal(wrong, 0);
}

static void test_bad_handles(void **state) {
    Scene scene, spoiled;
    scene_open(&scene, *state, 0);
    spoiled = scene;
    spoiled.engine = (xfer_engine_t *)scene.ep;
    spoiled.region = (xfer_region_t *)scene.engine;
    spoiled.ep = (xfer_ep_t *)scene.engine;
    spoiled.batch = (xfer_batch_t *)scene.engine;
    spoiled.counter = (xfer_counter_t *)scene.engine;
    call_all(&spoiled, kBadHandle);
    scene_end(&scene);
}

static void test_forked(void **state) {
    Scene scene;
    scene_open(&scene, *state, 0);
    xfer_status_t *said = mmap(NULL, function_count * sizeof *said, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(said != MAP_FAILED);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(kPatience / 1000);
        for (size_t i = 0; i < function_count; i++)
            if (takes_part(&functions[i], kForked)) said[i] = functions[i].call(&scene);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    wrong = 0;
    for (size_t i = 0; i < function_count; i++)
        if (takes_part(&functions[i], kForked)) judge(&functions[i], kForked, said[i]);
    assert_int_equal(wrong, 0);
    munmap(said, function_count * sizeof *said);
    scene_end(&scene);
}

/* The last call was the join. */
static void scene_joined(Scene *scene) {
    scene->host->joined = true;
    scene_end(scene);
}

static void test_closed(void **state) {
    Scene scene;
    scene_open(&scene, *state, 0);
    assert_status(xfer_engine_close(scene.engine), XFER_OK);
    wait_closed(scene.host, scene.engine);
    call_all(&scene, kClosed);
    scene_joined(&scene);
}

static void test_invalid(void **state) {
    static const uint32_t no_size[256];
    Scene scene;
    scene_open(&scene, *state, 0);
    scene.nowhere = true;
    scene.input = no_size;
    call_all(&scene, kInvalid);
    scene_end(&scene);
}

static void test_big(void **state) {
    static uint32_t longer[256] = {sizeof longer};
    longer[255] = 1;
    Scene scene;
    scene_open(&scene, *state, 0);
    scene.input = longer;
    call_all(&scene, kBig);
    scene_end(&scene);
}

static void test_memory_ends(void **state) {
    const Fault none = {.call = kAlloc, .error = ENOMEM, .nth = 1, .onward = true, .here = true};
    Scene scene;
    scene_open(&scene, *state, 0);
    wrong = 0;
    for (size_t i = 0; i < function_count; i++) {
        if (!takes_part(&functions[i], kMemory)) continue;
        inject_arm(&none);
        xfer_status_t status = functions[i].call(&scene);
        inject_disarm();
        judge(&functions[i], kMemory, status);
    }
    assert_int_equal(wrong, 0);
    scene_joined(&scene);
}

/* What was refused for want of memory has left nothing behind. */
static void test_drain_that_lacked_memory(void **state) {
    const Fault none = {.call = kAlloc, .error = ENOMEM, .nth = 1, .onward = true, .here = true};
    Scene scene;
    scene_open(&scene, *state, 0);
    inject_arm(&none);
    xfer_status_t status = xfer_engine_drain(scene.engine, 2, WITHIN(kPatience));
    inject_disarm();
    assert_status(status, XFER_ENOMEM);
    open_ep(scene.host, "tcp://127.0.0.1:1"); /* it takes new work */
    assert_status(xfer_engine_drain(scene.engine, 1, WITHIN(kPatience)), XFER_OK);
    assert_status(ended(&scene, XFER_EVENT_DRAINED), XFER_OK);
    scene_end(&scene);
    assert_int_equal(count_events(scene.host, XFER_EVENT_DRAINED, 2), 0);
}

static void test_full(void **state) {
    Scene scene;
    scene_open(&scene, *state, 1);
    assert_status(xfer_put(scene.ep, scene.local, &scene.ref, 0, 8, 2, NULL), XFER_OK);
    assert_status(xfer_ep_flush(scene.ep, NULL, 2, NULL), XFER_OK); /* waits for it */
    call_all(&scene, kFull);
    scene_end(&scene);
}

static void test_later_version(void **state) {
    Scene scene;
    scene_open(&scene, *state, 0);
    scene.ref = later_version(&scene.ref);
    scene.grant = later_version(&scene.grant);
    call_all(&scene, kVersion);
    scene_end(&scene);
}

static void test_wraps(void **state) {
    Scene scene;
    scene_open(&scene, *state, 0);
    scene.local = (void *)(UINTPTR_MAX - 3);
    call_all(&scene, kWraps);
    scene_end(&scene);
}

static void test_memory_of_a_device(void **state) {
#ifdef XFER_WITH_CUDA
    Scene scene;
    scene_open(&scene, *state, 0);
    driver_has(scene.local, kLength);
    call_all(&scene, kKind);
    driver_has(NULL, 0);
    scene_end(&scene);
#else
    (void)state;
    print_message("skipped: built without the headers of CUDA\n");
    skip();
#endif
}

static void test_read_only(void **state) {
    Scene scene;
    scene_open(&scene, *state, 0);
    scene.ref = ref_with(&scene, XFER_READ);
    call_all(&scene, kReadOnly);
    scene_end(&scene);
}

static void test_in_flight(void **state) {
    Scene scene;
    scene_open(&scene, *state, 0);
    assert_status(xfer_batch_put(scene.batch, scene.local, &scene.ref, 0, 8), XFER_OK);
    assert_status(xfer_batch_submit(scene.batch, 1, NULL), XFER_OK);
    call_all(&scene, kInFlight);
    scene_end(&scene);
}

/* Blocks of no bytes fill it without any memory. */
static void test_entries(void **state) {
    Scene scene;
    scene_open(&scene, *state, 0);
    xfer_strided_t strided = {.size = sizeof strided,
                              .local = (uintptr_t)scene.local,
                              .remote = &scene.ref,
                              .count = 1ull << 32};
    assert_status(xfer_batch_add_strided(scene.batch, XFER_OP_PUT, &strided, NULL), XFER_OK);
    call_all(&scene, kEntries);
    scene_end(&scene);
}

/* ---- rows: one function each ---- */

static void test_rows(void **state) {
    wrong = 0;
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].provoke == NULL) continue;
        Scene scene;
        scene_open(&scene, *state, 0);
        xfer_status_t status = rows[i].provoke(&scene);
        scene_end(&scene);
        if (status == kSkipped)
            print_message("  %s, %s: not shown under this sanitizer\n", rows[i].function,
                          xfer_status_name(rows[i].status));
        if (status == rows[i].status || status == kSkipped) continue;
        print_message("  %s: %s, not %s\n", rows[i].function, xfer_status_name(status),
                      xfer_status_name(rows[i].status));
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void test_ends(void **state) {
    wrong = 0;
    for (size_t i = 0; i < end_count; i++) {
        if (ends[i].provoke == NULL) continue;
        Scene scene;
        scene_open(&scene, *state, 0);
        xfer_status_t status = ends[i].provoke(&scene);
        scene_end(&scene);
        if (status == ends[i].status) continue;
        print_message("  %s: %s, not %s\n", xfer_event_name(ends[i].kind), xfer_status_name(status),
                      xfer_status_name(ends[i].status));
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* ---- no gap ---- */

typedef struct Listed {
    const char *function;
    xfer_status_t status;
    bool by_head; /* not by the function itself */
} Listed;

static const Listed listed[] = {
#define BY_ITSELF(function, status) {#function, status, false},
#define BY_HEAD(function, status) {#function, status, true},
    LISTED_RETURNS(BY_ITSELF) HEAD_RETURNS(BY_HEAD)
#undef BY_ITSELF
#undef BY_HEAD
};
enum { kListed = sizeof listed / sizeof listed[0] };

static const struct ListedEnd {
    uint32_t kind;
    xfer_status_t status;
} listed_ends[] = {
#define LISTED(kind, status) {kind, status},
    LISTED_ENDS(LISTED)
#undef LISTED
};
enum { kListedEnds = sizeof listed_ends / sizeof listed_ends[0] };

static void gap(const char *what, xfer_status_t status, const char *why) {
    print_message("  %s, %s: %s\n", what, xfer_status_name(status), why);
    wrong++;
}

static const Function *find_function(const char *name) {
    for (size_t i = 0; i < function_count; i++)
        if (strcmp(functions[i].name, name) == 0) return &functions[i];
    return NULL;
}

static const Listed *find_listed(const char *function, xfer_status_t status) {
    for (size_t i = 0; i < kListed; i++)
        if (listed[i].status == status && strcmp(listed[i].function, function) == 0)
            return &listed[i];
    return NULL;
}

static bool is_among(unsigned shown, xfer_status_t status) {
    for (size_t i = 0; i < kCircumstances; i++)
        if ((shown & circumstances[i].shown) && circumstances[i].status == status) return true;
    return false;
}

static bool has_row(const char *function, xfer_status_t status) {
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].status == status && strcmp(rows[i].function, function) == 0) return true;
    return false;
}

/* The header lists it, so something shows it. */
static void check_listed(const Listed *entry) {
    const Function *function = find_function(entry->function);
    const unsigned by_all = function ? function->shown : 0, none = function ? function->never : 0;
    const bool never = is_among(none, entry->status);
    const bool shown = is_among(by_all, entry->status) || has_row(entry->function, entry->status);
    if (never && !entry->by_head) gap(entry->function, entry->status, "listed, and never returned");
    if (never && shown) gap(entry->function, entry->status, "shown, and never returned");
    if (!never && !shown) gap(entry->function, entry->status, "listed, and not shown");
}

/* Something shows it, so the header lists it. */
static void check_function(const Function *function) {
    for (size_t i = 0; i < kCircumstances; i++)
        if (takes_part(function, circumstances[i].shown) &&
            find_listed(function->name, circumstances[i].status) == NULL)
            gap(function->name, circumstances[i].status, "shown, and not listed");
}

static void test_no_gap(void **state) {
    (void)state;
    wrong = 0;
    for (size_t i = 0; i < kListed; i++)
        check_listed(&listed[i]);
    for (size_t i = 0; i < function_count; i++)
        check_function(&functions[i]);
    for (size_t i = 0; i < row_count; i++)
        if (find_listed(rows[i].function, rows[i].status) == NULL)
            gap(rows[i].function, rows[i].status, "shown, and not listed");
    assert_int_equal(wrong, 0);
}

static void test_no_gap_in_events(void **state) {
    (void)state;
    wrong = 0;
    for (size_t i = 0; i < kListedEnds; i++) {
        bool shown = false;
        for (size_t j = 0; j < end_count; j++)
            shown |= ends[j].kind == listed_ends[i].kind && ends[j].status == listed_ends[i].status;
        if (!shown)
            gap(xfer_event_name(listed_ends[i].kind), listed_ends[i].status,
                "listed, and not shown");
    }
    for (size_t j = 0; j < end_count; j++) {
        bool there = false;
        for (size_t i = 0; i < kListedEnds; i++)
            there |= ends[j].kind == listed_ends[i].kind && ends[j].status == listed_ends[i].status;
        if (!there) gap(xfer_event_name(ends[j].kind), ends[j].status, "shown, and not listed");
    }
    assert_int_equal(wrong, 0);
}

#define POLLED(test) MODE_TEST(test, kPolled, "poll/none")

static const struct CMUnitTest tests[] = {
    TEST(test_no_gap),
    TEST(test_no_gap_in_events),
    POLLED(test_bad_handles),
    POLLED(test_forked),
    POLLED(test_closed),
    POLLED(test_invalid),
    POLLED(test_big),
    POLLED(test_memory_ends),
    POLLED(test_drain_that_lacked_memory),
    POLLED(test_full),
    POLLED(test_later_version),
    POLLED(test_wraps),
    POLLED(test_memory_of_a_device),
    POLLED(test_read_only),
    POLLED(test_in_flight),
    POLLED(test_entries),
    ONE_MODE(test_rows),
    ONE_MODE(test_ends),
};

TEST_MAIN(tests)
