/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an engine may listen, and what it says when it may not. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fixture.h"

/* Takes `count` neighbouring ports; returns the first. */
static uint16_t raw_listeners(int *fds, int count) {
    for (int attempt = 0; attempt < 100; attempt++) {
        uint16_t first = 0;
        int got = 1;
        fds[0] = raw_listener(&first);
        for (; got < count; got++) {
            uint16_t port = (uint16_t)(first + got);
            if (port < first) break;
            fds[got] = raw_listener(&port);
            if (fds[got] < 0) break;
        }
        if (got == count) return first;
        while (got > 0)
            close(fds[--got]);
    }
    fail_msg("no %d free ports side by side", count);
    return 0;
}

static xfer_status_t listen_at(Host *host, const char *uri, xfer_error_t *err) {
    return xfer_engine_listen(host->engine, uri, NULL, host->uri, sizeof host->uri, err);
}

static void assert_reachable(Host *server, const char *uri) {
    Host *client = host_open(server->mode);
    xfer_ep_t *ep = open_ep(client, uri);
    assert_status(connect_now(client, ep, 5000), XFER_OK);
    host_end(client);
    xfer_ep_close(ep);
}

static void test_bound_uri(void **state) {
    Host *host = host_open(*state);
    host_listen(host, "tcp://127.0.0.1:0");
    unsigned port = 0;
    int used = 0;
    assert_int_equal(sscanf(host->uri, "tcp://127.0.0.1:%u%n", &port, &used), 1);
    assert_int_equal(used, strlen(host->uri));
    assert_true(port > 0 && port < 65536);
    assert_reachable(host, host->uri);
}

/* Who speaks only a later version is told so, not merely hung up on. */
static void test_later_version(void **state) {
    Host *host = host_open(*state);
    host_listen(host, "tcp://127.0.0.1:0");
    unsigned port = 0;
    assert_int_equal(sscanf(host->uri, "tcp://127.0.0.1:%u", &port), 1);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    const uint8_t hello[20] = {'X', 'F', 'E', 'R', 1, 9, 9, 0, 4};
    assert_int_equal(write(fd, hello, sizeof hello), sizeof hello);
    uint8_t answer[256];
    size_t got = 0;
    for (uint64_t end = now_ms() + kPatience; now_ms() < end;) {
        turn(1);
        ssize_t bytes = recv(fd, answer + got, sizeof answer - got, MSG_DONTWAIT);
        if (bytes > 0) got += (size_t)bytes;
        if (bytes == 0) break;
    }
    close(fd);
    assert_true(got > 16);
    const uint8_t refuse[] = {'X', 'F', 'E', 'R', 5, 1, 1, 0};
    assert_memory_equal(answer, refuse, sizeof refuse);
    const uint8_t version[] = {0x62, 's', 't', 0x38, -XFER_EVERSION - 1}; /* CBOR: "st": -28 */
    assert_non_null(memmem(answer, got, version, sizeof version));
}

static void test_several_listeners(void **state) {
    Host *host = host_open(*state);
    host_listen(host, "tcp://127.0.0.1:0");
    char first[256];
    strcpy(first, host->uri);
    host_listen(host, "tcp://127.0.0.2:0");
    assert_memory_equal(host->uri, "tcp://127.0.0.2:", 16);
    assert_string_not_equal(first, host->uri);
    assert_reachable(host, first);
    assert_reachable(host, host->uri);
}

static void test_ipv6(void **state) {
    Host *host = host_open(*state);
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    bool usable = probe >= 0 && bind(probe, (struct sockaddr *)&address, sizeof address) == 0;
    if (probe >= 0) close(probe);
    if (!usable) {
        print_message("skip: this host has no ::1\n");
        skip();
    }
    host_listen(host, "tcp://[::1]:0");
    assert_memory_equal(host->uri, "tcp://[::1]:", 12);
    assert_reachable(host, host->uri);
}

static void test_localhost(void **state) {
    Host *host = host_open(*state);
    host_listen(host, "tcp://localhost:0");
    assert_reachable(host, host->uri);
}

