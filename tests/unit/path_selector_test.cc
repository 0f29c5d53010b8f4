// SPDX-License-Identifier: Apache-2.0
// The table of paths: what each kind of work takes, and when better paths are to be opened.
#include "core/connection/path_selector.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/base/limits.h"

using namespace xfer;

namespace {

constexpr auto kOpening = PathView::Health::opening, kReady = PathView::Health::ready,
               kDown = PathView::Health::down;
constexpr uint32_t kHost = memory_bit(XFER_MEM_HOST), kBoth = kHost | memory_bit(XFER_MEM_CUDA);

PathView first(PathView::Health health = kReady) {
    return {Scope::network, health, true, 0, kHost};
}
PathView silent() {  // the first one, when the near one speaks
    return {Scope::network, kDown, false, 0, kHost};
}
PathView data(PathView::Health health = kReady, uint64_t waiting = 0, uint32_t memory = kHost) {
    return {Scope::network, health, false, waiting, memory};
}
PathView full(uint64_t waiting) {
    PathView path = data(kReady, waiting);
    path.full = true;
    return path;
}
PathView near(PathView::Health health = kReady, bool control = true) {
    return {Scope::host, health, control, 0, kHost};
}
PathView attached(uint64_t here, uint64_t there) {
    return {Scope::fabric, kReady, false, 0, kBoth, here, there};
}
PathView self() {
    return {Scope::process, kReady, true, 0, kHost};
}

constexpr int kNone = -1;

struct Row {
    const char *name;
    std::vector<PathView> paths;
    int small, bulk;  // which takes it
    bool open;        // for bulk; small work never asks for more
    PathRequest request = {};
};

const std::vector<Row> kTable = {
    {"only the first: bulk goes by it while others are opened", {first()}, 0, 0, true},
    {"a data lane is on its way", {first(), data(kOpening)}, 0, 0, false},
    {"a data lane is there", {first(), data()}, 0, 1, false},
    {"the data lane with the least to do",
     {first(), data(kReady, 9), data(kReady, 3), data(kReady, 5)},
     0,
     2,
     false},
    {"one that has room before one that is full", {first(), full(1), data(kReady, 5)}, 0, 2, false},
    {"all data lanes are full: frames still go alone", {first(), full(9), full(3)}, 0, 2, false},
    {"of equal ones the first", {first(), data(kReady, 3), data(kReady, 3)}, 0, 1, false},
    {"a data lane has much to do, and frames still go alone",
     {first(), data(kReady, 1 << 23)},
     0,
     1,
     false},
    {"the only data lane has failed", {first(), data(kDown)}, 0, 0, true},
    {"one of two data lanes has failed", {first(), data(kDown), data()}, 0, 2, false},
    {"the near one is on its way: no data lanes are opened",
     {first(), near(kOpening, false)},
     0,
     0,
     false},
    {"the near one is on its way beside a data lane",
     {first(), data(), near(kOpening, false)},
     0,
     1,
     false},
    {"the near one carries all", {silent(), near()}, 1, 1, false},
    {"also where data lanes were opened before", {silent(), data(), near()}, 2, 2, false},
    {"also with much to do",
     {silent(), data(), {Scope::host, kReady, true, 1 << 23, kHost}},
     2,
     2,
     false},
    {"the near one has failed", {first(), near(kDown, false)}, 0, 0, true},
    {"by shared memory from the first word", {near()}, 0, 0, false},
    {"one engine", {self()}, 0, 0, false},
    {"one engine rather than one host", {near(), self()}, 1, 1, false},
    {"nothing is ready", {first(kOpening)}, kNone, kNone, false},
    {"there is nothing", {}, kNone, kNone, false},
    {"device memory: no path moves it",
     {first(), data()},
     kNone,
     kNone,
     false,
     {0, XFER_MEM_CUDA, XFER_MEM_HOST}},
    {"to device memory: only one that does",
     {silent(), data(kReady, 9, kBoth), near()},
     1,
     1,
     false,
     {0, XFER_MEM_HOST, XFER_MEM_CUDA}},
    {"between devices",
     {silent(), data(kReady, 0, kHost), data(kReady, 9, kBoth), near()},
     2,
     2,
     false,
     {0, XFER_MEM_CUDA, XFER_MEM_CUDA}},
    {"one fabric rather than sockets", {first(), data(), attached(7, 7)}, 2, 2, false},
    {"two fabrics do not reach each other", {first(), data(), attached(7, 8)}, 0, 1, false},
    {"nor does who has one reach who has none", {first(), attached(7, 0)}, 0, 0, true},
    {"one host rather than one fabric", {silent(), near(), attached(7, 7)}, 1, 1, false},
    {"device memory on one fabric",
     {silent(), near(), attached(7, 7)},
     2,
     2,
     false,
     {0, XFER_MEM_CUDA, XFER_MEM_CUDA}},
    {"a path that moves more kinds is no better for it",
     {first(), data(), data(kReady, 0, kBoth)},
     0,
     1,
     false},
};

}  // namespace

TEST_CASE("each work takes the path of the table") {
    for (const Row &row : kTable) {
        CAPTURE(std::string(row.name));
        for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kSmall}) {
            PathRequest request = row.request;
            request.bytes = bytes;
            const Choice choice = choose(row.paths, request);
            CHECK((choice.path ? static_cast<int>(*choice.path) : kNone) == row.small);
            CHECK(!choice.open_lanes);
        }
        for (const uint64_t bytes : {kSmall + 1, uint64_t{1} << 40}) {
            PathRequest request = row.request;
            request.bytes = bytes;
            const Choice choice = choose(row.paths, request);
            CHECK((choice.path ? static_cast<int>(*choice.path) : kNone) == row.bulk);
            CHECK(choice.open_lanes == row.open);
        }
    }
}
