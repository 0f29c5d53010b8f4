// SPDX-License-Identifier: Apache-2.0
// Which packets may be sent, have come, and were taken: tables, and two ends with everything
// between them that loses, repeats and reorders.
#include <doctest/doctest.h>

#include <deque>
#include <random>

#include "transport/rdma/packet_window.h"

using namespace xfer::rdma;
using Heard = ReceiveWindow::Heard;

TEST_CASE("a window of packets may be sent, and one more for each that was taken") {
    SendWindow sends;
    for (uint32_t i = 0; i < kPacketWindow; ++i) {
        CHECK(sends.has_room());
        CHECK(sends.next() == i);
        sends.filled();
    }
    CHECK_FALSE(sends.has_room());
    CHECK(sends.on_taken(1));
    CHECK(sends.has_room());
    sends.filled();
    CHECK_FALSE(sends.has_room());
    CHECK(sends.on_taken(0));  // an old word
    CHECK(sends.taken() == 1);
    CHECK(sends.on_taken(kPacketWindow + 1));
    CHECK(sends.taken() == sends.next());
}

TEST_CASE("nobody has taken what was not sent") {
    SendWindow sends;
    CHECK_FALSE(sends.on_taken(1));
    sends.filled();
    CHECK(sends.on_taken(1));
    CHECK_FALSE(sends.on_taken(2));
    CHECK_FALSE(sends.on_taken(UINT64_MAX));
    CHECK(sends.taken() == 1);
}

TEST_CASE("a packet is fresh once, in any order, within the window") {
    ReceiveWindow receives;
    CHECK_FALSE(receives.has_first());
    CHECK(receives.on_packet(1) == Heard::fresh);
    CHECK_FALSE(receives.has_first());
    CHECK(receives.on_packet(1) == Heard::again);
    CHECK(receives.on_packet(0) == Heard::fresh);
    CHECK(receives.has_first());
    CHECK(receives.on_packet(kPacketWindow - 1) == Heard::fresh);
    CHECK(receives.on_packet(kPacketWindow) == Heard::beyond);
    CHECK(receives.on_packet(UINT64_MAX) == Heard::beyond);
    receives.take_first();
    CHECK(receives.first() == 1);
    CHECK(receives.on_packet(0) == Heard::again);
    // The other end does not know yet.
    CHECK(receives.on_packet(kPacketWindow) == Heard::beyond);
    CHECK(receives.tell() == 1);
    CHECK(receives.on_packet(kPacketWindow) == Heard::fresh);
    CHECK(receives.on_packet(kPacketWindow + 1) == Heard::beyond);
}

TEST_CASE("half of a window that was taken is to be said") {
    ReceiveWindow receives;
    for (uint64_t number = 0; number < kPacketWindow; ++number) {
        CHECK(receives.owes_word() == (number >= kPacketWindow / 2));
        CHECK(receives.on_packet(number) == Heard::fresh);
        receives.take_first();
    }
    CHECK(receives.tell() == kPacketWindow);
    CHECK_FALSE(receives.owes_word());
}

// What is between them may be empty for long: then all that is not known to be taken is sent again.
TEST_CASE("over anything that loses, repeats and reorders, each packet is taken once, in order") {
    for (uint32_t seed = 1; seed <= 200; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        SendWindow sends;
        ReceiveWindow receives;
        std::deque<uint64_t> packets, words;
        uint64_t read = 0;
        constexpr uint64_t kAll = 300;
        for (int step = 0; step < 100'000 && read < kAll; ++step) {
            const auto pick = [&](auto &from) {
                const size_t at = random() % from.size();
                const uint64_t number = from[at];
                if (random() % 4) from.erase(from.begin() + static_cast<std::ptrdiff_t>(at));
                return number;
            };
            switch (random() % 6) {
            case 0:
                if (sends.has_room() && sends.next() < kAll) {
                    packets.push_back(sends.next());
                    sends.filled();
                }
                break;
            case 1:
                if (!packets.empty()) {
                    const Heard heard = receives.on_packet(pick(packets));
                    REQUIRE(heard != Heard::beyond);
                }
                break;
            case 2:
                if (receives.has_first()) {
                    REQUIRE(receives.first() == read);
                    receives.take_first();
                    ++read;
                }
                break;
            case 3:
                words.push_back(receives.tell());
                break;
            case 4:
                if (!words.empty()) REQUIRE(sends.on_taken(pick(words)));
                break;
            case 5:
                if (random() % 20) break;
                packets.clear(), words.clear();
                for (uint64_t number = sends.taken(); number != sends.next(); ++number)
                    packets.push_back(number);
                words.push_back(receives.tell());
                break;
            }
        }
        CHECK(read == kAll);
    }
}
