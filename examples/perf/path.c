/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

#include <err.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 1000 };

/* ---- what the client's engine says ---- */

static json_t *describe(struct client *client) {
    uint64_t needed = 0;
    xfer_engine_describe(client->engine, NULL, 0, &needed);
    size_t capacity = needed + 4096; /* it may have grown meanwhile */
    char *text = malloc(capacity);
    if (text == NULL) err(1, "description");
    must(xfer_engine_describe(client->engine, text, capacity, &needed), "xfer_engine_describe",
         NULL);
    json_t *engine = json_loads(text, 0, NULL);
    if (engine == NULL) errx(1, "xfer_engine_describe: no JSON");
    free(text);
    return engine;
}

/* The client's only connection; NULL while there is none. */
static json_t *connection_of(json_t *engine) {
    size_t l;
    size_t p;
    size_t c;
    json_t *loop;
    json_t *peer;
    json_t *connection;
    json_array_foreach(json_object_get(engine, "loops"), l, loop) {
        json_array_foreach(json_object_get(loop, "peers"), p, peer) {
            json_array_foreach(json_object_get(peer, "connections"), c, connection) {
                if (json_is_true(json_object_get(connection, "live"))) return connection;
            }
        }
    }
    return NULL;
}

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

/* One of the paths by adapters is: "none", "opening", "open", "ending". */
static bool adapters_are(json_t *connection, const char *wanted) {
    size_t i;
    json_t *path;
    json_array_foreach(json_object_get(connection, "attached_paths"), i, path) {
        const char *state = json_string_value(json_object_get(path, "state"));
        if (state != NULL && strcmp(state, wanted) == 0) return true;
    }
    return false;
}

/* Bytes, by what they went. */
struct moved {
    int64_t adapters; /* by their paths, or as frames of the lane that is theirs */
    int64_t others;
};

static int64_t bytes_of(json_t *object, const char *what) {
    return json_integer_value(json_object_get(json_object_get(object, what), "bytes"));
}

/* So far. A short message is a frame, or served by its sender when it is pulled. */
static struct moved moved_by(struct client *client) {
    struct moved moved = {0, 0};
    json_t *engine = describe(client);
    size_t i;
    json_t *lane;
    json_array_foreach(json_object_get(connection_of(engine), "lanes"), i, lane) {
        const char *name = json_string_value(json_object_get(lane, "lane"));
        int64_t by_path = bytes_of(json_object_get(lane, "carried_by"), "adapter");
        int64_t by_lane = bytes_of(lane, "carried") - by_path + bytes_of(lane, "served");
        moved.adapters += by_path;
        if (name != NULL && strcmp(name, "adapter") == 0)
            moved.adapters += by_lane + bytes_of(lane, "control_frames");
        else
            moved.others += by_lane;
    }
    json_decref(engine);
    return moved;
}

/* ---- its name ---- */

/* Adds the ports of a fabric that have a path, as ", mlx5_0:1". */
static void add_ports(json_t *fabric, char *names, size_t capacity) {
    size_t i;
    json_t *port;
    json_array_foreach(json_object_get(fabric, "ports"), i, port) {
        const char *name = json_string_value(json_object_get(port, "name"));
        size_t used = strlen(names);
        if (name != NULL && json_integer_value(json_object_get(port, "paths")) > 0)
            snprintf(names + used, capacity - used, ", %s", name);
    }
}

/* "adapter (mlx5_0:1)". Valid until the next call. */
static const char *adapter_name(struct client *client) {
    static char text[256];
    char names[200] = "";
    size_t l;
    size_t f;
    json_t *loop;
    json_t *fabric;
    json_t *engine = describe(client);
    json_array_foreach(json_object_get(engine, "loops"), l, loop) {
        json_array_foreach(json_object_get(loop, "fabrics"), f, fabric)
            add_ports(fabric, names, sizeof names);
    }
    json_decref(engine);
    snprintf(text, sizeof text, "adapter (%s)", names[0] == '\0' ? "unknown" : names + 2);
    return text;
}

const char *path_name(enum path path, struct client *client) {
    static const char *const kNames[] = {
        [PATH_TCP] = "tcp",
        [PATH_ADAPTER] = "adapter",
        [PATH_NEAR] = "local",
        [PATH_NEAR_RINGS] = "local (rings)",
        [PATH_NEAR_KERNEL] = "local (copied through the kernel)",
        [PATH_NEAR_MAPPED] = "local (memory mapped)",
    };
    return path == PATH_ADAPTER ? adapter_name(client) : kNames[path];
}

/* ---- which path there is ---- */

bool path_is_near(enum path path) {
    return path != PATH_TCP && path != PATH_ADAPTER;
}

bool path_may_be_near(const struct options *options) {
    const char *transports = options->mode.transports;
    return options->to == NULL && (transports[0] == '\0' || strstr(transports, "shm") != NULL);
}

/* An attempt to connect two adapters ends by itself, well or not. */
enum path path_find(const struct options *options, struct client *client) {
    uint32_t patience = path_may_be_near(options) ? PATIENCE_MS : 0;
    for (uint32_t waited = 0;; waited += 2) {
        json_t *engine = describe(client);
        json_t *connection = connection_of(engine);
        bool near = has_near_lane(connection);
        bool open = adapters_are(connection, "open");
        bool opening = adapters_are(connection, "opening");
        json_decref(engine);
        if (near) return PATH_NEAR;
        if (open) return PATH_ADAPTER;
        if (!opening && waited >= patience) return PATH_TCP;
        client_linger(client, 2);
    }
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

static enum path look_near(struct session *session, struct client *client,
                           const struct plan *plan) {
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

/* Puts, gets and long messages go by sockets until the adapters' path and its keys are there,
 * frames until their lane is. */
static enum path look_adapter(struct session *session, struct client *client,
                              const struct plan *plan) {
    struct plan once = *plan;
    once.count = plan->window;
    for (uint32_t waited = 0; waited < PATIENCE_MS; waited += 10) {
        struct moved before = moved_by(client);
        session_xfer(session, client, &once, NULL);
        struct moved after = moved_by(client);
        if (after.adapters - before.adapters > after.others - before.others) return PATH_ADAPTER;
        client_linger(client, 10);
    }
    return PATH_TCP;
}

enum path path_look(struct session *session, struct client *client, enum path path,
                    const struct plan *plan) {
    if (path == PATH_NEAR) return look_near(session, client, plan);
    return path == PATH_ADAPTER ? look_adapter(session, client, plan) : path;
}
