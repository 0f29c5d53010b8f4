// SPDX-License-Identifier: Apache-2.0
// A channel between neighbours. Its handshake goes through the rendezvous socket; the last word of
// it comes with the segment, and from then on frames go by the rings. Its path copies to and from
// regions that were imported; other operations go by the rings, too.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/shm/importer.h"
#include "transport/shm/rendezvous.h"
#include "transport/shm/ring_stream.h"
#include "transport/shm/segment.h"
#include "transport/shm/slot_table.h"
#include "transport/stream/channel.h"
#include "util/log.h"

namespace xfer::shm {

class ShmChannel final : public Channel,
                         Path,
                         OneSided,
                         WatchSink,
                         ChannelSink,
                         PathSink,
                         Task,
                         Poller,
                         TimerSink {
public:
    ShmChannel(Loop &loop, const Log &log, stream::Buffers &buffers, std::string remote);
    ~ShmChannel() override;
    ShmChannel(const ShmChannel &) = delete;
    ShmChannel &operator=(const ShmChannel &) = delete;

    // Through a connected socket. `dialed`: its sink is to hear that it is up.
    Failure carry(Fd fd, bool dialed);

    void set_sink(ChannelSink &sink) override { sink_ = &sink; }
    std::string remote() const override { return remote_; }
    Scope scope() const override { return Scope::host; }
    Path &path() override { return *this; }
    void send_hello(ConstBytes message) override;
    DetachedChannel detach() override;
    void start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) override;
    void resume() override;
    bool send(const Frame &frame, ConstBytes body) override;
    void close(const Failure &why) override;
    uint64_t last_heard() const override;

private:
    enum class Stage : uint8_t { hello, frames, closing, over };

    // The path.
    Caps caps() const override { return {scope(), max_ops_, kMaxChunk, kMaxPieces}; }
    OneSided *one_sided() override { return this; }
    bool post(Op &op) override;
    void flush() override;
    bool cancel(Op &op) override;
    bool retire(Target target, Status why) override;
    void discard(NotificationId notification) override;
    Result<ExportKey> export_region(RegionId region, const ExportedMemory &memory) override;
    std::unique_ptr<Import> import(ConstBytes key) override;
    void drop(std::unique_ptr<Import> import) override;
    void withdrawn(RegionId region) override;

    // Of the rendezvous socket, and of our turn.
    void on_ready(uint32_t readiness) override;
    bool poll() override { return false; }
    bool doze() override;
    void run() override;
    void read();
    void read_later();
    void hear(Packet &packet);
    void hear_hello(Packet &packet);
    void say();
    void hung_up(int error);
    void join(std::unique_ptr<Segment> segment, Side side);
    Failure share();
    void finish();

    // Copies and what they need; transport/shm/channel_copy.cc.
    bool hear_descriptor(Packet &packet);  // false: it is none
    void read_descriptors();
    int send_descriptor(MappingId mapping, int fd);
    void copy_all();
    bool give_to_rings(Op &op, bool seen);
    void told();
    bool take_back(RegionId region, bool left);
    void settle(bool dead);
    void look_again(bool first);
    void on_timer(Timer &timer) override;
    bool gone_quiet();
    void tell_begun();

    // Of the frames in the rings.
    void on_up() override {}
    void on_hello(ConstBytes) override {}
    void on_control(const Frame &frame, ConstBytes body) override;
    void on_done(Op &op, Status status) override;
    Status on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                     std::vector<iovec> &out) override;
    void on_served(Dir dir, uint64_t bytes) override;
    void on_quiesced(Target target) override;
    void on_unmapped(Target target) override { path_sink_->on_unmapped(target); }
    void on_notification_begun(NotificationId, uint64_t) override {}
    void on_down(const Failure &) override {}  // on_closed follows
    void on_closed(const Failure &why) override;

    Loop &loop_;
    const Log &log_;
    stream::Buffers &buffers_;
    std::string remote_;
    ChannelSink *sink_ = nullptr;
    PathSink *path_sink_ = nullptr;  // from start() on
    Stage stage_ = Stage::hello;
    RendezvousSocket rendezvous_{Fd()};
    std::unique_ptr<Watch> watch_;  // of the rendezvous socket
    Packet heard_packet_;           // kept, so that being woken takes no memory
    std::deque<Packet> words_;      // that have not left
    bool dialed_ = false;           // and not told yet
    bool spoke_ = false;            // in the handshake
    bool heard_ = false;            // frames may come
    bool hung_up_ = false;          // the neighbour has
    bool unread_ =
        false;  // packets may wait in the rendezvous socket, and the rings are read first
    std::optional<int> kept_;  // what receiving heard_packet_ said, which is not heard yet
    bool woken_ = false;       // the rings are to be looked at, in a turn of ours
    Failure gone_;             // how
    Timer unheard_{*this};     // it left words for who does not listen yet
    uint64_t last_heard_ = 0;
    Failure why_;

    std::unique_ptr<Segment> segment_;
    std::unique_ptr<stream::StreamChannel> frames_;
    RingStream *rings_ = nullptr;  // until the frames end

    using Ops = List<Op, InPath>;
    const std::array<uint8_t, 16> nonce_;  // who reads it here reaches all of our memory
    std::unique_ptr<Importer> importer_;
    std::unique_ptr<SlotTable> slots_;
    Ops posted_, done_, canceled_;      // that are copied
    uint32_t max_ops_ = 0, count_ = 0;  // posted and not told, copied or not
    Timer claims_{*this};               // looks again at who copies still
    uint64_t next_look_ns_ = 0;
};

}  // namespace xfer::shm
