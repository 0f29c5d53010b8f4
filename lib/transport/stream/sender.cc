// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/sender.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include "util/memory.h"
#include "wire/crc32c.h"

namespace xfer::stream {

namespace {

constexpr size_t kKeptControl = kControlPause;  // of a buffer that others go on with
// Of one batch; the frame that reaches one of them is its last.
constexpr size_t kBurstBytes = 1 << 20;
constexpr size_t kBurstVectors = IOV_MAX;
// Sent by one channel before others have their turn.
constexpr size_t kSentPerTurn = 4 << 20;

// More bytes than any put has.
constexpr uint64_t kNeverApplied = UINT64_MAX;

// Stands in for the memory of canceled operations.
alignas(64) constexpr uint8_t kZeros[kMaxChunk] = {};

bool inside(const uint8_t (&head)[kHeadBytes], const void *pointer) {
    auto *at = static_cast<const uint8_t *>(pointer);
    return std::less_equal<>{}(&head[0], at) && std::less<>{}(at, &head[0] + kHeadBytes);
}

}  // namespace

// ---- GatherBatch ----

uint8_t *GatherBatch::add_head(size_t size) {
    uint8_t *at = head + head_used;
    head_used += size;
    bytes += size;
    iovec *last = vectors.empty() ? nullptr : &vectors.back();
    if (last && inside(head, last->iov_base))
        last->iov_len += size;
    else
        vectors.push_back({at, size});
    return at;
}

void GatherBatch::add_payload(const void *base, size_t size) {
    if (size == 0) return;
    vectors.push_back({const_cast<void *>(base), size});
    bytes += size;
}

void GatherBatch::clear() {
    vectors.clear();
    parts.clear();
    head_used = bytes = sent = vector_at = started_at = part_at = 0;
    singly = false;
}

// ---- building ----

void Sender::append(ConstBytes bytes) {
    if (bytes.empty()) return;
    if (!control_) control_ = both_.buffers.controls.take();
    control_->insert(control_->end(), bytes.begin(), bytes.end());
}

// Where memory lacks in the midst of a frame nothing follows on it.
bool Sender::control(ConstBytes head, ConstBytes body) {
    if (waiting() + head.size() + body.size() > kMaxControlWaiting) return false;
    const bool done = catch_bad_alloc([&] {
        append(head);
        append(body);
    });
    if (!done) fail_without_memory();
    return true;
}

bool Sender::control_now(ByteStream &carrier, ConstBytes head, ConstBytes body) {
    if (batch_ || waiting() > 0 || failed()) return false;
    const iovec words[] = {{const_cast<uint8_t *>(head.data()), head.size()},
                           {const_cast<uint8_t *>(body.data()), body.size()}};
    const ssize_t written = carrier.write(words);
    if (written <= 0) return false;  // what is wrong will show when it is sent
    const auto sent = static_cast<size_t>(written);
    left_ += sent;
    const size_t of_head = std::min(sent, head.size());
    return control(head.subspan(of_head), body.subspan(sent - of_head));
}

void Sender::send_control(ByteStream &carrier) {
    if (!batch_ && !failed() && waiting() > 0) write_control(carrier);
}

bool Sender::write_control(ByteStream &carrier) {
    const iovec words{control_->data() + control_at_, waiting()};
    const ssize_t sent = carrier.write({&words, 1});
    if (sent < 0) {
        if (errno != EINTR && errno != EAGAIN) error_ = errno;  // it may be told once
        return false;
    }
    left_ += static_cast<uint64_t>(sent);
    drop_control(static_cast<size_t>(sent));
    return waiting() == 0;
}

bool Sender::wants() const {
    return waiting() > 0 || both_.responses.due() ||
           (both_.stage == Stage::frames && both_.send_queue.waiting());
}

bool Sender::only_control() const {
    return waiting() > 0 && !both_.responses.waiting() &&
           !(both_.stage == Stage::frames && both_.send_queue.waiting());
}

bool Sender::full() const {
    return batch_->bytes >= kBurstBytes || batch_->vectors.size() >= kBurstVectors ||
           batch_->head_room() < kLargestRequestHead;
}

void Sender::build() {
    batch_ = both_.buffers.bursts.take();
    batch_->clear();
    if (waiting() > 0) add_control();
    while (both_.responses.ready() && !full()) {
        add_response(both_.responses.front());
        both_.responses.pop();
    }
    if (both_.stage != Stage::frames) return;
    while (both_.send_queue.waiting() && !full())
        add_operation(both_.send_queue.depart());
}

// What has no room here fills the next batch first, so nothing comes in between.
void Sender::add_control() {
    size_t fits = std::min(waiting(), batch_->head_room());
    std::memcpy(batch_->add_head(fits), control_->data() + control_at_, fits);
    drop_control(fits);
}

// What is left moves to the front when it is the smaller half, so that each byte moves once.
void Sender::drop_control(size_t bytes) {
    control_at_ += bytes;
    if (waiting() > control_at_) return;
    control_->erase(control_->begin(), control_->begin() + static_cast<ptrdiff_t>(control_at_));
    control_at_ = 0;
    if (!control_->empty()) return;
    if (control_->capacity() <= kKeptControl) both_.buffers.controls.give(std::move(control_));
    control_.reset();
}

void Sender::add_response(const Response &answer) {
    Frame frame;
    frame.type = answer.type;
    frame.flags = answer.checked ? kChecked : 0;
    frame.length = answer.bytes + (answer.checked ? kChecksumBytes : 0);
    frame.seq = answer.seq;
    frame.status = answer.status;
    size_t begin = batch_->bytes;
    uint8_t *to =
        batch_->add_head(Frame::kSize + head_length(frame) + (answer.word ? kAtomicWidth : 0));
    encode(frame, to);
    if (answer.word) store<uint64_t>(to + Frame::kSize, answer.before);
    if (answer.checked) {
        Crc32c sum;
        for (const iovec &range : both_.responses.front_ranges())
            sum.add(range.iov_base, range.iov_len);
        store<uint64_t>(to + Frame::kSize, sum.value());
    }
    size_t first = batch_->vectors.size();
    for (const iovec &range : both_.responses.front_ranges())
        batch_->add_payload(range.iov_base, range.iov_len);
    batch_->parts.push_back({nullptr, answer.region, answer.checked, begin, batch_->bytes, first,
                             batch_->vectors.size(), batch_->bytes, nullptr, answer.staged});
}

void Sender::add_operation(Op &op) {
    std::vector<Piece> &pieces = both_.buffers.pieces;
    pieces.clear();
    op.draw(pieces);
    XFER_CHECK(pieces.size() == op.pieces);
    if (op.dir == Dir::atomic) return add_atomic(op, pieces[0].offset);

    const bool put = op.dir == Dir::put;
    Frame frame;
    frame.type = put ? FrameType::put : FrameType::get;
    if (put && op.remote.notification) frame.flags |= kNotified;
    if (op.checked) frame.flags |= kChecked;
    // When nothing more can follow, only the answer brings us on.
    if (put && (op.last || (both_.send_queue.full() && !both_.send_queue.waiting())))
        frame.flags |= kAckWanted;
    frame.pieces = static_cast<uint16_t>(op.pieces);
    const uint32_t access = head_length(frame);
    frame.length = put ? access + op.bytes : access;
    frame.seq = op.seq;
    frame.region = op.remote.region;
    frame.generation = op.remote.generation;

    size_t begin = batch_->bytes;
    uint8_t *to = batch_->add_head(Frame::kSize + access);
    encode(frame, to);
    to += Frame::kSize;
    store<uint64_t>(to, op.remote.key);
    to += 8;
    if (frame.flags & kNotified) {
        store<uint64_t>(to, op.remote.notification);
        store<uint64_t>(to + 8, op.remote.notification_key);
        to += kNotificationBytes;
    }
    if (put && op.checked) {
        Crc32c sum;
        for (const Piece &piece : pieces)
            sum.add(reinterpret_cast<const void *>(piece.local), piece.length);
        store<uint64_t>(to, sum.value());
        to += kChecksumBytes;
    }
    for (const Piece &piece : pieces) {
        encode(WirePiece{piece.offset, static_cast<uint32_t>(piece.length)}, to);
        to += WirePiece::kSize;
    }
    size_t first = batch_->vectors.size();
    if (put)
        for (const Piece &piece : pieces)
            batch_->add_payload(reinterpret_cast<const void *>(piece.local), piece.length);
    const size_t end = batch_->vectors.size(), notify_at = batch_->bytes;
    uint8_t *const awaited = op.notifies ? add_notify(op) : nullptr;
    batch_->parts.push_back({&op, 0, false, begin, batch_->bytes, first, end, notify_at, awaited});
}

// What it awaits stands last, so that it can be withdrawn until all of it has left.
uint8_t *Sender::add_notify(const Op &op) {
    Frame frame;
    frame.type = FrameType::notify;
    frame.flags = kCounted;
    frame.seq = op.remote.notification;
    frame.region = op.remote.notification_key;
    frame.length = static_cast<uint32_t>(op.notify_data.size()) + kCountBytes;
    uint8_t *const to = batch_->add_head(Frame::kSize + frame.length);
    encode(frame, to);
    uint8_t *const awaited =
        std::copy(op.notify_data.begin(), op.notify_data.end(), to + Frame::kSize);
    store<uint64_t>(awaited, op.bytes);
    return awaited;
}

void Sender::add_atomic(Op &op, uint64_t offset) {
    Frame frame;
    frame.type = FrameType::atomic;
    frame.flags = static_cast<uint8_t>(op.atomic.op);
    frame.length = kAtomicBody;
    frame.seq = op.seq;
    frame.region = op.remote.region;
    frame.generation = op.remote.generation;
    const size_t begin = batch_->bytes;
    uint8_t *to = batch_->add_head(Frame::kSize + kAtomicBody);
    encode(frame, to);
    store<uint64_t>(to + Frame::kSize, op.remote.key);
    encode(op.atomic, offset, to + Frame::kSize + 8);
    const size_t none = batch_->vectors.size();
    const size_t end = batch_->bytes;
    batch_->parts.push_back({&op, 0, false, begin, end, none, none, end, nullptr});
}

// ---- sending ----

Sender::Sent Sender::send(ByteStream &carrier) {
    size_t turn = 0;
    while (!failed()) {
        if (!batch_) {
            if (!wants()) return Sent::all;
            if (turn >= kSentPerTurn) return Sent::more;
            if (only_control()) {
                if (write_control(carrier)) continue;
                return failed() ? Sent::failed : Sent::blocked;
            }
            // What is half built must not leave: something could follow it.
            if (!catch_bad_alloc([&] { build(); })) {
                fail_without_memory();
                break;
            }
        }
        const size_t rest = batch_->vectors.size() - batch_->vector_at;
        const size_t some = batch_->singly ? 1 : std::min<size_t>(rest, IOV_MAX);
        const bool whole = some == rest;
        const ssize_t sent = carrier.write({batch_->vectors.data() + batch_->vector_at, some});
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) return Sent::blocked;
            if (errno == EFAULT && step_over()) continue;
            error_ = errno;
            break;
        }
        turn += static_cast<size_t>(sent);
        advance(static_cast<size_t>(sent));
        if (batch_->sent == batch_->bytes)
            release();
        else if (whole)
            return Sent::blocked;  // less than we asked for: nothing more fits
    }
    return Sent::failed;
}

