// SPDX-License-Identifier: Apache-2.0
// A channel whose frames go by queue pairs: the frames of a stream (transport/stream/), over a byte
// stream of packets. Thread: as AttachedChannel.
#pragma once

#include <memory>
#include <string>

#include "transport/attached_channel.h"
#include "transport/rdma/packet_stream.h"
#include "transport/stream/channel.h"
#include "util/log.h"

namespace xfer::rdma {

class FrameChannel final : public AttachedChannel, ChannelSink, PacketStream::Owner {
public:
    // May throw. A failure of the device leaves nothing. Everything outlives it.
    static Result<std::unique_ptr<AttachedChannel>> open(AdapterFabric &fabric, Loop &loop,
                                                         const Log &log,
                                                         const AttachedChannelRequest &request,
                                                         AttachedChannelSink &sink);

    void on_signal(ConstBytes message) override { packets_.on_signal(message); }
    std::string local() const override { return packets_.local(); }

    void set_sink(ChannelSink &sink) override { sink_ = &sink; }
    std::string remote() const override { return packets_.remote(); }
    Scope scope() const override { return Scope::network; }
    xfer::Path &path() override { return frames_.path(); }
    OneSidedPath *one_sided() override { return nullptr; }
    void start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) override {
        frames_.start(sink, max_ops, serve_ops);
    }
    void resume() override { frames_.resume(); }
    bool send(const Frame &frame, ConstBytes body) override { return frames_.send(frame, body); }
    void close(const Failure &why) override {
        closing_ = true;
        frames_.close(why);
    }
    uint64_t last_heard() const override { return frames_.last_heard(); }

private:
    FrameChannel(AdapterFabric &fabric, Loop &loop, const Log &log,
                 const AttachedChannelRequest &request, AttachedChannelSink &sink);

    // Of the frames.
    void on_up() override {}
    void on_hello(ConstBytes) override {}
    void on_control(const Frame &frame, ConstBytes body) override {
        sink_->on_control(frame, body);
    }
    void on_closed(const Failure &why) override;
    // Of the packets.
    void send_signal(ConstBytes message) override { attachment_.send_signal(message); }
    void on_stream_ready() override {
        if (!closing_) attachment_.on_ready();
    }
    void on_stream_lost(const Failure &why) override { frames_.close(why); }
    void on_stream_over() override { sink_->on_closed(why_); }

    AttachedChannelSink &attachment_;
    ChannelSink *sink_ = nullptr;
    stream::StreamChannel frames_;
    PacketStream packets_;
    bool closing_ = false;
    Failure why_;
};

}  // namespace xfer::rdma