static void test_taken_port(void **state) {
    Host *first = host_open(*state), *host = host_open(*state);
    const char *uri = own_address();
    xfer_error_t err;
    memset(&err, 0xff, sizeof err);
    host_listen(first, uri);
    assert_status(listen_at(host, uri, &err), XFER_EADDRINUSE);
    assert_int_equal(err.status, XFER_EADDRINUSE);
    assert_true(err.origin == XFER_ORIGIN_OS || err.origin == XFER_ORIGIN_UV);
    assert_true(err.native_code != 0);
    assert_true(err.message[0] != '\0');
    host_end(first);
    host_listen(host, uri); /* nothing of the failed attempt is in the way */
    assert_string_equal(host->uri, uri);
    Host *second = host_open(*state);
    assert_status(listen_at(second, uri, NULL), XFER_EADDRINUSE);
    assert_reachable(host, uri);
    host_end(host);
    host_listen(second, uri); /* free again with the end of its engine */
}

static void test_range(void **state) {
    Host *host = host_open(*state);
    int fds[4];
    uint16_t first = raw_listeners(fds, 4);
    char range[64];
    char wanted[64];
    xfer_error_t err;
    snprintf(range, sizeof range, "tcp://127.0.0.1:%u-%u", first, first + 3);
    assert_status(listen_at(host, range, &err), XFER_EADDRINUSE);
    close(fds[2]);
    host_listen(host, range);
    snprintf(wanted, sizeof wanted, "tcp://127.0.0.1:%u", first + 2);
    assert_string_equal(host->uri, wanted);
    assert_reachable(host, wanted);
    Host *second = host_open(*state);
    assert_status(listen_at(second, range, &err), XFER_EADDRINUSE);
    close(fds[0]);
    close(fds[1]);
    host_listen(second, range);
    snprintf(wanted, sizeof wanted, "tcp://127.0.0.1:%u", first);
    assert_string_equal(second->uri, wanted);
    close(fds[3]);
}

static void test_malformed(void **state) {
    Host *host = host_open(*state);
    static const char *const table[] = {
        "",
        "tcp",
        "tcp:",
        "tcp://",
        "://127.0.0.1:1",
        "127.0.0.1:1",
        "tcp:127.0.0.1:1",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:x",
        "tcp://127.0.0.1:-1",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:99999999999999999999",
        "tcp://127.0.0.1:1x",
        "tcp://127.0.0.1: 1",
        "tcp://127.0.0.1:1 ",
        "tcp://127.0.0.1:5-",
        "tcp://127.0.0.1:-5",
        "tcp://127.0.0.1:6-5",
        "tcp://127.0.0.1:0-5",
        "tcp://127.0.0.1:5-65536",
        "tcp://127.0.0.1:5-6-7",
        "tcp://127.0.0.1:1/path",
        "tcp://127.0.0.1:1?query",
        "tcp://user@127.0.0.1:1",
        "tcp://127.0.0:1:2",
        "tcp://::1:7000",
        "tcp://[::1:7000",
        "tcp://[::1]",
        "tcp://[::1]7000",
        "tcp://[]:7000",
        "tcp://[127.0.0.1]:7000",
        "tcp://[::g]:7000",
        "tcp://256.0.0.1:7000",
        "tcp://1.2.3:7000",
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        xfer_error_t err;
        xfer_status_t status = listen_at(host, table[i], &err);
        if (status != XFER_EADDR)
            fail_msg("\"%s\": %s, not XFER_EADDR", table[i], xfer_status_name(status));
        assert_int_equal(err.status, XFER_EADDR);
        assert_true(err.message[0] != '\0');
    }
    assert_status(listen_at(host, NULL, NULL), XFER_EINVAL);
    char *longest = test_memory(70000);
    memset(longest, 'a', 69999);
    memcpy(longest, "tcp://", 6);
    assert_status(listen_at(host, longest, NULL), XFER_EADDR);
}

/* A listener names an interface: names that would have to be asked for are refused without asking.
 */
static void test_host_names(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_INSECURE; /* or it would be refused for lying beyond loopback */
    Host *host = host_open_with(*state, &options);
    xfer_status_t status = listen_at(host, "tcp://nowhere.invalid:0", NULL);
    assert_true(status == XFER_EADDR || status == XFER_ENAME);
}

static void test_unknown_scheme(void **state) {
    Host *host = host_open(*state);
    xfer_status_t status = listen_at(host, "pigeon://127.0.0.1:0", NULL);
    assert_true(status == XFER_EADDR || status == XFER_EUNSUPPORTED);
}

