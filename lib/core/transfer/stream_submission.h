// SPDX-License-Identifier: Apache-2.0
// A batch on a stream of a device, from its submit to its event. Until the stream gets there it is
// no operation of any loop: it is submitted when that has come, once, or at each launch of a graph.
//
// What is to be done says the word of its ticket (device/stream_ticket.h), and the state of its
// batch; who changes either rings, and the loop of the endpoint looks. Thread: the loop's, but
// where it says any.
#pragma once

#include <atomic>
#include <mutex>

#include "core/base/cancel_index.h"
#include "core/base/mailbox.h"
#include "device/stream_call.h"
#include "loop/loop.h"
#include "util/list.h"
#include "util/ref.h"
#include "util/status.h"

namespace xfer {

class Batch;
class Endpoint;
class ShardCore;
struct InSubmissions;  // list tags
struct InEndedSubmissions;

class StreamSubmission final : public ListNode<InSubmissions>,
                               public ListNode<InEndedSubmissions>,
                               StreamCall::Sink,
                               Message,
                               TimerSink {
public:
    explicit StreamSubmission(Batch &batch) : batch_(batch) {}

    // ---- who submits, and has the batch for itself
    StreamCall &make_call();
    void begin(bool in_graph);  // its memory is there, and nothing in the stream yet
    void put_in();              // into the stream: from now on it may run. Any thread may end it
    void not_put_in();          // it failed
    const xfer_cuda_result_t *result() const { return &call_->memory.line()->result; }

    // ---- any thread
    bool bound() const { return bound_.load(); }  // its batch is on a stream
    bool recorded() const { return bound() && in_graph_.load(); }
    void ask_end(Status why);
    void batch_is_free();  // again, after a run, or what its user has done between two
    void ring() noexcept override;

    // ---- the loop of its endpoint
    // XFER_OK: it has not to end, but no further run is to begin.
    void end(ShardCore &shard, Status why, TicketInput input);
    bool run_ended();  // true: the next run may come, and nobody is told
    bool is_on(const ShardCore &shard, const Endpoint *ep) const;
    Batch &batch() const { return batch_; }

    // ---- that of its run, which may be another one
    void withdrawn(Loop &loop);  // it was told to end
    void quiet();

private:
    void arrive(ShardCore &shard) override;
    void on_timer(Timer &timer) override;
    void look(ShardCore &shard);
    bool take_batch();
    void tell(ShardCore &shard, Status why);
    void unbind();
    void write_result(Status status, uint32_t flags, bool ended);

    Batch &batch_;
    Ref<StreamCall> call_;  // of the newest submit: the result stays until the next
    std::atomic<bool> in_graph_{false};
    std::atomic<bool> bound_{false};
    std::atomic<bool> rung_{false};  // its message is on its way
    std::atomic<Status> end_wanted_{XFER_OK};
    // Of a run that was told to end.
    Loop *patience_on_ = nullptr;
    Timer patience_{*this};
};

// Those of an engine whose event was not told yet. Thread: any.
class StreamSubmissions {
public:
    void add(StreamSubmission &submission);
    void remove(StreamSubmission &submission);
    // Those whose endpoint is on that loop, and is `ep` if that is given; all on it.
    void end_all(ShardCore &shard, const Endpoint *ep, Status why, TicketInput input);
    void cancel(ShardCore &shard, const CancelScope &scope);
    uint64_t count() const;

private:
    template <typename Meant>
    void end_each(ShardCore &shard, Meant meant, Status why, TicketInput input);

    mutable std::mutex mutex_;
    List<StreamSubmission, InSubmissions> all_;
    uint64_t count_ = 0;
};

}  // namespace xfer
