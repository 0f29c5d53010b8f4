// SPDX-License-Identifier: Apache-2.0
// A device as one loop uses it: what is registered with it, its completion queues, the paths on its
// ports, and what becomes of these when it tells of a fault. Thread: the loop's.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "loop/loop.h"
#include "loop/worker.h"
#include "transport/rdma/bounce_buffers.h"
#include "transport/rdma/completion_queue.h"
#include "transport/rdma/device.h"
#include "transport/rdma/memory_domain.h"
#include "transport/rdma/post_list.h"
#include "transport/rdma/queue_pair.h"
#include "util/list.h"
#include "util/log.h"

namespace xfer::rdma {

class PacketLink;
class Path;
struct InAdapter;

class Adapter final : DeviceSink, CompletionQueueSink {
public:
    // What one post needs, whichever path makes it.
    struct Scratch {
        explicit Scratch(const QueuePairOptions &options);
        std::vector<iovec> &ranges_of_pieces();  // on this side

        std::vector<Piece> pieces;
        std::vector<iovec> ranges;
        PostList list;
    };

    // May throw. Everything outlives it.
    Adapter(const Verbs &verbs, std::unique_ptr<Device> device, const QueuePairOptions &options,
            Loop &loop, Worker &worker, const Log &log, MemoryDomainSink &sink);
    // After its last path.
    ~Adapter();
    Adapter(const Adapter &) = delete;
    Adapter &operator=(const Adapter &) = delete;

    Status follow() { return device_->follow(loop_, *this); }

    const Verbs &verbs() const { return verbs_; }
    Loop &loop() const { return loop_; }
    Worker &worker() const { return worker_; }
    const Log &log() const { return log_; }
    const Device &device() const { return *device_; }
    MemoryDomain &memory() { return memory_; }
    BounceBuffers &bounce_buffers() { return bounce_buffers_; }
    Scratch &scratch() { return scratch_; }

    void add(Path &path);  // it leaves with its end; so does a link
    void add(PacketLink &link);
    size_t paths_on(const Port &port);
    size_t links_on(const Port &port);
    // A region or grant has ended. True: no key of it works, and nothing of it is touched; else the
    // sink's on_released() follows: of a region when that is so, of a grant by each path.
    bool remove(RegionId region);
    bool has_window_of(RegionId region);
    // Peers reach by memory windows what they may, as far as those can be made.
    bool has_windows() const {
        return device_->ports().front().limits.windows && failed_binds_ < kMostFailedBinds;
    }
    void on_settled();  // of a registration: its paths may export what they could not
    void on_window_removed(RegionId region);
    void on_window_failed(const Failure &why);  // told once
    // It has cost a path, or may have. When as many have in a row, no other window is bound.
    void on_bind_failed(const Failure &why);
    void on_bind_done() { failed_binds_ = 0; }
    // On a completion queue that has room for it; a new one, if need be. With receives it is for
    // messages alone, and gives no access to memory.
    Result<std::unique_ptr<QueuePair>> make_queue_pair(const Port &port, QueuePairSink &sink,
                                                       uint32_t receives = 0);

private:
    static constexpr uint32_t kMostFailedBinds = 3;

    template <typename Affected>
    void close(Affected affected, const Failure &why);

    void on_port_up(const Port &) override {}  // the next path takes it
    void on_port_down(const Port &port, const Failure &why) override;
    void on_port_changed(const Port &port) override;
    void on_queue_pair_error(const ibv_qp *pair, ibv_event_type event) override;
    void on_last_receive(const ibv_qp *) override {}
    void on_completion_queue_error(const ibv_cq *queue) override;
    void on_shared_queue_error(const ibv_srq *) override {}
    void on_shared_queue_low(const ibv_srq *) override {}
    void on_device_fatal(const Failure &why) override;
    void on_queue_failed(const Failure &why) override;

    const Verbs &verbs_;
    Loop &loop_;
    Worker &worker_;
    const Log &log_;
    const QueuePairOptions options_;
    MemoryDomainSink &sink_;
    const std::unique_ptr<Device> device_;
    MemoryDomain memory_;
    BounceBuffers bounce_buffers_;
    Scratch scratch_;
    std::vector<std::unique_ptr<CompletionQueue>> queues_;
    List<Path, InAdapter> paths_;
    uint32_t failed_binds_ = 0;  // in a row
    bool told_window_failed_ = false;
    List<PacketLink, InAdapter> links_;
};

}  // namespace xfer::rdma
