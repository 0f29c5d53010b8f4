// SPDX-License-Identifier: Apache-2.0
// One attempt to be connected, and if it lives the connection: a control channel, and data lanes
// that join it. It speaks; Peer decides.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "core/connection/connection_state.h"
#include "core/connection/handshake.h"
#include "core/connection/lane_set.h"
#include "core/message/message_receiver.h"
#include "core/peer/half_open.h"
#include "core/peer/request.h"
#include "core/region/target.h"
#include "core/transfer/notify_receiver.h"
#include "transport/transport.h"
#include "util/fixed_vector.h"
#include "util/memory.h"

namespace xfer {

class Peer;
struct InHolder;     // its peer's, the half-open connections, or those to be destroyed
struct InUndecided;  // half-open connections that wait for the application's verdict

class Connection final : public TimerSink,
                         public Task,
                         public ListNode<InHolder>,
                         public ListNode<InUndecided> {
public:
    Connection(ShardCore &shard, Side side, uint64_t number, uint64_t sequence);
    ~Connection();

    // ---- what the state machine orders
    Status dial(const Uri &uri);
    void hurry();  // an attempt of ours: there is another address to be tried
    void send_hello(const Statement &statement);
    void send_proof(const Statement &statement, RequestList &waiting);  // with the first questions
    void send_ready(const Statement &statement);
    void go_live();
    void probe();
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
    Status refusal(const EngineId &owner,
                   uint64_t incarnation) const;  // of work that names another engine
    void ask(Request &request);                  // or puts it back where it waits
    RequestList &asked() { return asked_; }
    void put_off(RequestList &into);    // what waits for a name: the peer goes
    void take_back(RequestList &into);  // what was asked, when the connection has ended
    void take_back(Request &request, RequestList &into);
    void forget(Request &request);
    bool send(const Frame &frame, ConstBytes body = {});
    void retire(Region &region);
    void discard(NotificationId notification);
    uint32_t retire(MessageId message);  // lanes by which its bytes are on their way out
    uint64_t keep_alive(uint64_t now);   // heartbeat: silence, idleness; when to look again
    bool idle() const;
    bool may_go() const;  // nothing is under way here, and it can come back
    void offer_end();
    void touch();  // it is of use

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
    void on_quiesced(Target target);
    void on_timer(Timer &timer) override;
    void run() override;

    ShardCore &shard;
    const Side side;
    const uint64_t number;
    uint64_t sequence;
    uint64_t listener_user = 0;  // of the listener that accepted it
    Peer *peer = nullptr;
    Peer *candidate =
        nullptr;       // of a half-open connection: its peer, once the application has let it in
    Statement proved;  // what such a one has said
    std::string uri;   // that was dialed
    Handshake handshake;
    LaneSet lanes{*this};
    TargetSide target_side{*this};
    NotifyReceiver notify_receiver{*this};
    MessageReceiver message_receiver{*this};
    Failure why;  // it ended
    bool live() const { return state_.lived; }
    bool closing() const { return is_closing(state_); }
    bool left_idle() const { return state_.left_idle; }
    uint64_t live_since() const { return live_since_; }
    uint64_t retry_ns() const { return retry_ns_; }
    uint64_t rtt_ns = 0;

private:
    friend class Inbound;
    friend class Peer;
    void say(ConstBytes words);
    // One step of the state machine, with all that it orders. `reason`: if that ends it.
    void apply(ConnectionInput input, const Failure &reason = {});
    void perform(const ConnectionOutput &output, const Failure &reason);
    void send_word(FrameType type, Status status = XFER_OK, uint64_t seq = 0);
    void begin();
    void close_lanes(const Failure &reason, Status bye);
    void resume();
    void end();
    void hear(Lane &lane, const Hello &message, ConstBytes raw);
    void hear_half_open(const Hello &message, ConstBytes raw);
    void refuse(const Failure &why);
    void note(Request &request);
    void send_forget(uint64_t seq);
    void answer(const Frame &frame, ConstBytes body);
    void on_pong(const Frame &frame);
    void answer_to_message(const Frame &frame);
    void on_leave(const Frame &frame);
    void on_drain(const Frame &frame);
    void leave_when_quiet();
    bool is_quiescent() const;
    void offer_unanswered();
    void finish();
    void disarm_timers();
    void leave_half_open();  // it has proved itself, or is over

    HalfOpenPlace half_open_{*this};
    RequestList asked_;
    uint64_t last_question_ = 0;
    FixedVector<uint64_t, kMaxQuestions>
        forgotten_;  // questions of the proof, until frames may be sent
    uint32_t lanes_that_send(Target target, Status why);  // on_quiesced follows for each of them
    uint32_t quiet_awaited_ = 0;
    Timer handshake_limit_;
    Timer probe_limit_;  // since the first newcomer asked
    Timer quiet_limit_;  // of what is on its way out of a region that has ended
    Timer offer_;        // to end it; who does not answer has nothing to say
    uint64_t live_since_ = 0;
    uint64_t last_use_ = 0;
    uint64_t retry_ns_ = 0;  // the peer is busy: not before so long
    uint64_t pinged_ = 0;
    uint64_t rested_ = 0;  // silence until then was agreed on
    ConnectionState state_;
};

}  // namespace xfer
