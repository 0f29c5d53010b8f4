// SPDX-License-Identifier: Apache-2.0
// What a fake adapter consists of. Objects stay in memory when they are destroyed, so that a use
// afterwards is seen. Guarded by the mutex of the fabric.
#pragma once

#include <deque>
#include <unordered_map>

#include "fake_verbs.h"

namespace xfer::rdma {

// Descriptors that count events.
void add_event(int fd);
bool drop_event(int fd);  // false: there was none

// Objects of one kind, the dead ones too.
template <typename T>
class FakePool {
public:
    T &add() {
        all_.push_back(std::make_unique<T>());
        ++live_;
        return *all_.back();
    }
    void bury(T &object) {
        object.is_alive = false;
        --live_;
    }
    size_t live() const { return live_; }
    template <typename Call>
    void each_live(Call call) const {
        for (const auto &object : all_)
            if (object->is_alive) call(*object);
    }

private:
    std::vector<std::unique_ptr<T>> all_;
    size_t live_ = 0;
};

// Numbers of queue pairs and keys.
class FakeNumbers {
public:
    explicit FakeNumbers(bool reuse) : reuse_(reuse) {}
    uint32_t take() {
        if (!reuse_ || free_.empty()) return ++last_;
        return free_.extract(free_.begin()).value();
    }
    void give_back(uint32_t number) { free_.insert(number); }

private:
    const bool reuse_;
    uint32_t last_ = 1;  // queue pairs 0 and 1 are those of management
    std::set<uint32_t> free_;
};

struct FakeDomain : ibv_pd {
    bool is_alive = true;
    size_t users = 0;  // regions, windows and queue pairs
};

struct FakeRegion : ibv_mr {
    bool is_alive = true;
    uint64_t iova = 0;
    unsigned access = 0;
    uint32_t number = 0;

    bool covers(uint64_t at, uint64_t bytes) const {
        return at >= iova && bytes <= length && at - iova <= length - bytes;
    }
    uint8_t *at(uint64_t address) const { return static_cast<uint8_t *>(addr) + (address - iova); }
};

// Of type 2: of one queue pair while it is bound.
struct FakeWindow : ibv_mw {
    bool is_alive = true;
    uint32_t number = 0;
    const FakeQueuePair *bound = nullptr;
    const FakeRegion *region = nullptr;
    uint32_t key = 0;  // it is reached by
    ibv_mw_bind_info range{};

    bool covers(uint64_t at, uint64_t bytes) const {
        return at >= range.addr && bytes <= range.length && at - range.addr <= range.length - bytes;
    }
};

struct FakeChannel : ibv_comp_channel {
    bool is_alive = true;
    std::deque<FakeCompletionQueue *> events;
};

struct FakeCompletion {
    ibv_wc entry;
    FakeQueuePair *pair;  // null: it is gone, or was reset
    bool receive;
    bool solicited;
    uint64_t end;  // of a send: the slots before this one come back with it
};

class FakeCompletionQueue : public ibv_cq {
public:
    enum class Armed : uint8_t { no, solicited, all };

    bool is_alive = true;
    bool overrun = false;
    Armed armed = Armed::no;
    size_t users = 0;  // a queue pair counts for each of its sides
    size_t async_unacked = 0;
    uint64_t events_taken = 0, events_acked = 0;
    std::deque<FakeCompletion> entries;

    // Whether it fires the event that was asked for.
    bool fires(const FakeCompletion &completion) const {
        return armed == Armed::all ||
               (armed == Armed::solicited &&
                (completion.solicited || completion.entry.status != IBV_WC_SUCCESS));
    }
};

// A slot of a send queue, used again and again.
struct FakeRequest {
    ibv_send_wr request{};
    std::vector<ibv_sge> pieces;
    std::vector<uint8_t> inlined;
    uint64_t bytes = 0;
    bool planned = false;  // the plans of the test have counted it
    bool done = false;     // and its completion, if it has one, is decided
    ibv_wc_status status = IBV_WC_SUCCESS;

