/* SPDX-License-Identifier: Apache-2.0
 *
 * What the header promises of the JSON of xfer_engine_describe: within a schema members only come,
 * and keep their types; numbers are integers; what names something is text. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <xfer/text.h>

#include "fixture.h"

/* Every member of schema 1: integer, string, boolean, object or array. Lines are added; one that
 * changes or goes wants another schema. */
#define MEMBERS_OF_CARRIED(path)            \
    {'o', path}, {'i', path ".requests"}, { \
        'i', path ".bytes"                  \
    }
#define MEMBERS_OF_ERROR(path)                                                        \
    {'o', path}, {'s', path ".status"}, {'s', path ".origin"}, {'i', path ".native"}, \
        {'s', path ".message"}, {'s', path ".where"}, {                               \
        'i', path ".ms_ago"                                                           \
    }
#define LOOP "loops[]."
#define PEER LOOP "peers[]."
#define CONNECTION PEER "connections[]."
#define LANE CONNECTION "lanes[]."

static const struct Member {
    char type;
    const char *path;
} members[] = {
    {'i', "schema"},
    {'s', "version"},
    {'i', "pid"},
    {'i', "uptime_ms"},
    {'s', "id"},
    {'s', "incarnation"},
    {'s', "options.dispatch"},
    {'i', "options.io_threads"},
    {'i', "options.spin_us"},
    {'b', "options.spin_adapts"},
    {'b', "options.keyed"},
    {'b', "options.insecure"},
    {'b', "options.checksum"},
    {'b', "options.unref"},
    {'b', "options.own_peers"},
    {'b', "options.ask"},
    {'s', "options.transports[]"},
    {'i', "options.timeout_ms"},
    {'i', "options.stall_ms"},
    {'i', "options.connect_ms"},
    {'i', "options.heartbeat_ms"},
    {'i', "options.idle_ms"},
    {'i', "options.yield_ms"},
    {'i', "options.lanes"},
    {'s', "options.advertise[]"},
    {'i', "options.max_connections"},
    {'i', "options.max_operations"},
#ifdef XFER_WITH_RDMA
    {'s', "options.rdma.devices"},
    {'i', "options.rdma.queue_depth"},
    {'i', "options.rdma.ack_timeout"},
    {'i', "options.rdma.retries"},
    {'i', "options.rdma.traffic_class"},
    {'i', "options.rdma.service_level"},
#endif
    {'i', "counters.events"},
    {'i', "counters.events_queued"},
    {'i', "counters.queued"},
    {'i', "counters.inflight"},
    {'i', "counters.served_put"},
    {'i', "counters.served_get"},
    {'i', "counters.refused"},
    {'i', "counters.connects"},
    {'i', "counters.accepts"},
    {'i', "counters.connections"},
    {'i', "counters.connection_ends"},
    {'i', "counters.lane_falls"},
    {'i', "counters.wakeups"},
    {'i', "counters.regions"},
    {'i', "counters.grants"},
    {'i', "counters.errors.XFER_EUNREACHABLE"},
    {'i', "callbacks.slow"},
    {'i', "callbacks.longest_ms"},
    {'s', "callbacks.running"},
    {'i', "callbacks.running_ms"},
    {'s', LOOP "transports[]"},
    {'a', LOOP "fabrics"},
    {'a', LOOP "devices"},
    {'s', LOOP "listeners[]"},
    {'i', LOOP "half_open.now"},
    {'i', LOOP "half_open.places"},
    {'s', LOOP "half_open.most_from"},
    {'i', LOOP "half_open.most"},
    {'b', LOOP "half_open.under_pressure"},
    {'i', LOOP "half_open.turned_away"},
    {'i', LOOP "half_open.displaced"},
    MEMBERS_OF_ERROR(LOOP "last_error"),
    {'s', PEER "id"},
    {'s', PEER "addresses[]"},
    {'i', PEER "endpoints"},
    {'i', PEER "undecided"},
    {'i', PEER "failed_attempts"},
    MEMBERS_OF_ERROR(PEER "last_error"),
    {'s', CONNECTION "initiator"},
    {'b', CONNECTION "live"},
    {'s', CONNECTION "control"},
    {'s', CONNECTION "local_path.state"},
    {'s', CONNECTION "local_path.why_not"},
    {'s', CONNECTION "attached_lane.state"},
    {'s', CONNECTION "attached_lane.fabric"},
    {'s', CONNECTION "attached_lane.why_not"},
    {'s', CONNECTION "attached_paths[].state"},
    {'s', CONNECTION "attached_paths[].fabric"},
    {'s', CONNECTION "attached_paths[].why_not"},
    {'s', CONNECTION "attached_paths[].local"},
    {'s', CONNECTION "attached_paths[].remote"},
    MEMBERS_OF_CARRIED(CONNECTION "attached_paths[].carried"),
    MEMBERS_OF_CARRIED(CONNECTION "attached_paths[].under_way"),
    {'s', CONNECTION "small"},
    {'s', CONNECTION "bulk"},
    {'i', CONNECTION "sequence"},
    {'i', CONNECTION "rtt_ns"},
    {'s', LANE "lane"},
    {'s', LANE "state"},
    {'i', LANE "falls"},
    {'s', LANE "why"},
    {'s', LANE "remote"},
    {'s', LANE "path"},
    MEMBERS_OF_CARRIED(LANE "carried"),
    MEMBERS_OF_CARRIED(LANE "carried_by.socket"),
    MEMBERS_OF_CARRIED(LANE "under_way"),
    MEMBERS_OF_CARRIED(LANE "served"),
    MEMBERS_OF_CARRIED(LANE "control_frames"),
    MEMBERS_OF_ERROR("last_error"),
    {'i', "regions[].id"},
    {'s', "regions[].name"},
    {'b', "regions[].made_here"},
    {'s', "regions[].kind"},
    {'i', "regions[].length"},
    {'s', "regions[].access[]"},
    {'i', "grants[].id"},
    {'i', "grants[].region"},
    {'i', "grants[].lease_ms"},
    {'i', "grants[].length"},
    {'s', "grants[].access[]"},
};

