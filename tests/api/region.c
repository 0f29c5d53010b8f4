/* SPDX-License-Identifier: Apache-2.0
 *
 * Regions: names, what a lookup finds and when, what a ref allows, and the end of both. */
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static xfer_status_t try_region(Host *host, const xfer_region_options_t *options, void *address,
                                uint64_t length) {
    xfer_region_t *region = NULL;
    xfer_error_t err;
    memset(&err, 0xff, sizeof err);
    xfer_status_t status = xfer_region_open(host->engine, options, address, length, &region, &err);
    assert_int_equal(err.status, status);
    if (status == XFER_OK) {
        assert_non_null(region);
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(host, region);
    } else {
        assert_true(err.message[0] != '\0');
    }
    return status;
}

static void test_names(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(64);
    char name[300];
    memset(name, 'n', sizeof name);
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_READ};
    assert_status(try_region(host, &options, memory, 64), XFER_OK); /* its ref is enough */
    options.name = "";
    assert_status(try_region(host, &options, memory, 64), XFER_EINVAL);
    options.name = name;
    name[256] = '\0';
    assert_status(try_region(host, &options, memory, 64), XFER_EINVAL);
    name[255] = '\0';
    assert_status(try_region(host, &options, memory, 64), XFER_OK);
    options.name = "n";
    assert_status(try_region(host, &options, memory, 64), XFER_OK);
    options.name = "a/b c:\xc3\xa9?*%00";
    assert_status(try_region(host, &options, memory, 64), XFER_OK);
}

static void test_wrong_options(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(64);
    static uint8_t blob[1025];
    const struct {
        const char *what;
        xfer_region_options_t options;
        xfer_status_t status;
    } table[] = {
        {"an access bit that does not exist", {.access = 8, .name = "r"}, XFER_EINVAL},
        {"a kind that does not exist",
         {.access = XFER_READ, .kind = 99, .name = "r"},
         XFER_EMEMKIND},
        {"a blob of 1025 bytes",
         {.access = XFER_READ, .name = "r", .blob = blob, .blob_length = 1025},
         XFER_EINVAL},
        {"a blob of no bytes", {.access = XFER_READ, .name = "r", .blob_length = 5}, XFER_EINVAL},
        {"a blob of 1024 bytes",
         {.access = XFER_READ, .name = "r", .blob = blob, .blob_length = 1024},
         XFER_OK},
        {"read and write", {.access = XFER_READ | XFER_WRITE, .name = "r"}, XFER_OK},
        {"no access, no name", {.access = 0}, XFER_OK},
        {"host memory, rightly",
         {.access = XFER_READ, .kind = XFER_MEM_HOST, .name = "r"},
         XFER_OK},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_region_options_t options = table[i].options;
        options.size = sizeof options;
        xfer_status_t status = try_region(host, &options, memory, 64);
        if (status != table[i].status) fail_msg("%s: %s", table[i].what, xfer_status_name(status));
    }
    xfer_region_options_t good = {.size = sizeof good, .access = XFER_READ, .name = "r"};
    assert_status(try_region(host, &good, NULL, 64), XFER_EINVAL);
    good.size = 0;
    assert_status(try_region(host, &good, memory, 64), XFER_EINVAL);
    assert_status(xfer_region_open(host->engine, NULL, memory, 64, NULL, NULL), XFER_EINVAL);
}

static void test_range_wraps(void **state) {
    Host *host = host_open(*state);
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_READ, .name = "r"};
    uint8_t *memory = test_memory(64);
    uint64_t room = UINT64_MAX - (uint64_t)(uintptr_t)memory;
    assert_status(try_region(host, &options, memory, UINT64_MAX), XFER_ERANGE);
    assert_status(try_region(host, &options, memory, room + 2), XFER_ERANGE);
    assert_int_equal(host_stats(host).regions, 0);
}

static void test_duplicates(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(64);
    xfer_region_t *first = open_region(host, "same", XFER_READ, memory, 64);
    xfer_region_t *second = NULL;
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_WRITE, .name = "same"};
    assert_status(xfer_region_open(host->engine, &options, memory, 32, &second, NULL), XFER_EEXIST);
    open_region(host, "same ", XFER_READ, memory, 64);
    open_region(host, "Same", XFER_READ, memory, 64);
    /* Another engine has names of its own. */
    open_region(host_open(*state), "same", XFER_READ, memory, 64);
    assert_status(xfer_region_close(first), XFER_OK);
    wait_closed(host, first);
    second = open_region(host, "same", XFER_READ, memory, 64);
    assert_int_equal(host_stats(host).regions, 3);
}

