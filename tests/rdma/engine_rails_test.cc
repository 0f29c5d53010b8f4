// SPDX-License-Identifier: Apache-2.0
// Two engines with the same two devices, RDMA_TEST_RAILS, and a path by each of them. The network
// interface under the second one, RDMA_TEST_CUT, is taken down and up again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "engine.h"
#include "put_stream.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("engine-rails");

namespace {

constexpr uint64_t kBytes = uint64_t(64) << 20;
constexpr double kPatience = 60;  // seconds

void interface(const char *word) {
    const std::string name = std::getenv("RDMA_TEST_CUT");
    REQUIRE(std::system(("ip link set " + name + " " + word).c_str()) == 0);
}

// Large puts, until so many paths are open, and each has carried bytes after that.
void until_open(Engine &engine, Remote &owner, size_t paths) {
    const std::vector<uint8_t> data(uint64_t(4) << 20, 1);
    const double end = now() + kPatience;
    std::vector<uint64_t> before, open;
    const auto each_moves = [&] {
        if (open.size() != paths || before.size() != paths) return false;
        for (size_t i = 0; i < paths; ++i)
            if (open[i] <= before[i]) return false;
        return true;
    };
    while (!each_moves()) {
        REQUIRE(now() < end);
        before = engine.open_paths();
        REQUIRE(owner.put_all(data) == XFER_OK);
        open = engine.open_paths();
    }
}

}  // namespace

TEST_CASE("one of two rails is cut under load: the other goes on, and the first one comes back") {
    std::vector<uint8_t> memory(kBytes);
    Engine near(std::getenv("RDMA_TEST_RAILS")), far(std::getenv("RDMA_TEST_RAILS"));
    far.lend(memory);
    Remote owner(near, far.listen("tcp://127.0.0.1:0"));
    until_open(near, owner, 2);
    const double limit = now() + kPatience;
    while (near.connections(true).empty())
        REQUIRE((until_open(near, owner, 2), now()) < limit);
    const std::vector<uint64_t> connections = near.connections(true);

    std::vector<uint8_t> data(kBytes);
    fill(data, 3);
    PutStream stream(near, owner, data);
    while (stream.done() < 4)
        stream.end_one();
    REQUIRE(stream.failed() == 0);
    interface("down");
    const double cut = now();
    while (near.open_paths().size() == 2)
        stream.end_one();
    MESSAGE("figure: a rail that is cut is given up after " << now() - cut << " s");
    const std::vector<uint64_t> alone = near.open_paths();
    REQUIRE(alone.size() == 1);
    const size_t failed = stream.failed(), done = stream.done();
    while (stream.done() < done + 8)
        stream.end_one();
    CHECK(stream.failed() <= failed + 8);  // of the window that was under way
    CHECK(near.open_paths().size() == 1);
    CHECK(near.open_paths()[0] > alone[0]);
    interface("up");
    while (!stream.all_done())
        stream.end_one();
    CHECK(memory == data);
    until_open(near, owner, 2);
    // Whichever rail its frames went by: they have found another way.
    CHECK(near.connections(true) == connections);
}

TEST_SUITE_END();
