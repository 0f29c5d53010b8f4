// SPDX-License-Identifier: Apache-2.0
// Chains, one behind the other, that go to a queue pair by one doorbell. No verbs call is made, and
// no memory is taken after construction. Thread: any, one at a time for a list.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>
#include <vector>

#include "transport/rdma/chain.h"

namespace xfer::rdma {

class PostList {
public:
    struct Entry {
        uint64_t cookie = 0;    // the caller's
        uint32_t requests = 0;  // at least 1
        uint64_t bytes = 0;
    };

    // Of at most so many requests, and elements of them all together, at least 1 each. May throw.
    PostList(uint32_t requests, size_t elements);
    PostList(const PostList &) = delete;
    PostList &operator=(const PostList &) = delete;

    void clear();
    // The next chain, to be built of what is left; again, if it is not added.
    Chain &chain() { return chain_; }
    void add(uint64_t cookie);  // the chain as it was built, which is not empty

    bool empty() const { return size_ == 0; }
    uint32_t size() const { return size_; }  // requests
    uint32_t room() const;                   // for so many more
    std::span<const Entry> chains() const { return chains_; }
    std::span<ibv_send_wr> requests() { return {requests_.data(), size_}; }  // linked by `next`

private:
    void reset_chain();

    std::vector<ibv_send_wr> requests_;
    std::vector<ibv_sge> elements_;
    std::vector<Entry> chains_;
    uint32_t size_ = 0;
    size_t used_ = 0;  // elements
    Chain chain_;
};

}  // namespace xfer::rdma