static void test_info(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    xfer_region_info_t info;
    xfer_ref_info_t ref_info;
    xfer_ref_t own;
    xfer_id_t id;
    assert_status(xfer_engine_id(pair.server->engine, &id), XFER_OK);
    assert_status(xfer_region_info(pair.region, &info, sizeof info), XFER_OK);
    assert_int_equal(info.address, (uintptr_t)pair.memory);
    assert_int_equal(info.length, 4096);
    assert_int_equal(info.access, XFER_READ | XFER_WRITE);
    assert_int_equal(info.kind, XFER_MEM_HOST);
    assert_status(xfer_region_ref(pair.region, &own), XFER_OK);
    assert_memory_equal(&own, &pair.ref, sizeof own);
    assert_status(xfer_ref_info(&pair.ref, &ref_info, sizeof ref_info), XFER_OK);
    assert_memory_equal(ref_info.owner.bytes, id.bytes, sizeof id.bytes);
    assert_int_equal(ref_info.owner.incarnation, id.incarnation);
    assert_int_equal(ref_info.region, info.id);
    assert_int_equal(ref_info.generation, info.generation);
    assert_int_equal(ref_info.offset, 0);
    assert_int_equal(ref_info.length, 4096);
    assert_int_equal(ref_info.access, info.access);
    assert_int_equal(ref_info.kind, XFER_MEM_HOST);
    xfer_ref_t none;
    memset(&none, 0, sizeof none);
    assert_status(xfer_ref_info(&none, &ref_info, sizeof ref_info), XFER_EINVAL);
    assert_status(xfer_put(pair.ep, pair.memory, &none, 0, 1, 1, NULL), XFER_EINVAL);
}

static void test_ids_are_never_reused(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(64);
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        xfer_region_t *region = open_region(host, "again", XFER_READ, memory, 64);
        xfer_region_info_t info;
        assert_status(xfer_region_info(region, &info, sizeof info), XFER_OK);
        assert_true(i == 0 || info.id != last);
        last = info.id;
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(host, region);
    }
}

/* ---- lookup ---- */

static xfer_event_t lookup_with(Pair *pair, const char *name, uint32_t wait, uint32_t timeout_ms,
                                uint64_t user) {
    xfer_op_options_t options = {
        .size = sizeof options, .flags = wait ? XFER_FLAG_WAIT : 0, .timeout_ms = timeout_ms};
    assert_status(xfer_ep_lookup(pair->ep, name, user, &options, NULL), XFER_OK);
    return wait_event(pair->client, XFER_EVENT_LOOKUP, user, kPatience);
}

/* Whoever has the ref needs no name, neither for an engine's memory nor for the caller's. */
static void test_without_a_name(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    uint8_t *local = test_memory(64);
    const xfer_region_options_t options = {.size = sizeof options, .access = XFER_WRITE, .user = 5};
    for (uint64_t made = 0; made < 2; made++) {
        void *memory = test_memory(64);
        xfer_engine_t *owner = pair.server->engine;
        xfer_region_t *region = NULL;
        xfer_ref_t ref;
        if (made)
            assert_status(xfer_region_alloc(owner, &options, 64, &memory, &region, NULL), XFER_OK);
        else
            assert_status(xfer_region_open(owner, &options, memory, 64, &region, NULL), XFER_OK);
        assert_status(xfer_region_ref(region, &ref), XFER_OK);
        fill(local, 64, 7 + made);
        assert_status(xfer_put(pair.ep, local, &ref, 0, 64, made, NULL), XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, made, kPatience).status, XFER_OK);
        assert_memory_equal(memory, local, 64);
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(pair.server, region);
        assert_status(xfer_put(pair.ep, local, &ref, 0, 64, 10 + made, NULL), XFER_OK);
        assert_status(wait_event(pair.client, XFER_EVENT_PUT, 10 + made, kPatience).status,
                      XFER_ESTALE);
    }
}

static void test_lookup_after_connecting(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    assert_status(lookup_with(&pair, "late", 0, 0, 1).status, XFER_ENOTFOUND);
    uint8_t *memory = test_memory(100);
    static const char blob[] = "float32[25]";
    xfer_region_options_t options = {.size = sizeof options,
                                     .access = XFER_READ,
                                     .name = "late",
                                     .blob = blob,
                                     .blob_length = sizeof blob};
    xfer_region_t *region = NULL;
    fill(memory, 100, 3);
    assert_status(xfer_region_open(pair.server->engine, &options, memory, 100, &region, NULL),
                  XFER_OK);
    xfer_event_t event = lookup_with(&pair, "late", 0, 0, 2);
    assert_status(event.status, XFER_OK);
    assert_ptr_equal(event.ep, pair.ep);
    assert_int_equal(event.data_length, sizeof(xfer_ref_t) + sizeof blob);
    assert_memory_equal((const uint8_t *)event.data + sizeof(xfer_ref_t), blob, sizeof blob);
    uint8_t *local = test_memory(100);
    assert_status(get_now(pair.client, pair.ep, local, event.data, 0, 100), XFER_OK);
    assert_true(filled(local, 100, 3, 0));
    assert_status(xfer_ep_lookup(pair.ep, "", 3, NULL, NULL), XFER_EINVAL);
}

