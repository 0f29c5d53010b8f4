// SPDX-License-Identifier: Apache-2.0
// A byte stream between two ends, there and back, by queue pairs that come and go. Bytes are cut
// into packets, each kept until the other end has taken it. While there is a queue pair they go by
// its sends, else in parts by signals: what a queue pair that broke had not brought goes that way
// at once, and so does what follows, until the next one is up. So nothing is lost, and nothing
// comes twice. (lib/design/0063) Thread: the loop's.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "transport/rdma/packet_carrier.h"

namespace xfer::rdma {

class PacketStream final : PacketCarrierSink, Task {
public:
    class Owner {
    public:
        virtual void send_signal(ConstBytes message) = 0;
        // Never from inside a method. Once: both ends can write and read.
        virtual void on_stream_ready() = 0;
        // Once, and not after close(), nor for the peer's end: that is read, as of a socket.
        virtual void on_stream_lost(const Failure &why) = 0;
        virtual void on_stream_over() = 0;  // after close(): last

    protected:
        ~Owner() = default;
    };

    // May throw. `ready` hears of what was wanted. Everything outlives it.
    PacketStream(AdapterFabric &fabric, Loop &loop, const AttachedChannelRequest &request,
                 Owner &owner, WatchSink &ready);
    ~PacketStream();  // after on_stream_over, or an open() that failed
    PacketStream(const PacketStream &) = delete;
    PacketStream &operator=(const PacketStream &) = delete;

    Failure open(uint32_t failures) { return carrier_.open(failures); }  // may throw
    void on_signal(ConstBytes message);
    void close(const Failure &why);

    // As of a ByteStream.
    ssize_t write(std::span<const iovec> from);
    ssize_t read(std::span<const iovec> into);
    void want(uint32_t readiness);
    void end() { wanted_ = 0; }
    bool delivered() const;

    const std::string &local() const { return carrier_.local(); }
    std::string remote() const { return carrier_.remote(); }

private:
    // A packet that has come and is not taken: in a receive buffer, or in parts.
    struct Arrived {
        const uint8_t *data() const { return bytes ? bytes : parts.data(); }

        uint32_t length = 0;
        uint32_t buffer = 0;
        const uint8_t *bytes = nullptr;  // null: in parts
        std::vector<uint8_t> parts;
    };

    void say(const PacketSignal &signal) override;
    void on_carrier_up() override;
    void on_packet(uint32_t buffer, uint32_t bytes) override;
    void on_read(uint64_t cookie) override;
    void on_carrier_lost(const Failure &why, bool for_good) override;
    void on_memory_free(bool kept) override;
    void on_carrier_over() override;
    void run() override;

    bool hear(const PacketSignal &signal);
    bool hear_packet(uint32_t buffer, const PacketHeader &header);
    void hear_end();
    bool is_open() const { return ready_ && !lost_ && !peer_ended_ && !closing_; }
    bool has_hung_up() const { return peer_ended_ && over_; }  // and all of it has come
    bool hear_part(const PacketSignal &part);
    bool can_fill() const;
    uint32_t fill(std::span<const iovec> from, size_t &vector, size_t &offset);
    void flush();
    void post_packets();
    void send_parts();
    void send_word();
    bool post_word();
    void take_first();
    uint32_t readiness() const;
    void tell();
    void lose(const Failure &why);

    Loop &loop_;
    Owner &owner_;
    WatchSink &ready_sink_;
    std::unique_ptr<PacketMemory> memory_;
    HeldBuffers held_{};
    PacketCarrier carrier_;

    SendWindow sends_;
    uint64_t sent_ = 0;  // packets before it were given to a queue pair, or to signals
    std::array<uint32_t, kPacketWindow> lengths_{};
    std::array<bool, kPacketWindow> in_adapter_{};  // or about to be
    std::array<bool, kPacketWords> word_in_adapter_{};

    ReceiveWindow receives_;
    std::array<Arrived, kPacketWindow> arrived_;
    uint32_t read_ = 0;  // bytes of the first one

    uint32_t wanted_ = 0;
    bool ready_ = false, told_ready_ = false;
    bool peer_ended_ = false;  // what has come is still read
    bool lost_ = false, told_lost_ = false;
    bool closing_ = false, over_ = false;
    Failure why_;
};

}  // namespace xfer::rdma
