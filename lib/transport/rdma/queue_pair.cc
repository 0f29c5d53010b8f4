// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/rdma/completion_error.h"
#include "util/memory.h"
#include "wire/proof.h"

namespace xfer::rdma {

namespace {

constexpr uint8_t kMaxRetries = 6;  // 7 is for ever, of a packet on some devices
constexpr uint8_t kHopLimit = 64;
constexpr uint8_t kMinRnrTimer = 12;  // 0.64 ms
// How far the chains of one completion go. Sixteen of the smallest leave an adapter in a fraction
// of a microsecond, and so do so many bytes: the first of them is not told much later than by a
// completion of its own. No more than a quarter of the slots, so that they do not come back all at
// once.
constexpr uint32_t kRunRequests = 16;
constexpr uint64_t kRunBytes = 64 * 1024;

uint32_t wanted_requests(const QueuePairOptions &options) {
    return std::clamp<uint32_t>(options.send_requests, 1, 1 << 24);
}

uint32_t random_psn() {
    uint8_t bytes[sizeof(uint32_t)];
    random_bytes(bytes);
    return load<uint32_t>(bytes) & kPsnMask;
}

bool same_subnet(const ibv_gid &one, const ibv_gid &other) {
    return std::memcmp(one.raw, other.raw, 8) == 0;
}

// A driver that names none of the list has taken as much as it may have.
uint32_t count_taken(PostList &list, const ibv_send_wr *refused) {
    const auto requests = list.requests();
    const auto at = std::find_if(requests.begin(), requests.end(),
                                 [&](const ibv_send_wr &request) { return &request == refused; });
    return static_cast<uint32_t>(at - requests.begin());
}

}  // namespace

// ---- beginning

QueuePair::QueuePair(const Verbs &verbs, const Port &port, CompletionQueue &completions,
                     const QueuePairOptions &options, QueuePairSink &sink)
    : verbs_(verbs),
      port_(port),
      completions_(completions),
      options_(options),
      sink_(sink),
      psn_(random_psn()) {}

Result<std::unique_ptr<QueuePair>> QueuePair::create(const Verbs &verbs, const Port &port,
                                                     CompletionQueue &completions,
                                                     const QueuePairOptions &options,
                                                     QueuePairSink &sink) {
    std::unique_ptr<QueuePair> pair;
    Failure failure;
    const bool has_memory = catch_bad_alloc([&] {
        pair.reset(new QueuePair(verbs, port, completions, options, sink));
        failure = pair->open();
    });
    if (!has_memory) return no_memory();
    if (failure.status != XFER_OK) return failure;
    return pair;
}

Failure QueuePair::open() {
    if (const Failure failure = make(); failure.status != XFER_OK) return failure;
    if (caps_.receives < options_.receives) return too_few_receives();
    caps_.receives = options_.receives;
    if (caps_.granted_requests < 2)
        return {XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, 0,
                Text(port_.name) + ": a queue pair takes a single request"};
    caps_.send_requests = std::min(wanted_requests(options_), caps_.granted_requests - 1);
    ledger_ = Ledger(caps_.send_requests);
    const uint32_t completions = caps_.send_requests + 1 + caps_.receives;
    if (!completions_.reserve(completions))
        return {XFER_ENOMEM, XFER_ORIGIN_NONE, 0,
                Text(port_.name) + ": the completion queue has no room for a queue pair"};
    reserved_ = completions;
    number_ = completions_.attach(*this);
    if (number_ == 0) return no_memory();
    return initialise();
}

// Devices that can't have so many bytes inlined refuse the whole.
Failure QueuePair::make() {
    const DeviceLimits &limits = port_.limits;
    if (options_.receives > limits.send_requests) return too_few_receives();
    for (uint32_t inlined = options_.inline_bytes;; inlined /= 2) {
        ibv_qp_init_attr asked{};
        asked.send_cq = asked.recv_cq = completions_.handle();
        asked.qp_type = IBV_QPT_RC;
        asked.cap.max_send_wr = std::min(wanted_requests(options_) + 1, limits.send_requests);
        asked.cap.max_send_sge = std::max(1u, std::min(options_.send_pieces, limits.send_pieces));
        asked.cap.max_recv_wr = options_.receives;
        asked.cap.max_recv_sge = options_.receives > 0;
        asked.cap.max_inline_data = inlined;
        pair_ = verbs_.create_qp(port_.domain, &asked);
        if (pair_) {
            caps_.granted_requests = asked.cap.max_send_wr;
            caps_.send_pieces = asked.cap.max_send_sge;
            caps_.inline_bytes = asked.cap.max_inline_data;
            caps_.receives = asked.cap.max_recv_wr;
            return {};
        }
        if (errno != EINVAL || inlined == 0)
            return verbs_failure(verbs_errno(-1), Text(port_.name) + ": no queue pair");
    }
}

Failure QueuePair::too_few_receives() const {
    return {XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, 0,
            Text(port_.name) + ": a queue pair takes too few receives"};
}

Failure QueuePair::modify(ibv_qp_attr &attributes, int mask, const char *what) {
    const int result = verbs_.modify_qp(pair_, &attributes, mask | IBV_QP_STATE);
    if (result == 0) return {};
    return verbs_failure(verbs_errno(result),
                         Text(port_.name) + ": the queue pair does not become " + what);
}

// Of atomics, the adapter serves those that are ones to the CPU as well.
Failure QueuePair::initialise() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = port_.number;
    attributes.pkey_index = port_.pkey_index;
    if (options_.remote_access) {
        attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        if (port_.limits.atomics_with_cpu) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    }
    return modify(attributes, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS, "initialised");
}

