// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/channel.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "util/memory.h"
#include "wire/hello.h"
#include "wire/proof.h"

namespace xfer::shm {

namespace {

// Read before others have their turn.
constexpr int kPacketsPerTurn = 32;
constexpr int kMostPackets = 512;  // before a key: more than the socket holds
// For what was left in the rings, until somebody listens.
constexpr uint64_t kUnheardNs = 200 * kNsPerMs;

bool is_hello(ConstBytes bytes) {
    if (bytes.size() < kHelloHeader) return false;
    auto header = decode_hello_header(bytes.data());
    return header ? bytes.size() == kHelloHeader + header->length
                  : header.error().status == XFER_EVERSION;  // who is told why
}

// The acceptor's last message, and no other.
bool brings_segment(ConstBytes hello) {
    auto header = decode_hello_header(hello.data());
    return header && (header->kind == HelloKind::ready || header->kind == HelloKind::lane_ready);
}

}  // namespace

ShmChannel::ShmChannel(Loop &loop, const Log &log, stream::Buffers &buffers, std::string remote)
    : loop_(loop), log_(log), buffers_(buffers), remote_(std::move(remote)) {}

ShmChannel::~ShmChannel() {
    loop_.disarm(unheard_);
}

Failure ShmChannel::carry(Fd fd, bool dialed) {
    rendezvous_ = RendezvousSocket(std::move(fd));
    if (Failure why = rendezvous_.meet(); why.status != XFER_OK) return why;
    watch_ = loop_.watch(rendezvous_.fd(), *this, kReadable);
    if (rendezvous_.process() >= 0)
        process_watch_ = loop_.watch(rendezvous_.process(), process_end_, kReadable);
    if (!watch_ || (rendezvous_.process() >= 0 && !process_watch_))
        return {XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "the loop takes no more descriptors"};
    fork_guard_.hold(rendezvous_.fd());
    last_heard_ = loop_.now();
    dialed_ = dialed;
    if (dialed) loop_.defer(*this);
    return {};
}

// ---- through the rendezvous socket ----

void ShmChannel::on_ready(uint32_t readiness) {
    const bool done = catch_bad_alloc([&] {
        if (readiness & kReadable && rings_ && !unread_)
            read_later();
        else if (readiness & kReadable)
            read();
        if (readiness & kWritable) say();
    });
    if (!done) close(no_memory());
}

// A packet is most often a wake-up for the rings. So they come first: what is in them is answered
// before the packet is taken, which is when the loop would sleep or sees the rendezvous socket
// again.
void ShmChannel::read_later() {
    unread_ = true;
    rings_->rung();
    loop_.look_at(*this);
}

// Takes the wake-up, so that the rendezvous socket is silent; anything else is heard in a turn of
// its own.
bool ShmChannel::doze() {
    if (!std::exchange(unread_, false) || kept_) return true;
    int error = 0;
    if (!catch_bad_alloc([&] { error = rendezvous_.receive(heard_packet_); })) error = ENOMEM;
    if (error != EAGAIN && (error || !heard_packet_.is_bell())) {
        kept_ = error;
        loop_.defer(*this);
    }
    if (rings_) rings_->rung();  // it may have been another wake-up than the one that was seen
    return true;
}

// True: all of it, as far as it has come.
bool ShmChannel::read() {
    unread_ = false;
    Poller::unlink();
    for (int i = 0; i < kPacketsPerTurn && watch_; ++i) {
        const int error = kept_ ? *std::exchange(kept_, {}) : rendezvous_.receive(heard_packet_);
        if (error == EAGAIN) return true;
        if (error) return hung_up(error), true;
        last_heard_ = loop_.now();
        if (rings_) rings_->rung();
        if (rings_ && heard_packet_.is_bell()) return false;  // an honest neighbour rings once
        hear(heard_packet_);
    }
    return false;
}

// Its socket may live on, in a child that it has forked and that has not closed it.
void ShmChannel::on_process_end() {
    const bool done = catch_bad_alloc([&] {
        if (!hung_up_ && read() && watch_ && !hung_up_) hung_up(ESRCH);
    });
    if (done) return;
    process_watch_.reset();  // which stays readable
    close(no_memory());
}

void ShmChannel::hung_up(int error) {
    hung_up_ = true;
    watch_->want(0);
    process_watch_.reset();
    gone_ = os_failure(error, remote_ + ": the rendezvous socket");
    gone_.status = XFER_EPEERLOST;
    // What it has written comes first, also if nobody listens yet: it may say that it moves here on
    // another lane, which is read later.
    if (rings_ && (heard_ || rings_->unread())) {
        rings_->hang_up();
        if (!heard_) loop_.arm(unheard_, loop_.now() + kUnheardNs);
    } else if (stage_ == Stage::hello || stage_ == Stage::frames) {
        close(gone_);
    }
}

void ShmChannel::hear(Packet &packet) {
    if (stage_ == Stage::hello) return hear_hello(packet);
    if (stage_ != Stage::frames) return;
    if (hear_descriptor(packet)) return;
    if (const auto bye = decode_bye(packet.bytes)) return sink_->on_control(*bye, {});
    close({XFER_EPROTO, XFER_ORIGIN_NONE, 0, remote_ + ": words that nobody says"});
}

void ShmChannel::hear_hello(Packet &packet) {
    if (!is_hello(packet.bytes))
        return close({XFER_EPROTO, XFER_ORIGIN_NONE, 0, remote_ + ": words that nobody says"});
    if (!packet.fds.empty() && spoke_) {  // not from who has not been answered yet
        if (segment_ || !brings_segment(packet.bytes))
            return close({XFER_EPROTO, XFER_ORIGIN_NONE, 0,
                          remote_ + (segment_ ? ": a second segment"
                                              : ": a segment, and not with the last message")});
        auto segment = Segment::take(std::move(packet.fds));
        if (!segment) return close(segment.error());
        join(std::move(*segment), Side::initiator);
    }
    sink_->on_hello(packet.bytes);
}

void ShmChannel::send_hello(ConstBytes message) {
    if (stage_ != Stage::hello) return;
    spoke_ = true;
    const bool done = catch_bad_alloc([&] {
        words_.push_back({{message.begin(), message.end()}, {}});
    });
    if (!done) return close(no_memory());
    loop_.defer(*this);
}

void ShmChannel::say() {
    while (!words_.empty()) {
        std::array<int, kMaxPacketFds> fds{};
        const Packet &packet = words_.front();
        std::transform(packet.fds.begin(), packet.fds.end(), fds.begin(),
                       [](const Fd &fd) { return fd.get(); });
        const int error = rendezvous_.send(packet.bytes, {fds.data(), packet.fds.size()});
        if (error == EAGAIN && watch_ && !hung_up_) return watch_->want(kReadable | kWritable);
        if (error)
            words_.clear();  // the rendezvous socket has closed, which is told by reading
        else
            words_.pop_front();
    }
    if (watch_ && !hung_up_) watch_->want(kReadable);
}

DetachedChannel ShmChannel::detach() {
    say();
    stage_ = Stage::over;
    Task::unlink();
    end_watches();
    return {rendezvous_.release(), {}, std::move(remote_)};
}

// ---- by the rings ----

void ShmChannel::join(std::unique_ptr<Segment> segment, Side side) {
    segment_ = std::move(segment);
    frames_ = std::make_unique<stream::StreamChannel>(loop_, log_, buffers_);
    frames_->set_sink(*this);
    auto rings =
        std::make_unique<RingStream>(loop_, rendezvous_, *segment_, side, frames_->carried());
    rings_ = rings.get();
    frames_->carry(std::move(rings), remote_);
    CopyPath::Owner &owner = *this;
    copies_ = std::make_unique<CopyPath>(loop_, buffers_, rendezvous_, owner, segment_->end(side),
                                         segment_->end(other(side)));
}

// The acceptor's last words bring the segment along.
Failure ShmChannel::share() {
    auto segment = Segment::make();
    if (!segment) return segment.error();
    Fd along(::fcntl((*segment)->descriptor(), F_DUPFD_CLOEXEC, 0));
    if (!along) return os_failure(errno, "a descriptor to share");
    words_.back().fds.push_back(std::move(along));
    join(std::move(*segment), Side::acceptor);
    return {};
}

// Who has the last word of the handshake makes the segment: the other has it already.
void ShmChannel::start(PathSink &sink, uint32_t max_ops, uint32_t serve_ops) {
    path_sink_ = &sink;
    if (stage_ != Stage::hello) return;
    const bool last = !words_.empty();
    if (last == (segment_ != nullptr))
        return close(
            {XFER_EPROTO, XFER_ORIGIN_NONE, 0, remote_ + ": no rings came, or not from there"});
    if (last) {
        Failure why;
        const bool done = catch_bad_alloc([&] { why = share(); });
        if (!done) why = no_memory();
        if (why.status != XFER_OK) {
            words_.clear();  // without a segment they would break the protocol
            return close(why);
        }
    }
    stage_ = Stage::frames;
    path_sink_ = nullptr;  // that of the frames tells it
    frames_->start(sink, max_ops, serve_ops);
}

Path &ShmChannel::path() {
    if (frames_) return frames_->path();
    return no_path_;
}

void ShmChannel::resume() {
    if (stage_ != Stage::frames) return;
    heard_ = true;
    loop_.disarm(unheard_);
    frames_->resume();
}

bool ShmChannel::send(const Frame &frame, ConstBytes body) {
    if (stage_ == Stage::hello) {  // a bye, before there are rings
        uint8_t head[Frame::kSize];
        encode(frame, head);
        send_hello(head);
    }
    return stage_ != Stage::frames || frames_->send(frame, body);
}

uint64_t ShmChannel::last_heard() const {
    return frames_ ? std::max(last_heard_, frames_->last_heard()) : last_heard_;
}

void ShmChannel::on_control(const Frame &frame, ConstBytes body) {
    sink_->on_control(frame, body);
}

// ---- descriptors, before the keys that name them ----

bool ShmChannel::hear_descriptor(Packet &packet) {
    const auto mapping = decode_mapping(packet.bytes);
    if (mapping && packet.fds.size() == 1) copies_->take(*mapping, std::move(packet.fds[0]));
    return mapping.has_value();
}

int ShmChannel::send_descriptor(MappingId mapping, int fd) {
    const uint64_t number = mapping.value;
    const ConstBytes bytes{reinterpret_cast<const uint8_t *>(&number), sizeof number};
    return words_.empty() ? rendezvous_.send(bytes, {&fd, 1}) : EAGAIN;
}

// A key is heard in the midst of a read of the rings: what else is found here is heard in a turn of
// its own.
void ShmChannel::read_descriptors() {
    for (int i = 0; i < kMostPackets; ++i) {
        const int error = kept_ ? *kept_ : rendezvous_.receive(heard_packet_);
        if (error == EAGAIN) return;
        const bool woken = !error && heard_packet_.is_bell();
        if (woken || (!error && hear_descriptor(heard_packet_)))
            kept_.reset();
        else
            kept_ = error;
        woken_ |= woken;
        loop_.defer(*this);
        if (kept_) return;
    }
}

// ---- a turn, and the end ----

void ShmChannel::run() {
    if (kept_ && !catch_bad_alloc([&] { read(); })) close(no_memory());
    if (std::exchange(woken_, false) && rings_) rings_->rung();
    if (stage_ != Stage::over) say();
    if (dialed_ && stage_ == Stage::hello) {
        dialed_ = false;
        sink_->on_up();
    }
    if (stage_ == Stage::closing && !rings_) finish();
}

void ShmChannel::end_watches() {
    watch_.reset();
    process_watch_.reset();
    fork_guard_.drop();
}

void ShmChannel::close(const Failure &why) {
    if (stage_ == Stage::closing || stage_ == Stage::over) return;
    const bool speaks = stage_ == Stage::frames;
    stage_ = Stage::closing;
    why_ = why;
    if (copies_) copies_->close(why);
    if (speaks) return frames_->close(why);
    rings_ = nullptr;
    frames_.reset();
    loop_.defer(*this);
}

void ShmChannel::on_closed(const Failure &why) {
    if (stage_ == Stage::frames) why_ = why;
    stage_ = Stage::closing;
    rings_ = nullptr;
    loop_.defer(*this);
}

void ShmChannel::on_timer(Timer &) {
    close(gone_);
}

void ShmChannel::on_copies_over() {
    loop_.defer(*this);
}

// The socket tells whether the neighbour lives, which who copies still is asked about.
void ShmChannel::finish() {
    if (copies_) copies_->close(why_);
    if (copies_ && !copies_->is_over()) return;
    stage_ = Stage::over;
    Poller::unlink();
    end_watches();
    rendezvous_ = RendezvousSocket(Fd());
    if (path_sink_) path_sink_->on_down(why_);
    sink_->on_closed(why_);
}

}  // namespace xfer::shm
