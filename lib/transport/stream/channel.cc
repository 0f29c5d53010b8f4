// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/channel.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "transport/stream/socket.h"
#include "transport/stream/socket_stream.h"
#include "util/memory.h"
#include "util/uri.h"

namespace xfer::stream {

namespace {

constexpr int kDropsPerTurn = 64;  // of what comes for a channel that ends
// Of 2 MiB: more than a socket holds.
constexpr int kLastTurns = 32;

}  // namespace

StreamChannel::StreamChannel(Loop &loop, const Log &log, Buffers &buffers)
    : loop_(loop), log_(log), both_(buffers) {}

StreamChannel::~StreamChannel() {
    loop_.disarm(unread_);
}

// ---- dialing ----

void StreamChannel::dial(const Uri &uri) {
    remote_ = to_string(uri);
    WatchSink &watching = *this;
    Task &soon = *this;
    dial_ = std::make_unique<Dial>(loop_, log_, remote_, watching, soon);
    port_ = uri.port_low;
    if (uri.scheme == "unix") {
        dial_->add(unix_address(uri.path));
    } else if (auto numeric = numeric_address(uri.host, port_)) {
        dial_->add(*numeric);
    } else {
        resolving_ = loop_.resolve(uri.host, *this);
        return;
    }
    dial_next();
}

void StreamChannel::on_resolved(Result<std::vector<std::string>> addresses) {
    if (both_.stage != Stage::dialing) return;
    if (!addresses) return close(addresses.error());
    const bool done = catch_bad_alloc([&] {
        dial_->add(*addresses, port_);
        dial_next();
    });
    if (!done) give_up();
}

void StreamChannel::dial_next() {
    if (!dial_->begin_next()) return close(dial_->why());
    if (dial_->has_next()) loop_.arm(unread_, loop_.now() + kNextAddressNs);
}

void StreamChannel::connect() {
    bool failed = false;
    std::unique_ptr<ByteStream> stream = dial_->connected(failed);
    if (!stream) return failed ? dial_next() : void();
    loop_.disarm(unread_);
    carry(std::move(stream), std::move(remote_));
    resolving_.reset();
    dial_.reset();
    in_turn_ = true;
    both_.channel_sink->on_up();
    in_turn_ = false;
    push();
}

bool StreamChannel::carry(Fd fd, std::string remote, ConstBytes unread) {
    std::unique_ptr<Watch> watch = loop_.watch(fd.get(), *this, kReadable);
    if (!watch) return false;
    carry(std::make_unique<SocketStream>(std::move(fd), std::move(watch)), std::move(remote));
    receiver_.put_unread(unread);
    if (!unread.empty()) loop_.defer(*this);
    return true;
}

void StreamChannel::carry(std::unique_ptr<ByteStream> carrier, std::string remote) {
    carrier_ = std::move(carrier);
    remote_ = std::move(remote);
    both_.stage = Stage::hello;
    last_heard_ = loop_.now();
    carrier_->want(kReadable);
}

// ---- a turn ----

void StreamChannel::on_ready(uint32_t readiness) {
    if (lingers_until_) return linger();
    const bool done = catch_bad_alloc([&] {
        if (both_.stage == Stage::dialing) return connect();
        if (readiness & kReadable) read();
        push();
    });
    if (!done) give_up();
}

// Some of what it was about to do is half done: nothing follows on that but the end.
void StreamChannel::give_up() {
    in_turn_ = false;
    close(no_memory());
}

// False: there is more.
bool StreamChannel::read() {
    if (!both_.hears()) return true;
    in_turn_ = true;
    Receiver::Read read = receiver_.read(*carrier_, last_heard_, loop_.now());
    in_turn_ = false;
    if (read == Receiver::Read::ended) {
        break_off(why_ended());
    } else if (receiver_.idle()) {
        both_.responses.hurry();
    }
    return read != Receiver::Read::more;
}

// The kernel tells of a reset or a timeout once: after a write that was told, a read is told of a
// mere end.
Failure StreamChannel::why_ended() const {
    const Failure &heard = receiver_.failure();
    const int error = sender_.error();
    const bool told = error == ECONNRESET || error == ETIMEDOUT;
    if (!told || heard.status != XFER_EPEERLOST || heard.native != 0) return heard;
    Failure why = os_failure(error, "sending");
    why.status = XFER_EPEERLOST;
    return why;
}

// What has come before and could not be looked at.
void StreamChannel::parse() {
    in_turn_ = true;
    const bool understood = receiver_.parse();
    in_turn_ = false;
    if (!understood) return break_off(receiver_.failure());
    receiver_.settle();
    if (receiver_.idle()) both_.responses.hurry();
}

// Sends what there is to send, and asks to be told when more can be sent.
void StreamChannel::push() {
    if (!both_.open() || in_turn_ || sender_.failed()) return;
    const Sender::Sent sent = sender_.send(*carrier_);
    pace();
    const uint32_t ears = both_.hears() ? kReadable : 0u;
    switch (sent) {
    case Sender::Sent::all:
        carrier_->want(ears);
        break;
    case Sender::Sent::blocked:
    case Sender::Sent::more:
        carrier_->want(ears | kWritable);
        break;
    case Sender::Sent::failed:
        carrier_->want(ears);
        loop_.defer(*this);
    }
    if (sender_.has_quiet() || sender_.has_unmapped()) loop_.defer(*this);
}

// Who asks and does not read what it is answered is not heard until it does.
void StreamChannel::pause() {
    if (std::exchange(both_.paused, true)) return;
    left_ = sender_.left();
    loop_.arm(unread_, loop_.now() + kUnreadMs * kNsPerMs);
}

void StreamChannel::pace() {
    if (!both_.paused) return;
    if (std::exchange(left_, sender_.left()) != sender_.left()) {
        last_heard_ = loop_.now();  // it reads: as good as a word
        loop_.arm(unread_, loop_.now() + kUnreadMs * kNsPerMs);
    }
    if (sender_.waiting() > pause_at()) return;
    both_.paused = false;
    loop_.disarm(unread_);
    loop_.defer(*this);  // with a look at what has come meanwhile
}

void StreamChannel::on_timer(Timer &) {
    if (both_.stage == Stage::dialing) {
        if (!catch_bad_alloc([&] { dial_next(); })) give_up();
        return;
    }
    if (lingers_until_) return linger();
    close({XFER_EPEERLOST, XFER_ORIGIN_OS, ETIMEDOUT,
           remote_ + ": the peer does not read its control channel"});
}

void StreamChannel::send_soon() {
    if (!in_turn_) loop_.defer(*this);
}

void StreamChannel::run() {
    if (!catch_bad_alloc([&] { take_turn(); })) give_up();
    tell();
    if (both_.stage == Stage::closing && !lingers_until_) finish();
}

void StreamChannel::take_turn() {
    if (both_.stage == Stage::dialing) return connect();
    if (both_.hears() && receiver_.has_unread()) parse();
    push();
    if (sender_.failed() && both_.open()) hear_last();
}

// The peer may have told why it hung up, before it did. One that never ends is not heard for ever.
void StreamChannel::hear_last() {
    both_.paused = false;
    loop_.disarm(unread_);
    if (both_.hears() && !read() && ++last_turns_ < kLastTurns) return loop_.defer(*this);
    Failure why = os_failure(sender_.error(), remote_ + ": sending");
    if (why.status != XFER_ENOMEM) why.status = XFER_EPEERLOST;
    close(why);
}

// What could not be told at once.
void StreamChannel::tell() {
    if (sender_.has_quiet())
        for (const Target target : sender_.take_quiet())
            both_.path_sink->on_quiesced(target);
    if (const auto target = sender_.take_unmapped()) both_.path_sink->on_unmapped(*target);
    if (both_.path_sink) both_.send_queue.deliver_canceled(*both_.path_sink);
}

// ---- the handshake ----

void StreamChannel::send_hello(ConstBytes message) {
    if (both_.stage != Stage::hello) return;
    if (!catch_bad_alloc([&] { sender_.append(message); })) return give_up();
    send_soon();
}

DetachedChannel StreamChannel::detach() {
    XFER_CHECK(both_.stage == Stage::hello);
    std::vector<uint8_t> unread = receiver_.take_unread();
    in_turn_ = false;
    push();
    both_.stage = Stage::over;
    ListNode<>::unlink();
    return {carrier_->release(), std::move(unread), std::move(remote_)};
}

void StreamChannel::start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) {
    both_.path_sink = &sink;
    if (both_.stage != Stage::hello) return;
    both_.send_queue.start(max_ops);
    both_.responses.start(serve_ops);
    both_.stage = Stage::frames;
    both_.receive_paused = true;
}