QueuePairParameters QueuePair::parameters() const {
    return {.layer = port_.address.layer,
            .mtu = port_.address.mtu,
            .reads_in = port_.limits.reads_in,
            .lid = port_.address.lid,
            .qpn = pair_->qp_num,
            .psn = psn_,
            .gid = port_.address.gid};
}

Failure QueuePair::connect(const QueuePairParameters &peer) {
    XFER_CHECK(state_ == State::init);
    state_ = State::broken;
    if (peer.layer != port_.address.layer)
        return {XFER_EUNREACHABLE, XFER_ORIGIN_NONE, 0,
                Text(port_.name) + ": InfiniBand and Ethernet do not meet"};
    ibv_qp_attr attributes{};
    attributes.ah_attr = route_to(peer);
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = std::min(port_.address.mtu, peer.mtu);
    attributes.dest_qp_num = peer.qpn;
    attributes.rq_psn = peer.psn;
    attributes.max_dest_rd_atomic = port_.limits.reads_in;
    attributes.min_rnr_timer = kMinRnrTimer;
    Failure failure = modify(attributes,
                             IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                             "ready to receive");
    if (failure.status != XFER_OK) return failure;
    caps_.mtu = attributes.path_mtu;
    caps_.reads_out = std::min(port_.limits.reads_out, peer.reads_in);
    failure = become_ready_to_send();
    if (failure.status == XFER_OK) state_ = State::connected;
    return failure;
}

Failure QueuePair::become_ready_to_send() {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = psn_;
    attributes.max_rd_atomic = caps_.reads_out;
    attributes.timeout = std::clamp<uint8_t>(options_.ack_timeout, 1, 31);
    attributes.retry_cnt = std::min(options_.retries, kMaxRetries);
    attributes.rnr_retry = std::min(options_.rnr_retries, kMaxRetries);
    return modify(attributes,
                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                      IBV_QP_RNR_RETRY,
                  "ready to send");
}

// By GID on Ethernet; on InfiniBand by LID, and by GID as well where a router is between the two: a
// header that costs 40 bytes of each packet.
ibv_ah_attr QueuePair::route_to(const QueuePairParameters &peer) const {
    const PortAddress &own = port_.address;
    ibv_ah_attr route{};
    route.port_num = port_.number;
    route.sl = options_.service_level;
    route.dlid = peer.lid;
    const bool has_gids = !is_none(own.gid) && !is_none(peer.gid);
    const bool is_local = !has_gids || same_subnet(own.gid, peer.gid);
    if (own.layer == LinkLayer::infiniband && is_local) return route;
    route.is_global = 1;
    route.grh.dgid = peer.gid;
    route.grh.sgid_index = port_.gid_index;
    route.grh.hop_limit = kHopLimit;
    route.grh.traffic_class = options_.traffic_class;
    return route;
}

