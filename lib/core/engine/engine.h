// SPDX-License-Identifier: Apache-2.0
// An engine: identity, options, loops, regions by name, and the order in which all of it starts and
// ends.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/engine/drain.h"
#include "core/engine/event_dispatcher.h"
#include "core/engine/operation_pool.h"
#include "core/engine/options.h"
#include "core/engine/shard.h"
#include "core/message/receive_queue.h"
#include "core/message/send.h"
#include "core/peer/budget.h"
#include "core/transfer/batch.h"
#include "core/transfer/cancel_request.h"
#include "core/transfer/flush.h"
#include "core/transfer/notify_counter.h"
#include "core/transfer/single.h"
#include "device/device.h"

namespace xfer {

// What the tests replace to run the same engine in a simulated world. All empty in production.
struct Seams {
    // These drive everything, and dispatch as well, as XFER_DISPATCH_LOOP without I/O threads does;
    // where the engine is polled, events wait for the poll.
    std::vector<Loop *> loops;
    std::vector<std::unique_ptr<Transport>> (*transports)(void *context, Loop &loop) = nullptr;
    void (*random)(void *context, Bytes out) = nullptr;
    void *context = nullptr;
    const Device *device = nullptr;
};

class Engine final : public Handle, public RefCounted<Engine> {
public:
    static Result<Engine *> open(Options options, const Seams &seams = {});
    ~Engine() override;

    // ---- any thread
    struct Name {
        EngineId id{};
        uint64_t incarnation = 0;
    };
    const Name &identity() const { return identity_; }
    const Self &self() const { return self_; }
    const Options &options() const { return options_; }
    const Log &log() const { return options_.log; }
    Shard &home(const EngineId &id);
    Shard &first_shard() { return *shards_[0]; }
    const std::vector<std::unique_ptr<Shard>> &shards() const { return shards_; }
    uint64_t next_sequence() { return sequence_.fetch_add(1) + 1; }
    // The word of a PEER event's handle until it is kept.
    uint64_t next_peer_word() { return uint64_t{1} << 63 | ++peer_words_; }
    uint64_t random_u64();
    uint64_t age_ms() const;
    Budget &slots() { return slots_; }
    Budget &undecided() { return undecided_; }  // peers that the application is asked about
    uint64_t kinds() const { return uint64_t{1} << XFER_MEM_HOST; }  // of memory that it moves
    // XFER_EMEMKIND if nobody serves it.
    Status kind_of(const void *address, uint64_t length, uint32_t &kind) const {
        kind = device_->kind_of(address, length);
        return kinds() >> kind & 1 ? XFER_OK : XFER_EMEMKIND;
    }
    bool forked() const { return all_forks_.load(std::memory_order_relaxed) != forks_; }
    bool closing() const { return closing_.load(); }
    bool refuses() const { return closing() || draining_.on(); }  // new work

    // `room`: bytes for `bound` and its NUL; too few of them, and nothing listens.
    Status listen(const Uri &uri, const xfer_listen_options_t &options, size_t room,
                  std::string &bound, Failure &why);
    std::vector<std::string> addresses();  // that peers may dial, but for what is the engine's own
    // Of memory that is the user's, or the region's own.
    Result<Region *> open_region(const xfer_region_options_t &options, uint8_t *address,
                                 uint64_t length, std::unique_ptr<SharedMemory> own = nullptr);
    // A part of `parent`, with an end of its own; core/region/grants.cc.
    Status grant(Region &parent, const xfer_grant_options_t &options, RemoteRegion &ref);
    Status renew(Region &parent, const RemoteRegion &ref, uint32_t lease_ms);
    Status revoke(Region &parent, const RemoteRegion &ref);
    Status end_region(Region &region);
    void end_lease(Region &grant);
    OperationPool<Single> &singles() { return singles_; }
    OperationPool<Send> &sends() { return sends_; }
    OperationPool<Flush> &flushes() { return flushes_; }
    void close_silently(Endpoint &ep);
    // To the first loop from there on that has not ended; false: there is none.
    bool post_from(size_t index, Message &message);
    bool count(uint64_t key, Shard &shard) { return counters_.count(key, shard); }
    NotifyCounters &counters() { return counters_; }
    Drain &draining() { return draining_; }
    ReceiveQueue &receive_queue() { return receive_queue_; }
    bool peek(const Posted &wanted, xfer_message_info_t &info);  // on the first loop
    CancelRequests &cancel_requests() { return cancel_requests_; }
    // Counts it. XFER_EAGAIN: there are too many.
    Status begin_receive(Endpoint *named);
    void receive_ended();
    Status drain(uint32_t timeout_ms, uint64_t user);  // 0: no limit
    Status close();
    Status join(uint32_t timeout_ms);  // XFER_ETIMEDOUT: it may be called again
    Status join_forked();  // in the child of a fork: only lets go of what it shares with the parent
    void stats(xfer_engine_stats_t &stats) const;
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
    template <typename Visit>
    void each_region(Visit visit) const {
        std::lock_guard lock(registry_mutex_);
        for (const auto &[id, region] : regions_)
            visit(*region);
    }
    // Regions and grants that loops are told of, and of whose end not. Any thread.
    Region *find_entered(RegionId id);
    Region *find_entered(std::string_view name);
    EventDispatcher &dispatcher() { return dispatcher_; }
    // POLL without I/O threads: the loop that who calls may enter, so that what is posted leaves at
    // once. Else null.
    OwnLoop *turned() const { return turned_; }