/* 192.0.2.0/24 is for documentation: no host has it. */
static void test_foreign_address(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_INSECURE;
    Host *host = host_open_with(*state, &options);
    xfer_error_t err;
    assert_status(listen_at(host, "tcp://192.0.2.1:0", &err), XFER_EADDR);
    assert_status(listen_at(host, "tcp://[2001:db8::1]:0", &err), XFER_EADDR);
    /* A key is not what is missing. */
    Host *keyless = host_open(*state);
    assert_status(listen_at(keyless, "tcp://192.0.2.1:0", &err), XFER_EADDR);
    assert_int_equal(err.origin, XFER_ORIGIN_OS);
    assert_int_equal(err.native_code, EADDRNOTAVAIL);
    assert_non_null(strstr(err.message, "192.0.2.1"));
    assert_status(listen_at(keyless, "tcp://[2001:db8::1]:0", &err), XFER_EADDR);
    assert_status(listen_at(keyless, "tcp://nowhere.invalid:0", &err), XFER_EADDR);
    assert_non_null(strstr(err.message, "numeric"));
    static const uint8_t key[32] = {1};
    options.flags = 0;
    options.key = key;
    options.key_length = sizeof key;
    Host *keyed = host_open_with(*state, &options);
    assert_status(listen_at(keyed, "tcp://192.0.2.1:0", &err), XFER_EADDR);
    assert_int_equal(err.native_code, EADDRNOTAVAIL);
}

static void test_beyond_loopback(void **state) {
    Host *host = host_open(*state);
    xfer_error_t err;
    assert_status(listen_at(host, "tcp://0.0.0.0:0", &err), XFER_EAUTH);
    assert_true(err.message[0] != '\0');
    assert_status(listen_at(host, "tcp://[::]:0", &err), XFER_EAUTH);

    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_INSECURE;
    Host *insecure = host_open_with(*state, &options);
    host_listen(insecure, "tcp://0.0.0.0:0");
    assert_null(strstr(insecure->uri, "0.0.0.0")); /* what peers can dial */

    static const uint8_t key[32] = {1};
    options.flags = 0;
    options.key = key;
    options.key_length = sizeof key;
    Host *keyed = host_open_with(*state, &options);
    host_listen(keyed, "tcp://0.0.0.0:0");
}

/* ---- wildcards, and all addresses ---- */

static void addresses_of(Host *host, char *list, size_t cap) {
    uint64_t needed = 0;
    assert_status(xfer_engine_addresses(host->engine, NULL, 0, &needed), XFER_ENOSPC);
    assert_true(needed <= cap);
    assert_status(xfer_engine_addresses(host->engine, list, needed, &needed), XFER_OK);
    assert_int_equal(strlen(list) + 1, needed);
}

/* Each form means every interface, with the rule of the key, and each address that is told leads
 * to it. */
static void test_wildcards(void **state) {
    static const char *const forms[] = {"tcp://0.0.0.0:0", "tcp://*:0", "tcp://:0"};
    xfer_engine_options_t options = host_options(*state);
    options.flags = XFER_ENGINE_INSECURE;
    for (size_t i = 0; i < 3; i++) {
        Host *safe = host_open(*state), *host = host_open_with(*state, &options);
        xfer_error_t err;
        char list[4096], uri[64], *rest = list, *one;
        assert_status(listen_at(safe, forms[i], &err), XFER_EAUTH);
        assert_non_null(strstr(err.message, "0.0.0.0"));
        assert_status(listen_at(host, forms[i], &err), XFER_OK);
        addresses_of(host, list, sizeof list);
        assert_memory_equal(list, host->uri, strlen(host->uri));
        assert_null(strstr(list, "0.0.0.0"));
        snprintf(uri, sizeof uri, "tcp://127.0.0.1:%s", strrchr(host->uri, ':') + 1);
        assert_reachable(host, uri);
        while ((one = strtok_r(rest, ",", &rest)) != NULL)
            assert_reachable(host, one);
        host_end(host);
        host_end(safe);
    }
    Host *range = host_open_with(*state, &options);
    assert_status(listen_at(range, "tcp://*:20000-29999", NULL), XFER_OK);
    assert_reachable(range, range->uri);
}

