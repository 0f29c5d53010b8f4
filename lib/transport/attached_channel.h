// SPDX-License-Identifier: Apache-2.0
// A channel that stands beside the first one of its connection, as one by the queue pairs of an
// adapter does. It has no handshake of its own: what its two ends have to agree on, the first
// channel carries as signals, which core does not read (core/connection/attached_lane.h). So there
// is nothing to prove, and start() and frames come after on_ready(). Thread: as Channel.
#pragma once

#include <cstdint>
#include <string>

#include "transport/channel.h"

namespace xfer {

class AttachedChannelSink {
public:
    // To the other end, in order; at most kMaxSignal bytes, and not none. May be called from inside
    // a method, also once it carries frames, until on_closed; and may itself close the channel.
    virtual void send_signal(ConstBytes message) = 0;
    // Once: both ends can send and hear frames. The end that hears of it first has sent a signal by
    // which the other one will. start() comes then or later, from inside this call or not.
    virtual void on_ready() = 0;

protected:
    ~AttachedChannelSink() = default;
};

struct AttachedChannelRequest {
    // It is the end that says the first signal, and not yet from inside the call.
    bool first = true;
    uint32_t failures = 0;  // attempts in a row that never were ready
    // What was not acknowledged by then is said another way, where there is one.
    uint64_t stall_ns = UINT64_MAX;
};

class AttachedChannel : public Channel {
public:
    // Of the other end, whatever it may say; after set_sink() alone.
    virtual void on_signal(ConstBytes message) = 0;
    // This end, as its kind has it; empty: not known.
    virtual std::string local() const = 0;

    void send_hello(ConstBytes) final {}
    DetachedChannel detach() final { return {}; }
};

}  // namespace xfer
