// SPDX-License-Identifier: Apache-2.0
// Quiet operations in a random scenario, and the flushes that tell of their end.
#include <algorithm>
#include <cstring>

#include "scenario.h"

namespace xfer {

// Behind every quiet operation, so that its end is heard of.
void Scenario::flush(Life &life, const Life::Ep &ep) {
    ModelOperation &operation = model.begin(ModelOperation::flush, life.number, 0);
    operation.ep = ep.number;
    const auto options = options_of<xfer_op_options_t>(some_timeout(operation));
    if (!operation.timeout) operation.timeout = swarm.timeout_ms * kNsPerMs;
    life.took(operation, nullptr, xfer_ep_flush(ep.handle, nullptr, operation.number, &options));
}

// Whether one that was to end early has done so, or by itself, can't be told apart: it is asked
// for once more.
void Scenario::flush_again(Life &life, const ModelOperation &before) {
    if (!before.withdrawn && before.status != XFER_ETIMEDOUT) return;
    const Life::Ep *ep = life.ep_by(before.ep);
    if (ep && life.acts())
        flush(life, *ep);
    else
        model.unheard(before);
}

void Model::flushed(ModelOperation &flush) {
    const xfer_status_t status = flush.status;
    const bool canceled = flush.withdrawn || who_[flush.from].closing;
    const bool expired = flush.timeout && net_.world.now() >= flush.submitted + flush.timeout;
    const bool early =
        (canceled && status == XFER_ECANCELED) || (expired && status == XFER_ETIMEDOUT);
    ++met()[early ? "flush ended early" : "flushed"];
    Untold &untold = untold_[flush.ep];
    if (early) {  // or it has told a failure of that status
        untold = untold == Untold::none ? Untold::none : Untold::perhaps;
        return;
    }
    if (untold != Untold::perhaps && (status != XFER_OK) != (untold == Untold::failure))
        violated(named(flush) + " tells " + xfer_status_name(status) + ", which is not so");
    untold = Untold::none;
    for (auto &[number, operation] : all_) {
        if (number >= flush.number) break;
        const bool covered = operation->ep == flush.ep && operation->submitted &&
                             operation->kind != ModelOperation::receive &&
                             operation->kind != ModelOperation::question;
        if (!covered || operation->ended) continue;
        if (operation->quiet)
            ended_quietly(*operation);
        else
            violated(named(flush) + " ends before " + named(*operation));
    }
}

void Model::note_failure(const ModelOperation &operation) {
    const bool counts =
        operation.kind != ModelOperation::receive && operation.kind != ModelOperation::question;
    if (counts && operation.status != XFER_OK) untold_[operation.ep] = Untold::failure;
}

// An engine that drains takes no flush: what becomes of quiet operations shows when it has ended.
void Model::unheard(const ModelOperation &flush) {
    for (auto &[number, operation] : all_) {
        const bool waits = operation->quiet && operation->submitted && !operation->ended;
        if (!waits || operation->ep != flush.ep || operation->unheard) continue;
        operation->unheard = true;
        --pending_;
    }
}

bool Model::waits_unheard(uint32_t from) const {
    return std::any_of(all_.begin(), all_.end(), [&](const auto &at) {
        return at.second->unheard && at.second->from == from && !at.second->ended;
    });
}

// Nothing was heard of it, and it is over.
void Model::ended_quietly(ModelOperation &operation) {
    operation.ended = true;
    operation.ended_at = net_.world.now();
    operation.flags = XFER_FENCED;
    if (!operation.unheard) --pending_;
    ++met()["ended quietly"];
    check_rest(operation);
    check_success(operation);
    if (operation.buffer) std::memset(operation.buffer, kPoison, operation.length);
}

void Model::quiet_ends(const Who &at, uint64_t ep) {
    for (auto &[number, operation] : all_)
        if (operation->quiet && operation->submitted && !operation->ended &&
            operation->from == at.number && (!ep || operation->ep == ep))
            ended_quietly(*operation);
}

}  // namespace xfer