    bool is_read() const { return request.opcode == IBV_WR_RDMA_READ; }
    bool is_atomic() const {
        return request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
               request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    }
    // Done by the initiator's adapter alone.
    bool is_local() const {
        return request.opcode == IBV_WR_BIND_MW || request.opcode == IBV_WR_LOCAL_INV;
    }
    bool is_inline() const { return request.send_flags & IBV_SEND_INLINE; }
    // What it needs of its local pieces.
    unsigned local_access() const { return is_read() || is_atomic() ? IBV_ACCESS_LOCAL_WRITE : 0; }
};

// A write that is on its way, though the initiator's queue pair is in ERR.
struct FakePacket {
    FakeAdapter *from, *to;
    uint32_t from_pair, to_pair, psn;
    uint32_t rkey;
    uint64_t address;
    std::vector<uint8_t> bytes;
};

struct FakeReceive {
    uint64_t wr_id;
    std::vector<ibv_sge> pieces;
};

// The slots of its send queue: freed ≤ reported ≤ posted. A slot is free once a completion behind
// it was polled, and only then.
class FakeQueuePair : public ibv_qp {
public:
    bool is_alive = true;
    bool all_signaled = false;
    bool was_ready = false;  // in RTS once
    bool mute = false;       // completes nothing any more
    bool failed = false;     // by a request of its own
    size_t async_unacked = 0;
    // What it is in; ibv_qp::state is what it was told, and knows nothing of failures.
    ibv_qp_state phase = IBV_QPS_RESET;
    ibv_qp_cap cap{};
    ibv_qp_attr attributes{};
    uint32_t send_psn = 0, receive_psn = 0;

    uint64_t freed = 0, reported = 0, posted = 0;
    std::deque<FakeReceive> receives;
    uint32_t receives_out = 0;  // posted, and their completions not polled
    size_t unpolled = 0;        // completions in a queue, or held
    std::deque<FakeCompletion> held_sends, held_receives;

    FakeRequest &slot(uint64_t index) { return slots_[index % slots_.size()]; }
    const FakeRequest &slot(uint64_t index) const { return slots_[index % slots_.size()]; }
    void set_slots(uint32_t count) { slots_.resize(count); }
    bool is_full() const { return posted - freed == slots_.size(); }
    bool signals(const FakeRequest &request) const {
        return all_signaled || (request.request.send_flags & IBV_SEND_SIGNALED);
    }
    bool has_open_requests() const { return reported < posted || !receives.empty(); }
    // Whether a request that is not known to be over uses the key.
    bool uses(uint32_t lkey) const;
    bool binds(const FakeWindow &window) const;  // likewise

private:
    std::vector<FakeRequest> slots_;
};

struct FakeDeviceHandle : ibv_device {
    FakeAdapter *adapter = nullptr;
};

// An opening of an adapter.
struct FakeContext : ibv_context {
    bool is_alive = true;
    FakeAdapter *adapter = nullptr;
    size_t users = 0;  // domains, channels and completion queues
    std::deque<ibv_async_event> events;
};

inline FakeAdapter &adapter_of(ibv_context *context) {
    return *static_cast<FakeContext *>(context)->adapter;
}

struct FakeAdapter::Objects {
    explicit Objects(bool reuse) : pair_numbers(reuse), key_numbers(reuse) {}

    FakeDeviceHandle device{};
    FakeContext context{};  // of port()
    FakeDomain own_domain;  // of port()
    FakePool<FakeContext> contexts;
    std::vector<FakeContext *> opened;
    FakePool<FakeDomain> domains;
    FakePool<FakeRegion> regions;
    FakePool<FakeWindow> windows;
    FakePool<FakeChannel> channels;
    FakePool<FakeCompletionQueue> queues;
    FakePool<FakeQueuePair> pairs;
    FakeNumbers pair_numbers, key_numbers;
    std::unordered_map<uint32_t, FakeRegion *> by_lkey, by_rkey;
    std::unordered_map<uint32_t, FakeWindow *> bound;  // by key
    std::unordered_map<uint32_t, FakeQueuePair *> by_number;

