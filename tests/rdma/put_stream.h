// SPDX-License-Identifier: Apache-2.0
// Puts of one block after the other, a window of them at a time. One that has failed is put again.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine.h"

namespace rdma_test {

class PutStream {
public:
    static constexpr uint64_t kBlock = uint64_t(1) << 20;

    // `data`: whole blocks, which go to the same places there.
    PutStream(Engine &engine, Remote &owner, const std::vector<uint8_t> &data);

    void end_one();  // waits for the end of one put
    size_t done() const { return done_; }
    size_t failed() const { return failed_; }
    bool all_done() const { return done_ * kBlock == data_.size(); }

private:
    Engine &engine_;
    Remote &owner_;
    const std::vector<uint8_t> &data_;
    std::deque<uint64_t> waiting_;
    size_t under_way_ = 0, done_ = 0, failed_ = 0;
};

}  // namespace rdma_test
