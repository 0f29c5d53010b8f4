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
#include "core/peer/addresses.h"
#include "core/peer/admission.h"
#include "core/peer/peer_state.h"
#include "core/peer/request.h"
#include "core/peer/session.h"
#include "core/peer/sieve.h"
#include "core/transfer/flow.h"

namespace xfer {

struct WantsDial;
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
                   public ListNode<WantsDial>,
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
    void add(Endpoint &ep);
    void attach(Endpoint &ep);
    void remove(Endpoint &ep);
    void add_addresses(const Endpoint &ep, std::list<Address> &made);  // which ep lists
    void submit(Operation &operation) {
        flow.submit(operation);
        send_waiting();
    }
    void pull(Operation &receive) {  // the message that it has matched
        flow.add(receive);
        send_waiting();
    }
    void send_waiting() { live_ ? flow.pump() : schedule_dial(); }
    void submit(Request &request);
    void finish(Request &request, Status status, uint32_t origin = 0);
    void end_all(Endpoint &ep, Status why);
    void schedule_dial();  // dials if somebody waits and nothing is under way
    bool take_slot();      // or has it
    void give_slot();
    void dial();                                           // now; it has a slot
    void move_pending_work(Endpoint &ep, PeerMove &into);  // ep and all that waits by it
    void adopt_pending_work(PeerMove &from, const std::string &at);
    void connect_to_self();
    void close(const Failure &why);  // every connection

    // ---- connections
    void adopt(Session &connection);         // from whoever has held it
    void adopt_dialed(Session &connection);  // ours, which has said hello elsewhere
    void hear(const Input &input);
    void hear_reply(Session &connection, const Hello &message, ConstBytes raw);
    void ended(Session &connection);
    void report_gone(ConstBytes ref);
    uint64_t keep_alive(uint64_t now);
    bool awaited();  // a receive names it
    void added(Region &region);
    void retire(Region &region);

    bool reachable() const { return !addresses_.empty() || is_self(); }
    bool unused() {
        return eps_.empty() && !admission.candidate() && connections_.empty() && !flow.busy() &&
               requests_.empty() && !redial_.armed();
    }
    bool wanted() { return flow.busy() || !requests_.empty(); }
    void on_timer(Timer &timer) override;

    ShardCore &shard;
    std::optional<EngineId> id;
    MessageSender messages{flow};
    Flow flow;
    Admission admission{*this};
    const Addresses &addresses() const { return addresses_; }
    List<Session, InHolder> &connections() { return connections_; }
    bool is_self() const;      // our own engine, reached by loopback alone
    Failure why_down() const;  // why there is no connection; nothing: no attempt has failed
    const LastError &last_error() const { return last_error_; }
    Session *live() const { return live_; }
    List<Endpoint, InPeer> &endpoints() { return eps_; }
    RequestList &waiting_requests() { return requests_; }
    void drain();
    bool busy();                 // something is under way, or a connection is there
    Endpoint *event_endpoint();  // whose events tell what concerns all handles of the peer
    // Not a handle: receives from any peer pull by it, so that no handle's end is theirs.
    Endpoint &unnamed();

    void ask_waiting();  // what was asked while no connection took it

private:
    friend class Inbound;
    friend class PeerTable;
    void perform(Session &connection, const Output &output);
    bool claims(const Endpoint &ep) const;
    bool follows(const Endpoint &ep, const std::string &uri);
    void introduce(Endpoint &ep);
    void report_up(Endpoint &ep, uint32_t flags);
    void begin_attempt(Session *&attempt);
    void attempt_over();
    void go_live(Session &connection);
    void went_down(Session &connection);
    bool resolve_identity(Session &connection, const Identity &identity, ConstBytes raw);
    void note_error(const Failure &why, std::string_view where);
    void attempt_failed(const std::string &uri, const Failure &why, uint64_t retry_ns);
    void fail_waiting(const Failure &why);
    void fail_misled(const Failure &why);
    Session *find(uint64_t number);
    uint64_t may_dial_at();
    void set_states(uint32_t state);
    void stayed_away();

    List<Endpoint, InPeer> eps_;
    Ref<Endpoint> unnamed_;
    RequestList requests_;  // not asked yet
    PeerState state_;
    OwningList<Session, InHolder> connections_;
    Session *live_ = nullptr;
    Addresses addresses_{this};
    Failure last_failure_;  // since it was last connected
    LastError last_error_;
    Timer redial_;
    Timer away_;                 // after an idle end: until handles of the engine's own go
    uint64_t wanted_since_ = 0;  // without a connection
    bool dialing_ = false;       // or waits for its turn to
    bool slot_ = false;          // counts as one that is connected, or on its way to be
    uint64_t last_incarnation_ = 0;
    bool left_idle_ = false;  // the last connection ended because nobody used it
};

}  // namespace xfer
