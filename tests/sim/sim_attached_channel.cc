// SPDX-License-Identifier: Apache-2.0
#include "sim_attached_channel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "util/check.h"

namespace xfer {

namespace {

constexpr uint64_t kStep = 0x6c656e6e61686320, kBytes = 0x6e6e616863206e69;
constexpr uint64_t kSilenceNs = 1'000'000'000;  // of the other end, that costs an attempt
using Words = std::array<uint64_t, 4>;

}  // namespace

SimAttachedChannel::SimAttachedChannel(SimTransport &transport, AttachedChannelSink &signals,
                                       const AttachedChannelRequest &request)
    : transport_(transport),
      net_(transport.net),
      signals_(signals),
      first_(request.first),
      stall_ns_(std::min(request.stall_ns, kAdapterGivesUpNs)),
      self_(std::make_shared<SimAttachedChannel *>(this)),
      carrier_(std::make_unique<SimChannel>(
          transport, "adapter:" + std::to_string(transport.net.last_channel + 1))),
      next_(request.first ? AttachStep::answer : AttachStep::offer) {
    if (first_) soon(0, [](SimAttachedChannel &channel) { channel.say(AttachStep::offer); });
    soon(kSilenceNs, [](SimAttachedChannel &channel) {
        if (!channel.ready_) channel.close({XFER_ETIMEDOUT, 0, 0, "the other end says nothing"});
    });
}

SimAttachedChannel::~SimAttachedChannel() {
    *self_ = nullptr;
    XFER_CHECK(told_);
}

void SimAttachedChannel::soon(uint64_t delay, std::function<void(SimAttachedChannel &)> call) {
    net_.world.post(transport_.loop, delay, [self = self_, call = std::move(call)] {
        if (*self) call(**self);
    });
}

// ---- signals

void SimAttachedChannel::say(AttachStep step) {
    if (closing_) return;
    const AttachFate fate = net_.on_channel ? net_.on_channel(step, first_) : AttachFate::go_on;
    if (fate == AttachFate::fail) return close({XFER_EIO, 0, 0, "the adapter says no"});
    if (fate == AttachFate::mute) return;
    Words words = {kStep, static_cast<uint64_t>(step), carrier_->number(), 0};
    if (fate == AttachFate::garble) words[0] ^= 1;
    uint8_t bytes[sizeof words];
    std::memcpy(bytes, words.data(), sizeof words);
    signals_.send_signal(bytes);
}

void SimAttachedChannel::on_signal(ConstBytes message) {
    if (closing_) return;
    uint64_t kind = 0;
    if (message.size() >= sizeof kind) std::memcpy(&kind, message.data(), sizeof kind);
    if (kind != kBytes || !ready_) return hear_step(message);
    if (net_.lanes_stall) go_by_signals();
    message = message.subspan(sizeof kind);
    heard_.insert(heard_.end(), message.begin(), message.end());
    soon(0, [](SimAttachedChannel &channel) { channel.hear_frames(); });
}

void SimAttachedChannel::hear_step(ConstBytes message) {
    Words words{};
    if (message.size() == sizeof words) std::memcpy(words.data(), message.data(), sizeof words);
    if (words[0] != kStep || !next_ || words[1] != static_cast<uint64_t>(*next_))
        return close({XFER_EPROTO, XFER_ORIGIN_PEER, 0, "an adapter's signal that makes no sense"});
    there_ = words[2];
    const AttachStep heard = *std::exchange(next_, std::nullopt);
    if (heard == AttachStep::offer) {
        next_ = AttachStep::done;
        say(AttachStep::answer);
    } else if (heard == AttachStep::answer) {
        next_ = AttachStep::last;
        say(AttachStep::done);
    } else {
        be_ready();
    }
}

void SimAttachedChannel::be_ready() {
    if (!first_) {
        const auto other = net_.channels.find(there_);
        if (other == net_.channels.end())
            return close({XFER_EPEERLOST, 0, 0, "the other end has gone"});
        SimChannel::pair(*carrier_, *other->second);
        say(AttachStep::last);
        if (closing_) return;
    }
    ready_ = true;
    signals_.on_ready();
}

// ---- frames

void SimAttachedChannel::set_sink(ChannelSink &sink) {
    sink_ = &sink;
    carrier_->set_sink(*this);
}

void SimAttachedChannel::start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) {
    carrier_->start(sink, max_ops, serve_ops);
}

void SimAttachedChannel::resume() {
    paused_ = false;
    carrier_->resume();
    soon(0, [](SimAttachedChannel &channel) { channel.hear_frames(); });
}

// As signals they go in pieces, and as late as may be.
bool SimAttachedChannel::send(const Frame &frame, ConstBytes body) {
    if (!net_.lanes_by_signals && !net_.lanes_stall) return carrier_->send(frame, body);
    ++net_.met["frame, as signals"];
    std::vector<uint8_t> bytes(Frame::kSize);
    encode(frame, bytes.data());
    bytes.insert(bytes.end(), body.begin(), body.end());
    constexpr size_t kRoom = kMaxSignal - sizeof kBytes;
    for (size_t at = 0; at < bytes.size(); at += kRoom) {
        const size_t some = std::min(kRoom, bytes.size() - at);
        std::vector<uint8_t> signal(sizeof kBytes + some);
        std::memcpy(signal.data(), &kBytes, sizeof kBytes);
        std::memcpy(signal.data() + sizeof kBytes, bytes.data() + at, some);
        waiting_.push_back(std::move(signal));
    }
    const uint64_t until = net_.lanes_stall && !stalled_ ? stall_ns_ : 0;
    soon(until, [](SimAttachedChannel &channel) { channel.go_by_signals(); });
    return true;
}

// What waits, and all that follows.
void SimAttachedChannel::go_by_signals() {
    stalled_ = net_.lanes_stall;
    send_waiting();
}

void SimAttachedChannel::send_waiting() {
    for (const std::vector<uint8_t> &signal : std::exchange(waiting_, {}))
        signals_.send_signal(signal);
}

void SimAttachedChannel::hear_frames() {
    while (!paused_ && !closing_ && heard_.size() >= Frame::kSize) {
        const auto frame = decode_frame(heard_.data());
        const size_t length = Frame::kSize + frame->length;
        if (heard_.size() < length) return;
        const auto end = heard_.begin() + static_cast<ptrdiff_t>(length);
        const std::vector<uint8_t> whole(heard_.begin(), end);
        heard_.erase(heard_.begin(), end);
        on_control(*frame, ConstBytes(whole).subspan(Frame::kSize));
    }
}

void SimAttachedChannel::on_control(const Frame &frame, ConstBytes body) {
    net_.hears(frame, *sink_, transport_.number);
    sink_->on_control(frame, body);
}

// ---- its end

void SimAttachedChannel::close(const Failure &why) {
    if (std::exchange(closing_, true)) return;
    send_waiting();
    // The end of what carries it does not overtake what it has said as signals.
    const uint64_t behind = net_.lanes_by_signals ? net_.delay_max + 1 : 0;
    soon(net_.detach_ns + behind,
         [why](SimAttachedChannel &channel) { channel.carrier_->close(why); });
}

void SimAttachedChannel::on_closed(const Failure &why) {
    closing_ = told_ = true;
    sink_->on_closed(why);
}

}  // namespace xfer
