// SPDX-License-Identifier: Apache-2.0
// A Channel carries frames to one peer and back, in order. First it carries the messages of a
// handshake; once start() was called it carries control frames, and operations by its Path. Thread:
// every method and every call of the sink is on the loop's thread. No call of the sink is made from
// inside a method.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/one_sided.h"
#include "util/fd.h"
#include "util/status.h"
#include "wire/frame.h"

namespace xfer {

class ChannelSink {
public:
    virtual void on_up() = 0;                       // of a dialed one: it can carry the handshake
    virtual void on_hello(ConstBytes message) = 0;  // one whole handshake message
    virtual void on_control(const Frame &frame, ConstBytes body) = 0;
    virtual void on_closed(const Failure &why) = 0;  // exactly once, last, after its path's on_down

protected:
    ~ChannelSink() = default;
};

// A channel between two loops: it was detached from one and not yet adopted by another.
struct DetachedChannel {
    Fd fd;
    std::vector<uint8_t> unread;
    std::string remote;
};

class Channel {
public:
    virtual ~Channel() = default;  // after on_closed or detach, and not inside a call from it
    virtual void set_sink(ChannelSink &sink) = 0;
    virtual std::string remote() const = 0;  // the other end, as a URI
    virtual Scope scope() const = 0;         // how far that is
    // Of use once it was started: the path that goes by its frames, and another one that needs no
    // help of the owner, which is started by itself; null: there is none.
    virtual Path &path() = 0;
    virtual OneSidedPath *one_sided() = 0;

    virtual void send_hello(ConstBytes message) = 0;
    virtual DetachedChannel detach() = 0;  // before start(): stops without on_closed
    // The handshake is over; the peer lets us have max_ops posted, and we let it have serve_ops.
    // Enables sending, and operations, of which `sink` hears.
    virtual void start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) = 0;
    virtual void resume() = 0;  // enables receiving

    // False: too much is waiting already. A channel that ends forgets what it takes; its end tells.
    // Before start() only a bye, of an initiator that leaves.
    virtual bool send(const Frame &frame, ConstBytes body) = 0;
    // Asynchronous; what was sent before still leaves if it can.
    virtual void close(const Failure &why) = 0;
    virtual uint64_t last_heard() const = 0;  // time of the last byte from the peer
    // While the peer's host is to acknowledge something, which it does also for a peer that does
    // not read: when it last acknowledged anything. Null: nothing is, or nobody tells.
    virtual std::optional<uint64_t> last_acknowledged() const { return std::nullopt; }
};

}  // namespace xfer
