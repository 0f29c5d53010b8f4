// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/stream_submission.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/transfer/batch.h"

namespace xfer {

namespace {

bool has_arrived(const StreamCall &call) {
    return Ticket::phase(call.word().load(std::memory_order_acquire)) == Ticket::arrived;
}

}  // namespace

// ---- who submits

StreamCall &StreamSubmission::make_call() {
    call_ = Ref<StreamCall>::adopt(new StreamCall(*this));
    return *call_;
}

void StreamSubmission::begin(bool in_graph) {
    in_graph_.store(in_graph);
    end_wanted_.store(XFER_OK);
    call_->memory.line()->result = {};
    call_->word().store(Ticket::begin(in_graph), std::memory_order_release);
}

// The stream may have come already, and the endpoint may have been closed, or the engine: who
// closes sets the one and then looks for the other, as we do. Meanwhile the batch may end, and be
// submitted again, or closed, by the callback of its event.
void StreamSubmission::put_in() {
    const Ref<Batch> held(batch_);
    const Ref<StreamCall> call = call_;
    const Endpoint &ep = *batch_.ep;
    batch_.retain();  // until its event was told
    ep.engine.submissions().add(*this);
    batch_.state.store(Batch::State::on_stream);
    bound_.store(true);
    const Status why = ep.engine.refuses() ? XFER_ECLOSED : XFER_ECANCELED;
    if (ep.ended.load() || ep.engine.refuses()) return ask_end(why);
    if (has_arrived(*call)) ring();
}

void StreamSubmission::not_put_in() {
    call_->apply(TicketInput::end);
    call_->leave();
}

// ---- threads that come

void StreamSubmission::ask_end(Status why) {
    end_wanted_.store(why);
    ring();
}

// Never by entering the loop: it may be a thread of the driver's.
void StreamSubmission::ring() noexcept {
    if (rung_.exchange(true)) return;
    batch_.retain();
    if (batch_.ep->shard.load()->enqueue(*this)) return;
    rung_.store(false);
    batch_.release();
}

// ---- the loop of its endpoint

void StreamSubmission::arrive(ShardCore &shard) {
    rung_.store(false);
    if (is_on(shard, nullptr))
        look(shard);
    else
        ring();
    batch_.release();
}

bool StreamSubmission::is_on(const ShardCore &shard, const Endpoint *ep) const {
    return batch_.ep->shard.load() == &shard && (!ep || ep == batch_.ep);
}

// What keeps it from beginning rings when it is over: the submit, a rebind, the run before.
void StreamSubmission::look(ShardCore &shard) {
    if (!bound_.load()) return;
    const Endpoint &ep = *batch_.ep;
    if (const Status why = end_wanted_.load(); why != XFER_OK)
        return end(shard, why, TicketInput::end);
    if (call_->is_gone()) return end(shard, XFER_OK, TicketInput::gone);
    if (ep.closing || shard.closing() || !ep.peer)
        return end(shard, XFER_ECANCELED, TicketInput::end);
    if (shard.draining()) return end(shard, XFER_ECLOSED, TicketInput::gone);
    if (!has_arrived(*call_) || !take_batch()) return;
    call_->apply(TicketInput::start);
    batch_.flight.fetch_add(1);
    batch_.ep->outstanding.fetch_add(1);
    shard.submit(batch_);
}

bool StreamSubmission::take_batch() {
    Batch::State free = Batch::State::on_stream;
    return batch_.state.compare_exchange_strong(free, Batch::State::inflight);
}

// What runs ends by itself, and is the last; what is rebound just now, when that is over.
void StreamSubmission::end(ShardCore &shard, Status why, TicketInput input) {
    if (!bound_.load()) return;
    const uint32_t phase = Ticket::phase(call_->word().load());
    if (phase == Ticket::running || phase == Ticket::deserted) {
        if (call_->apply(input) == TicketOutput::cancel) batch_.cancel_message.ask();
        return;
    }
    if (why != XFER_OK) end_wanted_.store(why);
    if (!take_batch()) return;
    call_->apply(TicketInput::end);
    tell(shard, why);
}

// It has not begun, or not again: nothing of it was counted. Where all runs were as they should be,
// what its entries tell is of the last one.
void StreamSubmission::tell(ShardCore &shard, Status why) {
    if (why == XFER_OK) {
        batch_.Operation::reset();
        batch_.Operation::ended();
    } else {
        batch_.reset();
        batch_.status = why;
        batch_.ended();
    }
    unbind();
    shard.outbox.post(batch_);
}

void StreamSubmission::unbind() {
    call_->leave();
    batch_.ep->engine.submissions().remove(*this);
    batch_.ep->on_streams.fetch_sub(1);
    bound_.store(false);
}

// ---- its runs

bool StreamSubmission::run_ended() {
    write_result(batch_.event.status, batch_.event.flags, true);
    if (call_->apply(TicketInput::done) == TicketOutput::again) return true;
    unbind();
    return false;
}

void StreamSubmission::batch_is_free() {
    batch_.state.store(Batch::State::on_stream);
    if (has_arrived(*call_) || call_->is_gone() || end_wanted_.load() != XFER_OK) ring();
}

// A copy of a device can't be taken back, and may itself wait behind the stream that waits for it.
void StreamSubmission::withdrawn(Loop &loop) {
    patience_on_ = &loop;
    loop.arm(patience_, loop.now() + kStreamPatienceMs * kNsPerMs);
}

void StreamSubmission::quiet() {
    if (patience_on_) std::exchange(patience_on_, nullptr)->disarm(patience_);
}

void StreamSubmission::on_timer(Timer &) {
    patience_on_ = nullptr;
    write_result(batch_.status, XFER_MAYBE_APPLIED, false);
    call_->apply(TicketInput::give_up);
}

// Kernels, and threads of the application, read it whenever they like.
void StreamSubmission::write_result(Status status, uint32_t flags, bool ended) {
    xfer_cuda_result_t &result = call_->memory.line()->result;
    std::atomic_ref(result.status).store(status, std::memory_order_relaxed);
    std::atomic_ref(result.flags).store(flags, std::memory_order_relaxed);
    if (!ended) return;
    const uint64_t failures = result.failures + (status != XFER_OK);
    std::atomic_ref(result.failures).store(failures, std::memory_order_relaxed);
    std::atomic_ref(result.runs).store(result.runs + 1, std::memory_order_release);
}

// ---- those of an engine

void StreamSubmissions::add(StreamSubmission &submission) {
    const std::lock_guard lock(mutex_);
    all_.push_back(submission);
    ++count_;
}

void StreamSubmissions::remove(StreamSubmission &submission) {
    const std::lock_guard lock(mutex_);
    submission.ListNode<InSubmissions>::unlink();
    --count_;
}

// Collected first: an end removes it. Those that are meant are on this loop, and no other one ends
// them meanwhile.
template <typename Meant>
void StreamSubmissions::end_each(ShardCore &shard, Meant meant, Status why, TicketInput input) {
    List<StreamSubmission, InEndedSubmissions> ended;
    {
        const std::lock_guard lock(mutex_);
        for (StreamSubmission &each : all_) {
            if (!meant(each)) continue;
            each.batch().retain();
            ended.push_back(each);
        }
    }
    while (StreamSubmission *each = ended.pop_front()) {
        each->end(shard, why, input);
        each->batch().release();
    }
}

void StreamSubmissions::end_all(ShardCore &shard, const Endpoint *ep, Status why,
                                TicketInput input) {
    const auto meant = [&](const StreamSubmission &each) { return each.is_on(shard, ep); };
    end_each(shard, meant, why, input);
}

void StreamSubmissions::cancel(ShardCore &shard, const CancelScope &scope) {
    const auto meant = [&](const StreamSubmission &each) {
        return each.is_on(shard, scope.ep) && scope.has(each.batch().user());
    };
    end_each(shard, meant, XFER_ECANCELED, TicketInput::end);
}

uint64_t StreamSubmissions::count() const {
    const std::lock_guard lock(mutex_);
    return count_;
}

}  // namespace xfer
