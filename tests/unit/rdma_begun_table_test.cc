// SPDX-License-Identifier: Apache-2.0
// The table of begun notifications: registered and void again by the worker, whatever fails or ends
// in between; what is noted, on both sides; and that nobody sees what was noted in its memory
// before.
#include "transport/rdma/begun_table.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "rdma_ends.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

BegunRecord read(uint64_t address) {
    BegunRecord record;
    std::memcpy(&record, reinterpret_cast<const void *>(address), sizeof record);
    return record;
}

// As the peer's adapter does it.
void write(const BegunTable &table, uint64_t place, const BegunRecord &record) {
    std::memcpy(reinterpret_cast<void *>(table.address() + place * sizeof record), &record,
                sizeof record);
}

std::map<uint64_t, uint64_t> visited(const BegunTable &table) {
    std::map<uint64_t, uint64_t> seen;
    table.each([&](NotificationId number, uint64_t key) {
        CHECK(seen.emplace(number.value, key).second);
    });
    return seen;
}

// Calls that pin pages, or let them go, block.
std::thread::id loop_thread;
ibv_mr *register_off_loop(ibv_pd *domain, void *address, size_t length, int access) {
    CHECK(std::this_thread::get_id() != loop_thread);
    return FakeFabric::verbs().reg_mr(domain, address, length, access);
}
int deregister_off_loop(ibv_mr *region) {
    CHECK(std::this_thread::get_id() != loop_thread);
    return FakeFabric::verbs().dereg_mr(region);
}

struct Fixture final : PinnedBlockSink {
    Fixture() { make(); }
    ~Fixture() {
        EngineLoop::Inside inside(*loop);
        table.reset();
        worker.reset();
    }
    void make() {
        EngineLoop::Inside inside(*loop);
        opened.clear(), closed = 0;
        table.reset();
        table = std::make_unique<BegunTable>(verbs, port, *worker, *this);
    }
    void on_block_open(const Failure &why) override {
        CHECK_FALSE(in_method);
        CHECK(closed == 0);
        opened.push_back(why);
    }
    void on_block_closed() override {
        CHECK_FALSE(in_method);
        ++closed;
    }
    void open() { call(&BegunTable::open); }
    void close() { call(&BegunTable::close); }
    void call(void (BegunTable::*method)()) {
        EngineLoop::Inside inside(*loop);
        in_method = true;
        (table.get()->*method)();
        in_method = false;
    }
    template <typename Condition>
    bool turn_until(Condition condition) {
        for (int i = 0; i < 2'000 && !condition(); ++i)
            loop->turn(kNsPerMs);
        return condition();
    }
    bool turn_until_open() {
        return turn_until([this] { return !opened.empty(); });
    }
    bool turn_until_closed() {
        return turn_until([this] { return closed > 0; });
    }
    size_t registered() { return fabric.live().regions; }

    std::unique_ptr<OwnLoop> loop = make_loop();
    FakeFabric fabric;
    Verbs verbs = FakeFabric::verbs();
    const Port port = fabric.add().port();
    std::unique_ptr<Worker> worker = std::make_unique<Worker>(*loop);
    std::vector<Failure> opened;
    int closed = 0;
    bool in_method = false;
    std::unique_ptr<BegunTable> table;
};

// Of the same worker; it ends when it is let go.
struct AnotherJob final : Worker::Job {
    explicit AnotherJob(Fixture &fixture) : of(fixture) {}
    void run() noexcept override {
        registered_before = of.registered();
        while (!let_go)
            std::this_thread::yield();
    }
    void done(Status) override { closed_before = of.closed; }

    Fixture &of;
    std::atomic<bool> let_go{false};
    size_t registered_before = 0;
    std::optional<int> closed_before;
};

}  // namespace

TEST_CASE("it is registered once it is told so, and void once that is told") {
    Fixture given;
    CHECK(given.registered() == 0);
    given.open();
    REQUIRE(given.turn_until_open());
    CHECK(given.opened[0].status == XFER_OK);
    CHECK(given.registered() == 1);
    CHECK(given.table->address() % 4096 == 0);
    given.close();
    REQUIRE(given.turn_until_closed());
    CHECK(given.registered() == 0);
    CHECK(given.opened.size() == 1);
    for (int i = 0; i < 5; ++i)
        given.loop->turn(0);
    CHECK(given.closed == 1);
}

TEST_CASE("a peer's adapter reaches each record of its half by its key, and none behind") {
    Fixture given;
    given.open();
    REQUIRE(given.turn_until_open());
    ibv_mr *const region = given.verbs.reg_mr(given.port.domain, &given, 8, 0);
    CHECK(given.table->key() != 0);
    CHECK(given.table->key() != region->rkey);
    given.verbs.dereg_mr(region);
    write(*given.table, 0, {1, 2});
    write(*given.table, kNotificationSpan - 1, {3, 4});
    CHECK(visited(*given.table) == std::map<uint64_t, uint64_t>{{1, 2}, {3, 4}});
}