static json_t *describe(Host *host) {
    uint64_t needed = 0;
    xfer_engine_describe(host->engine, NULL, 0, &needed);
    const size_t room = needed + 65536; /* it may grow between the calls */
    char *text = test_memory(room);
    assert_status(xfer_engine_describe(host->engine, text, room, &needed), XFER_OK);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) fail_msg("line %d: %s\n%s", error.line, error.text, text);
    return root;
}

static char type_of(const json_t *value) {
    if (json_is_integer(value)) return 'i';
    if (json_is_string(value)) return 's';
    if (json_is_boolean(value)) return 'b';
    return json_is_object(value) ? 'o' : json_is_array(value) ? 'a' : '?';
}

/* How many values of that path there are; fails at one of another type. */
static size_t count(json_t *value, const char *path, const struct Member *member) {
    if (value == NULL) return 0;
    if (*path == '\0') {
        if (type_of(value) != member->type) fail_msg("%s is '%c'", member->path, type_of(value));
        return 1;
    }
    if (*path == '.') return count(value, path + 1, member);
    size_t found = 0;
    if (*path == '[') {
        for (size_t i = 0; i < json_array_size(value); i++)
            found += count(json_array_get(value, i), path + 2, member);
        return found;
    }
    char key[64];
    const size_t length = strcspn(path, ".[");
    snprintf(key, sizeof key, "%.*s", (int)length, path);
    return count(json_object_get(value, key), path + length, member);
}

/* No number is a fraction, or more than a reader of 64 bits takes. */
static void assert_integers(json_t *value) {
    if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value); i++)
            assert_integers(json_array_get(value, i));
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member) {
        if (json_is_real(member)) fail_msg("%s is no integer", key);
        assert_integers(member);
    }
}

/* Engines of which all that is described is there: one that listens, lends and grants, one that
 * carries and has failed. */
static void test_members(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.transports = "loopback,tcp";
    options.advertise = "tcp://127.0.0.1:7000";
    xfer_engine_options_t client = host_options(*state);
    client.transports = "loopback,tcp";
    Pair pair;
    pair_open_with(&pair, &options, &client, *state, 1 << 20);
    const xfer_grant_options_t grant = {
        .size = sizeof grant, .access = XFER_READ, .length = 64, .lease_ms = 60000};
    xfer_ref_t ref;
    assert_status(xfer_region_grant(pair.region, &grant, &ref, NULL), XFER_OK);
    uint8_t *local = test_memory(1 << 20);
    assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, 1 << 20), XFER_OK);
    xfer_ep_t *nobody = open_ep(pair.client, own_address());
    assert_status(connect_now(pair.client, nobody, 0), XFER_EUNREACHABLE);
    json_t *const roots[] = {describe(pair.server), describe(pair.client)};
    for (int r = 0; r < 2; r++) {
        assert_int_equal(json_integer_value(json_object_get(roots[r], "schema")), 1);
        assert_integers(roots[r]);
    }
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const struct Member *member = &members[i];
        if (count(roots[0], member->path, member) + count(roots[1], member->path, member) == 0)
            fail_msg("%s is gone: that is another schema", member->path);
    }
    json_decref(roots[0]);
    json_decref(roots[1]);
}

/* The engine has one identity, whoever writes it. */
static void test_identity(void **state) {
    Host *host = host_open(*state);
    xfer_id_t id;
    char text[XFER_ID_TEXT_SIZE];
    char described[128];
    assert_status(xfer_engine_id(host->engine, &id), XFER_OK);
    assert_status(xfer_id_text(&id, text, sizeof text), XFER_OK);
    json_t *root = describe(host);
    snprintf(described, sizeof described, "%s-%s", json_string_value(json_object_get(root, "id")),
             json_string_value(json_object_get(root, "incarnation")));
    assert_string_equal(described, text);
    json_decref(root);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_members),
    ONE_MODE(test_identity),
};

TEST_MAIN(tests)