void StreamChannel::resume() {
    if (!both_.open()) return;
    both_.receive_paused = false;
    send_soon();  // with a look at what has come
}

// ---- frames and operations ----

bool StreamChannel::send(const Frame &frame, ConstBytes body) {
    if (both_.stage != Stage::frames && both_.stage != Stage::hello) return true;
    XFER_CHECK(body.size() == frame.length && body.size() <= kMaxControl);
    // A signal may have a bye in it, of a channel that goes by this one.
    says_bye_ = (frame.type == FrameType::bye && frame.status != XFER_EPEERLOST) ||
                frame.type == FrameType::path_signal;
    uint8_t head[Frame::kSize];
    encode(frame, head);
    bool taken = false;
    const bool done = catch_bad_alloc([&] {
        taken = !in_turn_ && carrier_->direct() && sender_.control_now(*carrier_, head, body);
        if (!taken) taken = sender_.control(head, body);
        if (taken) return;
        // That may be no more than what one turn has to say.
        sender_.send_control(*carrier_);
        taken = sender_.control(head, body);
    });
    if (!done) return give_up(), true;  // its end tells
    if (sender_.failed()) loop_.defer(*this);
    // Signals have a window of their own, and their other end may have as many to say: neither is
    // to stop reading for that.
    if (frame.type != FrameType::path_signal && sender_.waiting() > pause_at()) pause();
    if (taken && sender_.waiting() > 0) send_soon();
    return taken;
}