// Some memory of the batch is not there. Which, its vectors tell when they go one by one; zeros go
// in its stead, as the frame was begun. A put fails whatever its answer is, and a checksum tells
// the peer. What else a get is answered with the peer would take for the region's: false.
bool Sender::step_over() {
    if (!std::exchange(batch_->singly, true)) return true;
    for (const GatherBatch::Part &part : batch_->parts) {
        if (batch_->vector_at < part.first_vector || batch_->vector_at >= part.end_vector) continue;
        blank(part);
        if (part.op) return part.op->unmapped = true;
        unmapped_ = Target::from_wire(part.region);
        if (!part.checked) errno = EFAULT;
        return part.checked;
    }
    return false;
}

void Sender::advance(size_t bytes) {
    GatherBatch &burst = *batch_;
    burst.sent += bytes;
    left_ += bytes;
    while (bytes > 0) {
        iovec &vector = burst.vectors[burst.vector_at];
        if (bytes < vector.iov_len) {
            vector.iov_base = static_cast<uint8_t *>(vector.iov_base) + bytes;
            vector.iov_len -= bytes;
            break;
        }
        bytes -= vector.iov_len;
        ++burst.vector_at;
    }
    for (; burst.started_at < burst.parts.size(); ++burst.started_at) {
        const GatherBatch::Part &part = burst.parts[burst.started_at];
        if (part.begin >= burst.sent) break;
        if (part.op) part.op->sent = true;
    }
    for (; burst.part_at < burst.parts.size(); ++burst.part_at) {
        GatherBatch::Part &part = burst.parts[burst.part_at];
        if (part.notify_at > burst.sent) break;
        if (part.op) both_.send_queue.left(*part.op, part.awaited);
        if (!part.awaited) continue;
        part.op = nullptr;  // from here on it may be answered
        if (part.end > burst.sent) break;
        both_.send_queue.notify_left();
    }
}

