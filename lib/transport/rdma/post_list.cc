// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/post_list.h"

#include "util/check.h"

namespace xfer::rdma {

PostList::PostList(uint32_t requests, size_t elements)
    : requests_(requests), elements_(elements), chain_(requests_, elements_) {
    chains_.reserve(requests);
}

void PostList::clear() {
    chains_.clear();
    size_ = 0, used_ = 0;
    reset_chain();
}

void PostList::reset_chain() {
    chain_ = Chain(std::span(requests_).subspan(size_), std::span(elements_).subspan(used_));
}

void PostList::add(uint64_t cookie) {
    XFER_CHECK(!chain_.empty());
    if (size_ > 0) requests_[size_ - 1].next = &requests_[size_];
    chains_.push_back({cookie, chain_.size(), chain_.bytes()});
    size_ += chain_.size();
    used_ += chain_.elements();
    reset_chain();
}

uint32_t PostList::room() const {
    return used_ == elements_.size() ? 0 : static_cast<uint32_t>(requests_.size()) - size_;
}

}  // namespace xfer::rdma
