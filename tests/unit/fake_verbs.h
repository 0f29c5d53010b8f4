// SPDX-License-Identifier: Apache-2.0
// Adapters that there is only the table of, stricter than any device. What breaks a rule of verbs
// is kept as a named violation; what is posted is executed when the test says so.
//
//     FakeFabric fabric;
//     FakeAdapter &near = fabric.add(), &far = fabric.add();
//     ... create, connect and post by FakeFabric::verbs() and near.port() ...
//     fabric.run();
//     CHECK(fabric.report() == "");
//
// Thread: any, for everything here; one mutex guards the fabric.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "transport/rdma/port.h"
#include "transport/rdma/verbs.h"

namespace xfer::rdma {

class FakeAdapter;
struct FakeContext;
class FakeCompletionQueue;
class FakeQueuePair;
struct FakeCompletion;
struct FakePacket;
struct FakeRequest;

enum class Violation : uint8_t {
    access_flags,       // of a registration or a queue pair: remote write without local write
    address,            // of a route: no GID on Ethernet, a hop limit of 0, an unknown index
    attributes,         // a transition without what it needs, or with what it does not take
    busy_channel,       // destroyed under its completion queues
    busy_context,       // closed under its domains, channels or queues
    busy_domain,        // under its regions or queue pairs
    busy_pair,          // with requests that are neither done nor flushed, or windows
    busy_queue,         // a completion queue under its queue pairs
    busy_region,        // under a request that is not known to be over, or a bound window
    capacity,           // more asked at creation than the device has
    context,            // together with what was made in another opening of the device
    crossed,            // reached a queue pair that belongs to another connection
    device_list,        // freed twice, or a device of it opened afterwards
    endless,            // retry count 7, or timeout 0: a dead peer is never noticed
    event_acks,         // more than events were taken
    inline_length,      // more than granted
    leaked,             // alive at the end of the fabric
    lkey,               // does not cover the piece, or does not let it be written
    misaligned_atomic,  // not to a multiple of 8, or not 8 bytes
    mtu,                // larger than that of the port or of the other end
    notify,             // asked of a completion queue without a channel
    overrun,            // of a completion queue
    pieces,             // more than granted
    post_state,         // posted on a queue pair that does not take requests yet
    reads,              // without credits, or more at once than the other end takes
    receive_full,       // more receives than granted
    request,            // an opcode, flag or length that verbs do not have
    send_full,          // more requests than granted
    transition,         // from a state that does not lead there
    unacked,            // a queue or fabric ended with events that were not acknowledged
    unpolled,           // a queue pair ended with completions that nobody saw
    use_after_destroy,
    window,  // bound while it is, beyond its region, under a key of another; given back too early
};
const char *name_of(Violation violation);

// How devices differ, beyond their limits.
struct FakePersonality {
    bool reset_is_final = false;  // in RTS once and RESET then: it completes nothing any more
    bool reuse_numbers = false;   // queue pair numbers and keys: the lowest free one; else the next
    bool null_bad_wr = false;     // a failing post does not say which request it did not take
    bool late_completions = false;  // those of a queue pair that was destroyed stay to be polled
    bool late_writes = false;  // what a queue pair had begun when it was told to stop may land yet
    bool late_reads = false;   // reads fetch their data as late as the fences behind them permit

