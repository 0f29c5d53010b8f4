// SPDX-License-Identifier: Apache-2.0
// A channel between neighbours. Its handshake goes through the rendezvous socket; the last word of
// it comes with the segment, and from then on frames go by the rings, and requests with them. What
// was imported is copied, by a path of its own (transport/shm/copy_path.h).
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/shm/copy_path.h"
#include "transport/shm/no_path.h"
#include "transport/shm/rendezvous.h"
#include "transport/shm/ring_stream.h"
#include "transport/shm/segment.h"
#include "transport/stream/channel.h"
#include "util/fork_guard.h"
#include "util/log.h"

namespace xfer::shm {

class ShmChannel final : public Channel,
                         WatchSink,
                         ChannelSink,
                         CopyPath::Owner,
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
    Path &path() override;
    OneSidedPath *one_sided() override { return copies_.get(); }
    void send_hello(ConstBytes message) override;
    DetachedChannel detach() override;
    void start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) override;
    void resume() override;
    bool send(const Frame &frame, ConstBytes body) override;
    void close(const Failure &why) override;
    uint64_t last_heard() const override;

private:
    enum class Stage : uint8_t { hello, frames, closing, over };

    struct ProcessEnd final : WatchSink {
        explicit ProcessEnd(ShmChannel &of) : channel(of) {}
        void on_ready(uint32_t) override { channel.on_process_end(); }
        ShmChannel &channel;
    };

    // Of the rendezvous socket, and of our turn.
    void on_ready(uint32_t readiness) override;
    bool poll() override { return false; }
    bool doze() override;
    void run() override;
    bool read();
    void read_later();
    void on_process_end();
    void hear(Packet &packet);
    void hear_hello(Packet &packet);
    void say();
    void hung_up(int error);
    void join(std::unique_ptr<Segment> segment, Side side);
    Failure share();
    void end_watches();
    void finish();

    void on_timer(Timer &timer) override;

    // Of the copies.
    bool hear_descriptor(Packet &packet);  // false: it is none
    int send_descriptor(MappingId mapping, int fd) override;
    void read_descriptors() override;
    void on_copies_over() override;

    // Of the frames in the rings.
    void on_up() override {}
    void on_hello(ConstBytes) override {}
    void on_control(const Frame &frame, ConstBytes body) override;
    void on_closed(const Failure &why) override;

    Loop &loop_;
    const Log &log_;
    stream::Buffers &buffers_;
    std::string remote_;
    ChannelSink *sink_ = nullptr;
    PathSink *path_sink_ = nullptr;  // if it could not start: who is to hear of its end
    Stage stage_ = Stage::hello;
    RendezvousSocket rendezvous_{Fd()};
    ForkGuard fork_guard_;
    std::unique_ptr<Watch> watch_;  // of the rendezvous socket
    ProcessEnd process_end_{*this};
    std::unique_ptr<Watch> process_watch_;
    Packet heard_packet_;       // kept, so that being woken takes no memory
    std::deque<Packet> words_;  // that have not left
    bool dialed_ = false;       // and not told yet
    bool spoke_ = false;        // in the handshake
    bool heard_ = false;        // frames may come
    bool hung_up_ = false;      // the neighbour has
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

    std::unique_ptr<CopyPath> copies_;
    NoPath no_path_;  // where there are no rings
};

}  // namespace xfer::shm