TEST_CASE("what is noted stands where the adapter takes it, and has a key there") {
    Fixture given;
    given.open();
    REQUIRE(given.turn_until_open());
    for (const uint64_t number : {uint64_t{1}, kNotificationSpan - 1, kNotificationSpan,
                                  5 * kNotificationSpan + 7, UINT64_MAX}) {
        CAPTURE(number);
        const NotificationId id{number};
        CHECK_FALSE(given.table->is_noted(id));
        const Piece piece = given.table->note(id, ~number);
        CHECK(given.table->is_noted(id));
        CHECK(piece.length == sizeof(BegunRecord));
        CHECK(piece.offset == number % kNotificationSpan * sizeof(BegunRecord));
        CHECK(read(piece.local).number == number);
        CHECK(read(piece.local).key == ~number);
        CHECK(given.table->find(piece.local).lkey != 0);
        CHECK(given.table->find(piece.local).reach >= piece.length);
    }
    CHECK(visited(*given.table).empty());  // nothing of it is the peer's
}

TEST_CASE("no key is for what lies beside it") {
    Fixture given;
    given.open();
    REQUIRE(given.turn_until_open());
    const Piece last = given.table->note(NotificationId{kNotificationSpan - 1}, 1);
    CHECK(given.table->find(last.local).reach == last.length);
    CHECK(given.table->find(last.local + last.length - 1).reach == 1);
    CHECK(given.table->find(last.local + last.length).reach == 0);
    CHECK(given.table->find(given.table->address() - 1).reach == 0);
    CHECK(given.table->find(0).reach == 0);
}

TEST_CASE(
    "leak 9: a notification takes the place of one that is a span older, and can be forgotten") {
    Fixture given;
    const NotificationId old{9}, young{9 + kNotificationSpan};
    const Piece one = given.table->note(old, 1);
    const Piece other = given.table->note(young, 2);
    CHECK(one.local == other.local);
    CHECK_FALSE(given.table->is_noted(old));
    CHECK(given.table->is_noted(young));
    given.table->forget(young);
    CHECK_FALSE(given.table->is_noted(young));
    CHECK_FALSE(given.table->is_noted(old));
    CHECK(read(one.local).number == 0);
}

TEST_CASE("a device that refuses it is told, and nothing is left") {
    Fixture given;
    given.fabric.fail_call(FakeCall::reg_mr, 1, ENOMEM);
    given.open();
    REQUIRE(given.turn_until_open());
    CHECK(given.opened[0].status == XFER_ENOMEM);
    CHECK(given.opened[0].native == ENOMEM);
    given.close();
    REQUIRE(given.turn_until_closed());
    CHECK(given.registered() == 0);
}

TEST_CASE("closed before it is open: nothing is told but the end") {
    for (const bool fails : {false, true})
        for (const bool waits : {false, true}) {
            Fixture given;
            if (fails) given.fabric.fail_call(FakeCall::reg_mr, 1, ENOMEM);
            given.open();
            if (waits && !fails)  // the thread is through, the loop does not know of it
                while (given.registered() == 0)
                    std::this_thread::yield();
            given.close();
            REQUIRE(given.turn_until_closed());
            CHECK(given.opened.empty());
            CHECK(given.registered() == 0);
        }
}

TEST_CASE("closed while it waits for the worker: it is not registered, and waits for nobody else") {
    Fixture given;
    AnotherJob first(given), second(given);
    {
        EngineLoop::Inside inside(*given.loop);
        given.worker->submit(first);
        given.table->open();
        given.worker->submit(second);
        given.table->close();
    }
    first.let_go = second.let_go = true;
    REQUIRE(given.turn_until([&] { return second.closed_before.has_value(); }));
    CHECK(second.closed_before == 1);
    CHECK(second.registered_before == 0);
    CHECK(given.opened.empty());
}

TEST_CASE("no call to the device blocks the loop") {
    for (const int turns : {0, 1, 5}) {
        Fixture given;
        loop_thread = std::this_thread::get_id();
        given.verbs.reg_mr = register_off_loop, given.verbs.dereg_mr = deregister_off_loop;
        given.open();
        for (int i = 0; i < turns; ++i)
            given.loop->turn(kNsPerMs);
        given.close();
        REQUIRE(given.turn_until_closed());
        CHECK(given.registered() == 0);
    }
}

TEST_CASE("closed without ever having been opened") {
    Fixture given;
    given.close();
    REQUIRE(given.turn_until_closed());
    CHECK(given.opened.empty());
}

TEST_CASE("destroyed at any time: nothing is told, and nothing is left") {
    for (int turns = 0; turns < 4; ++turns)
        for (const bool closes : {false, true}) {
            Fixture given;
            given.open();
            for (int i = 0; i < turns; ++i)
                given.loop->turn(kNsPerMs);
            if (closes) given.close();
            const size_t told = given.opened.size() + static_cast<size_t>(given.closed);
            {
                EngineLoop::Inside inside(*given.loop);
                given.table.reset();
            }
            CHECK(given.registered() == 0);
            for (int i = 0; i < 5; ++i)
                given.loop->turn(0);
            CHECK(given.opened.size() + static_cast<size_t>(given.closed) == told);
        }
}

TEST_CASE("memory of a table that is used again holds nothing of the last one") {
    Fixture given;
    std::map<uint64_t, int> addresses;
    for (int round = 0; round < 50; ++round) {
        given.make();
        ++addresses[given.table->address()];
        CHECK(visited(*given.table).empty());
        for (uint64_t i = 0; i < kNotificationSpan; ++i) {
            if (given.table->is_noted({i + 1})) FAIL("noted: ", i);
            write(*given.table, i, {i + 1, i});
            given.table->note({i + 1}, i);
        }
        CHECK(visited(*given.table).size() == kNotificationSpan);
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which use none again at once
    CHECK(addresses.size() < 50);                                    // some of it was used again
#endif
}
