// SPDX-License-Identifier: Apache-2.0
// An engine: what its rooms know of it (EngineCore), what they have of it, and the order in which
// all of it starts and ends.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/engine_core.h"
#include "core/engine/event_dispatcher.h"
#include "core/engine/operation_pool.h"
#include "core/engine/shard.h"
#include "core/message/receive_queue.h"
#include "core/message/send.h"
#include "core/region/registry.h"
#include "core/transfer/batch.h"
#include "core/transfer/cancel_request.h"
#include "core/transfer/flush.h"
#include "core/transfer/notification.h"
#include "core/transfer/notify_counter.h"
#include "core/transfer/single.h"
#include "core/transfer/stream_submission.h"
#include "device/device.h"

namespace xfer {

// What the tests replace to run the same engine in a simulated world. All empty in production.
struct Seams {
    // These drive everything, and dispatch as well, as XFER_DISPATCH_LOOP without I/O threads does;
    // where the engine is polled, events wait for the poll.
    std::vector<Loop *> loops;
    std::vector<std::unique_ptr<Transport>> (*transports)(void *context, Loop &loop) = nullptr;
    std::vector<std::unique_ptr<Fabric>> (*fabrics)(void *context, Loop &loop) = nullptr;
    void (*random)(void *context, Bytes out) = nullptr;
    void *context = nullptr;
    const Device *device = nullptr;
};

class Engine final : public EngineCore {
public:
    static Result<Engine *> open(Options options, const Seams &seams = {});
    ~Engine() override;

    // ---- any thread
    uint64_t age_ms() const;
    // Of memory that it moves.
    uint64_t kinds() const {
        const bool copies = device_ && device_->copies();
        return uint64_t{1} << XFER_MEM_HOST | uint64_t{copies} << XFER_MEM_CUDA;
    }
    // What local memory is. Without a driver all is the host's, and in an open region it is known.
    Status look(const void *address, uint64_t length, Memory &memory, Failure &why) const {
        if (device_) return device_->look(address, length, memory, why);
        memory = {};
        return XFER_OK;
    }
    // Whether puts and gets move such memory, as theirs or of a region.
    bool stages(const Memory &memory) const {
        if (memory.kind == XFER_MEM_HOST) return true;
        return memory.kind == XFER_MEM_CUDA && memory.device >= 0 && device_->copies();
    }
    const Device *device() const { return device_; }
    // False: the driver has to be asked. Of a device's memory: the part that its region lends.
    bool knows(uint64_t address, uint64_t length, Memory &memory) const {
        return !device_ || is_lent(address, length, memory);
    }
    // `room`: bytes for `bound` and its NUL; too few of them, and nothing listens.
    Status listen(const Uri &uri, const xfer_listen_options_t &options, size_t room,
                  std::string &bound, Failure &why);
    std::vector<std::string> addresses();  // that peers may dial, but for what is the engine's own
    OperationPool<Single> &singles() { return singles_; }
    OperationPool<Send> &sends() { return sends_; }
    OperationPool<Receive> &receives() { return receives_; }
    OperationPool<Flush> &flushes() { return flushes_; }
    bool peek(const Posted &wanted, xfer_message_info_t &info);  // on the first loop
    Status drain(uint32_t timeout_ms, uint64_t user);            // 0: no limit
    Status close();
    Status join(uint32_t timeout_ms);  // XFER_ETIMEDOUT: it may be called again
    Status join_forked();  // in the child of a fork: only lets go of what it shares with the parent
    void stats(xfer_engine_stats_t &stats) const;
    // On each loop.
    template <typename Visit>
    void inside_each(Visit visit) {
        for (size_t i = 0; i < shards_.size(); ++i) {
            if (i >= loops_.size()) {
                visit(*shards_[i]);
                continue;
            }
            EngineLoop::Inside inside(*loops_[i]);
            visit(*shards_[i]);
        }
    }
    EventDispatcher &dispatcher() { return dispatcher_; }

    // ---- the loops
    void shard_ended(ShardCore &shard);

private:
    bool is_lent(uint64_t address, uint64_t length, Memory &memory) const;
    class End final : public EventNode {};
    class BeginDrain;
    class Closing final : public Message {
    public:
        void arrive(ShardCore &shard) override { shard.begin_close(); }
    };

    Engine(Options options, const Seams &seams);
    Failure start();
    Failure add_loop();
    Failure open_dispatcher();
    void make_shard(Loop &loop, uint32_t index, OwnLoop *own = nullptr);
    void keep(std::unique_ptr<Acceptor> listener);
    void await_neighbours();
    void join_threads();

    const Seams seams_;
    const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
    std::unique_ptr<Device> own_device_;
    const Device *device_;

    End end_;
    EventDispatcher dispatcher_;
    // As long as the engine: threads may enter them at any time, and find them closed.
    std::vector<std::unique_ptr<OwnLoop>> own_loops_;
    std::unique_ptr<UvLoop> callers_loop_;  // instead, where it is the only one
    std::vector<EngineLoop *> loops_;       // all of these
    std::vector<std::thread> threads_;
    std::unique_ptr<Closing[]> closings_;
    std::atomic<uint32_t> shards_left_{0};

    RegionRegistry regions_{*this};
    NotifyCounters counters_;
    Notifications notifications_;
    ReceiveQueue receive_queue_{*this};
    StreamSubmissions submissions_;
    CancelRequests cancel_requests_{*this};
    OperationPool<Single> singles_{cancel_requests_};
    OperationPool<Send> sends_{cancel_requests_};
    OperationPool<Receive> receives_{cancel_requests_};
    OperationPool<Flush> flushes_{cancel_requests_};
};

}  // namespace xfer
