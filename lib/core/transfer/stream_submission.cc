// SPDX-License-Identifier: Apache-2.0
#include "core/transfer/stream_submission.h"

#include <utility>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/transfer/batch.h"

namespace xfer {

// ---- who submits

// The stream may have come already, and the endpoint may be closed, or the engine: who closes sets
// that and then looks for what is bound, as we do the other way round. Meanwhile the batch may end,
// and be submitted again, or closed, by the callback of its event.
void StreamSubmission::bind(const Ref<StreamCall> &call, bool in_graph) {
    const Ref<Batch> held(batch_);
    const Endpoint &ep = *batch_.ep;
    call_ = call;
    in_graph_.store(in_graph);
    end_wanted_.store(XFER_OK);
    batch_.reset();
    batch_.status = XFER_ECANCELED;  // what its entries say before the first run
    batch_.ended();
    batch_.retain();  // until its event was told
    ep.engine.submissions().add(*this);
    bound_.store(true);
    batch_.state.store(Batch::State::on_stream);
    if (ep.ended.load() || ep.engine.refuses() || has_work(*call)) ring();
}

// ---- threads that come

void StreamSubmission::ask_end(Status why) {
    end_wanted_.store(why);
    ring();
}

// Something has come that a batch which was busy kept waiting.
bool StreamSubmission::has_work(const StreamCall &call) const {
    return call.has_arrived() || call.is_gone() || end_wanted_.load() != XFER_OK;
}

// Nothing is read of what may have ended by then.
void StreamSubmission::user_is_done() {
    const Ref<Batch> held(batch_);
    batch_.state.store(Batch::State::on_stream);
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

// Who finds `rung_` set has made its change before this look.
void StreamSubmission::arrive(ShardCore &shard) {
    rung_.exchange(false);
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
    if (call_->is_gone()) return end(shard, XFER_OK, TicketInput::finish);
    if (ep.closing || shard.closing() || !ep.peer)
        return end(shard, XFER_ECANCELED, TicketInput::end);
    if (shard.draining()) return end(shard, XFER_ECLOSED, TicketInput::finish);
    if (!call_->has_arrived() || !take_batch()) return;
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
    const bool runs = phase == Ticket::running || phase == Ticket::abandoned;
    if (why != XFER_OK && (!runs || input == TicketInput::end)) end_wanted_.store(why);
    if (runs) {
        const TicketOutput output = call_->apply(input);
        if (output == TicketOutput::cancel) batch_.cancel_message.ask();
        if (output == TicketOutput::tell) ring();  // another loop has ended the run meanwhile
        return;
    }
    if (!take_batch()) return;
    if (why != XFER_OK) call_->write_status(why, XFER_FENCED);
    call_->apply(TicketInput::end);
    tell(shard, why);
}

// It has not begun, or not again: nothing of it was counted. Where nothing is wrong, what its
// entries say is of the last run.
void StreamSubmission::tell(ShardCore &shard, Status why) {
    if (why == XFER_OK) {
        batch_.Operation::reset();
        batch_.Operation::ended();
        batch_.event.index = 0;
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

TicketOutput StreamSubmission::write_end_of_run() {
    call_->write_status(batch_.event.status, batch_.event.flags);
    call_->count_run(batch_.event.status != XFER_OK);
    return call_->apply(TicketInput::done);
}

bool StreamSubmission::run_ends() {
    const uint32_t word = call_->word().load();
    if ((word & Ticket::kGraph) && !(word & Ticket::kLast)) return true;
    write_end_of_run();
    unbind();
    return false;
}

// First the batch, then the stream: who has seen that go on may change the batch. Where the run has
// become the last one meanwhile, the loop that looks tells its end.
void StreamSubmission::run_over() {
    const Ref<Batch> held(batch_);
    const Ref<StreamCall> call = call_;
    batch_.state.store(Batch::State::on_stream);
    const bool over = write_end_of_run() != TicketOutput::again;
    if (over || has_work(*call)) ring();
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
    call_->write_status(batch_.status, XFER_MAYBE_APPLIED);
    call_->apply(TicketInput::give_up);
}

// ---- those of an engine

void StreamSubmissions::add(StreamSubmission &submission) {
    const std::lock_guard lock(mutex_);
    all_.push_back(submission);
    count_.fetch_add(1);
}

void StreamSubmissions::remove(StreamSubmission &submission) {
    const std::lock_guard lock(mutex_);
    submission.ListNode<InSubmissions>::unlink();
    count_.fetch_sub(1);
}

// Collected first: an end removes it. Those that are meant are on this loop, and no other one ends
// them meanwhile.
template <typename Meant>
void StreamSubmissions::end_each(ShardCore &shard, Meant meant, Status why, TicketInput input) {
    if (count_.load() == 0) return;
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

bool StreamSubmissions::any_on(const ShardCore &shard) {
    const std::lock_guard lock(mutex_);
    for (const StreamSubmission &each : all_)
        if (each.is_on(shard, nullptr)) return true;
    return false;
}

}  // namespace xfer
