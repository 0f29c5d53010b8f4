// SPDX-License-Identifier: Apache-2.0
#include "util/uri.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <random>

using namespace xfer;

namespace {

Status parsed(std::string_view text) {
    Result<Uri> uri = parse_uri(text);
    return uri ? XFER_OK : uri.error().status;
}

std::string complaint(std::string_view text) {
    Result<Uri> uri = parse_uri(text);
    return uri ? "" : std::string(uri.error().message);
}

bool contains(const std::string &text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("addresses that are well formed") {
    const struct {
        const char *text, *host;
        uint16_t low, high;
        const char *written;  // nullptr: as it was read
    } table[] = {
        {"tcp://127.0.0.1:7000", "127.0.0.1", 7000, 7000, nullptr},
        {"tcp://127.0.0.1:0", "127.0.0.1", 0, 0, nullptr},
        {"tcp://host:15000-17000", "host", 15000, 17000, nullptr},
        {"tcp://host:7000-7000", "host", 7000, 7000, "tcp://host:7000"},
        {"tcp://host:00080", "host", 80, 80, "tcp://host:80"},
        {"tcp://host:1-65535", "host", 1, 65535, nullptr},
        {"tcp://*:7000", "0.0.0.0", 7000, 7000, "tcp://0.0.0.0:7000"},
        {"tcp://:7000-7001", "0.0.0.0", 7000, 7001, "tcp://0.0.0.0:7000-7001"},
        {"tcp://[::1]:7000", "::1", 7000, 7000, nullptr},
        {"tcp://[::]:0", "::", 0, 0, nullptr},
        {"tcp://[2001:db8::10.0.0.1]:1-2", "2001:db8::10.0.0.1", 1, 2, nullptr},
        {"tcp://[fe80::1%eth0]:7000", "fe80::1%eth0", 7000, 7000, nullptr},
        {"tcp://node-7.rack_2.example.org:65535", "node-7.rack_2.example.org", 65535, 65535,
         nullptr},
        {"tcp://localhost.:1", "localhost.", 1, 1, nullptr},
    };
    for (const auto &row : table) {
        CAPTURE(std::string(row.text));
        Result<Uri> uri = parse_uri(row.text);
        REQUIRE(uri);
        CHECK(uri->scheme == "tcp");
        CHECK(uri->host == row.host);
        CHECK(uri->port_low == row.low);
        CHECK(uri->port_high == row.high);
        CHECK(uri->path.empty());
        CHECK(to_string(*uri) == (row.written ? row.written : row.text));
    }
    Result<Uri> uri = parse_uri("unix:///run/a-b_c/x.sock");
    REQUIRE(uri);
    CHECK(uri->scheme == "unix");
    CHECK(uri->path == "/run/a-b_c/x.sock");
    CHECK(uri->host.empty());
    CHECK(to_string(*uri) == "unix:///run/a-b_c/x.sock");
    uri = parse_uri("shm://decode-7.gpu_0");
    REQUIRE(uri);
    CHECK(uri->scheme == "shm");
    CHECK(uri->host == "decode-7.gpu_0");
    CHECK(to_string(*uri) == "shm://decode-7.gpu_0");
    CHECK(is_dialable(*uri));
    CHECK(is_loopback(*uri));
}

TEST_CASE("addresses that are malformed, and what is said of them") {
    const struct {
        const char *text, *part;
    } table[] = {
        {"", "empty"},
        {"host", "scheme"},
        {"host:7000", "scheme"},
        {"127.0.0.1:7000", "scheme"},
        {"tcp:host:7000", "scheme"},
        {"tcp:/host:7000", "scheme"},
        {"://host:7000", "scheme"},
        {"t@p://host:1", "scheme"},
        {"tcp://", "port is missing"},
        {"tcp://host", "port is missing"},
        {"tcp://[::1]", "port is missing"},
        {"tcp://:", "not a number"},
        {"tcp://*", "port is missing"},
        {"tcp://**:1", "character"},
        {"tcp://[*]:1", "not an IPv6"},
        {"tcp://host:", "not a number"},
        {"tcp://host:x", "not a number"},
        {"tcp://host:70x", "not a number"},
        {"tcp://host:-1", "not a number"},
        {"tcp://host:+1", "not a number"},
        {"tcp://host:65536", "not a number"},
        {"tcp://host:000080", "not a number"},
        {"tcp://host:99999999999999999999", "not a number"},
        {"tcp://host:7000/", "not a number"},
        {"tcp://host:1-", "not a number"},
        {"tcp://host:-", "not a number"},
        {"tcp://host:1-2-3", "not a number"},
        {"tcp://host:1-65536", "not a number"},
        {"tcp://host:2-1", "upside down"},
        {"tcp://host:0-5", "start at 0"},
        {"tcp://ho/st:1", "character"},
        {"tcp://user@host:1", "character"},
        {"tcp://host%41:1", "character"},
        {"tcp://ho[st:1", "character"},
        {"tcp://::1:7000", "brackets"},
        {"tcp://host:1:2", "brackets"},
        {"tcp://[::1:7000", "not closed"},
        {"tcp://[::1]7000", "not followed"},
        {"tcp://[::1]x:7000", "not followed"},
        {"tcp://[]:7000", "not an IPv6"},
        {"tcp://[:::1]:7000", "not an IPv6"},
        {"tcp://[1.2.3.4]:7000", "not an IPv6"},
        {"tcp://[host]:7000", "not an IPv6"},
        {"tcp://[[::1]]:7000", "not followed"},
        {"tcp://[fe80::1%]:7000", "zone"},
        {"tcp://[fe80::1%a%b]:7000", "zone"},
        {"tcp://256.1.1.1:1", "not an IPv4"},
        {"tcp://1.2.3:1", "not an IPv4"},
        {"tcp://1.2.3.4.5:1", "not an IPv4"},
        {"tcp://...:1", "not an IPv4"},
        {"unix://", "not absolute"},
        {"unix://run/x", "not absolute"},
        {"unix:///", "names no file"},
        {"unix:///run/a,b", "comma"},
        {"shm://", "a name is"},
        {"shm:///run/x", "a name is"},
        {"shm://a b", "printable"},
        {"shm://a:1", "a name is"},
        {"unix:///run/", "names no file"},
        {"tcp://ho st:1", "printable"},
        {"tcp://host:1\n", "printable"},
        {"tcp://h\xc3\xb6st:1", "printable"},
        {"\x7f", "printable"},
    };
    for (const auto &row : table) {
        CAPTURE(std::string(row.text));
        CHECK(parsed(row.text) == XFER_EADDR);
        CHECK(contains(complaint(row.text), row.part));
    }
    CHECK(parsed(std::string_view("tcp://host\0:1", 13)) == XFER_EADDR);
}

TEST_CASE("a wildcard is for listening") {
    for (const char *text :
         {"tcp://*:7000", "tcp://:7000", "tcp://0.0.0.0:7000", "tcp://[::]:7000"}) {
        CHECK_FALSE(is_dialable(*parse_uri(text)));
        CHECK_FALSE(is_loopback(*parse_uri(text)));
    }
}

TEST_CASE("lists") {
    using List = std::vector<std::string>;
    CHECK(split_list("") == List{""});
    CHECK(split_list("a") == List{"a"});
    CHECK(split_list("a,b,,c,") == List{"a", "b", "", "c", ""});
    CHECK(join_list({}) == "");
    CHECK(join_list({"a"}) == "a");
    CHECK(join_list({"a", "b"}) == "a,b");
}

TEST_CASE("schemes of others") {
    for (const char *text :
         {"udp://host:1", "TCP://host:1", "rdma://mlx5_0", "tcp6://", "git+ssh://x"}) {
        CAPTURE(std::string(text));
        CHECK(parsed(text) == XFER_EUNSUPPORTED);
        CHECK(contains(complaint(text), "no transport"));
    }
}

TEST_CASE("lengths at and past their bounds") {
    const auto tcp = [](size_t size) {
        std::string text = "tcp://";
        return text + std::string(size - text.size() - 2, 'a') + ":1";
    };
    CHECK(parsed(tcp(255)) == XFER_OK);
    CHECK(parsed(tcp(256)) == XFER_EADDR);
    CHECK(contains(complaint(tcp(256)), "255"));
    CHECK(parsed(std::string(1 << 20, 'a')) == XFER_EADDR);
    CHECK(parsed("unix:///" + std::string(106, 'a')) == XFER_OK);
    CHECK(parsed("unix:///" + std::string(107, 'a')) == XFER_EADDR);
    CHECK(parsed("shm://" + std::string(64, 'a')) == XFER_OK);
    CHECK(parsed("shm://" + std::string(65, 'a')) == XFER_EADDR);
}

TEST_CASE("addresses of sockets") {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(7000);
    v4.sin_addr.s_addr = htonl(0x0a000102);
    const auto *address = reinterpret_cast<const sockaddr *>(&v4);
    CHECK(uri_of(address, sizeof v4) == "tcp://10.0.1.2:7000");
    CHECK(uri_of(address, sizeof v4 - 1).empty());

    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(7001);
    v6.sin6_addr = in6addr_loopback;
    address = reinterpret_cast<const sockaddr *>(&v6);
    CHECK(uri_of(address, sizeof v6) == "tcp://[::1]:7001");
    CHECK(uri_of(address, sizeof v6 - 1).empty());
    inet_pton(AF_INET6, "fe80::1", &v6.sin6_addr);
    v6.sin6_scope_id = 3;
    CHECK(uri_of(address, sizeof v6) == "tcp://[fe80::1%3]:7001");
    CHECK(parsed(uri_of(address, sizeof v6)) == XFER_OK);

    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    address = reinterpret_cast<const sockaddr *>(&local);
    CHECK(uri_of(address, offsetof(sockaddr_un, sun_path)).empty());  // unnamed
    std::strcpy(local.sun_path + 1, "abstract");
    CHECK(uri_of(address, sizeof local).empty());
    std::strcpy(local.sun_path, "/run/x.sock");
    CHECK(uri_of(address, sizeof local) == "unix:///run/x.sock");
    CHECK(uri_of(address, offsetof(sockaddr_un, sun_path) + 6) == "unix:///run/x");
    std::strcpy(local.sun_path, "/run/a b");
    CHECK(uri_of(address, sizeof local).empty());
    std::memset(local.sun_path, '/', 1);
    std::memset(local.sun_path + 1, 'a', sizeof local.sun_path - 1);  // full: no NUL
    CHECK(uri_of(address, sizeof local).empty());

    sockaddr other{};
    other.sa_family = AF_UNSPEC;
    CHECK(uri_of(&other, sizeof other).empty());
}

TEST_CASE("100,000 mutations: what is read is written, and read the same again") {
    std::mt19937_64 random(20240603);
    const std::string seeds[] = {"tcp://127.0.0.1:7000", "tcp://host:15000-17000",
                                 "tcp://[fe80::1%eth0]:7", "unix:///run/x.sock"};
    const std::string alphabet = "tcpunix:/[]%.-0123456789abf\n";
    size_t accepted = 0;
    for (int round = 0; round < 100000; round++) {
        std::string text = seeds[random() % 4];
        for (auto changes = 1 + random() % 2; changes > 0; changes--) {
            const size_t at = random() % text.size();
            if (random() % 3 == 0) {
                text.erase(at, 1);
            } else {
                text[at] = alphabet[random() % alphabet.size()];
            }
        }
        Result<Uri> uri = parse_uri(text);
        if (!uri) {
            REQUIRE((uri.error().status == XFER_EADDR || uri.error().status == XFER_EUNSUPPORTED));
            continue;
        }
        accepted++;
        const std::string written = to_string(*uri);
        Result<Uri> again = parse_uri(written);
        REQUIRE(again);
        REQUIRE(to_string(*again) == written);
        REQUIRE(again->host == uri->host);
        REQUIRE(again->path == uri->path);
        REQUIRE(again->port_high == uri->port_high);
    }
    CHECK(accepted > 10000);
    CHECK(accepted < 90000);
}
