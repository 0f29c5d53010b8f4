// SPDX-License-Identifier: Apache-2.0
// What engines tell of themselves in a random scenario: at any time without harm, and at rest what
// has been.
#include <algorithm>

#include "scenario.h"

namespace xfer {

namespace {

struct Tally {
    uint64_t well = 0, bytes = 0;
};

uint32_t kind_of(const ModelOperation &operation) {
    switch (operation.kind) {
    case ModelOperation::single:
        return operation.entries.front().put ? XFER_EVENT_PUT : XFER_EVENT_GET;
    case ModelOperation::batch:
        return XFER_EVENT_BATCH;
    case ModelOperation::send:
        return XFER_EVENT_SEND;
    case ModelOperation::receive:
        return XFER_EVENT_RECV;
    case ModelOperation::notify:
        return XFER_EVENT_NOTIFIED;
    case ModelOperation::flush:
        return XFER_EVENT_FLUSH;
    case ModelOperation::atomic:
        return XFER_EVENT_ATOMIC;
    case ModelOperation::question:
        break;
    }
    return XFER_EVENT_LOOKUP;
}

uint64_t ended(const xfer_op_stats_t &stats) {
    return stats.completed + stats.failed + stats.expired + stats.canceled;
}

}  // namespace

void Scenario::act_look(Life &life) {
    std::string text(1 + random(40'000), '\0');
    uint64_t needed = 0;
    const xfer_status_t status =
        xfer_engine_describe(life.engine, text.data(), text.size(), &needed);
    if (status != (needed > text.size() ? XFER_ENOSPC : XFER_OK))
        model.violated(life.name() + " tells of itself with a wrong length");
    text.resize(std::min(needed, text.size()) - 1);
    if (status == XFER_OK &&
        (text.front() != '{' || text.back() != '}' ||
         std::count(text.begin(), text.end(), '{') != std::count(text.begin(), text.end(), '}')))
        model.violated(life.name() + " tells of itself what is no JSON");
    for (const std::vector<Life::Ep> *list : {&life.eps, &life.visitors})
        for (const Life::Ep &ep : *list) {
            xfer_peer_info_t info{};
            xfer_ep_stats_t stats{};
            uint32_t state = 0;
            if (xfer_ep_peer(ep.handle, &info, sizeof info) != XFER_OK ||
                xfer_ep_stats(ep.handle, &stats, sizeof stats) != XFER_OK ||
                xfer_ep_state(ep.handle, &state) != XFER_OK || state == XFER_EP_CLOSED)
                model.violated(life.name() + ": an open endpoint does not tell of itself");
            const bool met = info.id.incarnation != 0;
            if (met && ep.expected &&
                !std::equal(ep.expected->begin(), ep.expected->end(), info.id.bytes))
                model.violated(life.name() + ": an endpoint tells another peer than expected");
        }
}

void Scenario::check_stats() {
    for (auto &node : nodes_)
        if (node.life && !node.life->who().closing && !node.life->ended()) check_stats(*node.life);
}

// Nothing is under way: each sum is what the applications have seen, and what counts up and down is
// down again.
void Scenario::check_stats(Life &life) {
    if (model.waits_unheard(life.number)) return;
    std::map<uint32_t, Tally> tallies;
    for (const auto &[number, operation] : model.operations()) {
        const xfer_status_t status = operation->status;
        if (operation->from != life.number || !operation->submitted) continue;
        if (status != XFER_OK) continue;
        const uint32_t kind = kind_of(*operation);
        Tally &tally = tallies[kind];
        ++tally.well;
        for (const Entry &entry : operation->entries)
            tally.bytes += entry.length;
        const bool whole =
            operation->kind == ModelOperation::send || operation->kind == ModelOperation::atomic;
        if (whole) tally.bytes += operation->length;
    }
    xfer_engine_stats_t stats{};
    xfer_engine_stats(life.engine, &stats, sizeof stats);
    const auto check = [&](const char *what, uint32_t kind, const xfer_op_stats_t &counted) {
        const Tally &tally = tallies[kind];
        const bool bytes = kind == XFER_EVENT_RECV || counted.bytes == tally.bytes;
        if (counted.submitted != ended(counted) || counted.completed != tally.well || !bytes)
            model.violated(life.name() + " counts its " + what + " wrongly");
    };
    check("puts", XFER_EVENT_PUT, stats.put);
    check("gets", XFER_EVENT_GET, stats.get);
    check("batches", XFER_EVENT_BATCH, stats.batch);
    check("sends", XFER_EVENT_SEND, stats.send);
    check("receives", XFER_EVENT_RECV, stats.recv);
    check("notifications", XFER_EVENT_NOTIFIED, stats.notify);
    check("atomics", XFER_EVENT_ATOMIC, stats.atomic);
    if (stats.queued || stats.inflight)
        model.violated(life.name() + " counts operations that have ended");
    if (stats.regions != life.areas.size() || stats.grants != life.grants.size())
        model.violated(life.name() + " counts its regions or grants wrongly");
    for (const Life::Ep &ep : life.eps) {
        xfer_ep_stats_t of_it{};
        xfer_ep_stats(ep.handle, &of_it, sizeof of_it);
        if (of_it.queued || of_it.inflight)
            model.violated(life.name() + ": an endpoint counts operations that have ended");
    }
}

}  // namespace xfer
