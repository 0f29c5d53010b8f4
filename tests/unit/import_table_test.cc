// SPDX-License-Identifier: Apache-2.0
// What an initiator knows of regions that it reaches by itself.
#include "core/connection/import_table.h"

#include <doctest/doctest.h>

#include "core/base/limits.h"

using namespace xfer;

namespace {

constexpr RegionId kRegion{7};
const Access kAccess{7, 1, 100};

struct Counted final : Import {
    explicit Counted(int &count) : Import(XFER_READ, false), alive(count) { ++alive; }
    ~Counted() override { --alive; }
    int &alive;
};

struct Table : ImportTable {
    int alive = 0;
    std::unique_ptr<Import> import() { return std::make_unique<Counted>(alive); }
    bool asks(const Access &access) {
        const Found found = find(access);
        CHECK(!found.import);
        if (found.unknown) asked(access);
        return found.unknown;
    }
    bool reaches(const Access &access) {
        const Found found = find(access);
        CHECK(!found.unknown);
        return found.import;
    }
};

}  // namespace

TEST_CASE("a region is asked for once, and then imported") {
    Table table;
    CHECK(table.asks(kAccess));
    CHECK_FALSE(table.asks(kAccess));
    CHECK(table.waits_for(kRegion));
    table.answered(kRegion, table.import(), false);
    CHECK_FALSE(table.waits_for(kRegion));
    CHECK(table.reaches(kAccess));
    CHECK(table.reaches(kAccess));
    CHECK(table.asks({8, 1, 100}));  // and the one that was found last is not taken for another
    CHECK(table.reaches(kAccess));
}

TEST_CASE("an import serves only who shows the generation and the key that it was asked for with") {
    Table table;
    REQUIRE(table.asks(kAccess));
    table.answered(kRegion, table.import(), false);
    CHECK_FALSE(table.reaches({7, 2, 100}));
    CHECK_FALSE(table.reaches({7, 1, 101}));
    CHECK(table.reaches(kAccess));
}

TEST_CASE("what is out of reach is not asked for again, but with another key") {
    Table table;
    REQUIRE(table.asks(kAccess));
    table.answered(kRegion, nullptr, false);
    CHECK_FALSE(table.asks(kAccess));
    CHECK(table.asks({7, 1, 101}));
    CHECK_FALSE(table.asks({7, 1, 101}));
    table.answered(kRegion, table.import(), false);
    CHECK(table.reaches({7, 1, 101}));
    CHECK_FALSE(table.reaches(kAccess));
}

TEST_CASE("what could not be answered now is asked for again") {
    Table table;
    REQUIRE(table.asks(kAccess));
    table.answered(kRegion, nullptr, true);
    CHECK(table.asks(kAccess));
}

TEST_CASE("a region that was withdrawn gives up its import, and is unknown") {
    Table table;
    CHECK(!table.withdraw(kRegion));
    REQUIRE(table.asks(kAccess));
    CHECK(!table.withdraw(kRegion));
    CHECK(table.waits_for(kRegion));  // its answer is still to come
    table.answered(kRegion, table.import(), false);
    {
        const auto import = table.withdraw(kRegion);
        CHECK(import);
        CHECK(table.alive == 1);
    }
    CHECK(table.alive == 0);
    CHECK(table.asks(kAccess));
}

TEST_CASE("a message is no region") {
    Table table;
    const auto found = table.find({kMessageBit | 7, 0, 0});
    CHECK(!found.import);
    CHECK(!found.unknown);
}

TEST_CASE("only so many questions wait") {
    Table table;
    for (uint64_t region = 1; region <= kMaxExportsAsked; ++region)
        CHECK(table.asks({region, 1, 1}));
    CHECK_FALSE(table.asks({kMaxExportsAsked + 1, 1, 1}));
    table.answered({1}, nullptr, false);
    CHECK(table.asks({kMaxExportsAsked + 1, 1, 1}));
    CHECK_FALSE(table.asks({1, 1, 2}));  // out of reach for another, and no question is left
    table.clear();
    CHECK(table.asks({1, 1, 1}));
}

TEST_CASE("a full table makes room of what is out of reach, and of nothing else") {
    Table table;
    for (uint64_t region = 1; region <= kMaxImports; ++region) {
        REQUIRE(table.asks({region, 1, 1}));
        table.answered({region}, region % 2 ? table.import() : nullptr, false);
    }
    CHECK(table.asks({kMaxImports + 1, 1, 1}));
    CHECK(table.alive == kMaxImports / 2);
    CHECK(table.reaches({1, 1, 1}));
    table.answered({kMaxImports + 1}, table.import(), false);
    for (uint64_t region = 2; region < kMaxImports; region += 2) {
        REQUIRE(table.asks({region, 1, 1}));
        table.answered({region}, table.import(), false);
        if (table.alive == static_cast<int>(kMaxImports)) break;
    }
    CHECK_FALSE(table.asks({kMaxImports + 2, 1, 1}));
    table.clear();
    CHECK(table.alive == 0);
}

TEST_CASE("a message is asked for on purpose, and once") {
    Table table;
    const MessageId message{3};
    const Access access{Target(message).wire()};
    const RegionId number{access.region};
    using Word = ImportTable::Word;
    CHECK_FALSE(table.reaches(access));  // and does not ask by the way
    CHECK(table.word_on(access) == Word::unasked);
    table.asked(access);
    CHECK(table.word_on(access) == Word::awaited);
    CHECK_FALSE(table.reaches(access));
    table.answered(number, table.import(), false);
    CHECK(table.word_on(access) == Word::here);
    CHECK(table.reaches(access));
    CHECK_FALSE(table.reaches({access.region, 1, 0}));
    CHECK(table.forget(number));
    CHECK(table.alive == 0);
    CHECK(table.word_on(access) == Word::unasked);
    CHECK_FALSE(table.forget(number));
}

TEST_CASE("a message that is forgotten while it is asked for leaves nothing behind") {
    Table table;
    for (uint64_t i = 1; i <= 2 * kMaxImports; ++i) {
        const Access access{Target(MessageId{i}).wire()};
        REQUIRE(table.word_on(access) == ImportTable::Word::unasked);
        table.asked(access);
        CHECK_FALSE(table.forget(RegionId{access.region}));
        CHECK_FALSE(table.waits_for(RegionId{access.region}));
    }
}

TEST_CASE(
    "messages that are asked for count as questions, and where there are too many go by lanes") {
    Table table;
    for (uint64_t i = 1; i <= kMaxExportsAsked; ++i)
        table.asked({Target(MessageId{i}).wire()});
    CHECK(table.word_on({Target(MessageId{1'000}).wire()}) == ImportTable::Word::here);
    CHECK_FALSE(table.asks(kAccess));
}
