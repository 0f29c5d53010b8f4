// SPDX-License-Identifier: Apache-2.0
#include "transport/loopback/loopback.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/atomic.h"

namespace xfer {

namespace {

constexpr uint64_t kCopiedPerTurn = 1 << 20;  // copied before others have their turn
constexpr size_t kWaitingBytes = 128 * 1024;  // of messages

class LoopbackChannel final : public Channel, Path, Task {
public:
    explicit LoopbackChannel(Loop &loop) : loop_(loop) {
        pieces_.reserve(kMaxPieces);
        wire_pieces_.reserve(kMaxPieces);
    }

    void set_sink(ChannelSink &sink) override { sink_ = &sink; }
    std::string remote() const override { return "loopback"; }
    Scope scope() const override { return Scope::process; }
    Path &path() override { return *this; }
    OneSidedPath *one_sided() override { return nullptr; }
    void send_hello(ConstBytes message) override {
        deliver_soon({{}, {message.begin(), message.end()}, true});
    }
    DetachedChannel detach() override;
    void start(PathSink &sink, uint32_t max_ops, uint32_t) override {
        path_sink_ = &sink;
        max_ops_ = max_ops;
        staged_.reserve(max_ops);
        receive_paused_ = true;
    }
    void resume() override {
        receive_paused_ = false;
        loop_.defer(*this);
    }
    bool send(const Frame &frame, ConstBytes body) override;
    void close(const Failure &why) override;
    uint64_t last_heard() const override { return loop_.now(); }

private:
    Caps caps() const override { return {scope(), max_ops_, kMaxChunk, kMaxPieces}; }
    bool post(Op &op) override;
    void flush() override { loop_.defer(*this); }
    bool cancel(Op &op) override;
    bool retire(Target target, Status why) override;
    void discard(NotificationId) override {}

    using Ops = List<Op, InPath>;
    struct Message {
        Frame frame;
        std::vector<uint8_t> body;
        bool hello = false;
    };
    void run() override;
    void deliver_soon(Message message);
    void deliver();
    void work();
    void move(Op &op);
    void stage(Op &op, StagedRequest &request);
    void finish_staged();
    void copy(const Op &op);
    void finish(Op &op, Status status);
    void fail(Ops &ops, Status status);

