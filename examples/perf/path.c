/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

#include <err.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 1000 };

const char *path_name(enum path path) {
    static const char *const kNames[] = {
        [PATH_TCP] = "tcp",
        [PATH_NEAR] = "local",
        [PATH_NEAR_RINGS] = "local (rings)",
        [PATH_NEAR_KERNEL] = "local (copied through the kernel)",
        [PATH_NEAR_MAPPED] = "local (memory mapped)",
    };
    return kNames[path];
}

/* ---- whether there is a local lane ---- */

static bool has_near_lane(json_t *connection) {
    size_t i;
    json_t *lane;
    json_array_foreach(json_object_get(connection, "lanes"), i, lane) {
        const char *state = json_string_value(json_object_get(lane, "state"));
        const char *name = json_string_value(json_object_get(lane, "lane"));
        if (name != NULL && strcmp(name, "local") == 0 && state != NULL &&
            strcmp(state, "ready") == 0)
            return true;
    }
    return false;
}

static bool describes_near(json_t *engine) {
    size_t l;
    size_t p;
    size_t c;
    json_t *loop;
    json_t *peer;
    json_t *connection;
    json_array_foreach(json_object_get(engine, "loops"), l, loop) {
        json_array_foreach(json_object_get(loop, "peers"), p, peer) {
            json_array_foreach(json_object_get(peer, "connections"), c, connection) {
                if (has_near_lane(connection)) return true;
            }
        }
    }
    return false;
}

static bool is_near(struct client *client) {
    uint64_t needed = 0;
    xfer_engine_describe(client->engine, NULL, 0, &needed);
    size_t capacity = needed + 4096; /* it may have grown meanwhile */
    char *text = malloc(capacity);
    if (text == NULL) err(1, "description");
    must(xfer_engine_describe(client->engine, text, capacity, &needed), "xfer_engine_describe",
         NULL);
    json_t *engine = json_loads(text, 0, NULL);
    if (engine == NULL) errx(1, "xfer_engine_describe: no JSON");
    bool near = describes_near(engine);
    json_decref(engine);
    free(text);
    return near;
}

bool path_may_be_near(const struct options *options) {
    const char *transports = options->mode.transports;
    return options->to == NULL && (transports[0] == '\0' || strstr(transports, "shm") != NULL);
}

enum path path_find(const struct options *options, struct client *client) {
    if (!path_may_be_near(options)) return PATH_TCP;
    for (uint32_t waited = 0; waited < PATIENCE_MS; waited += 2) {
        if (is_near(client)) return PATH_NEAR;
        client_linger(client, 2);
    }
    return PATH_TCP;
}

/* ---- what it carries ---- */

/* A memfd of libxfer's that is none of ours: we make no regions. */
static bool maps_region(void) {
    FILE *file = fopen("/proc/self/maps", "re");
    if (file == NULL) err(1, "/proc/self/maps");
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strstr(line, "/memfd:xfer") != NULL;
    fclose(file);
    return found;
}

enum path path_look(struct session *session, struct client *client, const struct plan *plan) {
    if (plan_is_message(plan)) return PATH_NEAR_RINGS;
    struct plan once = *plan;
    once.count = plan->window;
    /* The first one asks for the region and goes by the rings meanwhile. */
    session_xfer(session, client, &once, NULL);
    client_linger(client, 10);
    uint64_t before = session_ask(session, ASK_STATE, 0, NULL).served;
    session_xfer(session, client, &once, NULL);
    /* What an owner has not served, it has not seen. */
    if (session_ask(session, ASK_STATE, 0, NULL).served != before) return PATH_NEAR_RINGS;
    return maps_region() ? PATH_NEAR_MAPPED : PATH_NEAR_KERNEL;
}
