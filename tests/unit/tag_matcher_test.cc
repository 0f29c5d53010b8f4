// SPDX-License-Identifier: Apache-2.0
// Which message goes to which receive: a table, and random ones against a plain list.
#include "core/message/tag_matcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

using namespace xfer;

namespace {

struct Wish : Posted {
    int number = 0;
};
struct Letter : Unexpected {
    int number = 0;
};

EngineId peer(uint8_t number) {
    EngineId id{};
    id[15] = number;
    return id;
}

void fill_in(Wish &wish, int from, uint64_t tag, uint64_t mask) {
    wish.any = from == 0;
    if (from > 0) wish.from = peer(static_cast<uint8_t>(from));
    wish.tag = tag;
    wish.mask = mask;
}

void fill_in(Letter &letter, int from, uint64_t tag) {
    letter.from = peer(static_cast<uint8_t>(from));
    letter.tag = tag;
}

constexpr int kUnknown = -1;

}  // namespace

TEST_CASE("what a receive takes") {
    struct Row {
        const char *what;
        int wished;  // 0: any
        uint64_t tag, mask;
        int from;
        uint64_t sent;
        bool taken;
    };
    const Row rows[] = {
        {"the very one", 1, 5, UINT64_MAX, 1, 5, true},
        {"another tag", 1, 5, UINT64_MAX, 1, 4, false},
        {"another peer", 1, 5, UINT64_MAX, 2, 5, false},
        {"from any", 0, 5, UINT64_MAX, 2, 5, true},
        {"from any, another tag", 0, 5, UINT64_MAX, 2, 4, false},
        {"any tag", 1, 5, 0, 1, 99, true},
        {"any tag, another peer", 1, 5, 0, 2, 99, false},
        {"anything", 0, 0, 0, 9, UINT64_MAX, true},
        {"some bits", 0, 0x1200, 0xff00, 9, 0x12ff, true},
        {"some bits, which differ", 0, 0x1200, 0xff00, 9, 0x1300, false},
        {"bits of the tag outside the mask", 0, 0x12ff, 0xff00, 9, 0x1200, true},
        {"a peer that is not known", kUnknown, 5, UINT64_MAX, 1, 5, false},
        {"a peer that is not known, any tag", kUnknown, 5, 0, 1, 5, false},
    };
    for (const Row &row : rows) {
        CAPTURE(row.what);
        TagMatcher matching;
        Wish wish;
        Letter letter;
        fill_in(wish, row.wished, row.tag, row.mask);
        fill_in(letter, row.from, row.sent);
        matching.add(wish);
        CHECK((matching.take(letter.from, letter.tag) == &wish) == row.taken);
        if (!row.taken) matching.remove(wish);
        CHECK(matching.take(letter.from, letter.tag) == nullptr);
        matching.add(letter);
        CHECK((matching.take(wish) == &letter) == row.taken);
        if (!row.taken) matching.remove(letter);
        CHECK(matching.take(wish) == nullptr);
        CHECK(matching.oldest() == nullptr);
    }
}

// Every step is done by the plainest means too: two lists that are searched from the front.
TEST_CASE("against two plain lists") {
    for (unsigned seed = 0; seed < 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const auto draw = [&](int below) {
            return static_cast<int>(random() % static_cast<unsigned>(below));
        };
        TagMatcher matching;
        std::vector<std::unique_ptr<Wish>> wishes;
        std::vector<std::unique_ptr<Letter>> letters, taken;
        std::map<const Letter *, int> came;
        const auto out = [](auto &list, auto *item) {
            std::erase_if(list, [&](const auto &held) { return held.get() == item; });
        };
        for (int step = 0; step < 300; ++step) {
            const int what = draw(12);
            if (what < 4) {
                auto letter = std::make_unique<Letter>();
                fill_in(*letter, 1 + draw(3), static_cast<uint64_t>(draw(4)));
                Wish *expected = nullptr;
                for (auto &wish : wishes)
                    if (!expected && wish->takes(letter->from, letter->tag)) expected = wish.get();
                auto *found = static_cast<Wish *>(matching.take(letter->from, letter->tag));
                REQUIRE(found == expected);
                if (found) {
                    out(wishes, found);
                } else {
                    matching.add(*letter);
                    came[letter.get()] = step;
                    letters.push_back(std::move(letter));
                }
            } else if (what < 8) {
                auto wish = std::make_unique<Wish>();
                const uint64_t masks[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 2, 0};
                fill_in(*wish, draw(5) - 1, static_cast<uint64_t>(draw(4)), masks[draw(5)]);
                Letter *expected = nullptr;
                for (auto &letter : letters)
                    if (!expected && wish->takes(letter->from, letter->tag))
                        expected = letter.get();
                auto *found = static_cast<Letter *>(matching.take(*wish));
                REQUIRE(found == expected);
                if (found) {
                    out(letters, found);
                } else {
                    matching.add(*wish);
                    wishes.push_back(std::move(wish));
                }
            } else if (what == 8 && !wishes.empty()) {
                Wish *gone =
                    wishes[static_cast<size_t>(draw(static_cast<int>(wishes.size())))].get();
                matching.remove(*gone);
                out(wishes, gone);
            } else if (what == 9 && !letters.empty()) {
                Letter *gone =
                    letters[static_cast<size_t>(draw(static_cast<int>(letters.size())))].get();
                matching.remove(*gone);
                out(letters, gone);
            } else if (what == 10 && !letters.empty()) {
                const auto at = letters.begin() + draw(static_cast<int>(letters.size()));
                matching.remove(**at);
                taken.push_back(std::move(*at));
                letters.erase(at);
            } else if (what == 11 && !taken.empty()) {
                const auto at = taken.begin() + draw(static_cast<int>(taken.size()));
                matching.put_back(**at);
                const auto later = std::find_if(
                    letters.begin(), letters.end(),
                    [&](const auto &other) { return came[other.get()] > came[at->get()]; });
                letters.insert(later, std::move(*at));
                taken.erase(at);
            }
            const auto *oldest = static_cast<Letter *>(matching.oldest());
            REQUIRE(oldest == (letters.empty() ? nullptr : letters.front().get()));
        }
        for (auto &wish : wishes)
            matching.remove(*wish);
        for (auto &letter : letters)
            matching.remove(*letter);
    }
}
