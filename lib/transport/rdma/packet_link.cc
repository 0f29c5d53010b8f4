// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/packet_link.h"

#include <algorithm>
#include <utility>

namespace xfer::rdma {

namespace {

constexpr uint64_t kLinkUpNs = 5'000 * kNsPerMs;  // for each next word of the other end

}  // namespace

PacketLink::PacketLink(Adapter &adapter, const Port &port, const AttachedChannelRequest &request,
                       PacketMemory &memory, const HeldBuffers &held, PacketLinkSink &sink)
    : adapter_(adapter),
      loop_(adapter.loop()),
      port_(port),
      memory_(memory),
      sink_(sink),
      first_(request.first),
      look_ns_(request.stall_ns / 2),
      held_(held),
      block_(adapter.verbs(), port, adapter.worker(), *this,
             {memory.out[0], sizeof(PacketMemory), 0, false}),
      end_(adapter, *this) {}

Result<std::unique_ptr<PacketLink>> PacketLink::open(Adapter &adapter, const Port &port,
                                                     const AttachedChannelRequest &request,
                                                     PacketMemory &memory, const HeldBuffers &held,
                                                     PacketLinkSink &sink) {
    std::unique_ptr<PacketLink> link(new PacketLink(adapter, port, request, memory, held, sink));
    auto pair = adapter.make_queue_pair(port, *link, kPacketReceives);
    if (!pair) return pair.error();
    link->pair_ = std::move(*pair);
    adapter.add(*link);
    link->block_.open();
    link->loop_.arm(link->limit_, link->loop_.now() + kLinkUpNs);
    return link;
}

PacketLink::~PacketLink() {
    loop_.disarm(limit_);
}

// ---- the two ends agree

void PacketLink::on_block_open(const Failure &why) {
    if (state_ != State::opening) return;
    if (why.status != XFER_OK) return close(why);
    block_open_ = true;
    for (uint32_t buffer = 0; buffer < kPacketReceives; ++buffer)
        if (!held_[buffer]) post_receive(buffer);
    if (state_ != State::opening) return;
    if (first_) return sink_.on_offer(pair_->parameters());
    if (peer_) answer();
}

bool PacketLink::hear_offer(const QueuePairParameters &pair) {
    if (first_ || peer_) return false;
    peer_ = pair;
    if (block_open_ && state_ == State::opening) answer();
    return true;
}

void PacketLink::answer() {
    if (connect(*peer_)) sink_.on_answer(pair_->parameters());
}

bool PacketLink::hear_answer(const QueuePairParameters &pair) {
    if (!first_ || !block_open_ || peer_) return false;
    peer_ = pair;
    if (state_ == State::opening && connect(pair)) probe();
    return true;
}

bool PacketLink::connect(const QueuePairParameters &peer) {
    loop_.arm(limit_, loop_.now() + kLinkUpNs);
    const Failure why = pair_->connect(peer);
    connected_ = why.status == XFER_OK;
    if (!connected_) close(why);
    return connected_;
}

void PacketLink::probe() {
    encode({.kind = PacketHeader::Kind::probe}, memory_.probe);
    const Outgoing packet{memory_.probe, kPacketBytes, kProbe};
    post({&packet, 1});
}

void PacketLink::hear_probe() {
    if (std::exchange(heard_probe_, true) || state_ != State::opening) return;
    if (!first_) probe();
    look();
}

bool PacketLink::hear_ready() {
    if (!first_ || !connected_ || std::exchange(heard_ready_, true)) return false;
    look();
    return true;
}

// The end that answered is up first, and the other one when it hears of that.
void PacketLink::look() {
    if (state_ != State::opening || !probed_ || !heard_probe_) return;
    if (first_ && !heard_ready_) return;
    loop_.disarm(limit_);
    state_ = State::up;
    if (!first_) sink_.on_answered_up();
    sink_.on_up();
}

// ---- packets

uint32_t PacketLink::post(std::span<const Outgoing> packets) {
    PostList &list = adapter_.scratch().list;
    list.clear();
    const size_t most = std::min<size_t>(packets.size(), pair_->free_slots());
    for (size_t i = 0; i < most && list.room() > 0; ++i) {
        const Outgoing &packet = packets[i];
        list.chain().build_send(reinterpret_cast<uint64_t>(packet.packet), packet.bytes,
                                block_.lkey(), pair_->limits(1));
        list.add(packet.cookie);
    }
    if (list.empty() || !connected_) return 0;
    const Posted posted = pair_->post(list);
    if (state_ == State::up && !limit_.armed()) look_again();
    if (posted.why.status != XFER_OK && posted.why.status != XFER_EAGAIN) close(posted.why);
    return posted.taken;
}

void PacketLink::look_again() {
    looks_at_ = loop_.now() + look_ns_;
    loop_.arm(limit_, looks_at_);
}

// An adapter may send a packet again for longer than anybody waits for an answer. A loop that was
// kept from its work has not seen what completed.
void PacketLink::watch_progress() {
    const Ledger &ledger = pair_->ledger();
    const uint32_t oldest = ledger.next() - ledger.outstanding();
    const bool late = loop_.now() > looks_at_ + look_ns_ / 4;
    if (ledger.outstanding() == 0) return oldest_.reset();
    if (oldest_ == oldest && !late)
        return close({XFER_ETIMEDOUT, XFER_ORIGIN_NONE, 0, "the adapter brings nothing"});
    oldest_ = oldest;
    look_again();
}

void PacketLink::post_receive(uint32_t buffer) {
    if (!block_open_ || state_ == State::closing || state_ == State::over) return;
    const Failure why = pair_->post_receive(buffer, reinterpret_cast<uint64_t>(memory_.in[buffer]),
                                            kPacketBytes, block_.lkey());
    if (why.status != XFER_OK) close(why);
}

void PacketLink::on_chain_ended(QueuePair &, const ChainEnd &end) {
    if (end.cookie != kProbe) return sink_.on_read(end.cookie);
    probed_ |= end.how == ChainEnd::How::done;
    look();
}

void PacketLink::on_received(QueuePair &, uint32_t buffer, uint32_t bytes) {
    sink_.on_packet(buffer, bytes);
}

// ---- its end

void PacketLink::close(const Failure &why) {
    if (state_ == State::closing || state_ == State::over) return;
    state_ = State::closing;
    loop_.disarm(limit_);
    end_.begin(*pair_);
    sink_.on_link_lost(why);
}

void PacketLink::on_timer(Timer &) {
    if (state_ == State::up) return watch_progress();
    close({XFER_ETIMEDOUT, XFER_ORIGIN_NONE, 0, "the peer's adapter says nothing"});
}

void PacketLink::on_block_closed() {
    state_ = State::over;
    ListNode<InAdapter>::unlink();
    sink_.on_link_over(block_.is_kept());
}

}  // namespace xfer::rdma