// ---- posting

ChainLimits QueuePair::limits(uint32_t requests) const {
    return {.requests = std::min(requests, caps_.send_requests),
            .pieces = caps_.send_pieces,
            .read_pieces = std::min(caps_.send_pieces, port_.limits.read_pieces),
            .request_bytes = port_.message_bytes,
            .inline_bytes = caps_.inline_bytes};
}

void QueuePair::number(PostList &list) const {
    RequestId id{RequestId::Kind::send, number_, ledger_.next()};
    for (ibv_send_wr &request : list.requests()) {
        request.wr_id = encode(id);
        ++id.sequence;
    }
}

// One completion for a run of chains, that of the last: it stands for all before it.
void QueuePair::thin_completions(PostList &list) const {
    const uint32_t longest = std::min(kRunRequests, ledger_.slots() / 4);
    uint32_t at = 0, run = 0;
    uint64_t bytes = 0;
    for (const PostList::Entry &chain : list.chains()) {
        const bool goes_on = run + chain.requests <= longest && bytes + chain.bytes <= kRunBytes;
        if (at > 0 && goes_on) list.requests()[at - 1].send_flags &= ~unsigned{IBV_SEND_SIGNALED};
        if (!goes_on) run = 0, bytes = 0;
        at += chain.requests;
        run += chain.requests;
        bytes += chain.bytes;
    }
}

void QueuePair::record(const PostList &list, uint32_t taken) {
    for (const PostList::Entry &chain : list.chains()) {
        if (taken < chain.requests) return ledger_.refused(chain.cookie, taken);
        ledger_.posted(chain.cookie, chain.requests);
        taken -= chain.requests;
    }
}

Posted QueuePair::post(PostList &list) {
    Posted out;
    if (state_ != State::connected) {
        out.admitted = Admitted::degraded;
        return out;
    }
    out.admitted = ledger_.reserve(list.size());
    if (out.admitted != Admitted::granted) return out;
    number(list);
    thin_completions(list);
    ibv_send_wr *refused = nullptr;
    const int result = ibv_post_send(pair_, list.requests().data(), &refused);
    out.taken = result == 0 ? list.size() : count_taken(list, refused);
    record(list, out.taken);
    if (result == 0) return out;
    out.why = verbs_failure(verbs_errno(result), Text(port_.name) + ": requests are not taken");
    if (out.taken > 0) {
        ledger_.degrade();
        out.why.status = XFER_EDEGRADED;
    } else if (out.why.native == ENOMEM && ledger_.outstanding() > 0) {
        out.why.status = XFER_EAGAIN;
    } else {
        out.why.status = XFER_EIO;
    }
    return out;
}

// A driver that names another receive, or none, may have taken this one: it is the adapter's.
Failure QueuePair::post_receive(uint32_t buffer, uint64_t address, uint32_t length, uint32_t lkey) {
    if (state_ == State::broken || ledger_.degraded())
        return {XFER_EDEGRADED, XFER_ORIGIN_NONE, 0, Text(port_.name) + ": it is to be failed"};
    if (receives_out_ == caps_.receives)
        return {XFER_EAGAIN, XFER_ORIGIN_NONE, 0, Text(port_.name) + ": all receives are posted"};
    ibv_sge element{address, length, lkey};
    ibv_recv_wr receive{}, *refused = nullptr;
    receive.wr_id = encode(RequestId{RequestId::Kind::receive, number_, buffer});
    receive.sg_list = &element;
    receive.num_sge = 1;
    const int result = ibv_post_recv(pair_, &receive, &refused);
    const bool taken = result == 0 || refused != &receive;
    receives_out_ += taken;
    if (result == 0) return {};
    Failure why = verbs_failure(verbs_errno(result), Text(port_.name) + ": a receive is not taken");
    why.status = why.native == ENOMEM && receives_out_ > 0 ? XFER_EAGAIN : XFER_EIO;
    if (!taken) return why;
    ledger_.degrade();
    why.status = XFER_EDEGRADED;
    return why;
}

// ---- completions

