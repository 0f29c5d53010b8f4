// SPDX-License-Identifier: Apache-2.0
#include "put_stream.h"

#include <doctest/doctest.h>

namespace rdma_test {

namespace {

constexpr size_t kWindow = 8;
constexpr double kDeadline = 10, kSlack = 5;  // seconds; a machine under emulation is late

}  // namespace

PutStream::PutStream(Engine &engine, Remote &owner, const std::vector<uint8_t> &data)
    : engine_(engine), owner_(owner), data_(data) {
    for (uint64_t block = 0; block < data.size() / kBlock; ++block)
        waiting_.push_back(block);
}

void PutStream::end_one() {
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

}  // namespace rdma_test
