// SPDX-License-Identifier: Apache-2.0
#include "util/number_map.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <random>

using xfer::NumberMap;

TEST_CASE("an empty map has nothing") {
    NumberMap<int> map;
    CHECK(map.empty());
    CHECK(map.find(1) == nullptr);
    CHECK(map.find(0) == nullptr);
    CHECK_FALSE(map.erase(1));
}

TEST_CASE("numbers that count up come and go, whatever stays behind") {
    NumberMap<uint64_t> map;
    map.insert(1, 100);
    for (uint64_t number = 2; number < 5'000; ++number) {
        map.insert(number, number + 100);
        REQUIRE(map.size() == 2);
        REQUIRE(*map.find(1) == 100);
        REQUIRE(*map.find(number) == number + 100);
        REQUIRE(map.erase(number));
        REQUIRE_FALSE(map.contains(number));
    }
}

// Numbers that all belong to one place, and others between them.
TEST_CASE("what was pushed aside is found after any erase") {
    for (const uint64_t stride : {1u, 2u, 16u, 64u, 1'024u}) {
        std::mt19937_64 random(stride);
        NumberMap<uint64_t> map;
        std::map<uint64_t, uint64_t> model;
        for (int step = 0; step < 20'000; ++step) {
            const uint64_t number = 1 + (random() % 200) * stride + random() % 2;
            if (model.contains(number)) {
                REQUIRE(map.erase(number));
                model.erase(number);
            } else if (model.size() < 100) {
                map.insert(number, number * 3);
                model[number] = number * 3;
            }
            REQUIRE(map.size() == model.size());
            if (step % 16 == 0) {
                size_t seen = 0;
                map.each([&](uint64_t at, uint64_t item) {
                    REQUIRE(model.at(at) == item);
                    ++seen;
                });
                REQUIRE(seen == model.size());
            }
            for (const auto &[at, item] : model)
                REQUIRE(*map.find(at) == item);
        }
    }
}

TEST_CASE("items are moved, not copied, and end with the map") {
    NumberMap<std::shared_ptr<int>> map;
    const auto item = std::make_shared<int>(7);
    for (uint64_t number = 1; number <= 100; ++number)
        map.insert(number, item);
    CHECK(item.use_count() == 101);
    for (uint64_t number = 1; number <= 50; ++number)
        map.erase(number);
    CHECK(item.use_count() == 51);
    map.clear();
    CHECK(item.use_count() == 1);
    CHECK(map.empty());
}

TEST_CASE("room that was made is not made again") {
    NumberMap<int> map;
    map.make_room();
    int &first = map.insert(1, 1);
    map.make_room();
    CHECK(map.find(1) == &first);
}
