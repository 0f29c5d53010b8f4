// SPDX-License-Identifier: Apache-2.0
// A channel by a simulated adapter: its ends agree in four signals, offer, answer, done, last; what
// goes by it then goes by a SimChannel, or, as that of an adapter without a queue pair, by signals.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim_channel.h"
#include "sim_fabric.h"

namespace xfer {

class SimAttachedChannel final : public AttachedChannel, ChannelSink {
public:
    SimAttachedChannel(SimTransport &transport, AttachedChannelSink &signals,
                       const AttachedChannelRequest &request);
    ~SimAttachedChannel();

    void on_signal(ConstBytes message) override;
    std::string local() const override { return std::to_string(transport_.number); }
    void set_sink(ChannelSink &sink) override;
    std::string remote() const override { return carrier_->remote(); }
    Scope scope() const override { return carrier_->scope(); }
    Path &path() override { return carrier_->path(); }
    OneSidedPath *one_sided() override { return nullptr; }
    void start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) override;
    void resume() override;
    bool send(const Frame &frame, ConstBytes body) override;
    void close(const Failure &why) override;
    uint64_t last_heard() const override { return carrier_->last_heard(); }

private:
    // Of what carries it.
    void on_up() override {}
    void on_hello(ConstBytes) override {}
    void on_control(const Frame &frame, ConstBytes body) override;
    void on_closed(const Failure &why) override;

    void soon(uint64_t delay, std::function<void(SimAttachedChannel &)> call);
    void say(AttachStep step);
    void hear_step(ConstBytes message);
    void hear_frames();
    void send_waiting();
    void go_by_signals();
    void be_ready();

    SimTransport &transport_;
    SimNet &net_;
    AttachedChannelSink &signals_;
    const bool first_;
    const uint64_t stall_ns_;
    const std::shared_ptr<SimAttachedChannel *> self_;  // null inside when it is gone
    std::unique_ptr<SimChannel> carrier_;
    ChannelSink *sink_ = nullptr;
    std::optional<AttachStep> next_;  // that has to be heard
    uint64_t there_ = 0;              // the number of the other end's carrier
    bool ready_ = false, closing_ = false, paused_ = true;
    bool stalled_ = false;  // its queue pair is not waited for any more
    bool told_ = false;     // its end was: it may go
    std::vector<std::vector<uint8_t>> waiting_;
    std::vector<uint8_t> heard_;  // of frames that came as signals
};

}  // namespace xfer
