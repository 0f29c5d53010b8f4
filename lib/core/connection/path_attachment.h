// SPDX-License-Identifier: Apache-2.0
// A path that stands beside the channels of a connection (transport/attached_path.h): its attempts,
// its signals and its end. What it declines goes on as a request by the first lane.
//
// The initiator of the connection begins attempts, numbered from 1; the other end asks it to. Each
// end says once that its end of an attempt is closed. When both have said so, nothing that was
// posted can land any more: it ends then, and the next attempt may begin, after pauses that double.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/connection/one_sided_rail.h"
#include "loop/loop.h"
#include "transport/attached_path.h"
#include "wire/frame.h"

namespace xfer {

class Connection;

class PathAttachment final : AttachedPathSink, TimerSink {
public:
    PathAttachment(Connection &connection, uint32_t number);
    ~PathAttachment();

    void open() {  // there is something to move
        if (state_ == State::none && !rests_) begin_or_ask();
    }
    void on_asked();     // by the peer, which has something to move
    void open_asked() {  // there is no local path after all
        if (asked_) open();
    }
    void on_signal(const Frame &frame, ConstBytes body);
    void close(const Failure &why);  // with its connection
    bool is_opening() const { return state_ == State::opening; }
    bool is_closed() const { return state_ == State::none || state_ == State::fallen; }
    void disarm();
    // While it is open, or comes to be, by that fabric; else null.
    AttachedPath *path_of(const Fabric &fabric) const {
        return !is_closed() && fabric_ == &fabric ? path_.get() : nullptr;
    }
    // ---- for who looks
    std::string_view state() const;
    std::string_view fabric() const { return fabric_ ? fabric_->name() : ""; }
    std::string_view why_not() const;  // empty while it is open, or comes to be
    std::string local() const { return is_closed() ? "" : path_->local(); }
    std::string remote() const { return is_closed() ? "" : path_->remote(); }

    OneSidedRail rail;

private:
    enum class State : uint8_t { none, opening, ready, fallen };

    void send_signal(ConstBytes message) override;
    void on_ready() override;
    void on_ended(const Failure &why) override;
    void on_timer(Timer &timer) override;
    void begin_or_ask();
    Fabric *shared_fabric() const;
    void begin();
    Failure start(Fabric &fabric, bool first, ConstBytes offer);
    void accept(const Frame &frame, ConstBytes offer);
    void on_peer_closed(const Frame &frame);
    void say_closed();
    void settle();
    void not_settled();
    void open_again_later();

    Connection &connection_;
    const uint32_t number_;
    Fabric *fabric_ = nullptr;  // of the last attempt
    std::unique_ptr<AttachedPath> path_;
    State state_ = State::none;
    uint64_t attempt_ = 0;
    uint32_t failures_ = 0;     // attempts in a row that never were ready
    bool rests_;                // there is no use in trying, or not now
    bool asked_ = false;        // the peer has
    bool peer_closed_ = false;  // its end of this attempt
    Failure why_;
    uint64_t ready_since_ = 0;  // 0: this attempt never was
    uint64_t pause_ = 0;        // before the next attempt
    Timer reopen_{*this};
    Timer settled_limit_{*this};
};

}  // namespace xfer
