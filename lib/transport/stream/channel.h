// SPDX-License-Identifier: Apache-2.0
// A byte stream, as the channel and the path that it is, from its dialing to its end. start() must
// be called before the peer can have said more than a handshake: from inside the on_hello of its
// last message, or right after adopt().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/stream/dial.h"
#include "transport/stream/receiver.h"
#include "transport/stream/sender.h"
#include "util/log.h"

namespace xfer::stream {

class StreamChannel final : public Channel, Path, WatchSink, ResolveSink, Task, TimerSink {
public:
    StreamChannel(Loop &loop, const Log &log, Buffers &buffers);
    ~StreamChannel() override;
    StreamChannel(const StreamChannel &) = delete;
    StreamChannel &operator=(const StreamChannel &) = delete;

    void dial(const Uri &uri);
    // A connected socket; false if the loop can't watch it.
    bool carry(Fd fd, std::string remote, ConstBytes unread);
    // What is there, and tells this channel when it is ready.
    void carry(std::unique_ptr<ByteStream> carrier, std::string remote);
    WatchSink &carried() { return *this; }
    bool all_sent() const { return sender_.empty(); }  // of what was said so far

    void set_sink(ChannelSink &sink) override { both_.channel_sink = &sink; }
    std::string remote() const override { return remote_; }
    Scope scope() const override { return carrier_ ? carrier_->scope() : Scope::network; }
    Path &path() override { return *this; }
    OneSidedPath *one_sided() override { return nullptr; }
    void send_hello(ConstBytes message) override;
    DetachedChannel detach() override;
    void start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) override;
    void resume() override;
    bool send(const Frame &frame, ConstBytes body) override;
    void close(const Failure &why) override;
    uint64_t last_heard() const override { return last_heard_; }
    std::optional<uint64_t> last_acknowledged() const override;

private:
    // The path.
    Caps caps() const override {
        return {scope(), both_.send_queue.max_ops(), kMaxChunk, kMaxPieces};
    }
    bool post(Op &op) override;
    void flush() override;
    bool cancel(Op &op) override;
    bool retire(Target target, Status why) override;
    void discard(NotificationId notification) override { receiver_.discard(notification); }

    void on_ready(uint32_t readiness) override;
    void on_resolved(Result<std::vector<std::string>> addresses) override;
    void run() override;
    void on_timer(Timer &timer) override;

    void take_turn();
    void hear_last();
    void give_up();
    void dial_next();
    void connect();
    bool read();
    Failure why_ended() const;
    void parse();
    void push();
    size_t pause_at() const { return carrier_ ? carrier_->pause_at() : kControlPause; }
    void pause();
    void pace();
    void send_soon();
    void break_off(const Failure &why);
    void tell();
    void finish();
    void linger();
    bool drop_arrived();
    void end();

    Loop &loop_;
    const Log &log_;
    StreamState both_;
    Sender sender_{both_};
    Receiver receiver_{both_};
    std::unique_ptr<ByteStream> carrier_;
    std::string remote_;
    uint64_t last_heard_ = 0;
    Failure why_;
    bool in_turn_ = false;        // what is to be sent waits for the end of reading
    bool says_bye_ = false;       // to a peer that may be there
    uint64_t lingers_until_ = 0;  // once it has closed
    Timer unread_{*this};         // while dialing, and paused; between two looks while it lingers
    int last_turns_ = 0;          // in which was read what came before sending failed
    uint64_t left_ = 0;           // of the sender, when that was looked at last

    // While dialing.
    uint16_t port_ = 0;
    std::unique_ptr<Resolving> resolving_;
    std::unique_ptr<Dial> dial_;
};

}  // namespace xfer::stream