std::optional<uint64_t> StreamChannel::last_acknowledged() const {
    const auto ms = carrier_ ? carrier_->unacknowledged_ms() : std::nullopt;
    if (!ms) return std::nullopt;
    return loop_.now() - std::min(loop_.now(), *ms * kNsPerMs);
}

bool StreamChannel::post(Op &op) {
    // A channel that is about to end takes it too, and says so with on_done.
    if ((both_.stage != Stage::frames && both_.stage != Stage::closing) || both_.send_queue.full())
        return false;
    both_.send_queue.post(op);
    return true;
}

void StreamChannel::flush() {
    push();
}

bool StreamChannel::cancel(Op &op) {
    if (both_.send_queue.withdraw(op)) {
        loop_.defer(*this);
    } else {
        sender_.blank(op);
        receiver_.cancel(op);
    }
    return true;
}

bool StreamChannel::retire(Target target, Status why) {
    both_.responses.retire(target, why);
    receiver_.retire(target, why);
    const bool quiet = sender_.retire(target);
    // What waited for a copy is refused at once.
    if (sender_.failed() || both_.responses.due()) loop_.defer(*this);
    return quiet;
}

// ---- the end ----

// We give up: the peer is told why if it broke the protocol.
void StreamChannel::break_off(const Failure &why) {
    if (both_.stage == Stage::frames && why.status == XFER_EPROTO) {
        Frame bye;
        bye.type = FrameType::bye;
        bye.status = why.status;
        uint8_t head[Frame::kSize];
        encode(bye, head);
        if (!catch_bad_alloc([&] { sender_.append(head); })) return give_up();
    }
    Failure told = why;
    told.message = remote_ + ": " + why.message;
    close(told);
}

void StreamChannel::close(const Failure &why) {
    if (both_.stage == Stage::closing || both_.stage == Stage::over) return;
    // A refusal and the end are one packet: who has not proved itself costs as little as it can.
    if (both_.stage == Stage::hello && carrier_ && !says_bye_) carrier_->cork();
    if (why.status == XFER_EPEERLOST) says_bye_ = false;
    both_.stage = Stage::closing;
    why_ = why;
    loop_.defer(*this);
}

void StreamChannel::finish() {
    log_.debug("{}: closed: {}", remote_, why_.message);
    resolving_.reset();
    dial_.reset();
    loop_.disarm(unread_);
    both_.responses.hurry();
    lingers_until_ = loop_.now() + (says_bye_ ? kLingerMs * kNsPerMs : 0);
    linger();
}

// What comes for a socket that was closed is answered with a reset, which drops a bye that has not
// arrived: its peer would take a clean end for a crash. So all that was begun leaves, and the peer
// has it or hangs up, before the socket is closed.
void StreamChannel::linger() {
    const auto sent = carrier_ ? sender_.send(*carrier_) : Sender::Sent::failed;
    const bool arrived = sent == Sender::Sent::all && carrier_->delivered();
    if (sent == Sender::Sent::failed || arrived || loop_.now() >= lingers_until_ || !drop_arrived())
        return end();
    carrier_->want(sent == Sender::Sent::all ? kReadable : kReadable | kWritable);
    loop_.arm(unread_, loop_.now() + kLingerLookMs * kNsPerMs);
}

// A peer that waits for us to read might not read itself. False: it has hung up.
bool StreamChannel::drop_arrived() {
    std::array<uint8_t, 32 * 1024> nowhere;
    const iovec into{nowhere.data(), nowhere.size()};
    for (int i = 0; i < kDropsPerTurn; ++i) {
        const ssize_t dropped = carrier_->read({&into, 1});
        if (dropped < 0 && errno == EAGAIN) break;
        if (dropped == 0 || (dropped < 0 && errno != EINTR)) return false;
    }
    return true;
}

void StreamChannel::end() {
    loop_.disarm(unread_);
    if (carrier_) carrier_->end();
    carrier_.reset();
    sender_.abandon();
    both_.responses.abandon();
    receiver_.abandon();
    both_.stage = Stage::over;
    tell();
    if (both_.path_sink) {
        both_.send_queue.fail_all(XFER_EPEERLOST, *both_.path_sink);
        both_.path_sink->on_down(why_);
    }
    both_.channel_sink->on_closed(why_);
}

}  // namespace xfer::stream
