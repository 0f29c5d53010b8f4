/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers that find each other by a path: what they do is as over TCP, what is special is the file.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fixture.h"

typedef struct Place {
    char folder[32];
    char path[64];
    char uri[80];
} Place;

static Place place_make(void) {
    Place place = {.folder = "/tmp/xfer-api-XXXXXX"};
    assert_non_null(mkdtemp(place.folder));
    snprintf(place.path, sizeof place.path, "%s/engine", place.folder);
    snprintf(place.uri, sizeof place.uri, "unix://%s", place.path);
    return place;
}

/* What ended well left nothing in it. */
static void place_end(const Place *place) {
    assert_int_equal(rmdir(place->folder), 0);
}

static void test_bytes(void **state) {
    enum { kLength = 3000000 }; /* bulk: over data lanes, too */
    const Place place = place_make();
    Host *server = host_open(*state), *client = host_open(*state);
    host_listen(server, place.uri);
    assert_string_equal(server->uri, place.uri);
    struct stat file;
    assert_int_equal(lstat(place.path, &file), 0);
    assert_true(S_ISSOCK(file.st_mode));
    uint8_t *memory = test_memory(kLength), *local = test_memory(kLength);
    open_region(server, "memory", XFER_READ | XFER_WRITE, memory, kLength);
    xfer_ep_t *ep = open_ep(client, place.uri);
    xfer_ref_t ref = look_up(client, ep, "memory");
    fill(local, kLength, 1);
    for (uint64_t length = 1; length <= kLength; length = length * 7 + 3) {
        assert_status(put_now(client, ep, local, &ref, 0, length), XFER_OK);
        assert_memory_equal(memory, local, length);
    }
    fill(memory, kLength, 2);
    assert_status(get_now(client, ep, local, &ref, 0, kLength), XFER_OK);
    assert_true(filled(local, kLength, 2, 0));
    host_end(client);
    host_end(server);
    place_end(&place);
}

static xfer_status_t try_listen(Host *host, const char *uri) {
    char bound[256];
    xfer_error_t err;
    const xfer_status_t status =
        xfer_engine_listen(host->engine, uri, NULL, bound, sizeof bound, &err);
    assert_int_equal(err.status, status);
    if (status != XFER_OK) assert_non_null(strstr(err.message, "/"));
    return status;
}

static void test_places(void **state) {
    const Place place = place_make();
    Host *first = host_open(*state), *second = host_open(*state);
    assert_status(try_listen(first, place.uri), XFER_OK);
    assert_status(try_listen(second, place.uri), XFER_EADDRINUSE);
    assert_status(try_listen(first, place.uri), XFER_EADDRINUSE);
    host_end(first);
    assert_status(try_listen(second, place.uri), XFER_OK);
    assert_status(try_listen(second, "unix:///no/such/folder/engine"), XFER_EADDR);
    assert_status(try_listen(second, "unix:///tmp"), XFER_EADDRINUSE);
    host_end(second);
    place_end(&place);
}

/* Nobody there, yet: an operation waits for it, and a warm-up says why it ended. */
static void test_nobody_yet(void **state) {
    const Place place = place_make();
    Host *client = host_open(*state), *server = host_open(*state);
    xfer_ep_t *ep = open_ep(client, place.uri);
    assert_status(connect_now(client, ep, kPatience), XFER_EUNREACHABLE);
    assert_status(xfer_ep_lookup(ep, "memory", 1, NULL, NULL), XFER_OK);
    uint8_t *memory = test_memory(64);
    open_region(server, "memory", XFER_READ, memory, 64);
    host_listen(server, place.uri);
    assert_status(wait_event(client, XFER_EVENT_LOOKUP, 1, kPatience).status, XFER_OK);
    host_end(client);
    host_end(server);
    place_end(&place);
}

/* A process that was killed leaves its file, and the next one of its name listens there. */
static void test_left_by_a_killed_process(void **state) {
    const Place place = place_make();
    const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    strcpy(un.sun_path, place.path);
    assert_int_equal(bind(left, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(left, 1), 0);
    close(left);
    Host *server = host_open(*state), *client = host_open(*state);
    host_listen(server, place.uri);
    assert_status(connect_now(client, open_ep(client, place.uri), kPatience), XFER_OK);
    host_end(client);
    host_end(server);
    place_end(&place);
}

static bool describes(Host *host, const char *text) {
    static char json[65536];
    uint64_t needed;
    assert_status(xfer_engine_describe(host->engine, json, sizeof json, &needed), XFER_OK);
    return strstr(json, text);
}

/* Who came by a path may be dialed at one. Who came over a network does not learn of any: on its
 * host, somebody else may be there. */
static void test_paths_are_for_neighbours(void **state) {
    const Place there = place_make(), here = place_make();
    Host *server = host_open(*state);
    host_listen(server, there.uri);
    host_listen(server, "tcp://127.0.0.1:0");
    const char *const uris[] = {server->uri, there.uri};
    for (int by_path = 0; by_path < 2; by_path++) {
        Host *client = host_open(*state);
        host_listen(client, here.uri);
        assert_status(connect_now(client, open_ep(client, uris[by_path]), kPatience), XFER_OK);
        wait_event(server, XFER_EVENT_PEER_UP, ANY_USER, kPatience);
        assert_int_equal(describes(server, here.uri), by_path);
        if (!by_path) assert_false(describes(client, there.uri));
        host_end(client);
    }
    host_end(server);
    place_end(&there);
    place_end(&here);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_bytes),
    EACH_DISPATCH(test_places),
    EACH_DISPATCH(test_nobody_yet),
    ONE_MODE(test_left_by_a_killed_process),
    EACH_DISPATCH(test_paths_are_for_neighbours),
};

TEST_MAIN(tests)