    static FakePersonality strict() { return {}; }  // as an mlx5
    static FakePersonality erdma() { return {.reset_is_final = true}; }
    static FakePersonality reuses_numbers() { return {.reuse_numbers = true}; }
};

struct FakeAdapterOptions {
    std::string name = {};  // empty: fake0, fake1, ...
    LinkLayer layer = LinkLayer::ethernet;
    ibv_mtu mtu = IBV_MTU_4096;
    DeviceLimits limits{.queue_pairs = 1 << 16,
                        .send_requests = 1 << 13,
                        .send_pieces = 30,
                        .read_pieces = 30,
                        .completions = 1 << 16,
                        .region_bytes = uint64_t{1} << 40,
                        .reads_out = 16,
                        .reads_in = 16};
    ibv_atomic_cap atomics = IBV_ATOMIC_HCA;  // GLOB: limits.atomics_with_cpu in its port
    uint32_t inline_bytes = 220;              // granted at most, whatever is asked
    uint32_t granted_sends = 0;               // of every queue pair, whatever is asked; 0: as asked
    uint32_t granted_receives = 0;            // likewise, where any are asked for
    bool windows = true;                      // of type 2: limits.windows in its port
    bool claims_windows = false;              // and has none
    bool loose_windows = false;               // held to their registration, as by Soft-RoCE
    uint64_t message_bytes = uint64_t{1} << 30;  // of a request
};

// The calls that can be told to fail.
enum class FakeCall : uint8_t {
    get_device_list,
    open_device,
    query_device,
    query_port,
    alloc_pd,
    reg_mr,  // and its other forms
    alloc_mw,
    dealloc_mw,
    create_comp_channel,
    create_cq,
    create_qp,
    query_qp,
    req_notify_cq,
    post_recv,
};

// What a cut link loses: with the answers lost, the bytes have landed and nobody knows.
enum class FakeCut : uint8_t { requests, answers };

// What a failing ibv_post_send takes of its requests. Without room, none, and the errno is ENOMEM.
enum class FakePost : uint8_t { no_room, none, some, all };
enum class FakeHold : uint8_t { completion };

// A fault by its kind: a call, a transition or a post that fails, the status that a request ends
// with, what a cut link loses, a completion that comes late, an event of the device.
using FakeFault = std::variant<FakeCall, ibv_qp_state, FakePost, ibv_wc_status, FakeCut, FakeHold,
                               ibv_event_type>;

struct FakeCounts {  // of objects that are alive, without those of FakeAdapter::port()
    size_t lists = 0, contexts = 0;
    size_t domains = 0, regions = 0, windows = 0, channels = 0, queues = 0, pairs = 0;
    bool operator==(const FakeCounts &) const = default;
};

// What was posted since the start, by ibv_post_send.
struct FakePosts {
    uint64_t calls = 0, requests = 0, signaled = 0;
};

class FakeFabric {
public:
    explicit FakeFabric(FakePersonality personality = FakePersonality::strict());
    // Prints violations that nobody took, and aborts.
    ~FakeFabric();
    FakeFabric(const FakeFabric &) = delete;
    FakeFabric &operator=(const FakeFabric &) = delete;

    // Lives as long as the fabric.
    FakeAdapter &add(FakeAdapterOptions options = {});
    // Its devices are the adapters of the fabric that lives: ENOSYS while there are several. Each
    // opening has its own objects, which can't be used with those of another.
    static const Verbs &verbs();

    // Executes, or flushes, one request of a queue pair, in turns. False: none can be.
    bool step();
    bool step(ibv_qp *pair);
    // All that can be; how many it were.
    size_t run();
    // Executes what is posted before the post returns, and what waited for a state before the call
    // that brings it: nobody has to run it.
    void run_on_post(bool on);
    // Of late_writes: the next one lands, if its target lives still. And how many were begun.
    void land();
    uint64_t late_writes();
    uint64_t landed();  // of these
    // Instead: told when there may be something to execute, which it does not do itself.
    void on_post(std::function<void()> call);

    // Completions stay with their queue pair until released, in order there.
    void hold_completions(bool hold);  // false: releases all
    bool release_send(ibv_qp *pair);   // false: none is held
    bool release_receive(ibv_qp *pair);
    size_t held(ibv_qp *pair);

    // The k-th request from now (from 1) that is executed, of `pair` or (null) of all, ends so.
    void fail_request(ibv_qp *pair, unsigned k, ibv_wc_status status);
    // The k-th call from now (from 1) returns `error`. One plan for each call; 0 takes it back.
    void fail_call(FakeCall call, unsigned k, int error);
    void fail_calls(FakeCall call, int error);  // all from now on
    void fail_modify(ibv_qp_state to, unsigned k, int error);
    // The k-th ibv_post_send from now takes `taken` of its requests and returns `error`. In ERR it
    // takes none: a drain alone, and no driver takes that and says that it does not.
    void fail_post(unsigned k, unsigned taken, int error);

    void cut(FakeAdapter &one, FakeAdapter &other, FakeCut cut = FakeCut::requests);
    void mend(FakeAdapter &one, FakeAdapter &other);