static void test_lookup_waits(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *memory = test_memory(64);
    xfer_op_options_t options = {
        .size = sizeof options, .flags = XFER_FLAG_WAIT, .timeout_ms = kPatience};
    for (uint64_t user = 1; user <= 3; user++) {
        assert_status(xfer_ep_lookup(pair.ep, "later", user, &options, NULL), XFER_OK);
    }
    pass_ms(100);
    assert_int_equal(count_events(pair.client, XFER_EVENT_LOOKUP, 1), 0);
    open_region(pair.server, "other", XFER_READ, memory, 64);
    open_region(pair.server, "later", XFER_READ, memory, 64);
    for (uint64_t user = 1; user <= 3; user++) {
        xfer_event_t event = wait_event(pair.client, XFER_EVENT_LOOKUP, user, kPatience);
        assert_status(event.status, XFER_OK);
        assert_status(get_now(pair.client, pair.ep, test_memory(64), event.data, 0, 64), XFER_OK);
    }
}

static void test_lookup_gives_up(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint64_t start = now_ms();
    assert_status(lookup_with(&pair, "never", 1, 300, 1).status, XFER_ETIMEDOUT);
    assert_true(now_ms() - start >= 299);
    /* The endpoint's end is the end of what waits. */
    xfer_op_options_t options = {
        .size = sizeof options, .flags = XFER_FLAG_WAIT, .timeout_ms = XFER_NONE};
    assert_status(xfer_ep_lookup(pair.ep, "never", 2, &options, NULL), XFER_OK);
    pass_ms(20);
    assert_status(xfer_ep_close(pair.ep), XFER_OK);
    assert_status(wait_event(pair.client, XFER_EVENT_LOOKUP, 2, kPatience).status, XFER_ECANCELED);
    wait_closed(pair.client, pair.ep);
}

static void test_local_only(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *memory = test_memory(64);
    xfer_region_t *region = open_region(pair.server, "mine", 0, memory, 64);
    xfer_ref_t ref;
    assert_status(xfer_region_ref(region, &ref), XFER_EACCESS);
    assert_status(lookup_with(&pair, "mine", 0, 0, 1).status, XFER_ENOTFOUND);
    assert_status(xfer_region_close(region), XFER_OK);
    wait_closed(pair.server, region);
}

/* ---- the end of a region ---- */

static void test_gone_is_told(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(4096);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 4096), XFER_OK);
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_closed(pair.server, pair.region);
    xfer_event_t gone = wait_event(pair.client, XFER_EVENT_REGION_GONE, ANY_USER, kPatience);
    assert_int_equal(gone.data_length, sizeof(xfer_ref_t));
    assert_memory_equal(gone.data, &pair.ref, sizeof(xfer_ref_t));
    assert_ptr_equal(gone.ep, pair.ep);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1), XFER_ESTALE);
    assert_status(get_now(pair.client, pair.ep, local, &pair.ref, 0, 1), XFER_ESTALE);
    /* The same name at the same memory is another region. */
    xfer_region_t *again =
        open_region(pair.server, "memory", XFER_READ | XFER_WRITE, pair.memory, 4096);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "memory");
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1), XFER_ESTALE);
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 4096), XFER_OK);
    assert_status(xfer_region_close(again), XFER_OK);
    gone = wait_event(pair.client, XFER_EVENT_REGION_GONE, ANY_USER, kPatience);
    assert_memory_equal(gone.data, &ref, sizeof ref);
    assert_int_equal(host_stats(pair.client).connections,
                     1); /* nothing of this ended the connection */
}

/* After CLOSED nothing lands any more, whatever was under way. */
static void test_quiet_after_closed(void **state) {
    Pair pair;
    const uint64_t length = 4 << 20;
    pair_open(&pair, *state, length);
    uint8_t *local = test_memory(length);
    uint8_t *copy = test_memory(length);
    uint64_t ok = 0;
    enum { kPuts = 12 };
    for (int round = 0; round < (quick() ? 2 : 6); round++) {
        fill(local, length, (uint64_t)round);
        for (uint64_t i = 0; i < kPuts; i++) {
            assert_status(xfer_put(pair.ep, local, &pair.ref, 0, length, i, NULL), XFER_OK);
        }
        pass_ms((uint32_t)round);
        assert_status(xfer_region_close(pair.region), XFER_OK);
        wait_closed(pair.server, pair.region);
        memcpy(copy, pair.memory, length);
        for (uint64_t i = 0; i < kPuts; i++) {
            xfer_event_t event = wait_event(pair.client, XFER_EVENT_PUT, i, kPatience);
            assert_completion(&event);
            if (event.status == XFER_OK)
                ok++;
            else
                assert_status(event.status, XFER_ESTALE);
        }
        pass_ms(50);
        assert_memory_equal(copy, pair.memory, length);
        pair.region = open_region(pair.server, "memory", XFER_WRITE, pair.memory, length);
        pair.ref = look_up(pair.client, pair.ep, "memory");
    }
    print_message("  %llu puts were done before their region closed\n", (unsigned long long)ok);
}

