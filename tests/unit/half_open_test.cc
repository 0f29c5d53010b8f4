// SPDX-License-Identifier: Apache-2.0
#include "core/peer/half_open.h"

#include <doctest/doctest.h>

#include <deque>
#include <memory>

#include "core/base/limits.h"

using namespace xfer;

namespace {

constexpr uint32_t kPlaces = 8;
constexpr uint64_t kStart = 1'000 * kNsPerMs;

Source address(uint64_t value) {
    return {Source::Kind::ipv4, value};
}

// A listener that takes and displaces as Shard does. No place's connection is looked at.
struct RendezvousSocket {
    HalfOpen half_open{kPlaces, 4711};
    uint64_t now = kStart;
    std::deque<HalfOpenPlace> places;
    HalfOpenPlace *displaced = nullptr;

    HalfOpenPlace *come(const Source &source) {
        if (!half_open.admits(source, now)) return nullptr;
        displaced = half_open.full() ? half_open.displace(now) : nullptr;
        alignas(8) static char nobody[8];
        places.emplace_back(*reinterpret_cast<Session *>(nobody));
        half_open.enter(places.back(), source, now);
        return &places.back();
    }
    void leave_all() {
        for (HalfOpenPlace &place : places)
            half_open.leave(place);
    }
};

}  // namespace

TEST_CASE("a half-open connection that leaves makes room") {
    RendezvousSocket door;
    std::deque<HalfOpenPlace *> taken;
    for (uint32_t i = 0; i < kPlaces; ++i)
        taken.push_back(door.come(address(1)));
    CHECK(door.half_open.full());
    CHECK(door.half_open.most() == kPlaces);
    CHECK(!door.come(address(1)));
    CHECK(door.half_open.turned_away() == 1);
    door.half_open.leave(*taken[3]);
    door.half_open.leave(*taken[3]);  // once counts
    CHECK(door.come(address(1)));
    CHECK(door.half_open.count() == kPlaces);
    CHECK(door.half_open.displaced() == 0);
    door.leave_all();
    CHECK(door.half_open.count() == 0);
    CHECK(door.half_open.most() == 0);
}

TEST_CASE("who comes from elsewhere displaces the oldest of the source with most") {
    RendezvousSocket door;
    HalfOpenPlace *quiet = door.come(address(2));
    HalfOpenPlace *oldest = door.come(address(1));
    while (!door.half_open.full())
        door.come(address(1));
    REQUIRE(door.come(address(3)));
    CHECK(door.displaced == oldest);
    CHECK(door.half_open.busiest() == address(1));
    REQUIRE(door.come(address(3)));
    CHECK(quiet->entered());
    // Up to an equal share.
    uint32_t more = 0;
    while (door.come(address(3)))
        ++more;
    CHECK(more == 1);
    CHECK(door.half_open.most() == 4);
    CHECK(quiet->entered());
    door.leave_all();
}

TEST_CASE("of one source each has its time to prove itself") {
    RendezvousSocket door;
    HalfOpenPlace *oldest = door.come(address(1));
    while (!door.half_open.full())
        door.come(address(1));
    door.now += kHalfOpenGraceNs - 1;
    CHECK(!door.come(address(1)));
    door.now += 1;
    CHECK(door.come(address(1)));
    CHECK(door.displaced == oldest);
    CHECK(!oldest->entered());
    door.leave_all();
}

// Places that were taken in one burst don't come free in one.
TEST_CASE("of one source those who displace others are spread over the time of all places") {
    RendezvousSocket door;
    while (!door.half_open.full())
        door.come(address(1));
    std::vector<uint64_t> taken;
    for (door.now = kStart + kHalfOpenGraceNs; door.now < kStart + 3 * kHalfOpenGraceNs;
         door.now += kNsPerMs)
        if (door.come(address(1))) taken.push_back(door.now);
    REQUIRE(taken.size() == 2 * kPlaces);
    for (size_t i = 1; i < taken.size(); ++i)
        CHECK(taken[i] - taken[i - 1] >= kHalfOpenGraceNs / kPlaces - kHalfOpenBurstNs);
    door.leave_all();
}

TEST_CASE("under pressure the oldest of all goes once it had more than enough time") {
    RendezvousSocket door;
    HalfOpenPlace *quiet = door.come(address(2));
    door.now += kNsPerMs;
    while (!door.half_open.full())
        door.come(address(1));
    door.now = kStart + kHalfOpenPressedNs - 1;
    REQUIRE(door.come(address(3)));
    CHECK(quiet->entered());
    door.now += 1;
    REQUIRE(door.come(address(1)));
    CHECK(door.displaced == quiet);
    door.leave_all();
}

TEST_CASE("pressure ends, and is reported once") {
    RendezvousSocket door;
    while (!door.half_open.full())
        door.come(address(1));
    CHECK(!door.half_open.under_pressure(door.now));
    door.come(address(1));
    CHECK(door.half_open.under_pressure(door.now));
    CHECK(door.half_open.report_due(door.now));
    CHECK(!door.half_open.report_due(door.now + kPressureLogNs - 1));
    CHECK(door.half_open.report_due(door.now + kPressureLogNs));
    CHECK(!door.half_open.under_pressure(door.now + kPressureEndsNs));
    door.leave_all();
}

TEST_CASE("sources of thousands spread over the groups, and take no more than the bound") {
    RendezvousSocket door;
    for (uint64_t i = 0; i < 10'000; ++i) {
        door.now += kHalfOpenGraceNs;
        REQUIRE(door.come({Source::Kind::ipv6, i << 16}));
        REQUIRE(door.half_open.count() <= kPlaces);
    }
    CHECK(door.half_open.most() <= 4);
    door.leave_all();
}

TEST_CASE("a source is told as a person writes it") {
    CHECK(to_string(Source{Source::Kind::ipv4, 0x7f000002}) == "127.0.0.2");
    CHECK(to_string(Source{Source::Kind::ipv6, 0x20010db800000001}) == "2001:db8:0:1::/64");
    CHECK(to_string(Source{Source::Kind::user, 1000}) == "user 1000");
}
