// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/frame_channel.h"

#include <utility>

#include "transport/rdma/fabric.h"
#include "wire/limits.h"

namespace xfer::rdma {

namespace {

// More than all messages and notifications that may be under way. Less is in the packets of a
// window than in a socket's buffers: two ends that both have so much to send would stop to read.
constexpr size_t kFramesPause = 1 << 20;
static_assert(kFramesPause > kMaxHeld + kMaxMessages * Frame::kSize +
                                 kMaxNotifications * (Frame::kSize + kMaxNotifyData));

// The packets outlive the frames, which own what carries them.
class PacketBytes final : public stream::ByteStream {
public:
    explicit PacketBytes(PacketStream &packets) : packets_(packets) {}

    Scope scope() const override { return Scope::network; }
    bool direct() const override { return true; }
    ssize_t write(std::span<const iovec> from) override { return packets_.write(from); }
    ssize_t read(std::span<const iovec> into) override { return packets_.read(into); }
    void want(uint32_t readiness) override { packets_.want(readiness); }
    size_t pause_at() const override { return kFramesPause; }
    bool delivered() const override { return packets_.delivered(); }
    void end() override { packets_.end(); }
    Fd release() override { return Fd(); }

private:
    PacketStream &packets_;
};

}  // namespace

FrameChannel::FrameChannel(AdapterFabric &fabric, Loop &loop, const Log &log,
                           const AttachedChannelRequest &request, AttachedChannelSink &sink)
    : attachment_(sink),
      frames_(loop, log, fabric.buffers()),
      packets_(fabric, loop, request, *this, frames_.carried()) {
    frames_.set_sink(*this);
    frames_.carry(std::make_unique<PacketBytes>(packets_), "the peer's adapter");
}

Result<std::unique_ptr<AttachedChannel>> FrameChannel::open(AdapterFabric &fabric, Loop &loop,
                                                            const Log &log,
                                                            const AttachedChannelRequest &request,
                                                            AttachedChannelSink &sink) {
    std::unique_ptr<FrameChannel> channel(new FrameChannel(fabric, loop, log, request, sink));
    const Failure why = channel->packets_.open(request.failures);
    if (why.status != XFER_OK) return why;
    return std::unique_ptr<AttachedChannel>(std::move(channel));
}

void FrameChannel::on_closed(const Failure &why) {
    why_ = why;
    packets_.close(why);
}

}  // namespace xfer::rdma
