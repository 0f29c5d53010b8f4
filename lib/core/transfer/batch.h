// SPDX-License-Identifier: Apache-2.0
// A batch is filled, submitted, on a stream or not, and may be submitted again: its handle outlives
// its flights.
#pragma once

#include <atomic>

#include "core/base/handle.h"
#include "core/transfer/cancel_request.h"
#include "core/transfer/stream_submission.h"
#include "core/transfer/transfer.h"

namespace xfer {

class Batch final : public Handle, public RefCounted<Batch>, public Transfer {
public:
    // on_stream: submitted there, and not running. editing: the same, while its user changes it.
    enum class State : uint32_t { idle, building, inflight, on_stream, editing };

    explicit Batch(Endpoint &endpoint);
    void withdraw() override;
    void ended() override;
    void settle(FirstFailure &failures) override;
    bool tells() const override { return !again_; }
    void dequeued() override;
    void released() override;
    void ended_quietly() override;
    bool is_free() const {  // the user's, to submit and to close
        const State now = state.load();
        return now == State::idle || now == State::building;
    }

    std::atomic<State> state{State::idle};
    std::atomic<bool> closed{false};
    std::atomic<bool> cancel_wanted{false};
    bool submitted = false;
    // For xfer_batch_info, from any thread: how the last flight ended, and how long its list was.
    std::atomic<Status> final_status{XFER_OK};
    std::atomic<uint64_t> first_failed{0}, submitted_entries{0};

    class Cancel final : public Message {
    public:
        explicit Cancel(Batch &owner) : batch(owner) {}
        void arrive(ShardCore &shard) override;
        Batch &batch;
        void ask();                       // any thread
        std::atomic<uint64_t> flight{0};  // the newest that is meant
        uint64_t carried = 0;             // when it was posted
        bool passes = false;              // as the batch does

    private:
        void go_again();
    } cancel_message{*this};
    std::atomic<uint64_t> flight{0};  // counts submits, and runs on a stream
    StreamSubmission on_stream{*this};

private:
    bool again_ = false;        // this run on a stream has ended, and no event tells so. The loop's
    const Ref<Endpoint> held_;  // with it the engine, which the cover needs to the last
    const CancelCover cover_;
};

}  // namespace xfer
