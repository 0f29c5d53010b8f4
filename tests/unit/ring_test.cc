// SPDX-License-Identifier: Apache-2.0
// Shared memory between two processes: bytes in a ring, wake-ups that are not lost, and memory that
// is taken back while it is copied.
#include "transport/shm/ring.h"

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <thread>
#include <vector>

#include "interleave.h"
#include "transport/shm/hazard.h"

using namespace xfer;
using namespace xfer::shm;
using test::Interleavings;
using test::Stepped;

namespace {

iovec vector_of(void *base, size_t size) {
    return {base, size};
}

// A ring of two bytes between two programs that ring each other's bell.
struct Model {
    RingShared<Stepped> shared;
    uint8_t data[2];
    Stepped<uint32_t> reader_bell, writer_bell;

    void write_all(uint64_t bytes) {
        RingWriter<Stepped> writer(shared, data, sizeof data);
        uint8_t byte = 0;
        const iovec one = vector_of(&byte, 1);
        while (bytes > 0) {
            const uint64_t room = writer.room_for({&one, 1});
            if (room == 0) {
                if (writer.wait()) Interleavings::wait(&writer_bell);
                continue;
            }
            bytes -= writer.write({&one, 1}, room);
            if (writer.must_ring()) reader_bell.store(1);
        }
    }
    void read_all(uint64_t bytes) {
        RingReader<Stepped> reader(shared, data, sizeof data);
        uint8_t some[2];
        const iovec into = vector_of(some, sizeof some);
        while (bytes > 0) {
            const uint64_t there = reader.there();
            if (there == 0) {
                if (reader.sleep()) Interleavings::wait(&reader_bell);
                continue;
            }
            bytes -= reader.read({&into, 1}, there);
            if (reader.must_ring()) writer_bell.store(1);
        }
    }
};

}  // namespace

TEST_CASE("bytes come out as they went in, whatever the pieces") {
    constexpr uint64_t kSize = 64, kTotal = 200'000;
    RingShared<> shared{};
    std::vector<uint8_t> data(kSize);
    std::thread other([&] {
        RingWriter<> writer(shared, data.data(), kSize);
        std::mt19937 random(1);
        for (uint64_t sent = 0; sent < kTotal;) {
            uint8_t bytes[100];
            for (size_t i = 0; i < sizeof bytes; ++i)
                bytes[i] = static_cast<uint8_t>((sent + i) * 7);
            const size_t first = random() % 50, second = random() % 50;
            const iovec pieces[] = {vector_of(bytes, first), vector_of(bytes + first, second)};
            const uint64_t room = writer.room_for(pieces);
            REQUIRE(writer.sane(room));
            sent += writer.write(pieces, std::min(room, kTotal - sent));
        }
    });
    RingReader<> reader(shared, data.data(), kSize);
    std::mt19937 random(2);
    uint64_t wrong = 0;
    for (uint64_t got = 0; got < kTotal;) {
        uint8_t bytes[100];
        const size_t first = random() % 50, second = random() % 50;
        const iovec pieces[] = {vector_of(bytes, first), vector_of(bytes + first, second)};
        const uint64_t there = reader.there();
        if (!reader.sane(there)) ++wrong;
        const uint64_t some = reader.read(pieces, there);
        for (uint64_t i = 0; i < some; ++i)
            wrong += bytes[i] != static_cast<uint8_t>((got + i) * 7);
        got += some;
    }
    other.join();
    CHECK(wrong == 0);
}

TEST_CASE("what the other end writes into the indexes is not believed") {
    RingShared<> shared{};
    uint8_t data[64];
    RingWriter<> writer(shared, data, sizeof data);
    RingReader<> reader(shared, data, sizeof data);
    for (const uint64_t nonsense : {uint64_t{65}, uint64_t{1} << 40, UINT64_MAX}) {
        shared.written.store(nonsense);
        CHECK_FALSE(reader.sane(reader.there()));
        shared.read.store(nonsense);
        const uint64_t room = writer.room();
        // One that has taken what was never written; or less than it said before, which only
        // makes the ring shorter.
        CHECK((!writer.sane(room) || room < sizeof data));
    }
    shared.written.store(64);
    CHECK(reader.sane(reader.there()));
}

TEST_CASE("no wake-up is lost, in any interleaving") {
    Model model;
    Interleavings all;
    CHECK(all.all_end({[&] { model.write_all(3); }, [&] { model.read_all(3); }}));
    CHECK(all.states() > 1'000);  // it did go through them
}

TEST_CASE("the search finds a lost wake-up") {
    // As the protocol would be with a store that others may see late.
    Stepped<uint32_t> sleeps, written, bell;
    const auto announce = [&](std::memory_order order) {
        return std::vector<Interleavings::Program>{[&] {
                                                       written.store(1);
                                                       if (sleeps.load()) bell.store(1);
                                                   },
                                                   [&, order] {
                                                       if (written.load()) return;
                                                       sleeps.store(1, order);
                                                       if (!written.load())
                                                           Interleavings::wait(&bell);
                                                   }};
    };
    CHECK(Interleavings().all_end(announce(std::memory_order_seq_cst)));
    CHECK_FALSE(Interleavings().all_end(announce(std::memory_order_release)));
}

TEST_CASE("memory that was taken back is not copied to, in any interleaving") {
    // `users` counts who copies, `freed` is the owner's word that nobody does.
    Stepped<uint64_t> hazard, slot, users, freed;
    const auto neighbour = [&] {
        for (int round = 0; round < 2; ++round) {
            if (shm::publish(hazard, slot, 7)) {
                users.store(1);
                Interleavings::check(freed.load() == 0);
                users.store(0);
            }
            shm::clear(hazard);
        }
    };
    const auto owner = [&] {
        slot.store(7);
        bool copies = shm::retire(slot, hazard, 7);
        for (int looks = 0; copies && looks < 3; ++looks)
            copies = hazard.load() == 7;
        if (copies) return;
        freed.store(1);
        Interleavings::check(users.load() == 0);
    };
    Interleavings all;
    CHECK(all.all_end({neighbour, owner}));
    CHECK(all.states() > 200);
}
