// SPDX-License-Identifier: Apache-2.0
// An xfer_cancel on its way through the loops. Requests come from a pool of the engine, which has
// one for each operation that a cancel may be for: who begins an operation pays for its cancel, so
// that a cancel needs no memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/cancel_index.h"
#include "core/base/endpoint.h"
#include "core/base/mailbox.h"
#include "util/list.h"

namespace xfer {

class CancelRequests;
struct InCancelPool;

class CancelRequest final : public Message, public ListNode<InCancelPool> {
public:
    void arrive(ShardCore &shard) override;

private:
    friend class CancelRequests;
    bool pass_on(ShardCore &from);
    void cancel_in(ShardCore &shard);

    EngineCore *engine_ = nullptr;
    Ref<Endpoint> ep_;  // that of the scope
    CancelScope scope_;
    bool again_ = false;  // its second round has begun
    bool pooled_ = false;
};

// Thread: any.
class CancelRequests {
public:
    explicit CancelRequests(EngineCore &engine);
    void enter();  // an operation begins. Throws std::bad_alloc if there never were as many.
    void leave();  // it has ended
    // Throws std::bad_alloc at most when more requests are on their way than operations ever were,
    // and kCancelRequests: not for the first cancel of what is under way.
    void post(Endpoint *ep, uint64_t user, uint64_t mask);
    void give_back(CancelRequest &request);

private:
    using Block = std::unique_ptr<CancelRequest[]>;

    CancelRequest &take();
    void grow();
    void cover(uint64_t operations);

    EngineCore &engine_;
    std::atomic<uint64_t> operations_{0};
    std::atomic<uint64_t> covered_{0};
    std::mutex mutex_;
    std::vector<Block> blocks_;
    List<CancelRequest, InCancelPool> free_;
};

// A part of each operation, from before it begins until it is gone: its cancel finds a request.
class CancelCover {
public:
    explicit CancelCover(CancelRequests &requests) : requests_(requests) { requests_.enter(); }
    ~CancelCover() { requests_.leave(); }
    CancelCover(const CancelCover &) = delete;
    CancelCover &operator=(const CancelCover &) = delete;

private:
    CancelRequests &requests_;
};

}  // namespace xfer
