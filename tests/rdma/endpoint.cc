// SPDX-License-Identifier: Apache-2.0
#include "endpoint.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace rdma_test {

namespace {

constexpr uint32_t kFirstSequence = 7;
constexpr uint8_t kReadsAtOnce = 16;

ibv_context *open_by_name(const std::string &name) {
    int count = 0;
    ibv_device **const list = verbs().get_device_list(&count);
    must(list, "ibv_get_device_list");
    ibv_context *context = nullptr;
    for (int i = 0; i < count; ++i)
        if (name == verbs().get_device_name(list[i])) context = verbs().open_device(list[i]);
    verbs().free_device_list(list);
    must(context, ("ibv_open_device " + name).c_str());
    return context;
}

const char *name_of(const char *variable) {
    const char *const name = std::getenv(variable);
    return name ? name : "rxe0";
}

uint8_t pattern(uint32_t seed, size_t at) {
    return uint8_t(seed * 131 + at + (at >> 8) * 7 + (at >> 16) * 13);
}

}  // namespace

const xfer::rdma::Verbs &verbs() {
    static const xfer::rdma::Verbs *const loaded = [] {
        auto found = xfer::rdma::load_verbs();
        must(bool(found), "load_verbs");
        return *found;
    }();
    return *loaded;
}

void must(bool held, const char *what) {
    if (held) return;
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(2);
}

double now() {
    timespec time;
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + double(time.tv_nsec) / 1e9;
}

Device::Device(const char *name) {
    context = open_by_name(name);
    domain = verbs().alloc_pd(context);
    must(domain, "ibv_alloc_pd");
    must(!verbs().query_port(context, 1, &port), "ibv_query_port");
    ibv_gid_entry entry;
    for (uint32_t i = 0; i < uint32_t(port.gid_tbl_len); ++i) {
        if (verbs().query_gid_ex(context, 1, i, &entry, 0, sizeof entry)) continue;
        const auto *const address = reinterpret_cast<const in6_addr *>(entry.gid.raw);
        if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 || !IN6_IS_ADDR_V4MAPPED(address)) continue;
        gid = entry.gid;
        gid_index = i;
        return;
    }
    must(false, "a GID of an IPv4 address");
}

Device &near_device() {
    static Device device(name_of("RDMA_TEST_NEAR"));
    return device;
}

Device &far_device() {
    static Device device(name_of("RDMA_TEST_FAR"));
    return device;
}

Buffer::Buffer(Device &device, size_t length, int access) : length_(length) {
    void *const pages =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED, "mmap");
    data_ = static_cast<uint8_t *>(pages);
    region_ = verbs().reg_mr(device.domain, data_, length, access);
    must(region_, "ibv_reg_mr");
    local_key_ = region_->lkey;
    remote_key_ = region_->rkey;
}

Buffer::~Buffer() {
    deregister();
    ::munmap(data_, length_);
}

void Buffer::deregister() {
    if (region_) must(!verbs().dereg_mr(region_), "ibv_dereg_mr");
    region_ = nullptr;
}

void Buffer::fill(uint32_t seed) {
    for (size_t i = 0; i < length_; ++i)
        data_[i] = pattern(seed, i);
}

int64_t Buffer::differs(uint32_t seed, size_t offset, size_t length) const {
    for (size_t i = offset; i < offset + length; ++i)
        if (data_[i] != pattern(seed, i)) return int64_t(i);
    return -1;
}

uint8_t default_retries() {
    const char *const asked = std::getenv("RDMA_TEST_RETRIES");
    return asked ? uint8_t(std::atoi(asked)) : 6;
}

Endpoint::Endpoint(Device &device, const Attributes &attributes)
    : device_(device), attributes_(attributes) {
    queue_ = verbs().create_cq(device.context, attributes.entries, nullptr, attributes.channel, 0);
    must(queue_, "ibv_create_cq");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = queue_;
    init.qp_type = IBV_QPT_RC;
    init.cap = {attributes.sends, attributes.receives, 4, 4, 64};
    pair_ = verbs().create_qp(device.domain, &init);
    must(pair_, "ibv_create_qp");
    granted_ = init.cap;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAllAccess;
    must(!verbs().modify_qp(pair_, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "ibv_modify_qp to INIT");
}

Endpoint::~Endpoint() {
    destroy_pair();
    must(!verbs().destroy_cq(queue_), "ibv_destroy_cq");
}

void Endpoint::destroy_pair() {
    if (pair_) must(!verbs().destroy_qp(pair_), "ibv_destroy_qp");
    pair_ = nullptr;
}

Parameters Endpoint::parameters(const Buffer &memory) const {
    return {pair_->qp_num, uint32_t(device_.port.active_mtu), device_.gid,
            reinterpret_cast<uint64_t>(memory.at()), memory.remote_key()};
}

void Endpoint::connect(const Parameters &peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = std::min(device_.port.active_mtu, ibv_mtu(peer.mtu));
    attr.dest_qp_num = peer.number;
    attr.rq_psn = kFirstSequence;
    attr.max_dest_rd_atomic = kReadsAtOnce;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = uint8_t(device_.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    must(!verbs().modify_qp(pair_, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "ibv_modify_qp to RTR");
    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = kFirstSequence;
    attr.timeout = attributes_.timeout;
    attr.retry_cnt = attributes_.retries;
    attr.rnr_retry = attributes_.receiver_not_ready_retries;
    attr.max_rd_atomic = kReadsAtOnce;
    must(!verbs().modify_qp(pair_, &attr,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
         "ibv_modify_qp to RTS");
}

void Endpoint::fail() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    must(!verbs().modify_qp(pair_, &attr, IBV_QP_STATE), "ibv_modify_qp to ERR");
}

ibv_qp_state Endpoint::state() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    must(!verbs().query_qp(pair_, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state;
}

std::optional<ibv_wc> Endpoint::next(double seconds) const {
    const double end = now() + seconds;
    ibv_wc found;
    do {
        const int count = ibv_poll_cq(queue_, 1, &found);
        must(count >= 0, "ibv_poll_cq");
        if (count > 0) return found;
    } while (now() < end);
    return std::nullopt;
}

int Endpoint::next_status(double seconds) const {
    const std::optional<ibv_wc> found = next(seconds);
    return found ? int(found->status) : -1;
}

ibv_sge piece(const Buffer &memory, size_t offset, size_t length) {
    return {reinterpret_cast<uint64_t>(memory.at(offset)), uint32_t(length), memory.local_key()};
}

ibv_send_wr work(Request &request) {
    ibv_send_wr wr{};
    wr.wr_id = request.id;
    wr.sg_list = &request.piece;
    wr.num_sge = request.piece.length ? 1 : 0;
    wr.opcode = request.opcode;
    wr.send_flags = request.flags;
    wr.imm_data = request.immediate;
    if (request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic = {request.address, request.compare_add, request.swap, request.key};
    } else {
        wr.wr.rdma = {request.address, request.key};
    }
    return wr;
}

int post(const Endpoint &endpoint, Request request) {
    ibv_send_wr wr = work(request), *bad = nullptr;
    return ibv_post_send(endpoint.pair(), &wr, &bad);
}

int post_receive(const Endpoint &endpoint, uint64_t id, ibv_sge piece) {
    ibv_recv_wr wr{id, nullptr, &piece, piece.length ? 1 : 0}, *bad = nullptr;
    return ibv_post_recv(endpoint.pair(), &wr, &bad);
}

}  // namespace rdma_test
