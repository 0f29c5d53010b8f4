// SPDX-License-Identifier: Apache-2.0
// Two guests with an engine each, and the cable between them, which is pulled. The other engine is
// rdma_owner's.
#include <doctest/doctest.h>

#include <cstdlib>
#include <deque>
#include <fstream>

#include "engine.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("engine-cable");

namespace {

constexpr uint64_t kBlock = uint64_t(1) << 20, kBlocks = kOwnerBytes / kBlock;
constexpr size_t kWindow = 8, kBeforeCut = 8;
constexpr double kDeadline = 10, kSlack = 5;  // seconds; a machine under emulation is late

std::string owner_uri() {
    return std::string("tcp://") + std::getenv("XFER_GUEST_PEER") + kOwnerPort;
}

void cable(const char *word) {
    std::ofstream out("/run/cable");
    out << word << std::endl;
    REQUIRE(bool(out));
}

// Puts each block, a window at a time; one that has failed is put again.
class Stream {
public:
    Stream(Engine &engine, Remote &owner, const std::vector<uint8_t> &data)
        : engine_(engine), owner_(owner), data_(data) {
        for (uint64_t block = 0; block < kBlocks; ++block)
            waiting_.push_back(block);
    }

    // Waits for the end of one put.
    void end_one() {
        for (; !waiting_.empty() && under_way_ < kWindow; ++under_way_, waiting_.pop_front()) {
            const uint64_t offset = waiting_.front() * kBlock;
            owner_.put(data_.data() + offset, offset, kBlock, waiting_.front(), kDeadline);
        }
        const auto event = engine_.next(kDeadline + kSlack);
        REQUIRE(event);
        const bool fenced = event->flags & XFER_FENCED, maybe = event->flags & XFER_MAYBE_APPLIED;
        CHECK(fenced != maybe);
        --under_way_;
        if (event->status == XFER_OK) {
            ++done_;
            return;
        }
        const bool lost = event->status == XFER_EPEERLOST || event->status == XFER_ETIMEDOUT;
        CHECK_MESSAGE(lost, xfer_status_name(event->status));
        ++failed_;
        waiting_.push_back(event->user);
    }

    size_t done() const { return done_; }
    size_t failed() const { return failed_; }

private:
    Engine &engine_;
    Remote &owner_;
    const std::vector<uint8_t> &data_;
    std::deque<uint64_t> waiting_;
    size_t under_way_ = 0, done_ = 0, failed_ = 0;
};

}  // namespace

TEST_CASE("bytes move both ways between two guests") {
    Engine engine;
    Remote owner(engine, owner_uri());
    owner.await_adapter();
    std::vector<uint8_t> data(kBlock * 4 + 321), back(data.size());
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
    Stream stream(engine, owner, data);
    while (stream.done() < kBeforeCut)
        stream.end_one();
    REQUIRE(stream.failed() == 0);
    cable("down");
    const double cut = now();
    while (stream.failed() == 0)
        stream.end_one();
    MESSAGE("figure: a put on a cable that is pulled ends after " << now() - cut << " s");
    cable("up");
    while (stream.done() < kBlocks)
        stream.end_one();
    owner.await_adapter();
    REQUIRE(owner.get_all(back) == XFER_OK);
    CHECK(back == data);
}

TEST_SUITE_END();
