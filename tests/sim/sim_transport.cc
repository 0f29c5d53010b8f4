// SPDX-License-Identifier: Apache-2.0
#include "sim_transport.h"

#include <algorithm>
#include <cstring>

#include "util/uri.h"

namespace xfer {

namespace {

struct Message {
    enum Kind { hello, control, request, answer, end } kind;
    std::vector<uint8_t> bytes;  // of a hello, a control frame's body, a put or the data of a get
    Frame frame;
    Dir dir = Dir::put;
    Access access;
    std::vector<WirePiece> pieces;
    uint64_t seq = 0;
    Status status = XFER_OK;
};

}  // namespace

// One end. What it hands over is copied at once, so that its buffers are quiet as soon as it has
// flushed.
class SimLink final : public Link {
public:
    SimLink(SimTransport &transport, std::string remote)
        : transport_(transport),
          net_(transport.net),
          remote_(std::move(remote)),
          number_(++net_.last_link) {
        net_.links[number_] = this;
    }
    ~SimLink() override {
        net_.links.erase(number_);
        if (other_) other_->other_ = nullptr;
    }

    static void pair(SimLink &a, SimLink &b) {
        a.other_ = &b;
        b.other_ = &a;
    }
    void set_sink(LinkSink &sink) override { sink_ = &sink; }
    std::string remote() const override { return remote_; }
    void send_hello(ConstBytes bytes) override {
        Message message{};
        message.kind = Message::hello;
        message.bytes.assign(bytes.begin(), bytes.end());
        carry(std::move(message));
    }
    LinkTicket detach() override { return {}; }
    void start(uint32_t max_ops, uint32_t) override { max_ops_ = max_ops; }
    bool send(const Frame &frame, ConstBytes body) override {
        Message message{};
        message.kind = Message::control;
        message.frame = frame;
        message.bytes.assign(body.begin(), body.end());
        carry(std::move(message));
        return true;
    }
    bool post(Op &op) override {
        if (count_ >= max_ops_) return false;
        ++count_;
        posted_.push_back(op);
        return true;
    }
    void flush() override;
    bool cancel(Op &op) override;
    bool retire(uint64_t, Status) override { return true; }
    void close(const Failure &why) override;
    uint64_t last_heard() const override { return heard_; }

    // The wire breaks: this end notices after a while.
    void cut() {
        other_ = nullptr;
        later(net_.delay(), [this] { close({XFER_EPEERLOST, 0, 0, "the wire broke"}); });
    }
    // Calls on this end's loop, unless the link is gone by then.
    void later(uint64_t delay, std::function<void()> call) {
        net_.world.post(transport_.loop, delay,
                        [&net = net_, number = number_, call = std::move(call)] {
                            if (net.links.count(number)) call();
                        });
    }
    LinkSink *sink() { return sink_; }
    void up() {
        heard_ = net_.world.now();
        if (!closing_) sink_->on_up();
    }

private:
    void carry(Message message);
    void arrive(const Message &message);
    void serve(const Message &message);
    void finish(const Message &message);
    void done(Op &op, Status status) {
        op.ListNode<InLink>::unlink();
        --count_;
        sink_->on_done(op, status);
    }

