// SPDX-License-Identifier: Apache-2.0
// A connection with what both ends make of it: its requests, the owner's side of regions,
// notifications and messages, and its peer. Before it has one it is half-open.
#pragma once

#include "core/base/limits.h"
#include "core/connection/connection.h"
#include "core/message/message_receiver.h"
#include "core/peer/half_open.h"
#include "core/peer/request.h"
#include "core/region/target.h"
#include "core/transfer/notify_receiver.h"
#include "util/fixed_vector.h"

namespace xfer {

class Session final : public Connection, ConnectionSink {
public:
    Session(ShardCore &shard, Side side, uint64_t number, uint64_t sequence);
    ~Session() override;

    void send_proof(const Statement &statement, RequestList &waiting);  // with the first questions
    void ask(Request &request);         // or puts it back where it waits
    void take_back(RequestList &into);  // what was asked, when the connection has ended
    void take_back(Request &request, RequestList &into);
    void forget(Request &request);
    RequestList &asked() { return asked_; }
    void retire(Region &region);
    void leave_half_open() override;

    TargetSide target_side{*this};
    NotifyReceiver notifications{*this};
    MessageReceiver messages{*this};
    HalfOpenPlace place{*this};

private:
    void on_up() override;
    void on_reply(const Hello &message, ConstBytes raw) override;
    void on_ready(const Hello &message) override;
    void on_proof(const Hello &message, ConstBytes raw) override;
    void on_lane(const Hello &message, ConstBytes raw) override;
    void on_live() override;
    void on_answered() override;
    void on_ended() override;
    void on_frame(const Frame &frame, ConstBytes body) override;
    void on_done(Op &op, Status status) override;
    Status access(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                  std::vector<iovec> &out, Memory &memory) override;
    Status find_export(const Access &asked, ExportedMemory &out) override;
    void on_unmapped(Target target) override;
    void on_copy_failed(Target target, Status status, int32_t error) override;
    void on_notification_begun(NotificationId notification, uint64_t key) override;
    void on_notified_put(NotificationId notification, uint64_t bytes) override;
    void on_discarded(NotificationId notification) override;
    void on_lane_ended() override;
    void on_quiesced(Target target) override;
    void on_withdrawn(MessageId message) override;
    void pump() override;
    void ask_waiting() override;
    void put_off() override;
    bool waiting() override;
    bool quiet() const override;
    bool busy() const override;
    bool quiescent() const override;
    bool reachable() const override;
    void on_use() override;
    void count_idle_offer(bool begins) override;
    Endpoint *event_endpoint() override;
    void announce_again() override;
    Endpoint &unnamed() override;
    void pull(Operation &receive) override;

    Status access_message(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                          std::vector<iovec> &out, Memory &memory);
    void message_failed(Target target, int32_t error);  // if it is one: its memory can't be read
    void note(Request &request);
    void send_forget(uint64_t seq);
    void answer(const Frame &frame, ConstBytes body);
    void answer_probe(const Frame &pong);
    void answer_to_message(const Frame &frame);

    RequestList asked_;
    uint64_t last_question_ = 0;
    // Questions of the proof, until frames may be sent.
    FixedVector<uint64_t, kMaxQuestions> forgotten_;
};

}  // namespace xfer