    void unbind(FakeWindow &window);
    void free(FakeWindow &window);
    // The region that covers the piece; null: none in that domain.
    const FakeRegion *local(const ibv_pd *domain, const ibv_sge &piece, unsigned access) const;
};

// The entries of ibv_context_ops and of Verbs.
struct FakeTable {
    static ibv_device **get_device_list(int *count);
    static void free_device_list(ibv_device **list);
    static const char *get_device_name(ibv_device *device);
    static ibv_context *open_device(ibv_device *device);
    static int close_device(ibv_context *context);
    static int query_device(ibv_context *context, ibv_device_attr *out);
    static int query_device_ex(ibv_context *context, ibv_device_attr_ex *out);
    static int query_port(ibv_context *context, uint8_t port, ibv_port_attr *out);
    static int query_gid_ex(ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *out,
                            uint32_t flags, size_t entry_size);
    static int query_pkey(ibv_context *context, uint8_t port, int index, __be16 *out);
    static int get_async_event(ibv_context *context, ibv_async_event *out);
    static void ack_async_event(ibv_async_event *event);

    static ibv_pd *alloc_pd(ibv_context *context);
    static int dealloc_pd(ibv_pd *domain);
    static ibv_mr *reg_mr(ibv_pd *domain, void *address, size_t length, int access);
    static ibv_mr *reg_mr_iova2(ibv_pd *domain, void *address, size_t length, uint64_t iova,
                                unsigned access);
    static ibv_mr *reg_dmabuf_mr(ibv_pd *domain, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access);
    static int dereg_mr(ibv_mr *region);
    static ibv_mw *alloc_mw(ibv_pd *domain, ibv_mw_type type);
    static int dealloc_mw(ibv_mw *window);

    static ibv_comp_channel *create_comp_channel(ibv_context *context);
    static int destroy_comp_channel(ibv_comp_channel *channel);
    static ibv_cq *create_cq(ibv_context *context, int entries, void *user,
                             ibv_comp_channel *channel, int vector);
    static int destroy_cq(ibv_cq *queue);
    static int get_cq_event(ibv_comp_channel *channel, ibv_cq **queue, void **user);
    static void ack_cq_events(ibv_cq *queue, unsigned count);
    static int poll_cq(ibv_cq *queue, int count, ibv_wc *entries);
    static int req_notify_cq(ibv_cq *queue, int solicited_only);

    static ibv_qp *create_qp(ibv_pd *domain, ibv_qp_init_attr *attributes);
    static int modify_qp(ibv_qp *pair, ibv_qp_attr *attributes, int mask);
    static int query_qp(ibv_qp *pair, ibv_qp_attr *out, int mask, ibv_qp_init_attr *init);
    static int destroy_qp(ibv_qp *pair);
    static int post_send(ibv_qp *pair, ibv_send_wr *request, ibv_send_wr **bad);
    static int post_recv(ibv_qp *pair, ibv_recv_wr *request, ibv_recv_wr **bad);

    // With the mutex held.
    static ibv_mr *add_region(FakeDomain &domain, void *address, size_t length, uint64_t iova,
                              unsigned access);
    static bool may_bind(FakeQueuePair &pair, const ibv_send_wr &request);
    static bool grants(FakeAdapter &adapter, const ibv_qp_init_attr &attributes);
    static bool may_modify(FakeAdapter &adapter, const FakeQueuePair &pair,
                           const ibv_qp_attr &attributes, int mask);
    static void forget_events(FakeFabric &fabric, ibv_context *context, const void *queue,
                              size_t unacked);
    static void count_polled(const FakeCompletion &completion);
    static void forget_completions(FakeFabric &fabric, FakeQueuePair &pair);
    static int check_send(FakeQueuePair &pair, const ibv_send_wr &request);
    static void take_send(FakeQueuePair &pair, const ibv_send_wr &request);
};

template <typename T>
bool FakeFabric::alive(const T *object) {
    if (object->is_alive) return true;
    violate(Violation::use_after_destroy, "of something that was destroyed");
    return false;
}

}  // namespace xfer::rdma