void Sender::release() {
    if (!batch_) return;
    for (GatherBatch::Part &part : batch_->parts)
        if (part.staged) std::exchange(part.staged, nullptr)->release();
    both_.buffers.bursts.give(std::move(batch_));
    if (quiet_.empty()) return quiet_.swap(leaving_);
    // Room was made in retire().
    quiet_.insert(quiet_.end(), leaving_.begin(), leaving_.end());
    leaving_.clear();
}

void Sender::fail_without_memory() {
    error_ = ENOMEM;
    release();
}

void Sender::abandon() {
    release();
}

void Sender::blank(const Op &op) {
    if (!batch_) return;
    for (size_t i = batch_->part_at; i < batch_->parts.size(); ++i) {
        if (batch_->parts[i].op == &op) blank(batch_->parts[i]);
    }
    if (both_.send_queue.followed() == &op) blank(batch_->parts[batch_->part_at]);
}

void Sender::blank(const GatherBatch::Part &part) {
    for (size_t at = std::max(part.first_vector, batch_->vector_at); at < part.end_vector; ++at)
        batch_->vectors[at].iov_base = const_cast<uint8_t *>(kZeros);
    if (!part.awaited) return;
    store<uint64_t>(part.awaited, kNeverApplied);
    (part.op ? part.op : both_.send_queue.followed())->notifies = false;
}

bool Sender::retire(Target target) {
    if (!batch_) return true;
    for (size_t i = batch_->part_at; i < batch_->parts.size(); ++i) {
        const GatherBatch::Part &part = batch_->parts[i];
        if (part.op || part.staged || part.region != target.wire()) continue;
        if (part.first_vector == part.end_vector) continue;
        const bool noted = catch_bad_alloc([&] {
            quiet_.reserve(quiet_.size() + leaving_.size() + 1);
            leaving_.push_back(target);
        });
        if (!noted) fail_without_memory();
        return !noted;
    }
    return true;
}

}  // namespace xfer::stream