static void test_all_addresses(void **state) {
    xfer_engine_options_t options = host_options(*state);
    xfer_listen_options_t terms = {.size = sizeof terms,
                                   .advertise = "tcp://127.0.0.8:{port},tcp://127.0.0.9:9"};
    Host *host = host_open(*state);
    char list[4096], wanted[1024], first[256], at[256];
    addresses_of(host, list, sizeof list);
    assert_string_equal(list, "");
    host_listen(host, "tcp://127.0.0.1:0");
    strcpy(first, host->uri);
    host_listen(host, "tcp://127.0.0.2:0");
    snprintf(wanted, sizeof wanted, "%s,%s", first, host->uri);
    addresses_of(host, list, sizeof list);
    assert_string_equal(list, wanted);
    assert_reachable(host, list); /* as it is */
    assert_status(
        xfer_engine_listen(host->engine, "tcp://127.0.0.1:0", &terms, at, sizeof at, NULL),
        XFER_OK);
    snprintf(wanted + strlen(wanted), 256, ",tcp://127.0.0.8:%s,tcp://127.0.0.9:9",
             strrchr(at, ':') + 1);
    addresses_of(host, list, sizeof list);
    assert_string_equal(list, wanted);
    for (int more = 0; more < 10; more++) /* more than peers are told by the engine itself */
        host_listen(host, "tcp://127.0.0.1:0");
    addresses_of(host, list, sizeof list);
    assert_non_null(strstr(list, host->uri));
    uint64_t needed;
    memset(list, 'x', sizeof list);
    assert_status(xfer_engine_addresses(host->engine, list, 4, &needed), XFER_ENOSPC);
    assert_string_equal(list, "tcp");
    assert_int_equal(list[4], 'x');
    assert_status(xfer_engine_addresses(host->engine, NULL, 4, &needed), XFER_EINVAL);
    assert_status(xfer_engine_addresses(host->engine, list, 4, NULL), XFER_EINVAL);
    options.advertise = "tcp://127.0.0.9:4321,tcp://127.0.0.9:4322";
    Host *said = host_open_with(*state, &options);
    host_listen(said, "tcp://127.0.0.1:0");
    addresses_of(said, list, sizeof list);
    assert_string_equal(list, options.advertise);
}

static void test_small_buffer(void **state) {
    Host *host = host_open(*state);
    const char *uri = own_address();
    char bound[64];
    for (size_t cap = 1; cap <= strlen(uri); cap++) {
        memset(bound, 0x7f, sizeof bound);
        assert_status(xfer_engine_listen(host->engine, uri, NULL, bound, cap, NULL), XFER_ENOSPC);
        assert_int_equal(bound[cap], 0x7f);
    }
    /* It was undone each time: the port is free, for others too. */
    Host *other = host_open(*state);
    host_listen(other, uri);
    host_end(other);
    assert_status(xfer_engine_listen(host->engine, uri, NULL, bound, strlen(uri) + 1, NULL),
                  XFER_OK);
    assert_string_equal(bound, uri);
}

/* What peers are told to dial is not what was bound, if the options say so. */
static void test_advertise(void **state) {
    xfer_engine_options_t options = host_options(*state);
    options.advertise = "tcp://127.0.0.9:4321";
    Host *host = host_open_with(*state, &options);
    host_listen(host, "tcp://127.0.0.1:0");
    uint64_t needed = 0;
    char *text = test_memory(65536);
    assert_status(xfer_engine_describe(host->engine, text, 65536, &needed), XFER_OK);
    assert_non_null(strstr(text, "tcp://127.0.0.9:4321"));
}

static xfer_status_t listened_inside;
static _Atomic int inside;

static void listen_inside(Host *host, const xfer_event_t *event) {
    if (event->kind != XFER_EVENT_CLOSED || inside != 0) return;
    listened_inside = listen_at(host, "tcp://127.0.0.1:0", NULL);
    inside = 1;
}

static void test_listen_inside_callback(void **state) {
    Host *host = host_open(*state);
    uint8_t *memory = test_memory(64);
    inside = 0;
    host->hook = listen_inside;
    assert_status(xfer_region_close(open_region(host, NULL, 0, memory, 64)), XFER_OK);
    wait_atomic(&inside, 1, kPatience);
    assert_status(listened_inside, XFER_OK);
    assert_reachable(host, host->uri);
}

static const struct CMUnitTest tests[] = {
    EACH_MODE(test_bound_uri),
    EACH_DISPATCH(test_later_version),
    EACH_DISPATCH(test_several_listeners),
    EACH_DISPATCH(test_ipv6),
    EACH_DISPATCH(test_localhost),
    EACH_MODE(test_taken_port),
    EACH_DISPATCH(test_range),
    ONE_MODE(test_malformed),
    ONE_MODE(test_host_names),
    ONE_MODE(test_unknown_scheme),
    ONE_MODE(test_foreign_address),
    EACH_DISPATCH(test_beyond_loopback),
    EACH_DISPATCH(test_wildcards),
    EACH_DISPATCH(test_all_addresses),
    EACH_DISPATCH(test_small_buffer),
    ONE_MODE(test_advertise),
    EACH_MODE(test_listen_inside_callback),
};

TEST_MAIN(tests)
