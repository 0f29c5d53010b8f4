// SPDX-License-Identifier: Apache-2.0
#include "util/tree.h"

#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

using namespace xfer;

namespace {

struct ByName;
struct ByNumber;

struct Thing : TreeNode<ByName>, TreeNode<ByNumber> {
    Thing(std::string text, int count) : name(std::move(text)), number(count) {}
    const std::string name;
    const int number;
};

using Names = Tree<Thing, ByName, &Thing::name>;
using Numbers = Tree<Thing, ByNumber, &Thing::number>;

// A key that counts how often it is looked at.
struct Counted {
    int value;
    static inline uint64_t looks = 0;
    std::strong_ordering operator<=>(const Counted &other) const {
        ++looks;
        return value <=> other.value;
    }
};

struct Item : TreeNode<ByNumber> {
    explicit Item(int value) : key{value} {}
    const Counted key;
};

using Items = Tree<Item, ByNumber, &Item::key>;

}  // namespace

TEST_CASE("against a list in order of coming: what came first of all that are equal is found") {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
        std::mt19937 dice(seed);
        Names names;
        Numbers numbers;
        std::deque<std::unique_ptr<Thing>> things;  // the model: in order of coming
        const int keys = 1 + static_cast<int>(dice() % 60);
        for (int step = 0; step < 4000; ++step) {
            const int number = static_cast<int>(dice()) % keys;
            const std::string name = std::to_string(number);
            if (dice() % 3) {
                things.push_back(std::make_unique<Thing>(name, number));
                names.insert(*things.back());
                numbers.insert(*things.back());
            }
            if (!things.empty() && dice() % 2) {
                const auto gone = static_cast<std::ptrdiff_t>(dice() % things.size());
                Thing &thing = *things[static_cast<size_t>(gone)];
                if (dice() % 2) thing.TreeNode<ByName>::unlink();  // else its end does
                things.erase(things.begin() + gone);
            }
            const Thing *first = nullptr;
            for (const auto &thing : things)
                if (!first && thing->number == number) first = thing.get();
            REQUIRE(numbers.find(number) == first);
            REQUIRE(names.find(name) == first);
            REQUIRE(names.empty() == things.empty());
        }
        things.clear();
        CHECK(names.empty());
        CHECK(numbers.empty());
    }
}

TEST_CASE("out of a tree, and in again, also in another") {
    Numbers one, other;
    Thing thing("a", 1);
    CHECK(!thing.TreeNode<ByNumber>::linked());
    thing.TreeNode<ByNumber>::unlink();  // it is in none
    one.insert(thing);
    CHECK(thing.TreeNode<ByNumber>::linked());
    thing.TreeNode<ByNumber>::unlink();
    other.insert(thing);
    CHECK(one.find(1) == nullptr);
    CHECK(other.find(1) == &thing);
}

// Who chooses the keys chooses their order too.
TEST_CASE("no order of keys makes it slow") {
    constexpr int kItems = 20'000;
    constexpr uint64_t kEnough = 60 * kItems;  // some four times log2 for each step
    std::vector<int> up, down, halves;
    for (int i = 0; i < kItems; ++i) {
        up.push_back(i);
        down.push_back(kItems - i);
        halves.push_back(i % 2 ? i : kItems - i);
    }
    for (const auto &come : {up, down, halves})
        for (const auto &ask : {up, down, halves}) {
            Items items;
            std::deque<Item> all;
            Counted::looks = 0;
            for (const int value : come) {
                all.emplace_back(value);
                items.insert(all.back());
            }
            CHECK(Counted::looks < kEnough);
            Counted::looks = 0;
            for (const int value : ask)
                items.find(Counted{value});
            CHECK(Counted::looks < kEnough);
            Counted::looks = 0;
            for (int i = 0; i < kItems; ++i)
                items.find(Counted{-1});  // in vain
            CHECK(Counted::looks < kEnough);
        }
}
