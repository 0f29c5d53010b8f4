// SPDX-License-Identifier: Apache-2.0
// Registered memory of the library's own: when it is there, what of it is taken, and its end.
#include "transport/rdma/bounce_buffers.h"

#include <sys/wait.h>

#include <cstring>
#include <deque>
#include <random>

#include "domain_fixture.h"
#include "util/mapped.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

struct Slab : LoopOverMemory {
    explicit Slab(uint64_t bytes = 64 * 1024) {
        buffers.emplace(memory.verbs, memory.port, *worker, log, bytes);
    }
    ~Slab() {
        memory.loop_thread = {};  // its end may block
        buffers.reset();
    }
    Bounce await(uint64_t bytes) {
        std::optional<Bounce> taken;
        REQUIRE(turn_until([&] { return bool(taken = buffers->take(bytes)); }));
        return *taken;
    }
    bool allows(const Bounce &bounce, uint64_t bytes) {
        return memory.allows(bounce.lkey, reinterpret_cast<uint64_t>(bounce.address), bytes, true);
    }
    std::optional<BounceBuffers> buffers;
};

}  // namespace

TEST_CASE("it is made by the first that asks, and serves from then on") {
    Slab slab;
    slab.turns(3);
    CHECK(slab.memory.adds == 0);
    CHECK_FALSE(slab.buffers->take(100));
    const Bounce first = slab.await(100);
    CHECK(slab.allows(first, 100));
    const Bounce second = slab.await(64 * 1024 - 128);
    CHECK(slab.allows(second, 64 * 1024 - 128));
    CHECK_FALSE(slab.buffers->take(1));
    slab.buffers->give_back(first);
    CHECK(slab.buffers->take(128));
    CHECK(slab.memory.adds == 1);
    CHECK_FALSE(slab.buffers->fails());
}

TEST_CASE("nothing, and more than there is, is not taken") {
    Slab slab;
    slab.buffers->give_back(slab.await(slab.buffers->most()));
    CHECK_FALSE(slab.buffers->take(0));
    CHECK_FALSE(slab.buffers->take(slab.buffers->most() + 1));
    CHECK(slab.buffers->in_use() == 0);
}

TEST_CASE("it is no larger than what the device registers at once") {
    Slab slab;
    slab.memory.port.limits.region_bytes = 8192;
    slab.buffers.emplace(slab.memory.verbs, slab.memory.port, *slab.worker, slab.log);
    CHECK(slab.buffers->most() == 8192);
    const Bounce all = slab.await(8192);
    CHECK(slab.allows(all, 8192));
    CHECK(slab.memory.registered() == 1);
}

TEST_CASE("where it can't be registered nothing is ever taken, and that is logged once") {
    Slab slab;
    slab.memory.fail_adds = 1;
    CHECK_FALSE(slab.buffers->take(100));
    REQUIRE(slab.turn_until([&] { return slab.buffers->fails(); }));
    for (int i = 0; i < 3; ++i)
        CHECK_FALSE(slab.buffers->take(100));
    slab.turns(3);
    CHECK(slab.memory.adds == 1);
    CHECK(slab.lines.size() == 1);
}

TEST_CASE("its end waits for the worker, and leaves nothing") {
    Slab slab;
    slab.memory.hold();
    CHECK_FALSE(slab.buffers->take(100));
    slab.memory.await_call();
    slab.memory.loop_thread = {};
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        slab.memory.let_go();
    });
    slab.buffers.reset();
    CHECK(slab.memory.registered() == 0);
    later.join();
}

TEST_CASE("in the child of a fork it is not there, and stays the parent's") {
    Slab slab;
    const Bounce taken = slab.await(100);
    std::memset(taken.address, 7, 100);
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        slab.buffers.reset();
        ::_exit(slab.memory.removes + is_mapped(taken.address, 100));
    }
    int how = -1;
    REQUIRE(::waitpid(child, &how, 0) == child);
    CHECK(WIFEXITED(how));
    CHECK(WEXITSTATUS(how) == 0);
    CHECK(taken.address[99] == 7);
    CHECK(slab.allows(taken, 100));
}

TEST_CASE("what is taken is nobody else's until it is given back") {
    struct Taken {
        Bounce bounce;
        uint64_t bytes;
        uint8_t fill;
    };
    Slab slab;
    std::mt19937_64 random(1);
    std::deque<Taken> taken;
    slab.buffers->give_back(slab.await(1));
    uint64_t refused = 0;
    const auto give_back = [&](size_t which) {
        const Taken &one = taken[which];
        for (uint64_t i = 0; i < one.bytes; ++i)
            REQUIRE(one.bounce.address[i] == one.fill);
        slab.buffers->give_back(one.bounce);
        taken.erase(taken.begin() + static_cast<ptrdiff_t>(which));
    };
    for (int step = 0; step < 5000; ++step) {
        const uint64_t bytes = 1 + random() % 8000;
        const auto bounce = slab.buffers->take(bytes);
        refused += !bounce;
        if (bounce) {
            REQUIRE(slab.allows(*bounce, bytes));
            taken.push_back({*bounce, bytes, static_cast<uint8_t>(step)});
            std::memset(bounce->address, step, bytes);
        }
        if (!taken.empty() && (!bounce || random() % 3 == 0)) give_back(random() % taken.size());
    }
    CHECK(refused > 100);
    while (!taken.empty())
        give_back(0);
    CHECK(slab.buffers->in_use() == 0);
}
