// SPDX-License-Identifier: Apache-2.0
// One end of a channel. As over TCP, the bytes of a put are read from the user's memory when they
// leave, and those of a get are written there when they come; a canceled put goes on with zeros.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim_copy_path.h"
#include "sim_transport.h"

namespace xfer {

// What is not acknowledged it sends again and again, until then.
inline constexpr uint64_t kAdapterGivesUpNs = 2'000'000'000;

class SimChannel final : public Channel, Path, SimCopyPath::Owner {
public:
    SimChannel(SimTransport &transport, std::string remote);
    ~SimChannel() override;
    static void pair(SimChannel &a, SimChannel &b);

    void set_sink(ChannelSink &sink) override;
    std::string remote() const override { return remote_; }
    Scope scope() const override {
        if (is_attached()) return Scope::fabric;
        return remote_.starts_with("shm:") ? Scope::host : Scope::network;
    }
    Path &path() override { return *this; }
    OneSidedPath *one_sided() override { return copies_.get(); }
    void send_hello(ConstBytes bytes) override;
    DetachedChannel detach() override;
    void start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) override;
    void resume() override;
    bool send(const Frame &frame, ConstBytes body) override;
    void close(const Failure &why) override;
    uint64_t last_heard() const override { return heard_; }
    std::optional<uint64_t> last_acknowledged() const override;

    // The wire breaks: this end notices after a while.
    void cut();
    void cut_both();
    // Calls on this end's loop, unless the channel is gone by then.
    void later(uint64_t delay, std::function<void(SimChannel &)> call);
    void move_to(SimTransport &transport) { transport_ = &transport; }
    void up();
    void be_late(uint64_t by) { late_ = by; }  // all that it says, as long as it lives
    uint64_t late() const { return late_; }
    bool is_data_lane() const { return !control_; }
    bool is_attached() const { return remote_.starts_with("adapter:"); }  // SimAttachedChannel's
    void be_lost() { lost_ = true; }  // nothing that is sent from here arrives any more
    void copy_to(SimChannel &other) {
        copy_ = other.number_;
        other.twin_ = true;
    }
    bool is_twin() const { return twin_; }  // nobody hears what is answered by it
    uint32_t there() const override { return there_; }
    uint64_t last_due() const { return last_due_; }
    uint64_t number() const { return number_; }
    uint64_t generation() const override { return generation_; }
    SimTransport &transport() const override { return *transport_; }
    void ended(const Failure &why);

private:
    // Of the path that copies.
    void later(uint64_t delay, std::function<void(SimCopyPath &)> call) override {
        later(delay, [call = std::move(call)](SimChannel &channel) { call(*channel.copies_); });
    }
    void on_copies_over(const Failure &why) override { ended(why); }
    void on_fallen(const Failure &) override {}

    // The path.
    Caps caps() const override;
    bool post(Op &op) override;
    void flush() override;
    bool cancel(Op &op) override;
    bool retire(Target target, Status why) override;
    void discard(NotificationId notification) override;

    // What leaves in its order, as the other end sees it.
    struct Head {
        enum Kind { hello, control, request, answer, end } kind = end;
        std::vector<uint8_t> bytes;  // of a hello, or of a control frame's body
        Frame frame;
        Dir dir = Dir::put;
        Access access;
        std::vector<WirePiece> pieces;
        uint64_t seq = 0;
        Status status = XFER_OK;
        uint64_t payload = 0;
        uint64_t operation = 0;  // the observer's name of it
        bool checked = false;
        Atomic atomic;
        uint64_t before = 0;  // an atomic's answer
    };
    struct Leaving {
        Head head;
        Op *op = nullptr;           // whose payload it is
        Op *follows = nullptr;      // of a notify: the put that has no answer yet
        std::vector<iovec> ranges;  // of the payload
        uint64_t left = 0;          // bytes that have left
        bool begun = false, blank = false, retired = false;
        StagedRequest *staged = nullptr;  // of an answer: until it is over, or has left
    };
    struct Part {
        std::shared_ptr<const Head> head;  // of a first part
        std::vector<uint8_t> payload;
        bool last = false, spoiled = false;
    };
    struct MessageReceiver {
        Head head;
        std::vector<iovec> ranges;
        uint64_t arrived = 0;
        bool discard = false, open = false, spoiled = false;
        bool bounces = false;  // on its way to a device
        StagedRequest *staged = nullptr;
    };

    Break breaks_at(ChannelStep step);
    void put_in(Head head) {
        queue_.push_back({std::move(head), nullptr, nullptr, {}, 0, false, false, false});
    }
    void pump();
    bool may_leave() const;
    void leave_part(uint64_t room);
    void begin(Leaving &item);
    void add_notify(Op &op);
    void copy_payload(Leaving &item, std::vector<uint8_t> &out, uint64_t bytes);
    bool spoil(const Leaving &item, std::vector<uint8_t> &payload);
    void dispatch(Part part);
    uint64_t travel();
    void arrived(const Part &part);
    void take(const Part &part);
    void begin_incoming(const Head &head);
    void place(const std::vector<uint8_t> &payload);
    void finish_incoming();
    uint64_t apply_incoming(const Head &head);
    void say_answers();
    void refuse(Leaving &answer, Status why);
    void drop_incoming();
    void drop(StagedRequest *&staged);
    void credit(uint64_t bytes);
    void tell_quiet();
    bool has_begun(const Op &op);
    void withdraw_notify(Op &op);
    void end_busy(uint64_t seq);
    void last_words(const Failure &why);
    void done(Op &op, Status status);

    SimChannel(SimChannel &from, SimTransport &transport);  // goes on in its place
    void hear_waiting();

    SimTransport *transport_;
    SimNet &net_;
    const std::string remote_;
    uint64_t number_;
    uint32_t there_ = 0;  // the number of the other's process
    SimChannel *other_ = nullptr;
    ChannelSink *sink_ = nullptr;
    PathSink *path_sink_ = nullptr;  // from start() on
    std::unique_ptr<SimCopyPath> copies_;
    uint64_t copy_ = 0;  // a channel that hears our first words as well
    List<Op, InPath> posted_, asked_, withdrawn_;
    std::deque<Leaving> queue_;
    std::deque<Leaving> answers_;  // the first waits for a copy
    MessageReceiver in_;
    uint32_t max_ops_ = 0, count_ = 0;
    uint64_t last_seq_ = 0;
    uint64_t last_due_ = 0;  // of what this end has sent: later parts are not faster
    uint64_t free_at_ = 0;   // when the next part may leave
    uint64_t under_way_ = 0;
    uint64_t heard_ = 0;
    std::deque<uint64_t> dues_;  // of what is under way, to the other end's host
    uint64_t late_ = 0;
    uint64_t generation_ = 0;
    std::vector<uint64_t> quiet_;    // retired regions of which nothing is on its way out any more
    std::deque<Part> unheard_;       // has come, while this end is deaf or between two loops
    std::optional<Failure> untold_;  // it ended there
    bool broken_ = false;            // it hears nothing any more
    bool closing_ = false, lost_ = false, pumping_ = false, receive_paused_ = false;
    bool sent_in_vain_ = false;  // since it is lost
    bool twin_ = false;
    bool control_ = true;  // not a data lane
};

}  // namespace xfer
