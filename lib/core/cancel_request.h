// SPDX-License-Identifier: Apache-2.0
// An xfer_cancel or xfer_recv_cancel on its way through the loops. Requests come from a pool of the
// engine, which has one for each operation that a cancel may be for: who begins an operation pays
// for its cancel, so that a cancel needs no memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/endpoint.h"
#include "core/mailbox.h"
#include "util/list.h"

namespace xfer {

class CancelRequests;
struct InCancelPool;

class CancelRequest final : public Message, public ListNode<InCancelPool> {
public:
    void arrive(Shard &shard) override;

private:
    friend class CancelRequests;
    Engine *engine_ = nullptr;
    Ref<Endpoint> ep_;  // none: receives, of whatever endpoint
    uint64_t user_ = 0;
    bool pooled_ = false;
};

// Thread: any.
class CancelRequests {
public:
    explicit CancelRequests(Engine &engine);
    // So many operations are under way. May throw std::bad_alloc, if there never were as many.
    void cover(uint64_t operations);
    // Throws std::bad_alloc at most when more requests are on their way than operations ever were,
    // and kCancelRequests: not for the first cancel of what is under way.
    void post(Endpoint *ep, uint64_t user);
    void give_back(CancelRequest &request);

private:
    using Block = std::unique_ptr<CancelRequest[]>;

    CancelRequest &take();
    void grow();

    Engine &engine_;
    std::atomic<uint64_t> covered_{0};
    std::mutex mutex_;
    std::vector<Block> blocks_;
    List<CancelRequest, InCancelPool> free_;
};

}  // namespace xfer
