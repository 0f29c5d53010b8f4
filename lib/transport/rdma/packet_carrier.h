// SPDX-License-Identifier: Apache-2.0
// The queue pairs of a byte stream, one after the other, in generations from 1. The end that opened
// the stream begins each; after one that was lost, with pauses that double. Before the first one
// was up, a lost one ends the stream. Thread: the loop's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "loop/loop.h"
#include "transport/rdma/packet_link.h"
#include "transport/rdma/packet_signal.h"

namespace xfer::rdma {

class AdapterFabric;

class PacketCarrierSink {
public:
    virtual void say(const PacketSignal &signal) = 0;  // to the other end; may close the carrier
    virtual void on_carrier_up() = 0;                  // of each generation
    virtual void on_packet(uint32_t buffer, uint32_t bytes) = 0;
    virtual void on_read(uint64_t cookie) = 0;
    // What was posted may not have come, and what follows goes otherwise. `for_good`: no generation
    // follows. May come from inside a method.
    virtual void on_carrier_lost(const Failure &why, bool for_good) = 0;
    // The adapter touches none of the memory, until the next generation, or `kept`: for ever.
    virtual void on_memory_free(bool kept) = 0;
    virtual void on_carrier_over() = 0;  // after close(): last

protected:
    ~PacketCarrierSink() = default;
};

class PacketCarrier final : PacketLinkSink, Task, TimerSink {
public:
    // Everything outlives it.
    PacketCarrier(AdapterFabric &fabric, Loop &loop, const AttachedChannelRequest &request,
                  PacketMemory &memory, const HeldBuffers &held, PacketCarrierSink &sink);
    ~PacketCarrier();  // after on_carrier_over, or an open() that failed

    // Of the end that begins: the first generation, after so many that never were up. May throw.
    Failure open(uint32_t failures);
    // Of the other end's queue pair; false: no end of ours says it.
    bool hear(const PacketSignal &signal);
    void hear_probe() { link_->hear_probe(); }  // from inside on_packet

    bool is_up() const { return up_; }
    uint32_t post(std::span<const PacketLink::Outgoing> packets) {
        return up_ ? link_->post(packets) : 0;
    }
    void post_receive(uint32_t buffer) {
        if (link_) link_->post_receive(buffer);
    }
    void close(const Failure &why);

    // Of the queue pair that it has, or had last.
    const std::string &local() const { return local_; }
    std::string remote() const { return remote_ ? to_text(*remote_) : ""; }

private:
    void on_offer(const QueuePairParameters &pair) override;
    void on_answer(const QueuePairParameters &pair) override;
    void on_answered_up() override;
    void on_up() override;
    void on_packet(uint32_t buffer, uint32_t bytes) override { sink_.on_packet(buffer, bytes); }
    void on_read(uint64_t cookie) override { sink_.on_read(cookie); }
    void on_link_lost(const Failure &why) override;
    void on_link_over(bool kept) override;
    void run() override;
    void on_timer(Timer &timer) override;

    Failure begin(const QueuePairParameters *offer);
    void begin_next();
    void begin_later();
    bool hear_offer(const PacketSignal &signal);
    void hear_lost();
    void say(PacketSignal::Kind kind, const QueuePairParameters &pair = {});

    AdapterFabric &fabric_;
    Loop &loop_;
    const AttachedChannelRequest request_;
    const bool first_;
    PacketMemory &memory_;
    const HeldBuffers &held_;
    PacketCarrierSink &sink_;

    std::unique_ptr<PacketLink> link_;
    uint32_t generation_ = 0, of_link_ = 0;     // that was begun last; that of the link
    std::optional<QueuePairParameters> offer_;  // the other end's, until the link before is over
    bool up_ = false, was_up_ = false;          // this one; any
    bool link_over_ = false;                    // it is to be destroyed
    bool offered_ = false;                      // the other end knows of it
    bool peer_lost_ = false;                    // the other end said so of the link
    bool closing_ = false, over_ = false;
    uint32_t failures_ = 0;  // generations in a row that never were up
    uint64_t up_since_ = 0;  // of the link; 0: it was not
    uint64_t pause_ = 0;
    Timer next_{*this};
    std::string local_;
    std::optional<QueuePairParameters> remote_;
};

}  // namespace xfer::rdma
