// SPDX-License-Identifier: Apache-2.0
// A completion queue on a loop. It is polled in every turn until nothing comes, then armed and
// polled once more, as what is there already raises no event; only then the loop may sleep, and is
// woken by the completion channel. How long a loop looks before it sleeps is its own option.
// Completions are told to the queue pair they belong to, which is known by their wr_id: queue pair
// numbers are used again by adapters, numbers of this queue are not.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "loop/loop.h"
#include "transport/rdma/port.h"
#include "transport/rdma/request_id.h"
#include "transport/rdma/verbs.h"
#include "util/number_map.h"
#include "util/status.h"

namespace xfer::rdma {

class CompletionSink {
public:
    // Of `completion`, only status, wr_id, qp_num and vendor_err are defined unless its status is
    // IBV_WC_SUCCESS.
    virtual void on_completion(const RequestId &id, const ibv_wc &completion) = 0;

protected:
    ~CompletionSink() = default;
};

class CompletionQueueSink {
public:
    // It can't be polled or armed any more. Nothing more will be told of its queue pairs, which are
    // to be ended. Once, and inside of a turn of the loop.
    virtual void on_queue_failed(const Failure &why) = 0;

protected:
    ~CompletionQueueSink() = default;
};

// Thread: the loop's.
class CompletionQueue final : WatchSink, Poller {
public:
    // Of at least `entries` completions. `vector` chooses the interrupt, modulo how many there are:
    // each loop has its own. Everything outlives it. Nothing is left of one that fails.
    static Result<std::unique_ptr<CompletionQueue>> create(const Verbs &verbs, const Port &port,
                                                           uint32_t entries, uint32_t vector,
                                                           Loop &loop, CompletionQueueSink &sink);
    // When its queue pairs are destroyed; not from inside a sink. What the adapter refuses to
    // destroy is left to the end of its device.
    ~CompletionQueue();
    CompletionQueue(const CompletionQueue &) = delete;
    CompletionQueue &operator=(const CompletionQueue &) = delete;

    // Room for all completions that a queue pair may have at once, so that the queue never
    // overruns. False: there is none left.
    bool reserve(uint32_t entries);
    void release(uint32_t entries);
    // Numbers one whose completions come here: the `queue` of the RequestId in its wr_ids. 0: there
    // is no memory. Also from inside a sink.
    uint32_t attach(CompletionSink &sink);
    // What still comes of it is dropped, and counted.
    void detach(uint32_t number);

    void retire() { retired_ = true; }  // it has no room for more queue pairs
    // It may be destroyed, and another take its place.
    bool is_over() const { return (retired_ || failed_) && reserved_ == 0; }

    ibv_cq *handle() const { return queue_; }
    uint32_t entries() const { return entries_; }  // granted
    uint32_t room() const { return retired_ || failed_ ? 0 : entries_ - reserved_; }
    uint64_t stale() const { return stale_; }  // completions of queue pairs that were gone

private:
    CompletionQueue(const Verbs &verbs, Loop &loop, CompletionQueueSink &sink)
        : verbs_(verbs), loop_(loop), sink_(sink) {}
    Failure open(const Port &port, uint32_t entries, uint32_t vector);
    void on_ready(uint32_t readiness) override;
    bool poll() override;
    bool doze() override;
    int poll_into(ibv_wc *completions, int room);
    void dispatch(const ibv_wc &completion);
    int take_event();
    void acknowledge();
    void tell_failure();

    const Verbs &verbs_;
    Loop &loop_;
    CompletionQueueSink &sink_;
    ibv_comp_channel *channel_ = nullptr;
    ibv_cq *queue_ = nullptr;
    std::unique_ptr<Watch> watch_;
    NumberMap<CompletionSink *> attached_;
    uint32_t last_number_ = RequestId::kQueues - 3;  // it wraps early, so that it is known to
    uint32_t entries_ = 0, reserved_ = 0;
    unsigned events_ = 0;  // taken, and not acknowledged
    uint64_t stale_ = 0;
    bool armed_ = false;  // an event has come, or comes with the next completion
    bool has_peeked_ = false;
    ibv_wc peeked_;
    Failure failure_;
    bool failed_ = false;  // and the failure was told
    bool retired_ = false;
};

}  // namespace xfer::rdma
