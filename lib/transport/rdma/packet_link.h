// SPDX-License-Identifier: Apache-2.0
// One queue pair that carries packets by sends, from its offer to its end: one generation of what
// carries a byte stream. Receives for all that the other end may send are posted before it is
// connected, so that no packet ever meets a queue pair without one. Each end is up when probes have
// gone both ways, as adapters may be of networks that do not meet. Thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "loop/loop.h"
#include "transport/attached_channel.h"
#include "transport/rdma/adapter.h"
#include "transport/rdma/packet.h"
#include "transport/rdma/pinned_block.h"
#include "transport/rdma/queue_pair.h"
#include "transport/rdma/queue_pair_end.h"
#include "util/list.h"

namespace xfer::rdma {

// On the loop's thread; none ends the link itself.
class PacketLinkSink {
public:
    // What the other end is to hear.
    virtual void on_offer(const QueuePairParameters &pair) = 0;
    virtual void on_answer(const QueuePairParameters &pair) = 0;
    virtual void on_answered_up() = 0;
    // It carries packets from now on.
    virtual void on_up() = 0;
    // Bytes have come into a receive buffer, which is not posted any more; see post_receive().
    virtual void on_packet(uint32_t buffer, uint32_t bytes) = 0;
    // The adapter reads that packet no more, whether it went or not.
    virtual void on_read(uint64_t cookie) = 0;
    // Once, when close() was called, or an error did: it carries nothing more. May come from inside
    // a method.
    virtual void on_link_lost(const Failure &why) = 0;
    // Last: the adapter touches none of the memory. `kept`: it may, for ever.
    virtual void on_link_over(bool kept) = 0;

protected:
    ~PacketLinkSink() = default;
};

// Of the receive buffers: those that are not to be posted, as what came in them is not taken.
using HeldBuffers = std::array<bool, kPacketReceives>;

class PacketLink final : public ListNode<InAdapter>,
                         QueuePairSink,
                         QueuePairEndSink,
                         PinnedBlockSink,
                         TimerSink {
public:
    struct Outgoing {
        const uint8_t *packet = nullptr;  // in the memory
        uint32_t bytes = 0;
        uint64_t cookie = 0;  // of the packet, not kProbe
    };
    static constexpr uint64_t kProbe = UINT64_MAX;

    // May throw. A failure of the device leaves nothing. Everything outlives it.
    static Result<std::unique_ptr<PacketLink>> open(Adapter &adapter, const Port &port,
                                                    const AttachedChannelRequest &request,
                                                    PacketMemory &memory, const HeldBuffers &held,
                                                    PacketLinkSink &sink);
    ~PacketLink();  // after on_link_over, not inside it

    const Port &port() const { return port_; }
    bool is_of(const ibv_qp *pair) const { return pair_->handle() == pair; }
    const std::optional<QueuePairParameters> &peer() const { return peer_; }

    // Of the other end, in this order. False: it has not been asked.
    bool hear_offer(const QueuePairParameters &pair);
    bool hear_answer(const QueuePairParameters &pair);
    bool hear_ready();
    void hear_probe();

    // As many of these as there is room for, from the first on; how many.
    uint32_t post(std::span<const Outgoing> packets);
    void post_receive(uint32_t buffer);
    void close(const Failure &why);  // asynchronous, and bounded in time

private:
    enum class State : uint8_t { opening, up, closing, over };

    PacketLink(Adapter &adapter, const Port &port, const AttachedChannelRequest &request,
               PacketMemory &memory, const HeldBuffers &held, PacketLinkSink &sink);
    void on_block_open(const Failure &why) override;
    void on_block_closed() override;
    void answer();
    bool connect(const QueuePairParameters &peer);
    void probe();
    void look();

    void on_chain_ended(QueuePair &pair, const ChainEnd &end) override;
    void on_received(QueuePair &pair, uint32_t buffer, uint32_t bytes) override;
    void on_error(QueuePair &, const Failure &why) override { close(why); }
    void on_drained(QueuePair &) override { end_.on_drained(); }
    void on_flushed() override { end_.destroy(); }
    void on_destroyed() override { block_.close(); }
    void on_timer(Timer &timer) override;
    void watch_progress();
    void look_again();

    Adapter &adapter_;
    Loop &loop_;
    const Port &port_;
    PacketMemory &memory_;
    PacketLinkSink &sink_;
    const bool first_;
    const uint64_t look_ns_;
    State state_ = State::opening;
    const HeldBuffers &held_;
    std::optional<QueuePairParameters> peer_;
    bool block_open_ = false, connected_ = false;
    bool probed_ = false, heard_probe_ = false, heard_ready_ = false;
    PinnedBlock block_;
    std::unique_ptr<QueuePair> pair_;
    QueuePairEnd end_;
    Timer limit_{*this};              // for the other end, and then for what is posted
    uint64_t looks_at_ = 0;           // what is posted, when it is up
    std::optional<uint32_t> oldest_;  // of that, at the last look
};

}  // namespace xfer::rdma
