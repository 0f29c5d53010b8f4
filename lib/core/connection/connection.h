// SPDX-License-Identifier: Apache-2.0
// One attempt to be connected, and if it lives the connection: a control channel, and data lanes
// that join it. What it carries is for its sink; Session (core/peer/session.h) is the whole.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/connection/attached_lane.h"
#include "core/connection/attached_paths.h"
#include "core/connection/connection_sink.h"
#include "core/connection/connection_state.h"
#include "core/connection/handshake.h"
#include "core/connection/keepalive.h"
#include "core/connection/lane_set.h"
#include "transport/transport.h"
#include "util/memory.h"

namespace xfer {

class MessageReceiver;
class NotifyReceiver;
class Peer;
class ShardCore;
struct InHolder;     // its peer's, the half-open connections, or those to be destroyed
struct InUndecided;  // half-open connections that wait for the application's verdict

// What the rooms above have on a connection: used where their classes are known.
struct ConnectionRooms {
    NotifyReceiver &notify_receiver;
    MessageReceiver &message_receiver;
};

class Connection : public ConnectionRooms,
                   public TimerSink,
                   public Task,
                   public ListNode<InHolder>,
                   public ListNode<InUndecided> {
public:
    virtual ~Connection();

    // ---- what the state machine orders
    // One step of it, with all that it orders in turn. `reason`: if that ends the connection.
    void apply(ConnectionInput input, const Failure &reason = {});
    const ConnectionState &state() const { return state_; }
    Status dial(const Uri &uri);
    void hurry();  // an attempt of ours: there is another address to be tried
    void send_hello(const Statement &statement);
    void send_proof(const Statement &statement, std::vector<Question> questions);
    void send_ready(const Statement &statement);
    void close(const Failure &why);  // Peer hears of the end when all lanes are down
    void refuse(Status status, std::string_view words = {});  // else those of the status
    void wait_for_verdict(Peer &visited, const Statement &statement);

    // ---- once it is live
    bool usable() const { return is_usable(state_); }
    bool takes_new() const { return xfer::takes_new(state_); }
    void drain();  // tells the peer, and tells it again when nothing of ours is under way
    Lane &control() const { return lanes.first(); }
    void flush();
    void pump_soon();
    bool send(const Frame &frame, ConstBytes body = {});
    bool send_by(Lane &lane, const Frame &frame, ConstBytes body);
    bool moves() const { return lanes.busy() || attached.busy(); }  // operations are under way
    // Lanes by which its bytes are on their way out, and copies of them by a device: on_quiesced
    // follows for each of them.
    uint32_t retire(Target target, Status why);
    void touch();      // it is of use
    void note_use() {  // the same, without a clock
        keepalive.note_use();
        sink.on_use();
    }
    bool retiring() const { return quiet_awaited_ != 0; }  // lanes are waited for

    // What lacks memory in its turn ends it.
    template <typename Step>
    void in_turn(Step step) {
        if (!catch_bad_alloc(step)) close(no_memory());
    }

    // ---- from lanes
    void on_up(Lane &lane);
    void on_hello(Lane &lane, ConstBytes raw);
    void on_control(Lane &lane, const Frame &frame, ConstBytes body);
    void on_lane_down(Lane &lane, const Failure &why);
    void finish();  // one of its paths has ended
    void on_quiesced(Target target);

    ShardCore &shard;
    ConnectionSink &sink;
    const Side side;
    const uint64_t number;
    uint64_t sequence;
    uint64_t listener_user = 0;  // of the listener that accepted it
    Peer *peer = nullptr;
    Peer *candidate =
        nullptr;       // of a half-open connection: its peer, once the application has let it in
    Statement proved;  // what such a one has said
    uint64_t replied_at = 0;  // of a half-open connection: our reply was said no sooner
    std::string uri;          // that was dialed
    Handshake handshake;
    LaneSet lanes{*this};
    Keepalive keepalive{*this};
    AttachedPaths attached{*this};
    AttachedLane attached_lane{*this};
    Failure why;  // it ended
    bool live() const { return state_.lived; }
    bool closing() const { return is_closing(state_); }
    bool left_idle() const { return state_.left_idle; }
    uint64_t live_since() const { return live_since_; }
    uint64_t live_by() const { return live_by_; }  // it was live no later
    uint64_t retry_ns() const { return retry_ns_; }
    uint64_t rtt_ns = 0;
    uint32_t staged = 0;            // copies from and to devices, which its end waits for
    uint32_t bounced = 0;           // operations that have bounce memory,
    uint32_t bounced_for_peer = 0;  // and gets of the peer
    uint64_t own_bounce = 0;        // bytes of its puts that have no bounce memory

protected:
    Connection(ShardCore &shard, ConnectionSink &sink, const ConnectionRooms &rooms, Side side,
               uint64_t number, uint64_t sequence);

private:
    void say(ConstBytes words);
    void perform(const ConnectionOutput &output, const Failure &reason);
    void send_word(FrameType type, Status status = XFER_OK, uint64_t seq = 0);
    void begin();
    void close_lanes(const Failure &reason, Status bye);
    void resume();
    void end();
    void end_probe();
    void hear(Lane &lane, const Hello &message, ConstBytes raw);
    void hear_half_open(const Hello &message, ConstBytes raw);
    void await_turn();
    void refuse(const Failure &why);
    void on_leave(const Frame &frame);
    void on_drain(const Frame &frame);
    void leave_when_quiet();
    void on_timer(Timer &timer) override;
    void run() override;
    void disarm_timers();

    uint32_t quiet_awaited_ = 0;
    Timer handshake_limit_;
    Timer probe_limit_;  // since the first newcomer asked
    bool probe_over_ = false;
    uint64_t probes_ = 0;  // the pong of no other ping answers the last one
    Timer quiet_limit_;    // of what is on its way out of a region that has ended
    uint64_t live_since_ = 0, live_by_ = 0;
    uint64_t retry_ns_ = 0;  // the peer is busy: not before so long
    ConnectionState state_;
};

}  // namespace xfer
