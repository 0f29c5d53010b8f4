// SPDX-License-Identifier: Apache-2.0
// Adapters of simulated engines: the library's own fabric of RDMA, over fake verbs whose requests
// and completions take virtual time. Thread: one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fake_verbs.h"
#include "sim_loop.h"
#include "transport/attached_path.h"
#include "transport/rdma/queue_pair.h"
#include "util/log.h"

namespace xfer {

class SimAdapters {
public:
    explicit SimAdapters(SimWorld &world, rdma::FakePersonality personality = {});
    SimAdapters(const SimAdapters &) = delete;
    SimAdapters &operator=(const SimAdapters &) = delete;

    // What a loop has, of the adapters with these names ("fake0,fake1").
    std::vector<std::unique_ptr<Fabric>> open(SimLoop &loop, const std::string &devices);
    // The script has changed what they may do, or has told an event.
    void go_on();
    // Of an adapter: its only port, or each queue pair that it has.
    void raise(rdma::FakeAdapter &adapter, ibv_event_type type);

    rdma::FakeFabric fabric;
    rdma::Verbs verbs = rdma::FakeFabric::verbs();
    rdma::QueuePairOptions options;
    uint64_t step_ns_max = 2'000;    // from one thing that an adapter does to the next
    uint64_t late_ns_max = 100'000;  // until what a queue pair had begun lands
    bool stalled = false;            // they do nothing
    bool silent = false;             // they do all, and tell nothing
    uint64_t executed = 0;           // requests, with those that are flushed
    uint64_t completed = 0;          // completions that came to their queue
    std::function<void()> on_step;   // each of these was counted just now
    std::vector<std::string> lines;

private:
    void step();
    bool work_on(ibv_qp *pair);
    bool execute(ibv_qp *pair);
    bool complete(ibv_qp *pair);

    SimWorld &world_;
    Log log_;
    bool will_step_ = false;
    uint64_t late_writes_ = 0;  // that will land, or have
};

}  // namespace xfer