void QueuePair::on_completion(const RequestId &id, const ibv_wc &completion) {
    switch (id.kind) {
    case RequestId::Kind::send:
        on_sent(id.sequence, completion.status);
        break;
    case RequestId::Kind::drain:
        drain_out_ = false;
        end_sends();
        break;
    case RequestId::Kind::receive:
        on_receive_ended(id.sequence, completion);
        break;
    }
    if (state_ == State::failed) finish_drain();
}

void QueuePair::on_sent(uint32_t sequence, ibv_wc_status status) {
    const bool succeeded = status == IBV_WC_SUCCESS;
    const bool is_known =
        succeeded ? ledger_.completed(sequence) : ledger_.failed(sequence, status);
    if (!is_known) return;  // told twice
    if (!succeeded) tell_error(completion_failure(status, port_.name));
    tell_ended();
}

// The status is looked at before anything else: of an error, little else is defined. One that is
// flushed unasked is an error, too, and may be all that is told of it. What a write with immediate
// data takes a receive for has no bytes in it, however many the completion names.
void QueuePair::on_receive_ended(uint32_t buffer, const ibv_wc &completion) {
    if (receives_out_ == 0) return;  // told twice
    --receives_out_;
    const bool succeeded = completion.status == IBV_WC_SUCCESS;
    if (succeeded && completion.opcode == IBV_WC_RECV)
        return sink_.on_received(*this, buffer, completion.byte_len);
    ledger_.degrade();
    if (succeeded)
        tell_error(
            {XFER_EPROTO, XFER_ORIGIN_PEER, 0, Text(port_.name) + ": a write took a receive"});
    else
        tell_error(completion_failure(completion.status, port_.name));
}

void QueuePair::tell_error(const Failure &why) {
    if (state_ != State::connected || std::exchange(told_error_, true)) return;
    sink_.on_error(*this, why);
}

void QueuePair::end_sends() {
    ledger_.drained();
    tell_ended();
}

void QueuePair::tell_ended() {
    while (const auto end = ledger_.pop_ended())
        sink_.on_chain_ended(*this, *end);
}

// ---- ending

void QueuePair::fail() {
    if (state_ == State::failed || !pair_) return;
    const bool was_connected = std::exchange(state_, State::failed) == State::connected;
    ledger_.degrade();
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    const bool in_error = modify(attributes, 0, "failed").status == XFER_OK;
    if (ledger_.outstanding() > 0 && in_error && was_connected) drain_out_ = post_drain();
    finish_drain();
}

// Signaled, behind all others, in the slot that is kept for it. Of orphans nothing else may tell
// that they are over. Where it is refused, the chains have to tell by themselves.
bool QueuePair::post_drain() {
    ibv_send_wr last{}, *refused = nullptr;
    last.wr_id = encode(RequestId{RequestId::Kind::drain, number_, ledger_.next()});
    last.opcode = IBV_WR_RDMA_WRITE;  // of no bytes
    last.send_flags = IBV_SEND_SIGNALED;
    return ibv_post_send(pair_, &last, &refused) == 0;
}

// Receives need no request behind them: each has a completion of its own.
void QueuePair::finish_drain() {
    if (drain_out_ || ledger_.outstanding() > 0 || receives_out_ > 0) return;
    if (!std::exchange(drained_, true)) sink_.on_drained(*this);
}

Failure QueuePair::destroy() {
    XFER_CHECK(state_ == State::failed || ledger_.outstanding() == 0);
    if (!pair_) return {};
    if (const int result = verbs_.destroy_qp(pair_)) {
        Failure failure = verbs_failure(verbs_errno(result),
                                        Text(port_.name) + ": the queue pair is not destroyed");
        if (failure.native == EBUSY) failure.status = XFER_EBUSY;
        return failure;
    }
    pair_ = nullptr;
    state_ = State::failed;
    detach();
    drained_ = true;
    receives_out_ = 0;
    end_sends();
    return {};
}

void QueuePair::detach() {
    if (const uint32_t number = std::exchange(number_, 0)) completions_.detach(number);
    completions_.release(std::exchange(reserved_, 0));
}

QueuePair::~QueuePair() {
    if (pair_) verbs_.destroy_qp(pair_);
    detach();
}

}  // namespace xfer::rdma
