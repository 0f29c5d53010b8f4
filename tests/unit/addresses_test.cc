// SPDX-License-Identifier: Apache-2.0
#include "core/peer/addresses.h"

#include <doctest/doctest.h>

#include "core/base/limits.h"

using namespace xfer;

namespace {

constexpr uint64_t kNow = 1'000 * kNsPerMs;

}  // namespace

TEST_CASE("each address comes at once, in the order in which they were said") {
    Addresses addresses;
    CHECK(addresses.empty());
    addresses.add("a");
    addresses.add("b");
    addresses.add("a");
    CHECK(addresses.next().uri == "a");
    CHECK(addresses.next().at <= kNow);
    addresses.failed("a", kNow, 0, 0);
    CHECK(addresses.next().uri == "b");
    CHECK(addresses.next().at <= kNow);
    addresses.failed("b", kNow, 0, 0);
    CHECK(addresses.next().uri == "a");
    CHECK(addresses.next().at > kNow);
    addresses.remove("a");
    CHECK(addresses.next().uri == "b");
    addresses.failed("a", kNow, 0, 0);  // gone meanwhile
    addresses.remove("b");
    CHECK(addresses.empty());
}

TEST_CASE("of two that wait for the same moment the one tried longest ago is next") {
    Addresses addresses;
    addresses.add("a");
    addresses.add("b");
    addresses.failed("b", kNow, 0, 7);
    addresses.failed("a", kNow, 0, 7);
    CHECK(addresses.next().uri == "b");
}

TEST_CASE("back-off: doubled up to its limit, at least half of it, and never twice") {
    for (uint64_t dice : {uint64_t{0}, uint64_t{12345678901}, ~uint64_t{0}}) {
        Addresses addresses;
        addresses.add("a");
        for (uint64_t failure = 0; failure < 40; ++failure) {
            addresses.failed("a", kNow, 0, dice);
            const uint64_t wait =
                failure < 7 ? kBackoffFirstNs << failure : kBackoffLastNs;  // 20 ms ... 2 s
            CHECK(addresses.next().at >= kNow + wait / 2);
            CHECK(addresses.next().at <= kNow + wait);
        }
        CHECK(addresses.failures() == 40);
    }
}

TEST_CASE("a peer that asked for a pause gets it, and more if it asks again and again") {
    Addresses addresses;
    addresses.add("a");
    for (int failure = 0; failure < 20; ++failure) {
        const uint64_t dice = static_cast<uint64_t>(failure) * 0x9e3779b97f4a7c15;
        addresses.failed("a", kNow, 50 * kNsPerMs, dice);
        CHECK(addresses.next().at >= kNow + 50 * kNsPerMs);
    }
    CHECK(addresses.next().at >= kNow + kBackoffLastNs / 2);
    CHECK(addresses.next().at <= kNow + kBackoffLastNs);
}

TEST_CASE("a sign of life clears all of it") {
    Addresses addresses;
    addresses.add("a");
    addresses.add("b");
    for (int failure = 0; failure < 5; ++failure) {
        addresses.failed("a", kNow, 0, 0);
        addresses.failed("b", kNow, 0, 0);
    }
    addresses.alive(false);
    CHECK(addresses.next().at <= kNow);
    CHECK(addresses.failures() == 0);
    addresses.failed(addresses.next().uri, kNow, 0, 0);
    CHECK(addresses.next().at <= kNow);
}

TEST_CASE("connections that do not last count as failures, but for the first in a row") {
    for (uint64_t dice : {uint64_t{0}, ~uint64_t{0}}) {
        Addresses addresses;
        addresses.add("a");
        for (int row = 0; row < 2; ++row) {
            addresses.alive(false);
            addresses.connection_ended("a", kLastingNs - 1, kNow, dice);
            CHECK(addresses.next().at <= kNow);
            for (uint64_t failure = 0; failure < 20; ++failure) {
                addresses.alive(false);
                CHECK(addresses.next().at <= kNow);
                addresses.connection_ended("a", 0, kNow, dice);
                const uint64_t wait =
                    failure < 7 ? kBackoffFirstNs << failure : kBackoffLastNs;  // 20 ms ... 2 s
                CHECK(addresses.next().at >= kNow + wait / 2);
                CHECK(addresses.next().at <= kNow + wait);
            }
            addresses.alive(false);
            addresses.connection_ended("a", kLastingNs, kNow, dice);
            CHECK(addresses.next().at <= kNow);
        }
        for (int life = 0; life < 20; ++life) {
            addresses.alive(true);
            addresses.connection_ended("a", 0, kNow, dice);
            CHECK(addresses.next().at <= kNow);
        }
        addresses.alive(true);
        addresses.connection_ended("", 0, kNow, dice);  // the peer has dialed us
        addresses.connection_ended("", 0, kNow, dice);
        CHECK(addresses.next().at <= kNow);
    }
}

