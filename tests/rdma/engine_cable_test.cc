// SPDX-License-Identifier: Apache-2.0
// Two guests with an engine each, and the cable between them, which is pulled. The other engine is
// rdma_owner's.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "engine.h"
#include "put_stream.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("engine-cable");

namespace {

constexpr size_t kBeforeCut = 8;

std::string owner_uri() {
    return std::string("tcp://") + std::getenv("XFER_GUEST_PEER") + kOwnerPort;
}

void cable(const char *word) {
    std::ofstream out("/run/cable");
    out << word << std::endl;
    REQUIRE(bool(out));
}

}  // namespace

TEST_CASE("bytes move both ways between two guests") {
    Engine engine;
    Remote owner(engine, owner_uri());
    owner.await_adapter();
    std::vector<uint8_t> data(PutStream::kBlock * 4 + 321), back(data.size());
    fill(data, 1);
    const uint64_t before = engine.carried_by_adapters();
    REQUIRE(owner.put_all(data) == XFER_OK);
    REQUIRE(owner.get_all(back) == XFER_OK);
    CHECK(back == data);
    CHECK(engine.carried_by_adapters() >= before + 2 * data.size());
}

TEST_CASE("the cable is pulled under a stream of puts: they end in time, and are put again") {
    Engine engine;
    Remote owner(engine, owner_uri());
    owner.await_adapter();
    std::vector<uint8_t> data(kOwnerBytes), back(kOwnerBytes);
    fill(data, 2);
    PutStream stream(engine, owner, data);
    while (stream.done() < kBeforeCut)
        stream.end_one();
    REQUIRE(stream.failed() == 0);
    cable("down");
    const double cut = now();
    while (stream.failed() == 0)
        stream.end_one();
    MESSAGE("figure: a put on a cable that is pulled ends after " << now() - cut << " s");
    cable("up");
    while (!stream.all_done())
        stream.end_one();
    owner.await_adapter();
    REQUIRE(owner.get_all(back) == XFER_OK);
    CHECK(back == data);
}

TEST_SUITE_END();
