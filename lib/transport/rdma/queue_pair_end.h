// SPDX-License-Identifier: Apache-2.0
// The end of a queue pair: to ERR, where the adapter flushes what is posted, and to its destruction
// when its owner has put away what refers to it. Bounded in time, whatever the adapter does.
// Thread: the loop's.
#pragma once

#include <cstdint>

#include "loop/loop.h"
#include "transport/rdma/queue_pair.h"

namespace xfer::rdma {

class Adapter;

class QueuePairEndSink {
public:
    // Nothing is under way on it, or the adapter has flushed nothing in all the time that it has:
    // destroying ends that as well. Never from inside a method.
    virtual void on_flushed() = 0;
    // May come from inside destroy(). A device that keeps it is broken, or has failed, which is
    // logged; in ERR it lets nothing in.
    virtual void on_destroyed() = 0;

protected:
    ~QueuePairEndSink() = default;
};

class QueuePairEnd final : Task, TimerSink {
public:
    QueuePairEnd(Adapter &adapter, QueuePairEndSink &sink);
    ~QueuePairEnd();
    QueuePairEnd(const QueuePairEnd &) = delete;
    QueuePairEnd &operator=(const QueuePairEnd &) = delete;

    void begin(QueuePair &pair);  // once; on_flushed() follows
    void on_drained();            // of the queue pair's sink
    void destroy();               // after on_flushed(); on_destroyed() follows. Again: nothing

private:
    void run() override;
    void on_timer(Timer &timer) override;
    void flushed();
    void try_to_destroy();

    Adapter &adapter_;
    QueuePairEndSink &sink_;
    QueuePair *pair_ = nullptr;  // once it has begun
    bool flushed_ = false, destroying_ = false;
    uint32_t tries_ = 0;
    Timer limit_{*this};  // for the adapter to flush it; then until the next try
};

}  // namespace xfer::rdma
