// SPDX-License-Identifier: Apache-2.0
// A Path moves operations between local memory and the regions of one peer. It belongs to one loop
// and to a Channel (transport/channel.h), which carries what the two ends have to say about it; a
// stream of bytes is both. Thread: every method and every call of the sink is on the loop's thread.
// No call of the sink is made from inside a method, but on_access, which is made while a request is
// being read.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <vector>

#include "transport/op.h"
#include "util/status.h"

namespace xfer {

// How far apart the two memories are, the nearest first: in one process; on one host, where one
// copy does; on one fabric, whose adapters copy; beyond a socket.
enum class Scope : uint8_t { process, host, fabric, network };

// What a path takes, as granted once it is ready.
struct Caps {
    Scope scope = Scope::network;
    uint32_t max_ops = 0;            // posted and not done
    uint32_t max_bytes = kMaxChunk;  // of one op
    uint32_t max_pieces = kMaxPieces;
};

// A peer's request for memory of a device, which only copies touch: a path sees its bytes at
// `bounce`. A put is applied from there when its payload has come, a get is there when that is
// over; then it is answered. Owned by core, lent to the path from on_access() to release(), which
// is due before its on_down(). No call of it calls back.
class StagedRequest {
public:
    virtual void apply() = 0;    // a put: its payload is in place
    virtual void release() = 0;  // nothing at `bounce` is read or written any more

    iovec bounce{};           // of a get once it is over
    bool over = false;        // Path::flush() follows, if not at once
    Status status = XFER_OK;  // then: what it is refused with

protected:
    ~StagedRequest() = default;
};

class PathSink {
public:
    virtual void on_done(Op &op, Status status) = 0;  // exactly once per posted op
    // Checks a peer's request and turns its ranges into local ones, in order; all or nothing. Where
    // it is `staged` they are its bounce.
    virtual Status on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                             std::vector<iovec> &out, StagedRequest *&staged) = 0;
    // A peer's request was applied or answered; a put may belong to a notification. Of a staged one
    // the sink knows.
    virtual void on_served(Dir dir, uint64_t bytes, NotificationId notification) = 0;
    virtual void on_quiesced(Target target) = 0;  // what retire() had to wait for has ended
    // Memory of the region or message, which the peer reads or writes, is not mapped any more.
    virtual void on_unmapped(Target target) = 0;
    // Before on_down: puts of that notification were copied by the neighbour itself, or were about
    // to be.
    virtual void on_notification_begun(NotificationId notification, uint64_t key) = 0;
    // Exactly once, last, after on_done of every posted op. The path has ended; its channel, if it
    // ends with it, says so next.
    virtual void on_down(const Failure &why) = 0;

protected:
    ~PathSink() = default;
};

class Path {
public:
    virtual Caps caps() const = 0;
    virtual bool post(Op &op) = 0;  // false: full until some on_done, or it is down
    virtual void flush() = 0;       // sends what was posted, and answers what is over
    // Withdraws. True: local memory is quiet now, and `canceled` says so; on_done still comes, when
    // nothing of it can land any more: of an atomic with XFER_OK if it was done. False: it is in
    // use, for a short time at most: the path ends that, if it must by its own end, and on_done
    // tells it.
    virtual bool cancel(Op &op) = 0;
    // The region or the message has ended: nothing of it is read or written any more, and requests
    // that were under way are refused with `why`. False: some of it is on its way out; on_quiesced
    // follows, once, and before on_down.
    virtual bool retire(Target target, Status why) = 0;
    // That notification of the peer's has ended: what still comes of a put of it is thrown away.
    virtual void discard(NotificationId notification) = 0;

protected:
    ~Path() = default;
};

}  // namespace xfer