TEST_CASE("where a peer is only expected it is dialed, and not found") {
    Addresses addresses;
    addresses.add("expected", true);
    CHECK(!addresses.has("expected"));
    CHECK(addresses.next().uri == "expected");
    addresses.learn("expected", false);  // it says so itself
    CHECK(addresses.has("expected"));
    addresses.add("expected", true);
    CHECK(addresses.has("expected"));
    addresses.mark_unverified();
    CHECK(!addresses.has("expected"));
    addresses.add("expected");
    CHECK(addresses.has("expected"));
}

TEST_CASE("what a peer says of itself has a bound, what the user says has not") {
    Addresses addresses;
    for (int i = 0; i < 100; ++i)
        addresses.learn("learned " + std::to_string(i), true);
    size_t count = 0;
    addresses.each([&](const std::string &) { ++count; });
    CHECK(count == kMaxListenUris);
    addresses.add("the user's");
    CHECK(addresses.has("the user's"));
}

TEST_CASE("in an index, unless only claimed, from the time they enter it until they leave, or go") {
    AddressIndex index;
    {
        Addresses addresses, others;
        addresses.add("a");
        addresses.learn("f", true);
        CHECK(index.find("a") == nullptr);
        addresses.enter(index);
        CHECK(index.find("f") == nullptr);
        others.enter(index);
        addresses.learn("b", false);
        others.add("b");
        others.add("c");
        CHECK(index.find("a") != nullptr);
        CHECK(index.find("c") != nullptr);
        const Address *first = index.find("b");
        addresses.remove("b");
        REQUIRE(index.find("b") != nullptr);
        CHECK(index.find("b") != first);
        addresses.learn("e", true);
        CHECK(index.find("e") == nullptr);
        addresses.add("e");  // it is
        CHECK(index.find("e") != nullptr);
        addresses.learn("e", true);
        CHECK(index.find("e") != nullptr);
        addresses.leave();
        CHECK(index.find("a") == nullptr);
        addresses.add("d");
        CHECK(index.find("d") == nullptr);
    }
    CHECK(index.empty());
}

TEST_CASE("what is said later is dialed at once, and who answers there is a successor") {
    Addresses addresses;
    addresses.add("a");
    addresses.add("b", true);
    addresses.failed("a", kNow, 0, 0);
    addresses.failed("b", kNow, 0, 0);
    CHECK(addresses.next().at > kNow);
    CHECK(addresses.leads_on("a"));
    CHECK_FALSE(addresses.leads_on("b"));
    CHECK_FALSE(addresses.leads_on("c"));
    std::list<Address> made;
    made.emplace_back(nullptr, "b");
    CHECK_FALSE(addresses.add(made, true));  // new is none of them
    CHECK(made.empty());
    CHECK(addresses.next().uri == "b");
    CHECK(addresses.next().at <= kNow);
    made.emplace_back(nullptr, "a");
    made.emplace_back(nullptr, "c");
    CHECK(addresses.add(made, true));
    CHECK(addresses.has("a"));
    CHECK_FALSE(addresses.has("c"));
    for (const char *uri : {"a", "b", "c"})
        CHECK(addresses.leads_on(uri));
}

TEST_CASE("all addresses are of others once another engine has answered at each") {
    Addresses addresses;
    addresses.add("a");
    addresses.add("b");
    addresses.set_of_other("a", true);
    CHECK_FALSE(addresses.all_of_others());
    addresses.set_of_other("b", true);
    CHECK(addresses.all_of_others());
    addresses.failed("a", kNow, 0, 0);
    CHECK(addresses.all_of_others());
    addresses.set_of_other("a", false);
    CHECK_FALSE(addresses.all_of_others());
    addresses.set_of_other("a", true);
    addresses.alive(false);
    CHECK_FALSE(addresses.all_of_others());
}
