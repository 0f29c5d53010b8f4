// SPDX-License-Identifier: Apache-2.0
// How two engines become neighbours: whether the peer may be one is looked for when there is
// something to move, and the local lane dialed (core/connection/lane_set.h). What failed for a
// cause that may pass is tried again while there is something to move, after pauses that double.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"
#include "util/status.h"
#include "util/uri.h"

namespace xfer {

class Connection;
class Transport;

class LocalPath final : TimerSink {
public:
    explicit LocalPath(Connection &connection) : connection_(connection) {}
    ~LocalPath() { disarm(); }

    void open();             // if the peer may be a neighbour; there is something to move
    void on_asked();         // by the peer, which has something to move
    void open_asked();       // what could not be opened when it was asked for
    bool is_open() const;    // the control channel goes by it
    bool is_begun() const {  // on its way, or ours to speak on
        return state_ == State::joining || state_ == State::switched;
    }
    bool is_absent() const {  // it was looked for, and there is none
        return state_ == State::tried && failure_.status;
    }
    bool leaves_to_others() const;  // paths by adapters may be begun, or asked for
    // "open", "opening", or why there is none.
    std::string_view state() const;
    std::string_view why_not() const;

    // ---- from the lanes
    void on_joining() { state_ = State::joining; }
    void on_switched() { state_ = State::switched; }
    void on_failed(const Failure &why);
    void disarm();

private:
    bool is_due() const;
    void look_for_neighbour();
    void rest();
    bool may_pass() const;
    void on_timer(Timer &timer) override;
    Transport *shared_memory(const std::vector<std::string> &listens, Uri &address) const;

    Connection &connection_;
    // Nobody has asked for it; it failed, or there is none; on its way; ours to speak on.
    enum class State : uint8_t { apart, tried, joining, switched } state_ = State::apart;
    bool asked_ = false;
    bool rests_ = false;  // after it failed: for ever, or for a pause
    uint64_t pause_ = 0;
    Timer again_{*this};
    Failure failure_;
};

}  // namespace xfer