    // ---- the loops
    bool dispatches() const { return dispatcher_.mode() == EventDispatcher::Mode::with_io; }
    void dispatch(EventNode &node) { dispatcher_.dispatch(node); }
    void hand_over(EventList &events, uint64_t count) { dispatcher_.hand_over(events, count); }
    void shard_ended(Shard &shard);

private:
    class End final : public EventNode {};
    class Renewal;
    using Regions = std::map<uint64_t, Ref<Region>>;
    class BeginDrain;
    class Closing final : public Message {
    public:
        void arrive(Shard &shard) override { shard.begin_close(); }
    };

    Engine(Options options, const Seams &seams);
    static uint32_t forks_so_far();
    Failure start();
    Failure add_loop();
    Failure open_dispatcher();
    void make_shard(Loop &loop, uint32_t index);
    void keep(std::unique_ptr<Acceptor> listener);
    void await_neighbours();
    Regions prepare(Region &region);
    void enter(Regions &prepared);                                  // these need the lock
    bool post(RegionChange &change, Region &region, Shard &shard);  // false: the shard has ended
    void leave(Region &region, Status why);
    void unused(Region &region);
    Region *find_grant(const Region &parent, const RemoteRegion &ref);
    void end_regions(Shard &last);
    void join_threads();

    // Counted by who comes out of them. Asking the system who we are, at every call, would cost as
    // much as a small operation does.
    static inline std::atomic<uint32_t> all_forks_{0};

    Options options_;
    const Seams seams_;
    const uint32_t forks_;  // before it was opened
    const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
    Name identity_;
    Self self_;
    std::atomic<uint64_t> sequence_{0}, peer_words_{0};
    std::atomic<uint64_t> last_region_{0};
    Budget slots_, undecided_;
    std::unique_ptr<Device> own_device_;
    const Device *device_;

    End end_;
    EventDispatcher dispatcher_;
    std::vector<std::unique_ptr<OwnLoop>> own_loops_;
    std::unique_ptr<UvLoop> callers_loop_;  // instead, where it is the only one
    std::vector<EngineLoop *> loops_;       // all of these
    OwnLoop *turned_ = nullptr;
    std::vector<std::unique_ptr<Shard>> shards_;
    std::vector<std::thread> threads_;
    std::unique_ptr<Closing[]> closings_;
    std::atomic<bool> closing_{false};
    std::atomic<uint32_t> shards_left_{0};

    mutable std::mutex registry_mutex_;  // names are unique in the engine; not on the way of data
    Regions regions_;
    std::map<std::string, uint64_t, std::less<>> names_;
    EventList untold_;  // regions that ended after the last loop could tell

    NotifyCounters counters_;
    Drain draining_;
    ReceiveQueue receive_queue_{*this};
    CancelRequests cancel_requests_{*this};
    std::atomic<uint32_t> receives_{0};
    OperationPool<Single> singles_{cancel_requests_};
    OperationPool<Send> sends_{cancel_requests_};
    OperationPool<Flush> flushes_{cancel_requests_};
};

}  // namespace xfer
