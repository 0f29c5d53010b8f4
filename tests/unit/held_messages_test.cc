// SPDX-License-Identifier: Apache-2.0
#include "core/message/held_messages.h"

#include <doctest/doctest.h>

#include "core/base/limits.h"

using namespace xfer;

namespace {

EngineId sender(uint32_t number) {
    EngineId id{};
    id[0] = static_cast<uint8_t>(number), id[1] = static_cast<uint8_t>(number >> 8);
    return id;
}

constexpr uint64_t kWhole = kMaxHeldOfSender - kHeldMessage;  // payload that fills one share

}  // namespace

TEST_CASE("one sender is held up to its share, to the byte") {
    HeldMessages held;
    CHECK_FALSE(held.take(sender(1), kWhole + 1));
    CHECK(held.empty());
    REQUIRE(held.take(sender(1), kWhole));
    CHECK_FALSE(held.take(sender(1), 0));
    CHECK(held.take(sender(2), 0));
    held.give_back(sender(2), 0);
    held.give_back(sender(1), kWhole);
    CHECK(held.empty());
    CHECK(held.take(sender(1), kWhole));
}

TEST_CASE("a message without payload costs memory as well") {
    HeldMessages held;
    uint64_t count = 0;
    while (held.take(sender(1), 0))
        ++count;
    CHECK(count == kMaxHeldOfSender / kHeldMessage);
}

TEST_CASE("all senders together are held up to the engine's bound, to the byte") {
    HeldMessages held;
    constexpr auto kSenders = static_cast<uint32_t>(kMaxHeldInEngine / kMaxHeldOfSender);
    for (uint32_t i = 0; i < kSenders; ++i)
        REQUIRE(held.take(sender(i), kWhole));
    CHECK(held.total() == kMaxHeldInEngine);
    CHECK_FALSE(held.take(sender(kSenders), 0));
    held.give_back(sender(7), kWhole);
    CHECK_FALSE(held.take(sender(kSenders), kWhole + 1));
    CHECK(held.take(sender(kSenders), kWhole));
    held.give_back(sender(kSenders), kWhole);
    for (uint32_t i = 0; i < kSenders; ++i)
        if (i != 7) held.give_back(sender(i), kWhole);
    CHECK(held.empty());
}

TEST_CASE("a length that wraps is past the bound") {
    HeldMessages held;
    for (uint64_t length : {UINT64_MAX - kHeldMessage, kMaxHeldInEngine, kMaxHeldOfSender})
        CHECK_FALSE(held.take(sender(1), length));
    CHECK(held.empty());
}