    SimTransport &transport_;
    SimNet &net_;
    const std::string remote_;
    const uint64_t number_;
    SimLink *other_ = nullptr;
    LinkSink *sink_ = nullptr;
    List<Op, InLink> posted_, asked_;
    uint32_t max_ops_ = 0, count_ = 0;
    uint64_t last_seq_ = 0;
    uint64_t last_due_ = 0;  // of what this end has sent: later messages are not faster
    uint64_t heard_ = 0;
    bool closing_ = false;
    bool gap_ = false;
};

void SimLink::carry(Message message) {
    if (closing_ || !other_) return;
    if (net_.chance(net_.cut_one_in)) {
        SimLink *other = other_;
        other->cut();
        return cut();
    }
    // What follows a lost message is of no use: no stream delivers across a gap.
    gap_ = gap_ || net_.silent;
    if (gap_) return;
    last_due_ = std::max(net_.world.now() + net_.delay(), last_due_ + 1);
    other_->later(last_due_ - net_.world.now(),
                  [to = other_, message = std::move(message)] { to->arrive(message); });
}

void SimLink::arrive(const Message &message) {
    if (closing_ || !sink_) return;
    heard_ = net_.world.now();
    switch (message.kind) {
    case Message::hello:
        return sink_->on_hello(message.bytes);
    case Message::control:
        return sink_->on_control(message.frame, message.bytes);
    case Message::request:
        return serve(message);
    case Message::answer:
        return finish(message);
    case Message::end:
        return close({XFER_EPEERLOST, 0, 0, "the peer closed the connection"});
    }
}

void SimLink::flush() {
    while (Op *op = posted_.pop_front()) {
        std::vector<Piece> pieces;
        op->draw(pieces);
        Message message{};
        message.kind = Message::request;
        message.dir = op->dir;
        message.access = op->remote;
        message.seq = op->seq = ++last_seq_;
        for (const Piece &piece : pieces) {
            message.pieces.push_back({piece.offset, static_cast<uint32_t>(piece.length)});
            const auto *from = reinterpret_cast<const uint8_t *>(piece.local);
            if (op->dir == Dir::put)
                message.bytes.insert(message.bytes.end(), from, from + piece.length);
        }
        op->sent = true;
        asked_.push_back(*op);
        carry(std::move(message));
    }
}

void SimLink::serve(const Message &message) {
    Message answer{};
    answer.kind = Message::answer;
    answer.seq = message.seq;
    std::vector<iovec> ranges;
    answer.status = sink_->on_access(message.dir, message.access, message.pieces, ranges);
    uint64_t at = 0;
    for (const iovec &range : ranges) {
        auto *memory = static_cast<uint8_t *>(range.iov_base);
        if (message.dir == Dir::put)
            std::copy_n(message.bytes.begin() + static_cast<ptrdiff_t>(at), range.iov_len, memory);
        else
            answer.bytes.insert(answer.bytes.end(), memory, memory + range.iov_len);
        at += range.iov_len;
    }
    if (answer.status == XFER_OK) sink_->on_served(message.dir, at);
    carry(std::move(answer));
}

void SimLink::finish(const Message &message) {
    Op &op = asked_.front();
    XFER_CHECK(op.seq == message.seq);
    if (op.dir == Dir::get && message.status == XFER_OK && !op.canceled) {
        std::vector<Piece> pieces;
        op.draw(pieces);
        const uint8_t *from = message.bytes.data();
        for (const Piece &piece : pieces) {
            std::memcpy(reinterpret_cast<void *>(piece.local), from, piece.length);
            from += piece.length;
        }
    }
    done(op, message.status);
}

bool SimLink::cancel(Op &op) {
    op.canceled = true;
    if (op.sent) return true;
    later(0, [this, &op] {
        if (!op.sent && op.ListNode<InLink>::linked()) done(op, XFER_ECANCELED);
    });
    return true;
}

void SimLink::close(const Failure &why) {
    if (closing_) return;
    if (other_) carry({Message::end, {}, {}, {}, {}, {}, 0, 0});
    closing_ = true;
    later(0, [this, why] {
        while (!asked_.empty())
            done(asked_.front(), XFER_EPEERLOST);
        while (!posted_.empty())
            done(posted_.front(), XFER_EPEERLOST);
        sink_->on_down(why);
    });
}

// ---- dialing and listening

namespace {

class SimListener final : public Listener {
public:
    SimListener(SimNet &net, std::string uri) : net_(net), uri_(std::move(uri)) {}
    ~SimListener() override { net_.listeners.erase(uri_); }
    std::string bound() const override { return uri_; }

private:
    SimNet &net_;
    const std::string uri_;
};

}  // namespace

Result<std::unique_ptr<Listener>> SimTransport::listen(const Uri &uri, AcceptSink &sink) {
    const std::string text = to_string(uri);
    if (net.listeners.count(text)) return Failure{XFER_EADDRINUSE, 0, 0, "taken"};
    net.listeners[text] = {this, &sink};
    return std::unique_ptr<Listener>(new SimListener(net, text));
}

Result<std::unique_ptr<Link>> SimTransport::connect(const Uri &uri, LinkSink &sink) {
    ++net.dials;
    const std::string text = to_string(uri);
    auto link = std::make_unique<SimLink>(*this, text);
    link->set_sink(sink);
    SimLink *end = link.get();
    end->later(net.delay(), [this, end, text] {
        auto at = net.listeners.find(text);
        if (at == net.listeners.end() || net.closed.count(text) || net.chance(net.refuse_one_in))
            return end->close({XFER_EUNREACHABLE, 0, 0, "refused"});
        auto [owner, accept] = at->second;
        auto far = std::make_unique<SimLink>(
            *owner, "tcp://10.0.0.1:" + std::to_string(1024 + net.last_link % 60000));
        SimLink::pair(*end, *far);
        accept->on_accept(std::move(far));
        end->up();
    });
    return std::unique_ptr<Link>(std::move(link));
}

void SimNet::cut_all() {
    for (auto &[number, link] : links)
        link->cut();
}

}  // namespace xfer
