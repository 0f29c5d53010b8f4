/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said for one listener: whose peers its own are, who may connect, what they dial. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

static xfer_status_t listen_with(Host *host, const char *uri, xfer_listen_options_t options,
                                 xfer_error_t *err) {
    options.size = sizeof options;
    return xfer_engine_listen(host->engine, uri, &options, host->uri, sizeof host->uri, err);
}

static Host *meet(Host *server, const char *uri) {
    Host *client = host_open(server->mode);
    assert_status(connect_now(client, open_ep(client, uri), 5000), XFER_OK);
    return client;
}

/* Its word comes with each peer that was accepted there, on whatever loop that ends up. */
static void test_user(void **state) {
    enum { kEach = 4 };
    Host *server = host_open(*state);
    char uris[3][256];
    for (uint64_t i = 0; i < 3; i++) {
        xfer_listen_options_t options = {.user = 40 + i};
        const char *at = "tcp://127.0.0.1:0";
        if (i > 0)
            assert_status(listen_with(server, at, options, NULL), XFER_OK);
        else
            assert_status(
                xfer_engine_listen(server->engine, at, NULL, server->uri, sizeof server->uri, NULL),
                XFER_OK);
        memcpy(uris[i], server->uri, sizeof uris[i]);
    }
    for (int round = 0; round < kEach; round++)
        for (uint64_t i = 0; i < 3; i++) {
            meet(server, uris[i]);
            xfer_event_t peer = wait_event(server, XFER_EVENT_PEER, ANY_USER, kPatience);
            assert_int_equal(peer.tag, i == 0 ? 0 : 40 + i);
        }
}

static mode_t mode_of(const char *path) {
    struct stat file;
    assert_int_equal(lstat(path, &file), 0);
    return file.st_mode & 07777;
}

/* Exactly these bits, whatever the process's mask is. */
static void test_mode(void **state) {
    char folder[] = "/tmp/xfer-api-XXXXXX", path[64], uri[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/engine", folder);
    snprintf(uri, sizeof uri, "unix://%s", path);
    static const struct {
        uint32_t asked, got;
        mode_t mask;
    } table[] = {{0, 0600, 022}, {0, 0600, 0}, {0666, 0666, 077}, {0660, 0660, 022}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        Host *server = host_open(*state);
        const mode_t before = umask(table[i].mask);
        xfer_status_t status =
            listen_with(server, uri, (xfer_listen_options_t){.mode = table[i].asked}, NULL);
        umask(before);
        assert_status(status, XFER_OK);
        assert_int_equal(mode_of(path), table[i].got);
        host_end(meet(server, server->uri));
        host_end(server);
    }
    assert_int_equal(rmdir(folder), 0);
}

static bool learnt(Host *host, const char *address) {
    uint64_t needed = 0;
    char *text = test_memory(65536);
    assert_status(xfer_engine_describe(host->engine, text, 65536, &needed), XFER_OK);
    return strstr(text, address) != NULL;
}

/* Where "{port}" stands is the port that was bound. Each row is one server: what its engine and its
 * two listeners advertise, and what a peer learns of it. */
static void test_advertise(void **state) {
    static const struct {
        const char *engine, *first, *second;
        bool says_engine, says_first, says_second, says_bound;
    } table[] = {
        {NULL, NULL, NULL, false, false, false, true},
        {"tcp://127.0.0.9:41", NULL, NULL, true, false, false, false},
        {NULL, "tcp://127.0.0.8:{port}", NULL, false, true, false, true},
        {"tcp://127.0.0.9:41", "tcp://127.0.0.8:{port}", NULL, true, true, false, false},
        {"tcp://127.0.0.9:41", "tcp://127.0.0.8:{port}", "tcp://127.0.0.7:42", false, true, true,
         false},
        {NULL, "tcp://127.0.0.8:{port},tcp://127.0.0.8:7", "tcp://127.0.0.7:42", false, true, true,
         false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        xfer_engine_options_t options = host_options(*state);
        options.advertise = table[i].engine;
        Host *server = host_open_with(*state, &options);
        char first[300], bound[300];
        xfer_listen_options_t one = {.advertise = table[i].first},
                              two = {.advertise = table[i].second};
        assert_status(listen_with(server, "tcp://127.0.0.1:0", one, NULL), XFER_OK);
        snprintf(first, sizeof first, "\"tcp://127.0.0.8:%s\"", strrchr(server->uri, ':') + 1);
        assert_status(listen_with(server, "tcp://127.0.0.1:0", two, NULL), XFER_OK);
        snprintf(bound, sizeof bound, "\"%s\"", server->uri);
        /* A peer knows where it has dialed, in any case: that is at a third. */
        assert_status(listen_with(server, "tcp://127.0.0.1:0", two, NULL), XFER_OK);
        Host *client = meet(server, server->uri);
        if (learnt(client, "tcp://127.0.0.9:41") != table[i].says_engine ||
            learnt(client, first) != table[i].says_first ||
            learnt(client, "tcp://127.0.0.7:42") != table[i].says_second ||
            learnt(client, bound) != table[i].says_bound)
            fail_msg("row %zu", i);
        host_end(client);
        host_end(server);
    }
}

/* One that needs no key beside one that does. */
static void test_insecure(void **state) {
    Host *host = host_open(*state);
    xfer_error_t err;
    xfer_listen_options_t options = {.flags = XFER_LISTEN_INSECURE};
    assert_status(listen_with(host, "tcp://0.0.0.0:0", (xfer_listen_options_t){0}, &err),
                  XFER_EAUTH);
    assert_status(listen_with(host, "tcp://0.0.0.0:0", options, &err), XFER_OK);
    assert_status(listen_with(host, "tcp://0.0.0.0:0", (xfer_listen_options_t){0}, &err),
                  XFER_EAUTH);
}

static void test_refused(void **state) {
    Host *host = host_open(*state);
    static const struct {
        const char *uri;
        xfer_listen_options_t options;
        const char *says;
    } table[] = {
        {"tcp://127.0.0.1:0", {.flags = 2}, "flags"},
        {"tcp://127.0.0.1:0", {.mode = 0600}, "mode"},
        {"unix:///tmp/xfer-never", {.mode = 01777}, "mode"},
        {"unix:///tmp/xfer-never", {.advertise = "tcp://127.0.0.1:{port}"}, "advertise"},
        {"tcp://127.0.0.1:0", {.advertise = "tcp://127.0.0.1:0"}, "advertise"},
        {"tcp://127.0.0.1:0", {.advertise = "tcp://0.0.0.0:{port}"}, "advertise"},
        {"tcp://127.0.0.1:0", {.advertise = "here"}, "advertise"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        xfer_error_t err;
        assert_status(listen_with(host, table[i].uri, table[i].options, &err), XFER_EINVAL);
        if (strstr(err.message, table[i].says) == NULL) fail_msg("row %zu: %s", i, err.message);
    }
    assert_int_equal(access("/tmp/xfer-never", F_OK), -1);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_user),         ONE_MODE(test_mode),    EACH_DISPATCH(test_advertise),
    EACH_DISPATCH(test_insecure), ONE_MODE(test_refused),
};

TEST_MAIN(tests)
