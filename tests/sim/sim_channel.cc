// SPDX-License-Identifier: Apache-2.0
#include "sim_channel.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

#include "transport/atomic.h"
#include "wire/hello.h"

namespace xfer {

namespace {

constexpr uint64_t kBusyMostNs = 300 * kNsPerMs;
constexpr uint64_t kHeadBytes = 64;  // what a frame takes on the wire beside its payload

}  // namespace

SimChannel::SimChannel(SimTransport &transport, std::string remote)
    : transport_(&transport),
      net_(transport.net),
      remote_(std::move(remote)),
      number_(++net_.last_channel) {
    net_.channels[number_] = this;
}

// The old one is destroyed later; from here on it is nobody's.
SimChannel::SimChannel(SimChannel &from, SimTransport &transport)
    : transport_(&transport),
      net_(from.net_),
      remote_(from.remote_),
      number_(std::exchange(from.number_, 0)),
      there_(from.there_),
      other_(std::exchange(from.other_, nullptr)),
      copy_(from.copy_),
      queue_(std::move(from.queue_)),
      last_due_(from.last_due_),
      free_at_(from.free_at_),
      under_way_(from.under_way_),
      heard_(from.heard_),
      dues_(std::move(from.dues_)),
      late_(from.late_),
      unheard_(std::move(from.unheard_)),
      lost_(from.lost_),
      pumping_(from.pumping_),
      sent_in_vain_(from.sent_in_vain_),
      twin_(from.twin_),
      control_(from.control_) {
    net_.channels[number_] = this;
    if (other_) other_->other_ = this;
}

SimChannel::~SimChannel() {
    if (number_) net_.channels.erase(number_);
    if (other_) other_->other_ = nullptr;
}

// In the place of a socket it has a descriptor that nothing comes by.
DetachedChannel SimChannel::detach() {
    XFER_CHECK(!closing_ && max_ops_ == 0 && posted_.empty());
    DetachedChannel ticket;
    ticket.fd = Fd(::eventfd(0, EFD_CLOEXEC));
    XFER_CHECK(ticket.fd);
    ticket.remote = remote_;
    net_.detached[ticket.fd.get()].reset(new SimChannel(*this, *transport_));
    return ticket;
}

void SimChannel::set_sink(ChannelSink &sink) {
    sink_ = &sink;
    hear_waiting();
    if (untold_) later(0, [](SimChannel &channel) { channel.ended(*channel.untold_); });
}

void SimChannel::pair(SimChannel &a, SimChannel &b) {
    a.other_ = &b, a.there_ = b.transport_->number;
    b.other_ = &a, b.there_ = a.transport_->number;
}

void SimChannel::later(uint64_t delay, std::function<void(SimChannel &)> call) {
    net_.world.post(transport_->loop, delay,
                    [&net = net_, number = number_, at = transport_, call = std::move(call)] {
                        const auto found = net.channels.find(number);
                        if (found == net.channels.end()) return;
                        SimChannel &channel = *found->second;
                        channel.transport_ == at ? call(channel) : channel.later(0, call);
                    });
}

void SimChannel::up() {
    heard_ = net_.world.now();
    if (!closing_) sink_->on_up();
}

// ---- the way out

void SimChannel::send_hello(ConstBytes bytes) {
    Head head;
    head.kind = Head::hello;
    head.bytes.assign(bytes.begin(), bytes.end());
    auto parsed = decode_hello_header(bytes.data());
    if (parsed && (parsed->kind == HelloKind::lane || parsed->kind == HelloKind::lane_ready))
        control_ = false;
    put_in(std::move(head));
    pump();
}

void SimChannel::start(PathSink &sink, uint32_t max_ops, uint32_t) {
    path_sink_ = &sink;
    max_ops_ = max_ops;
    std::vector<uint64_t> &generations = transport_->process->generations[there_];
    if (control_ && !is_attached()) generations.push_back(net_.world.now());
    generation_ = generations.size();
    receive_paused_ = true;
    if (!net_.copies || scope() != Scope::host) return;
    SimCopyPath::Owner &owner = *this;
    copies_ = std::make_unique<SimCopyPath>(owner, Scope::host);
}

void SimChannel::resume() {
    receive_paused_ = false;
    hear_waiting();
}

void SimChannel::hear_waiting() {
    if (unheard_.empty()) return;
    later(0, [](SimChannel &channel) {
        while (channel.sink_ && !channel.unheard_.empty() && !channel.receive_paused_) {
            const Part part = std::move(channel.unheard_.front());
            channel.unheard_.pop_front();
            channel.take(part);
        }
    });
}

bool SimChannel::send(const Frame &frame, ConstBytes body) {
    if (closing_) return true;
    if (max_ops_ == 0) {  // a bye, read as a frame once the other end has started
        uint8_t bytes[Frame::kSize];
        encode(frame, bytes);
        send_hello(bytes);
        return true;
    }
    if (queue_.size() >= net_.takes_frames) return false;
    ++net_.frames[frame.type];
    Head head;
    head.kind = Head::control;
    head.frame = frame;
    head.bytes.assign(body.begin(), body.end());
    put_in(std::move(head));
    pump();
    return true;
}

Break SimChannel::breaks_at(ChannelStep step) {
    const Break how = net_.on_step ? net_.on_step(*this, step) : Break::none;
    if (how == Break::none) return how;
    broken_ = true;
    cut_both();
    return how;
}

bool SimChannel::post(Op &op) {
    if (breaks_at(ChannelStep::post) == Break::refuse) return false;
    if (count_ >= max_ops_ || count_ >= net_.takes_ops) return false;
    ++count_;
    posted_.push_back(op);
    return true;
}

// Each stays withdrawable until its first byte leaves.
void SimChannel::flush() {
    ++net_.flushes;
    say_answers();
    pump();
}

bool SimChannel::may_leave() const {
    return !queue_.empty() || !posted_.empty();
}

Caps SimChannel::caps() const {
    Caps caps{scope(), max_ops_, kMaxChunk, kMaxPieces};
    if (net_.on_caps) net_.on_caps(*this, caps);
    if (!net_.narrow) return caps;
    caps.max_bytes = kMaxChunk >> number_ % 9;
    caps.max_pieces = 1 + static_cast<uint32_t>(number_ * 7 % 64);
    return caps;
}

void SimChannel::pump() {
    const uint64_t now = net_.world.now();
    while (!closing_ && may_leave() && now >= free_at_ && under_way_ < net_.window) {
        if (net_.chance(net_.cut_one_in)) {
            ++net_.met["cut"];
            return cut_both();
        }
        if (!control_ && net_.chance(net_.cut_lane_one_in)) {
            ++net_.met["data lane cut"];
            return cut_both();
        }
        leave_part(1 + net_.world.random(net_.part_max));
    }
    if (closing_ || !may_leave() || now >= free_at_ || pumping_) return;
    pumping_ = true;
    later(free_at_ - now, [](SimChannel &channel) {
        channel.pumping_ = false;
        channel.pump();
    });
}

// Control words and answers go before requests, as the real sender gathers them.
void SimChannel::leave_part(uint64_t room) {
    if (queue_.empty()) {
        Op &op = *posted_.pop_front();
        Leaving item;
        item.op = &op;
        item.head.kind = Head::request;
        asked_.push_back(op);
        queue_.push_back(std::move(item));
    }
    Leaving &item = queue_.front();
    Part part;
    if (!item.begun) {
        begin(item);
        part.head = std::make_shared<const Head>(item.head);
    }
    const uint64_t bytes = std::min(room, item.head.payload - item.left);
    copy_payload(item, part.payload, bytes);
    part.spoiled = spoil(item, part.payload);
    part.last = item.left == item.head.payload;
    const bool retired = part.last && item.retired;
    const uint64_t region = item.head.access.region;
    Op *const whole = part.last ? item.op : nullptr;
    if (whole && item.blank) whole->notifies = false;
    if (part.last && item.follows) item.follows->left = true;
    if (part.last) {
        drop(item.staged);
        queue_.pop_front();
    }
    if (whole && whole->notifies)
        add_notify(*whole);
    else if (whole)
        whole->left = true;
    dispatch(std::move(part));
    if (!retired) return;
    quiet_.push_back(region);
    later(0, [](SimChannel &channel) { channel.tell_quiet(); });
}

// Right behind the put that it belongs to.
void SimChannel::add_notify(Op &op) {
    Leaving notify;
    notify.follows = &op;
    notify.head.kind = Head::control;
    Frame &frame = notify.head.frame;
    frame.type = FrameType::notify;
    frame.flags = kCounted;
    frame.seq = op.remote.notification;
    frame.region = op.remote.notification_key;
    notify.head.bytes.assign(op.notify_data.begin(), op.notify_data.end());
    notify.head.bytes.resize(notify.head.bytes.size() + kCountBytes);
    store<uint64_t>(&*notify.head.bytes.end() - kCountBytes, op.bytes);
    frame.length = static_cast<uint32_t>(notify.head.bytes.size());
    queue_.push_front(std::move(notify));
}

void SimChannel::begin(Leaving &item) {
    item.begun = true;
    if (!item.op) return;
    Op &op = *item.op;
    Head &head = item.head;
    op.sent = true;
    head.checked = op.checked;
    head.seq = op.seq = ++last_seq_;
    head.dir = op.dir;
    head.access = op.remote;
    head.atomic = op.atomic;
    std::vector<Piece> pieces;
    op.draw(pieces);
    for (const Piece &piece : pieces) {
        head.pieces.push_back({piece.offset, static_cast<uint32_t>(piece.length)});
        if (op.dir != Dir::put) continue;
        item.ranges.push_back({reinterpret_cast<void *>(piece.local), piece.length});
        head.payload += piece.length;
    }
    if (!net_.observer || pieces.empty()) return;
    const void *const local = users_memory(op);
    head.operation = net_.observer->operation_at(local);
    net_.observer->leaves(head.operation, local, there_, op.checked);
}

// What was blanked on its way out has another sum than it left with.
bool SimChannel::spoil(const Leaving &item, std::vector<uint8_t> &payload) {
    if (!item.head.checked || payload.empty()) return false;
    if (item.blank || !net_.chance(net_.spoil_one_in)) return item.blank;
    payload[net_.world.random(payload.size())] ^= 0x80;
    ++net_.met["spoiled"];
    if (net_.observer) net_.observer->spoiled(item.head.operation);
    return true;
}

void SimChannel::copy_payload(Leaving &item, std::vector<uint8_t> &out, uint64_t bytes) {
    out.reserve(bytes);
    uint64_t skip = item.left;
    for (const iovec &range : item.ranges) {
        if (skip >= range.iov_len) {
            skip -= range.iov_len;
            continue;
        }
        const uint64_t some = std::min(range.iov_len - skip, bytes - out.size());
        const auto *from = static_cast<const uint8_t *>(range.iov_base) + skip;
        if (!item.blank && net_.observer) net_.observer->reads(from);
        if (item.blank)
            out.insert(out.end(), some, 0);
        else
            out.insert(out.end(), from, from + some);
        skip = 0;
        if (out.size() == bytes) break;
    }
    item.left += bytes;
}

// When what leaves now arrives; kNever: it does not. Between neighbours no network loses anything:
// the kernel tells each end of the other's.
uint64_t SimChannel::travel() {
    const SimWay &way = net_.way(transport_->number, there_);
    const uint64_t now = net_.world.now();
    const bool cut = way.silent_until == kNever;
    const bool loses = cut && scope() != Scope::host;
    if (net_.silent || loses || transport_->process->dead) lost_ = true;
    if (lost_ && !std::exchange(sent_in_vain_, true) && is_attached())
        later(kAdapterGivesUpNs, [](SimChannel &channel) { channel.cut(); });
    if (lost_ || !other_) return kNever;
    const uint64_t from = cut ? now : std::max(now, way.silent_until);
    last_due_ = std::max(from + net_.delay() + late_, last_due_ + 1);
    while (dues_.size() > 1 && dues_[1] <= now)
        dues_.pop_front();
    dues_.push_back(last_due_);
    net_.last_due = std::max(net_.last_due, last_due_);
    return last_due_ - now;
}

// A host acknowledges what comes, whatever its process does.
std::optional<uint64_t> SimChannel::last_acknowledged() const {
    const uint64_t now = net_.world.now();
    if (scope() == Scope::host || (!sent_in_vain_ && last_due_ <= now)) return std::nullopt;
    const auto next = std::upper_bound(dues_.begin(), dues_.end(), now);
    return next == dues_.begin() ? 0 : *std::prev(next);
}

void SimChannel::dispatch(Part part) {
    const uint64_t bytes = kHeadBytes + part.payload.size();
    const uint64_t slow = net_.way(transport_->number, there_).bytes_per_second;
    const uint64_t rate = slow ? slow : net_.bytes_per_second;
    free_at_ = std::max(free_at_, net_.world.now()) + bytes * 1'000'000'000 / rate;
    under_way_ += bytes;
    if (copy_ && part.head && part.head->kind == Head::hello) {
        const auto twin = net_.channels.find(copy_);
        copy_ = 0;
        if (twin != net_.channels.end())
            twin->second->later(net_.delay(), [part](SimChannel &to) { to.arrived(part); });
    }
    const uint64_t due = travel();
    if (due == kNever) return;
    other_->later(due,
                  [net = &net_, from = number_, part = std::move(part), bytes](SimChannel &to) {
                      const auto sender = net->channels.find(from);
                      if (sender != net->channels.end()) sender->second->credit(bytes);
                      to.arrived(part);
                  });
}

// The peer has taken so much: there is room for more. On the sender's own loop, which may be
// frozen.
void SimChannel::credit(uint64_t bytes) {
    const bool full = under_way_ >= net_.window;
    under_way_ -= bytes;
    if (full && under_way_ < net_.window) later(0, [](SimChannel &channel) { channel.pump(); });
}

// ---- the way in

void SimChannel::arrived(const Part &part) {
    if (closing_ || broken_ || transport_->process->dead) return;
    // A neighbour's end is told by the kernel, whether anybody reads or not.
    const bool hung_up =
        sink_ && scope() == Scope::host && part.head && part.head->kind == Head::end;
    const bool waits = !sink_ || receive_paused_ || !unheard_.empty();
    if (waits && !(hung_up && unheard_.empty())) return unheard_.push_back(part);
    take(part);
}

void SimChannel::take(const Part &part) {
    if (closing_) return;
    heard_ = net_.world.now();
    if (part.head) begin_incoming(*part.head);
    if (closing_) return;
    place(part.payload);
    in_.spoiled |= part.spoiled;
    if (part.last) finish_incoming();
}

void SimChannel::begin_incoming(const Head &head) {
    drop_incoming();  // its rest was cut off by an end
    in_ = {};
    in_.head = head;
    in_.open = true;
    if (head.kind == Head::request) {
        in_.head.status =
            path_sink_->on_access(head.dir, head.access, head.pieces, in_.ranges, in_.staged);
        in_.discard = in_.head.status != XFER_OK;
        if (in_.staged && head.dir == Dir::put)
            net_.bounced[in_.staged->bounce.iov_base] = {head.operation, transport_->number, there_,
                                                         generation_};
        if (!in_.discard && head.access.notification && net_.observer)
            net_.observer->announced(head.access.notification_key, transport_->number);
    } else if (head.kind == Head::answer && head.payload) {
        Op &op = asked_.front();
        in_.discard = op.canceled;
        if (in_.discard) return;
        in_.bounces = op.bounce != nullptr;
        std::vector<Piece> pieces;
        op.draw(pieces);
        for (const Piece &piece : pieces)
            in_.ranges.push_back({reinterpret_cast<void *>(piece.local), piece.length});
    }
}

void SimChannel::place(const std::vector<uint8_t> &payload) {
    size_t at = 0;
    uint64_t skip = in_.arrived;
    in_.arrived += payload.size();
    if (in_.discard || payload.empty()) return;
    for (const iovec &range : in_.ranges) {
        if (skip >= range.iov_len) {
            skip -= range.iov_len;
            continue;
        }
        const size_t some = std::min<size_t>(range.iov_len - skip, payload.size() - at);
        auto *to = static_cast<uint8_t *>(range.iov_base) + skip;
        std::memcpy(to, payload.data() + at, some);
        if (in_.staged)
            ++net_.met["put to a device"];
        else if (net_.observer && in_.head.kind == Head::request)
            net_.observer->lands(in_.head.operation, transport_->number, there_, generation_, to,
                                 some);
        else if (net_.observer && !in_.bounces)
            net_.observer->writes(to);
        skip = 0;
        at += some;
        if (at == payload.size()) break;
    }
}

void SimChannel::finish_incoming() {
    const Head head = std::exchange(in_.head, {});
    in_.open = false;
    switch (head.kind) {
    case Head::hello: {
        auto parsed = decode_hello_header(head.bytes.data());
        if (parsed && parsed->kind == HelloKind::lane) control_ = false;
        if (max_ops_ > 0) return sink_->on_control(*decode_frame(head.bytes.data()), {});
        return sink_->on_hello(head.bytes);
    }
    case Head::control:
        if (!is_attached()) net_.hears(head.frame, *sink_, transport_->number);
        return sink_->on_control(head.frame, head.bytes);
    case Head::end:
        return close({XFER_EPEERLOST, 0, 0, "the peer closed the connection"});
    case Head::answer: {
        if (breaks_at(ChannelStep::answer) != Break::none) return;
        Op &op = asked_.front();
        XFER_CHECK(op.seq == head.seq);
        op.before = head.before;
        return done(op, in_.spoiled ? XFER_ECHECKSUM : head.status);
    }
    case Head::request:
        break;
    }
    Leaving answer;
    answer.head.kind = Head::answer;
    answer.head.seq = head.seq;
    const bool refused = head.status != XFER_OK;
    answer.head.status = in_.spoiled && !refused ? XFER_ECHECKSUM : head.status;
    answer.head.operation = head.operation;
    answer.head.checked = head.checked;
    answer.head.access = head.access;
    if (head.dir == Dir::atomic && !refused) answer.head.before = apply_incoming(head);
    uint64_t bytes = 0;
    for (const iovec &range : in_.ranges)
        bytes += range.iov_len;
    if (head.dir == Dir::get && head.status == XFER_OK) {
        answer.head.payload = bytes;
        answer.ranges = in_.ranges;
    }
    if (refused || in_.spoiled) drop_incoming();
    if (in_.staged && head.dir == Dir::put) in_.staged->apply();
    if (!refused && !in_.spoiled && !in_.staged)
        path_sink_->on_served(head.dir, bytes, {head.access.notification});
    answer.staged = std::exchange(in_.staged, nullptr);
    answers_.push_back(std::move(answer));
    say_answers();
    pump();
}

// In their order: behind one that waits for a copy, the others do.
void SimChannel::say_answers() {
    for (; !answers_.empty(); answers_.pop_front()) {
        Leaving &answer = answers_.front();
        if (answer.staged && !answer.staged->over) return;
        if (answer.staged && answer.staged->status != XFER_OK)
            refuse(answer, answer.staged->status);
        else if (answer.staged && answer.head.payload)
            answer.ranges.assign(1, answer.staged->bounce);
        else
            drop(answer.staged);
        queue_.push_back(std::move(answer));
    }
}

void SimChannel::refuse(Leaving &answer, Status why) {
    drop(answer.staged);
    answer.head.status = why;
    answer.head.payload = 0;
    answer.ranges.clear();
}

// Nothing of it is copied.
void SimChannel::drop_incoming() {
    if (in_.staged) net_.bounced.erase(in_.staged->bounce.iov_base);
    drop(in_.staged);
}

void SimChannel::drop(StagedRequest *&staged) {
    if (!staged) return;
    staged->release();
    staged = nullptr;
}

uint64_t SimChannel::apply_incoming(const Head &head) {
    void *word = in_.ranges[0].iov_base;
    if (net_.observer)
        net_.observer->changes(head.operation, transport_->number, there_, generation_, word);
    return apply(head.atomic, word);
}

void SimChannel::done(Op &op, Status status) {
    op.ListNode<InPath>::unlink();
    for (Leaving &item : queue_)
        if (item.follows == &op) item.follows = nullptr;
    --count_;
    path_sink_->on_done(op, status);
}

// ---- the end of one, of a region's, of all

// It may have been sent by another path before, which declined it.
bool SimChannel::has_begun(const Op &op) {
    for (const Op &other : asked_)
        if (&other == &op) return true;
    return false;
}

bool SimChannel::cancel(Op &op) {
    const bool begun = has_begun(op);
    if (begun) withdraw_notify(op);
    if (begun && net_.chance(net_.busy_one_in)) {
        ++net_.met["busy when canceled"];
        later(net_.world.random(kBusyMostNs),
              [seq = op.seq](SimChannel &channel) { channel.end_busy(seq); });
        return false;
    }
    op.canceled = true;
    if (begun) {
        for (Leaving &item : queue_)
            if (item.op == &op) item.blank = true;
        if (in_.open && in_.head.kind == Head::answer && &asked_.front() == &op) in_.discard = true;
        return true;
    }
    op.ListNode<InPath>::unlink();
    withdrawn_.push_back(op);
    later(0, [](SimChannel &channel) {
        while (!channel.withdrawn_.empty())
            channel.done(channel.withdrawn_.front(), XFER_ECANCELED);
    });
    return true;
}

// It is made of no local memory.
void SimChannel::withdraw_notify(Op &op) {
    if (op.left) return;
    op.notifies = false;
    for (Leaving &item : queue_)
        if (item.follows == &op) store<uint64_t>(&*item.head.bytes.end() - kCountBytes, UINT64_MAX);
}

// What will not let go of memory is ended, as a queue pair goes to its error state.
void SimChannel::end_busy(uint64_t seq) {
    for (const Op &op : asked_)
        if (op.seq == seq) return close({XFER_EPEERLOST, 0, 0, "a canceled operation goes on"});
}

bool SimChannel::retire(Target target, Status why) {
    const uint64_t region = target.wire();
    if (in_.open && in_.head.kind == Head::request && in_.head.dir == Dir::put &&
        in_.head.access.region == region && !in_.discard) {
        in_.discard = true;
        in_.head.status = why;
    }
    bool quiet = true;
    for (Leaving &item : queue_) {
        if (item.op || item.staged || !item.head.payload || item.head.access.region != region)
            continue;
        if (item.begun) {
            item.retired = true;
            quiet = false;
            continue;
        }
        refuse(item, why);
    }
    for (Leaving &answer : answers_)
        if (answer.head.payload && answer.head.access.region == region) refuse(answer, why);
    say_answers();
    if (may_leave()) later(0, [](SimChannel &channel) { channel.pump(); });
    return quiet;
}

void SimChannel::discard(NotificationId notification) {
    const Head &head = in_.head;
    if (!in_.open || head.kind != Head::request || in_.discard) return;
    if (head.dir != Dir::put || head.access.notification != notification.value) return;
    in_.discard = true;
    in_.head.status = XFER_ECANCELED;
}

void SimChannel::cut_both() {
    if (other_) other_->cut();
    cut();
}

void SimChannel::cut() {
    if (other_) other_->other_ = nullptr;
    other_ = nullptr;
    later(net_.delay(), [](SimChannel &channel) {
        channel.close({XFER_EPEERLOST, 0, 0, "the wire broke"});
    });
}

// At the latest before the end.
void SimChannel::tell_quiet() {
    for (const uint64_t region : std::exchange(quiet_, {}))
        path_sink_->on_quiesced(Target::from_wire(region));
}

void SimChannel::close(const Failure &why) {
    if (closing_) return;
    closing_ = true;
    if (net_.linger_max == 0) return last_words(why);
    ++net_.met["lingering end"];
    later(net_.world.random(net_.linger_max),
          [why](SimChannel &channel) { channel.last_words(why); });
}

// What waits leaves as far as the peer takes it; what was posted and has not begun does not.
void SimChannel::last_words(const Failure &why) {
    while (!queue_.empty() && under_way_ < net_.window) {
        if (queue_.front().op && !queue_.front().begun) break;
        const bool half = queue_.front().head.payload != 0;
        leave_part(half ? 1 + net_.world.random(net_.part_max) : 1);
        if (half && net_.chance(2)) break;
    }
    for (Leaving &item : queue_)
        if (item.retired) quiet_.push_back(item.head.access.region);
    for (auto *items : {&queue_, &answers_}) {
        for (Leaving &item : *items)
            drop(item.staged);
        items->clear();
    }
    drop_incoming();
    Part end;
    end.head = std::make_shared<const Head>();
    end.last = true;
    dispatch(std::move(end));
    later(0, [why](SimChannel &channel) { channel.ended(why); });
}

// The path that copies ends before it.
void SimChannel::ended(const Failure &why) {
    if (!sink_) return void(untold_ = why);
    if (copies_ && !copies_->is_over()) return copies_->close(why);
    tell_quiet();
    while (!withdrawn_.empty())
        done(withdrawn_.front(), XFER_ECANCELED);
    while (!asked_.empty())
        done(asked_.front(), XFER_EPEERLOST);
    while (!posted_.empty())
        done(posted_.front(), XFER_EPEERLOST);
    max_ops_ = 0;
    if (path_sink_) path_sink_->on_down(why);
    sink_->on_closed(why);
}

}  // namespace xfer