    Loop &loop_;
    ChannelSink *sink_ = nullptr;
    PathSink *path_sink_ = nullptr;  // from start() on
    std::vector<Message> messages_;
    size_t waiting_bytes_ = 0;
    Ops posted_, canceled_;
    // Those whose region is memory of a device, with their requests: in their order.
    struct Staged {
        Op *op;
        StagedRequest *request;
        Status refused;
    };
    std::vector<Staged> staged_;
    uint32_t max_ops_ = 0, ops_ = 0;
    bool receive_paused_ = false;  // what was said waits
    bool closing_ = false, over_ = false;
    Failure why_;
    std::vector<Piece> pieces_;
    std::vector<WirePiece> wire_pieces_;
    std::vector<iovec> ranges_;
};

// It has no other loop to go to.
DetachedChannel LoopbackChannel::detach() {
    over_ = true;
    Task::unlink();
    return {Fd(), {}, remote()};
}

bool LoopbackChannel::send(const Frame &frame, ConstBytes body) {
    if (closing_) return true;
    const size_t bytes = Frame::kSize + body.size();
    if (waiting_bytes_ + bytes > kWaitingBytes) return false;
    waiting_bytes_ += bytes;
    deliver_soon({frame, {body.begin(), body.end()}});
    return true;
}

void LoopbackChannel::deliver_soon(Message message) {
    messages_.push_back(std::move(message));
    loop_.defer(*this);
}

bool LoopbackChannel::post(Op &op) {
    if (over_ || ops_ >= max_ops_) return false;
    posted_.push_back(op);
    ++ops_;
    return true;
}

bool LoopbackChannel::cancel(Op &op) {
    op.canceled = true;
    for (const Staged &staged : staged_)
        if (staged.op == &op) return true;
    op.ListNode<InPath>::unlink();
    canceled_.push_back(op);
    loop_.defer(*this);
    return true;
}

// Operations are copied whole or not at all, and the next one is checked before it is.
bool LoopbackChannel::retire(Target target, Status why) {
    for (Staged &staged : staged_) {
        if (!(staged.op->remote.target() == target) || staged.op->dir == Dir::put) continue;
        if (!staged.request || staged.request->over) continue;
        std::exchange(staged.request, nullptr)->release();
        staged.refused = why;
        loop_.defer(*this);
    }
    return true;
}

void LoopbackChannel::close(const Failure &why) {
    if (closing_ || over_) return;
    closing_ = true;
    why_ = why;
    loop_.defer(*this);
}

void LoopbackChannel::run() {
    deliver();
    fail(canceled_, XFER_ECANCELED);
    if (!closing_) return work();
    over_ = true;
    for (Staged &staged : staged_) {
        if (staged.request) std::exchange(staged.request, nullptr)->release();
        if (staged.refused == XFER_OK) staged.refused = XFER_EPEERLOST;
    }
    finish_staged();
    while (ops_ > 0) {
        fail(canceled_, XFER_ECANCELED);
        fail(posted_, XFER_EPEERLOST);
    }
    if (path_sink_) path_sink_->on_down(why_);
    sink_->on_closed(why_);
}

void LoopbackChannel::deliver() {
    if (receive_paused_) return;
    std::vector<Message> messages;
    messages.swap(messages_);
    waiting_bytes_ = 0;
    for (const Message &message : messages) {
        if (message.hello)
            sink_->on_hello(message.body);
        else
            sink_->on_control(message.frame, message.body);
    }
}

void LoopbackChannel::work() {
    finish_staged();
    for (uint64_t moved = 0; moved < kCopiedPerTurn && !closing_ && !posted_.empty();) {
        Op &op = posted_.front();
        moved += op.bytes;
        move(op);
    }
    if (!posted_.empty()) loop_.defer(*this);
}

void LoopbackChannel::move(Op &op) {
    pieces_.clear();
    wire_pieces_.clear();
    ranges_.clear();
    op.draw(pieces_);
    for (const Piece &piece : pieces_)
        wire_pieces_.push_back({piece.offset, static_cast<uint32_t>(piece.length)});
    StagedRequest *staged = nullptr;
    const Status status = path_sink_->on_access(op.dir, op.remote, wire_pieces_, ranges_, staged);
    if (status != XFER_OK) return finish(op, status);
    if (staged) return stage(op, *staged);
    if (op.dir == Dir::atomic)
        op.before = apply(op.atomic, ranges_[0].iov_base);
    else
        copy(op);
    path_sink_->on_served(op.dir, op.bytes, {op.remote.notification});
    finish(op, XFER_OK);
}

void LoopbackChannel::stage(Op &op, StagedRequest &request) {
    op.ListNode<InPath>::unlink();
    staged_.push_back({&op, &request, XFER_OK});
    if (op.dir == Dir::put) {
        op.sent = true;  // it lands, whatever happens here
        copy(op);
        request.apply();
    }
    if (request.over) loop_.defer(*this);
}

void LoopbackChannel::finish_staged() {
    const auto is_over = [](const Staged &staged) {
        return !staged.request || staged.request->over;
    };
    for (;;) {
        const auto at = std::find_if(staged_.begin(), staged_.end(), is_over);
        if (at == staged_.end()) return;
        const Staged staged = *at;
        staged_.erase(at);
        Op &op = *staged.op;
        const Status status = staged.request ? staged.request->status : staged.refused;
        if (status == XFER_OK && op.dir == Dir::get && !op.canceled) {
            pieces_.clear();
            op.draw(pieces_);
            ranges_.assign(1, staged.request->bounce);
            copy(op);
        }
        if (staged.request) staged.request->release();
        finish(op, status);
    }
}

void LoopbackChannel::copy(const Op &op) {
    size_t at = 0;
    for (const Piece &piece : pieces_) {
        auto *local = reinterpret_cast<uint8_t *>(piece.local);
        for (size_t left = piece.length; left > 0;) {
            iovec &range = ranges_[at];
            const size_t bytes = std::min(left, range.iov_len);
            // The user may move a region within itself.
            if (op.dir == Dir::put)
                std::memmove(range.iov_base, local, bytes);
            else
                std::memmove(local, range.iov_base, bytes);
            local += bytes;
            left -= bytes;
            range.iov_base = static_cast<uint8_t *>(range.iov_base) + bytes;
            range.iov_len -= bytes;
            if (range.iov_len == 0) ++at;
        }
        while (at < ranges_.size() && ranges_[at].iov_len == 0)
            ++at;
    }
}

void LoopbackChannel::finish(Op &op, Status status) {
    op.ListNode<InPath>::unlink();
    --ops_;
    path_sink_->on_done(op, status);
}

void LoopbackChannel::fail(Ops &ops, Status status) {
    while (!ops.empty())
        finish(ops.front(), status);
}

}  // namespace

std::unique_ptr<Channel> make_loopback_channel(Loop &loop) {
    return std::make_unique<LoopbackChannel>(loop);
}

}  // namespace xfer
