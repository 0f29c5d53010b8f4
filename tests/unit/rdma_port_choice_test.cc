// SPDX-License-Identifier: Apache-2.0
// Which port of this host a path takes.
#include "transport/rdma/port_choice.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

using namespace xfer::rdma;

namespace {

constexpr int kNone = -1;
constexpr auto kInfiniband = LinkLayer::infiniband;

struct At {
    const char *gid = "::ffff:10.0.0.1";
    uint64_t gigabits = 400;
    size_t paths = 0;
    bool taken = false, active = true;
    int node = -1;
    LinkLayer layer = LinkLayer::ethernet;
};

const At kPlain;

struct Host {
    explicit Host(const std::vector<At> &ports) : of(ports.size()) {
        for (size_t i = 0; i < ports.size(); ++i) {
            const At &at = ports[i];
            of[i].active = at.active, of[i].numa_node = at.node;
            of[i].bits_per_second = at.gigabits * 1'000'000'000;
            of[i].address.layer = at.layer;
            REQUIRE(::inet_pton(AF_INET6, at.gid, of[i].address.gid.raw) == 1);
            all.push_back({&of[i], at.paths, at.taken});
        }
    }
    int choose(const At *other = nullptr, int node = -1, uint32_t failures = 0) const {
        const Host far(other ? std::vector<At>{*other} : std::vector<At>{});
        const auto chosen = choose_port(all, other ? &far.of[0].address : nullptr, node, failures);
        return chosen ? static_cast<int>(*chosen) : kNone;
    }
    std::vector<Port> of;
    std::vector<PortCandidate> all;
};

}  // namespace

TEST_CASE("of those that can carry it: active, free, and as fast as any") {
    CHECK(Host(std::vector<At>{}).choose() == kNone);
    CHECK(Host({kPlain}).choose() == 0);
    CHECK(Host({At{.active = false}}).choose() == kNone);
    CHECK(Host({At{.taken = true}}).choose() == kNone);
    CHECK(Host({{.gigabits = 25}, kPlain}).choose() == 1);
    CHECK(Host({{.gigabits = 25}, {.active = false}}).choose() == 0);
    CHECK(Host({{.gigabits = 25}, {.taken = true}}).choose() ==
          kNone);                                                   // it would hold up the other
    CHECK(Host({{.gigabits = 0}, {.gigabits = 0}}).choose() == 0);  // unknown
}

TEST_CASE("the one with the fewest paths, but rather one that is near") {
    CHECK(Host({{.paths = 2}, {.paths = 1}, {.paths = 1}}).choose() == 1);
    CHECK(Host({{.node = 0}, {.paths = 7, .node = 1}}).choose(nullptr, 1) == 1);
    CHECK(Host({{.node = 0}, {.node = 1}}).choose(nullptr, 2) == 0);
    CHECK(Host({kPlain, kPlain}).choose(nullptr, -1) == 0);
    CHECK(Host({{.paths = 1}, kPlain}).choose(nullptr, -1) == 1);  // nobody knows what is near
}

TEST_CASE("the one whose network is that of the other end") {
    const Host host({{.gid = "::ffff:10.0.1.1"}, {.gid = "::ffff:10.0.2.1", .paths = 9}});
    const At first{.gid = "::ffff:10.0.1.9"}, second{.gid = "::ffff:10.0.2.9"};
    CHECK(host.choose(&first) == 0);
    CHECK(host.choose(&second) == 1);
    const Host fabrics({{.gid = "fe80:0:0:1::7", .layer = kInfiniband},
                        {.gid = "fe80:0:0:2::5", .paths = 1, .layer = kInfiniband},
                        {.gid = "fe80:0:0:2::9", .layer = kInfiniband}});
    // In a subnet the rest of an address says nothing of who is near.
    const At theirs{.gid = "fe80:0:0:2::4", .layer = kInfiniband};
    CHECK(fabrics.choose(&theirs) == 2);
}

TEST_CASE("an end of another link layer is none") {
    const Host host({kPlain, {.gid = "fe80::7", .paths = 3, .layer = kInfiniband}});
    const At theirs{.gid = "fe80::8", .layer = kInfiniband};
    CHECK(host.choose(&theirs) == 1);
    CHECK(host.choose(&kPlain) == 0);
    CHECK(Host({kPlain}).choose(&theirs) == kNone);
}

TEST_CASE("the fastest of those that can meet the other end") {
    const Host mixed({{.gid = "fe80::7", .layer = kInfiniband}, {.gigabits = 100}});
    CHECK(mixed.choose(&kPlain) == 1);
    CHECK(mixed.choose() == 0);
    CHECK(mixed.choose(nullptr, -1, 1) == 0);
    CHECK(mixed.choose(nullptr, -1, 2) == 1);  // the other end may have no InfiniBand
    const Host second({{.gid = "fe80::7", .taken = true, .layer = kInfiniband}, {.gigabits = 100}});
    for (uint32_t failures = 0; failures < 4; ++failures)
        CHECK(second.choose(nullptr, -1, failures) == kNone);  // it would hold up the first one
}

TEST_CASE("after failures it is another, until each pair was tried") {
    for (const size_t count : {1u, 2u, 3u, 4u, 8u}) {
        CAPTURE(count);
        const Host host(std::vector<At>(count, kPlain));
        std::set<std::pair<int, int>> tried;
        for (uint32_t failures = 0; failures < 2 * count * count; ++failures)
            tried.insert({host.choose(nullptr, -1, failures), host.choose(&kPlain, -1, failures)});
        CHECK(tried.size() == count * count);
    }
}

TEST_CASE("of two ports in networks of their own each pair is tried, its own network first") {
    const At a{.gid = "::ffff:10.0.1.1"}, b{.gid = "::ffff:10.0.2.1"};
    const Host host({a, b});
    std::set<std::pair<int, int>> tried;
    for (uint32_t failures = 0; failures < 4; ++failures) {
        const int first = host.choose(nullptr, -1, failures);
        tried.insert({first, host.choose(first ? &b : &a, -1, failures)});
    }
    CHECK(tried.size() == 4);
    CHECK(host.choose(nullptr, -1, UINT32_MAX) >= 0);
}
