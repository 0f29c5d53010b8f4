// SPDX-License-Identifier: Apache-2.0
// Two connected queue pairs on fake adapters, each with what it needs, for tests of the fake.
#pragma once

#include <vector>

#include "fake_verbs.h"

namespace xfer::rdma {

constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kToReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kToSend = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

struct FakeDepths {
    uint32_t sends = 16, receives = 16;
    int completions = 64;
};

class FakeEnd {
public:
    explicit FakeEnd(FakeAdapter &adapter, FakeDepths depths = {}, bool with_channel = false)
        : port(adapter.port()), bytes(4096) {
        const Verbs &verbs = FakeFabric::verbs();
        domain = verbs.alloc_pd(port.context);
        if (with_channel) channel = verbs.create_comp_channel(port.context);
        queue = verbs.create_cq(port.context, depths.completions, this, channel, 0);
        region = verbs.reg_mr(domain, bytes.data(), bytes.size(), kAllAccess);
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = queue;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap = {depths.sends, depths.receives, 4, 4, 64};
        pair = verbs.create_qp(domain, &attributes);
        granted = attributes.cap;
    }
    FakeEnd(const FakeEnd &) = delete;
    FakeEnd &operator=(const FakeEnd &) = delete;
    // What the test destroyed itself is null.
    ~FakeEnd() {
        const Verbs &verbs = FakeFabric::verbs();
        if (pair) verbs.destroy_qp(pair);
        if (region) verbs.dereg_mr(region);
        if (queue) verbs.destroy_cq(queue);
        if (channel) verbs.destroy_comp_channel(channel);
        if (domain) verbs.dealloc_pd(domain);
    }

    // What leads to each state, sound as it is; a test spoils it.
    ibv_qp_attr to_init() const {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = 1;
        attributes.qp_access_flags = kAllAccess;
        return attributes;
    }
    ibv_qp_attr to_receive(const FakeEnd &other) const {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTR;
        attributes.path_mtu = std::min(port.address.mtu, other.port.address.mtu);
        attributes.dest_qp_num = other.pair->qp_num;
        attributes.rq_psn = other.psn;
        attributes.max_dest_rd_atomic = 4;
        attributes.min_rnr_timer = 12;
        attributes.ah_attr.port_num = 1;
        attributes.ah_attr.dlid = other.port.address.lid;
        if (port.address.layer == LinkLayer::ethernet) {
            attributes.ah_attr.is_global = 1;
            attributes.ah_attr.grh.dgid = other.port.address.gid;
            attributes.ah_attr.grh.hop_limit = 64;
        }
        return attributes;
    }
    ibv_qp_attr to_send() const {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_RTS;
        attributes.timeout = 14;
        attributes.retry_cnt = 6;
        attributes.rnr_retry = 3;
        attributes.sq_psn = psn;
        attributes.max_rd_atomic = 4;
        return attributes;
    }
    int modify(ibv_qp_attr attributes, int mask) {
        return FakeFabric::verbs().modify_qp(pair, &attributes, mask);
    }
    int modify(ibv_qp_state to) {
        ibv_qp_attr attributes{};
        attributes.qp_state = to;
        return modify(attributes, IBV_QP_STATE);
    }
    int connect(const FakeEnd &other) {
        if (int error = modify(to_init(), kToInit)) return error;
        if (int error = modify(to_receive(other), kToReceive)) return error;
        return modify(to_send(), kToSend);
    }

    ibv_sge piece(uint32_t offset, uint32_t length) {
        return {reinterpret_cast<uint64_t>(bytes.data() + offset), length, region->lkey};
    }
    uint64_t address(uint32_t offset) { return reinterpret_cast<uint64_t>(bytes.data() + offset); }

    // One of up to one piece, signaled; the test changes it before it is posted.
    ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge *local, FakeEnd &other, uint32_t at) {
        ibv_send_wr request{};
        request.wr_id = ++last_id;
        request.sg_list = local;
        request.num_sge = local ? 1 : 0;
        request.opcode = opcode;
        request.send_flags = IBV_SEND_SIGNALED;
        if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
            request.wr.atomic.remote_addr = other.address(at);
            request.wr.atomic.rkey = other.region->rkey;
        } else {
            request.wr.rdma.remote_addr = other.address(at);
            request.wr.rdma.rkey = other.region->rkey;
        }
        return request;
    }
    int post(ibv_send_wr request) {
        ibv_send_wr *bad = nullptr;
        return ibv_post_send(pair, &request, &bad);
    }
    int receive(uint64_t id, ibv_sge local) {
        ibv_recv_wr request{id, nullptr, &local, 1};
        ibv_recv_wr *bad = nullptr;
        return ibv_post_recv(pair, &request, &bad);
    }
    std::vector<ibv_wc> poll(int most = 64) {
        std::vector<ibv_wc> entries(static_cast<size_t>(most));
        const int count = ibv_poll_cq(queue, most, entries.data());
        entries.resize(count > 0 ? static_cast<size_t>(count) : 0);
        return entries;
    }

    const Port port;
    std::vector<uint8_t> bytes;
    uint32_t psn = 0x1234;
    uint64_t last_id = 0;
    ibv_qp_cap granted{};
    ibv_pd *domain = nullptr;
    ibv_mr *region = nullptr;
    ibv_comp_channel *channel = nullptr;
    ibv_cq *queue = nullptr;
    ibv_qp *pair = nullptr;
};

// Two ends on two adapters of one fabric.
struct FakeLine {
    explicit FakeLine(FakePersonality personality = {}, FakeAdapterOptions options = {},
                      FakeDepths depths = {}, bool with_channel = false)
        : fabric(personality),
          here(fabric.add(options)),
          there(fabric.add(options)),
          near(here, depths, with_channel),
          far(there, depths, with_channel) {}
    void connect() {
        near.psn = 0x1000, far.psn = 0xfffff0;
        near.connect(far);
        far.connect(near);
    }
    // Ends both as a program has to: error, flush, poll.
    void drain() {
        for (FakeEnd *end : {&near, &far})
            if (end->pair) end->modify(IBV_QPS_ERR);
        fabric.hold_completions(false);
        do
            near.poll(), far.poll();
        while (fabric.run() > 0);
    }

    FakeFabric fabric;
    FakeAdapter &here, &there;
    FakeEnd near, far;
};

}  // namespace xfer::rdma
