// SPDX-License-Identifier: Apache-2.0
// One peer engine as one loop knows it: who it is, who wants it, how it is reached, and its
// attempts to connect, of which the state machine lets one live. Before the first handshake it has
// addresses only, no identity.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/last_error.h"
#include "core/message/message_sender.h"
#include "core/peer/admission.h"
#include "core/peer/dialer.h"
#include "core/peer/handles.h"
#include "core/peer/peer_state.h"
#include "core/peer/request_queue.h"
#include "core/peer/session.h"
#include "core/peer/sieve.h"
#include "core/transfer/flow.h"

namespace xfer {

struct InShard;
struct ById;

// Endpoints, with what waits by them, on their way to the peer that turned out to be theirs, and
// the connection by which that was learnt.
struct PeerMove {
    List<Endpoint, InPeer> eps;
    List<Operation, InFlow> operations;
    RequestList requests;
    bool slot = false;  // the one that goes along
};

class Peer final : public TimerSink,
                   public ListNode<InShard>,
                   public TreeNode<ById>,
                   public SieveNode {
public:
    // Any thread, so that it can be made before it is needed. `addresses`: known from the start.
    explicit Peer(ShardCore &shard, const std::vector<std::string> &addresses = {});
    ~Peer();

    void name(const EngineId &identity);    // before its shard takes it in
    void expect(const EngineId &identity);  // its addresses are the user's word alone

    // ---- pending work
    void submit(Operation &operation) {
        flow.submit(operation);
        send_waiting();
    }
    void pull(Operation &receive) {  // the message that it has matched
        flow.add(receive);
        send_waiting();
    }
    void add_addresses(const Endpoint &ep, std::list<Address> &made);  // which ep lists
    void end_all(const Endpoint &ep, Status why);
    void fail_waiting(const Failure &why);
    // The peer has refused us, or another engine has answered, at every address.
    void fail_misled(const Failure &why, bool refused);
    bool follows(const Endpoint &ep);  // whoever answers, at one of its addresses
    void move_pending_work(Endpoint &ep, PeerMove &into);  // ep and all that waits by it
    void adopt_pending_work(PeerMove &from, const std::string &at);

    // ---- connections
    void adopt(Session &connection);         // from whoever has held it
    void adopt_dialed(Session &connection);  // ours, which has said hello elsewhere
    void connect_to_self();
    void hear(const Input &input);
    void hear_reply(Session &connection, const Hello &message, ConstBytes raw);
    void ended(Session &connection);
    void close(const Failure &why);  // every connection
    void drain();
    uint64_t keep_alive(uint64_t now);
    void added(Region &region);
    void retire(Region &region);
    void note_error(const Failure &why, std::string_view where);
    void on_timer(Timer &timer) override;

    bool is_self() const;  // our own engine, reached by loopback alone
    bool ours_smaller() const { return state_.ours_smaller; }  // our engine's id
    bool may_dial() const { return xfer::may_dial(state_); }
    bool wanted() { return flow.busy() || !requests.empty(); }
    bool busy();    // something is under way, or a connection is there
    bool unused();  // nobody would miss it
    Session *live() const { return live_; }
    List<Session, InHolder> &connections() { return connections_; }
    const LastError &last_error() const { return last_error_; }

    ShardCore &shard;
    std::optional<EngineId> id;
    Handles handles{*this};
    Dialer dialer;
    MessageSender messages{flow};
    Flow flow;
    RequestQueue requests{*this};
    Admission admission{*this};

private:
    void send_waiting();
    void perform(Session &connection, const Output &output);
    bool follows(const Endpoint &ep, const std::string &uri);
    bool resolve_identity(Session &connection, const Identity &identity, ConstBytes raw);
    void learn_addresses(const Session &connection);
    void go_live(Session &connection);
    void went_down(Session &connection);
    Session *find(uint64_t number);

    PeerState state_;
    OwningList<Session, InHolder> connections_;
    Session *live_ = nullptr;
    LastError last_error_;
    Timer away_{*this};  // after an idle end: until handles of the engine's own go
    uint64_t last_incarnation_ = 0;
    bool left_idle_ = false;  // the last connection ended because nobody used it
};

}  // namespace xfer
