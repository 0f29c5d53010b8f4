// SPDX-License-Identifier: Apache-2.0
// What stands beside the channels of a connection and was made by a fabric, be it a path or a
// channel (transport/attached_path.h, attached_channel.h): its attempts, their signals, their ends.
//
// The initiator of the connection begins attempts, numbered from 1. Each end says once that its end
// of an attempt is closed. When both have said so the attempt is over, and the next one may begin,
// after pauses that double.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "loop/loop.h"
#include "transport/attached_path.h"
#include "wire/frame.h"

namespace xfer {

class Connection;
class ShardCore;

class Attachment : public TimerSink {
public:
    void on_signal(const Frame &frame, ConstBytes body);
    void close(const Failure &why);  // with its connection
    bool is_opening() const { return state_ == State::opening; }
    bool is_ready() const { return state_ == State::ready; }
    bool is_ending() const { return state_ == State::fallen; }  // the peer has not said it yet
    bool is_closed() const { return state_ == State::none || state_ == State::fallen; }
    void disarm();
    const Failure &why() const { return why_; }  // the last attempt has ended
    // ---- for who looks
    std::string_view state() const;
    std::string_view fabric() const { return fabric_ ? fabric_->name() : ""; }

protected:
    enum class State : uint8_t { none, opening, ready, fallen };

    // `kind`: what it is, in a line of the log.
    Attachment(Connection &connection, uint32_t number, std::string_view kind);
    ~Attachment();

    // ---- what is attempted
    // Makes this end, as Fabric::open(); why not. May throw std::bad_alloc, and is as never made.
    virtual Failure make(Fabric &fabric, bool first, ConstBytes offer) = 0;
    virtual void hear(ConstBytes signal) = 0;
    virtual void end(const Failure &why) = 0;
    virtual void say(const Frame &frame, ConstBytes body) = 0;
    virtual void on_over() {}      // nothing of the attempt is left, here or there
    virtual void try_again() = 0;  // the pause is over

    bool may_try() const { return state_ == State::none && !rests_; }
    static bool has_fabric(const ShardCore &shard);
    Fabric *shared_fabric() const;  // of ours, that the peer has, too
    bool begin();                   // by fabric_; false: it can't be, for now at least
    void signal(ConstBytes message);
    void ended(const Failure &why);  // this end

    Connection &connection_;
    const uint32_t number_;
    Fabric *fabric_ = nullptr;  // of the last attempt
    State state_ = State::none;
    bool rests_;  // there is no use in trying, or not now
    Failure why_;
    uint32_t failures_ = 0;     // attempts in a row that never were ready
    uint64_t ready_since_ = 0;  // of this attempt, once something may be under way by it

private:
    Failure start(Fabric &fabric, bool first, ConstBytes offer);
    void accept(const Frame &frame, ConstBytes offer);
    void on_peer_closed(const Frame &frame);
    void say_closed();
    void settle();
    void not_settled();
    void open_again_later();
    void on_timer(Timer &timer) override;

    const std::string_view kind_;
    uint64_t attempt_ = 0;
    bool peer_closed_ = false;  // its end of this attempt
    uint64_t pause_ = 0;        // before the next attempt
    Timer reopen_{*this};
    Timer settled_limit_{*this};
};

}  // namespace xfer
