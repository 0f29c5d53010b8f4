// SPDX-License-Identifier: Apache-2.0
// An xfer_cancel or xfer_recv_cancel on its way through the loops. Requests come from a pool of the
// engine, so that a cancel needs no memory, but where more than the pool holds are on their way at
// once.
#pragma once

#include <memory>
#include <mutex>

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
    void post(Endpoint *ep, uint64_t user);  // may throw std::bad_alloc when the pool is empty
    void give_back(CancelRequest &request);

private:
    CancelRequest &take();

    Engine &engine_;
    std::unique_ptr<CancelRequest[]> pool_;
    std::mutex mutex_;
    List<CancelRequest, InCancelPool> free_;
};

}  // namespace xfer