    // The violations so far, one a line; "" if there are none.
    std::string report();
    // Whether there was such a one; forgets all of its kind.
    bool took(Violation violation);
    // That kind is not kept.
    void allow(Violation violation);

    // The faults that came about, and how often: one that is asked for may never do.
    std::map<FakeFault, uint64_t> met();

    FakeCounts live();
    // Whether a byte of this memory is registered; a window is bound to just this range.
    bool has_registered(const void *memory, size_t length);
    bool has_bound(const void *memory, size_t length);
    FakePosts posts();
    std::vector<ibv_qp *> pairs();
    void free_windows();  // that are left, as the end of the process does it

private:
    friend class FakeAdapter;
    friend class FakeExecution;
    friend struct FakeTable;

    struct Plan {
        unsigned after = 0;  // calls; 0: none
        int error = 0;
        unsigned taken = 0;
        bool for_good = false;
    };
    struct RequestPlan {
        FakeQueuePair *pair;
        unsigned after;
        ibv_wc_status status;
    };
    using Link = std::pair<const FakeAdapter *, const FakeAdapter *>;

    void enlist();
    void delist();
    static FakeFabric *only();  // null: none lives, or several
    static Link link(const FakeAdapter *one, const FakeAdapter *other);
    static bool fires(Plan &plan);
    bool fails(FakeCall call);  // with errno set
    void meet(FakeFault fault) { ++met_[fault]; }
    void violate(Violation violation, std::string what);
    template <typename T>
    bool alive(const T *object);

    // All of these with the mutex held.
    bool step_next();
    size_t run_all();
    void posted();
    ibv_wc_status planned_status(FakeQueuePair &pair);
    void complete(FakeQueuePair &pair, bool receive, const FakeCompletion &completion);
    void deliver(const FakeCompletion &completion);
    bool release(FakeQueuePair &pair, bool receive);
    void enter_error(FakeQueuePair &pair, ibv_event_type event);
    void tell(FakeAdapter &adapter, const ibv_async_event &event, ibv_context *opening);
    std::string join_violations() const;

    std::mutex mutex_;
    const FakePersonality personality_;
    std::vector<std::unique_ptr<FakeAdapter>> adapters_;
    std::vector<std::unique_ptr<std::vector<ibv_device *>>> lists_;  // of devices, each null behind
    size_t async_unacked_ = 0;
    std::vector<FakeQueuePair *> pairs_;  // alive
    size_t turn_ = 0;
    bool run_on_post_ = false, hold_ = false;
    std::function<void()> on_post_;
    std::map<FakeCall, Plan> call_plans_;
    std::map<ibv_qp_state, Plan> modify_plans_;
    Plan post_plan_;
    std::vector<RequestPlan> request_plans_;
    std::deque<FakePacket> on_way_;
    uint64_t late_writes_ = 0, landed_ = 0;
    std::map<Link, FakeCut> cuts_;
    std::set<Violation> allowed_;
    std::vector<std::pair<Violation, std::string>> violations_;
    FakePosts posts_;
    std::map<FakeFault, uint64_t> met_;
};

class FakeAdapter {
public:
    FakeAdapter(FakeFabric &fabric, FakeAdapterOptions options, unsigned index);
    ~FakeAdapter();
    FakeAdapter(const FakeAdapter &) = delete;
    FakeAdapter &operator=(const FakeAdapter &) = delete;

    // With a protection domain that lives as long as the adapter.
    Port port();
    ibv_context *context();
    // Memory that reg_dmabuf_mr finds by the descriptor; without any it is not supported.
    void offer_dmabuf(int fd, void *memory, size_t length);

    // Events of the device, port, completion queues and queue pairs. Each is told to whoever has
    // the device open, or made the queue that fails by itself; and kept for the test.
    void raise_async(const ibv_async_event &event);
    std::vector<ibv_async_event> take_async();

private:
    friend class FakeExecution;
    friend class FakeFabric;
    friend struct FakeTable;
    struct Objects;
    void set_up(FakeContext &context);

    FakeFabric &fabric_;
    const FakeAdapterOptions options_;
    const std::unique_ptr<Objects> objects_;
    PortAddress address_;
    std::vector<ibv_async_event> events_;
    std::map<int, std::pair<void *, size_t>> dmabufs_;
};

}  // namespace xfer::rdma