/* ---- what a ref allows ---- */

static void test_access(void **state) {
    Pair pair;
    pair_open(&pair, *state, 4096);
    uint8_t *local = test_memory(64);
    uint8_t *memory = test_memory(64);
    fill(memory, 64, 9);
    open_region(pair.server, "read", XFER_READ, memory, 64);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "read");
    assert_status(get_now(pair.client, pair.ep, local, &ref, 0, 64), XFER_OK);
    assert_true(filled(local, 64, 9, 0));
    memset(local, 0, 64);
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 64), XFER_EACCESS);
    assert_true(filled(memory, 64, 9, 0));
    open_region(pair.server, "write", XFER_WRITE, memory, 64);
    ref = look_up(pair.client, pair.ep, "write");
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 64), XFER_OK);
    assert_status(get_now(pair.client, pair.ep, local, &ref, 0, 64), XFER_EACCESS);
    assert_int_equal(memory[63], 0);
}

/* A ref is opaque but not secret from its holder: whatever a liar writes into it, no byte outside
 * the region moves, and the connection stays. */
static void test_forged_refs(void **state) {
    Pair pair;
    pair_open(&pair, *state, 8192);
    xfer_region_t *middle =
        open_region(pair.server, "middle", XFER_WRITE, pair.memory + 4096, 1024);
    xfer_ref_t ref = look_up(pair.client, pair.ep, "middle");
    assert_status(xfer_region_close(pair.region), XFER_OK);
    wait_closed(pair.server, pair.region);
    uint8_t *local = test_memory(4096);
    memset(local, 0xaa, 4096);
    for (size_t at = 0; at < sizeof ref; at++) {
        for (int bit = 0; bit < 8; bit++) {
            xfer_ref_t forged = ref;
            forged.bytes[at] ^= (uint8_t)(1u << bit);
            put_now(pair.client, pair.ep, local, &forged, 0, 2048);
            put_now(pair.client, pair.ep, local, &forged, 1000, 1024);
            xfer_status_t status = get_now(pair.client, pair.ep, local + 2048, &forged, 0, 16);
            assert_true(status != XFER_OK);
        }
    }
    for (uint64_t i = 0; i < 8192; i++) {
        if (i < 4096 || i >= 5120) assert_int_equal(pair.memory[i], 0);
    }
    assert_status(put_now(pair.client, pair.ep, local, &ref, 0, 1024), XFER_OK);
    assert_int_equal(pair.memory[5119], 0xaa);
    assert_int_equal(host_stats(pair.client).connection_ends, 0);
    assert_status(xfer_region_close(middle), XFER_OK);
}

static void test_many_regions(void **state) {
    Pair pair;
    pair_open(&pair, *state, 64);
    enum { kRegions = 1000 };
    uint8_t *memory = test_memory(kRegions * 8);
    uint8_t local[8];
    fill(memory, kRegions * 8, 4);
    for (int i = 0; i < kRegions; i++) {
        char name[32];
        snprintf(name, sizeof name, "region %d", i);
        open_region(pair.server, name, XFER_READ, memory + i * 8, 8);
    }
    assert_int_equal(host_stats(pair.server).regions, kRegions + 1);
    for (int i = 0; i < kRegions; i += 37) {
        char name[32];
        snprintf(name, sizeof name, "region %d", i);
        xfer_ref_t ref = look_up(pair.client, pair.ep, name);
        assert_status(get_now(pair.client, pair.ep, local, &ref, 0, 8), XFER_OK);
        assert_true(filled(local, 8, 4, (uint64_t)i * 8));
    }
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_names),
    EACH_DISPATCH(test_wrong_options),
    ONE_MODE(test_range_wraps),
    EACH_DISPATCH(test_duplicates),
    EACH_MODE(test_info),
    ONE_MODE(test_ids_are_never_reused),
    EACH_MODE(test_without_a_name),
    EACH_MODE(test_lookup_after_connecting),
    EACH_MODE(test_lookup_waits),
    EACH_DISPATCH(test_lookup_gives_up),
    EACH_DISPATCH(test_local_only),
    EACH_MODE(test_gone_is_told),
    EACH_MODE(test_quiet_after_closed),
    EACH_MODE(test_access),
    EACH_DISPATCH(test_forged_refs),
    ONE_MODE(test_many_regions),
};

TEST_MAIN(tests)
