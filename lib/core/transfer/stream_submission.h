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
    Ref<StreamCall> make_call() { return Ref<StreamCall>::adopt(new StreamCall(*this)); }
    // What is in the stream: from now on it may run, and any thread may end it.
    void bind(const Ref<StreamCall> &call, bool in_graph);

    // ---- any thread
    bool bound() const { return bound_.load(); }  // its batch is on a stream
    bool recorded() const { return bound() && in_graph_.load(); }
    void ask_end(Status why);
    void user_is_done();  // with what may be done between two runs
    void ring() noexcept override;

    // ---- the loop of its endpoint
    // XFER_OK: nothing is wrong, but no further run is to begin.
    void end(ShardCore &shard, Status why, TicketInput input);
    bool run_ends();  // true: nobody is told, and run_over() follows
    void run_over();
    bool is_on(const ShardCore &shard, const Endpoint *ep) const;
    Batch &batch() const { return batch_; }

    // ---- that of its run, which may be another one
    void withdrawn(Loop &loop);  // it was told to end
    void quiet();

private:
    void arrive(ShardCore &shard) override;
    void on_timer(Timer &timer) override;
    void look(ShardCore &shard);
    bool has_work(const StreamCall &call) const;
    bool take_batch();
    void tell(ShardCore &shard, Status why);
    void unbind();
    TicketOutput write_end_of_run();

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
    // Those whose endpoint is on that loop, and is `ep`; null: of every endpoint there.
    void end_all(ShardCore &shard, const Endpoint *ep, Status why, TicketInput input);
    void cancel(ShardCore &shard, const CancelScope &scope);
    bool any_on(const ShardCore &shard);
    uint64_t count() const { return count_.load(); }

private:
    template <typename Meant>
    void end_each(ShardCore &shard, Meant meant, Status why, TicketInput input);

    std::mutex mutex_;
    List<StreamSubmission, InSubmissions> all_;
    std::atomic<uint64_t> count_{0};  // with none, nobody waits for the lock
};

}  // namespace xfer
