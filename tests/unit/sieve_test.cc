// SPDX-License-Identifier: Apache-2.0
#include "core/peer/sieve.h"

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

using namespace xfer;

namespace {

struct Item : SieveNode {
    int number = 0;
    bool busy = false;
};

// The paper's description, on a plain vector: oldest first, the hand an index.
class Model {
public:
    void insert(int number) { items_.push_back({number, false, false}); }
    void remove(int number) {
        for (size_t i = 0; i < items_.size(); ++i)
            if (items_[i].number == number) {
                items_.erase(items_.begin() + static_cast<long>(i));
                if (hand_ > i) --hand_;
                return;
            }
    }
    void use(int number) { find(number).used = true; }
    void set_busy(int number, bool busy) { find(number).busy = busy; }
    int pick() {
        for (size_t steps = items_.size() * 3 - hand_; steps > 0; --steps) {
            if (hand_ >= items_.size()) hand_ = 0;
            Entry &at = items_[hand_++];
            if (at.busy) continue;
            if (!at.used) return at.number;
            at.used = false;
        }
        hand_ = 0;  // nobody may go: it begins anew
        return -1;
    }

private:
    struct Entry {
        int number;
        bool used, busy;
    };
    Entry &find(int number) {
        for (Entry &entry : items_)
            if (entry.number == number) return entry;
        FAIL("not there");
        return items_[0];
    }
    std::vector<Entry> items_;
    size_t hand_ = 0;
};

}  // namespace

TEST_CASE("the oldest that was not used goes first") {
    Sieve<Item> sieve;
    Item items[4];
    for (int i = 0; i < 4; ++i) {
        items[i].number = i;
        sieve.insert(items[i]);
    }
    const auto any = [](const Item &) { return true; };
    items[0].used();
    CHECK(sieve.pick(any)->number == 1);
    CHECK(sieve.pick(any)->number == 2);  // the hand goes on
    CHECK(sieve.pick(any)->number == 3);
    CHECK(sieve.pick(any)->number == 0);  // spared once
    CHECK(sieve.pick([](const Item &) { return false; }) == nullptr);
    for (Item &item : items)
        sieve.remove(item);
    CHECK(sieve.pick(any) == nullptr);
}

TEST_CASE("whatever comes, goes, is used and is busy: as the plain model says") {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 dice(seed);
        Sieve<Item> sieve;
        Model model;
        std::vector<std::unique_ptr<Item>> items;
        int last = 0;
        for (int step = 0; step < 2'000; ++step) {
            const unsigned what = dice() % 10;
            const size_t which = items.empty() ? 0 : dice() % items.size();
            if (what < 2 || items.empty()) {
                if (items.size() >= 40) continue;
                items.push_back(std::make_unique<Item>());
                items.back()->number = ++last;
                sieve.insert(*items.back());
                model.insert(last);
            } else if (what < 6) {
                items[which]->used();
                model.use(items[which]->number);
            } else if (what == 6) {
                items[which]->busy = !items[which]->busy;
                model.set_busy(items[which]->number, items[which]->busy);
            } else if (what == 7) {
                sieve.remove(*items[which]);
                model.remove(items[which]->number);
                items.erase(items.begin() + static_cast<long>(which));
            } else {
                Item *picked = sieve.pick([](const Item &item) { return !item.busy; });
                REQUIRE((picked ? picked->number : -1) == model.pick());
            }
        }
    }
}
