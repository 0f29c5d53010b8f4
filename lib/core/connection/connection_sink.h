// SPDX-License-Identifier: Apache-2.0
// What a connection tells and asks the rooms above: those of regions, transfers, messages and
// peers. Thread: its loop's.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#include "transport/one_sided.h"
#include "wire/frame.h"
#include "wire/hello.h"

namespace xfer {

class Endpoint;
class Operation;

class ConnectionSink {
public:
    // ---- the handshake
    virtual void on_up() = 0;  // one of ours can carry it
    virtual void on_reply(const Hello &message, ConstBytes raw) = 0;
    virtual void on_ready(const Hello &message) = 0;
    virtual void on_proof(const Hello &message, ConstBytes raw) = 0;  // of a half-open one
    virtual void on_lane(const Hello &message, ConstBytes raw) = 0;   // it joins another connection
    virtual void leave_half_open() = 0;                               // if it was
    virtual void on_live() = 0;
    virtual void on_answered() = 0;  // a probe, or the time for a goodbye is over
    virtual void on_ended() = 0;     // last; it is to be destroyed

    // ---- frames, but for those of the connection itself
    virtual void on_frame(const Frame &frame, ConstBytes body) = 0;

    // ---- operations of ours, and what the peer asks for
    virtual void on_done(Op &op, Status status) = 0;
    // Whose ranges they are `memory` says, if not the host's.
    virtual Status access(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                          std::vector<iovec> &out, Memory &memory) = 0;
    virtual Status find_export(const Access &asked, ExportedMemory &out) = 0;
    virtual void on_unmapped(Target target) = 0;
    virtual void on_copy_failed(Target target, Status status, int32_t error) = 0;  // of a device
    virtual void on_notification_begun(NotificationId notification, uint64_t key) = 0;
    virtual void on_notified_put(NotificationId notification, uint64_t bytes) = 0;  // was applied
    virtual void on_discarded(NotificationId notification) = 0;  // one more of its copies is over
    virtual void on_lane_ended() = 0;  // a data lane, alone: what it had not brought is lost
    // One more of the lanes or copies that were waited for is over.
    virtual void on_quiesced(Target target) = 0;
    // By one more of the paths that it was exported on nothing of it is read any more.
    virtual void on_withdrawn(MessageId message) = 0;

    // ---- work
    virtual void pump() = 0;             // sends what there is credit for
    virtual void ask_waiting() = 0;      // sends requests that wait for a connection
    virtual void put_off() = 0;          // takes back those that wait for a name: the peer goes
    virtual bool waiting() = 0;          // something waits for credit
    virtual bool quiet() const = 0;      // nothing is under way, though more may wait
    virtual bool busy() const = 0;       // something is under way, or waits
    virtual bool quiescent() const = 0;  // nor is the peer waited for, or has something to tell
    virtual bool reachable() const = 0;  // the peer can be dialed again
    virtual void on_use() = 0;
    virtual void count_idle_offer(bool begins) = 0;

    // ---- handles of the peer
    virtual Endpoint *event_endpoint() = 0;  // that its events name; null: none
    virtual void announce_again() = 0;       // makes one, if it lives
    virtual Endpoint &unnamed() = 0;         // the engine's own. Throws std::bad_alloc.
    virtual void pull(Operation &receive) = 0;

protected:
    ~ConnectionSink() = default;
};

}  // namespace xfer
