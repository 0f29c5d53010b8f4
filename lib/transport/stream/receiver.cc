// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/receiver.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/atomic.h"
#include "util/mapped.h"
#include "util/tsan_ignore.h"
#include "wire/hello.h"

namespace xfer::stream {

namespace {

// Received by one channel before others have their turn.
constexpr size_t kReadPerTurn = 2 << 20;
// The kernel copies the list at every call, also when it finds only a few pieces' worth of bytes.
constexpr size_t kReceiveVectors = 256;
// Behind a payload that is at least so long, only as much is staged as the next header is likely to
// take, so that the next payload too is received where it belongs.
constexpr size_t kBulk = 32 * 1024;

}  // namespace

Receiver::~Receiver() {
    if (staging_) both_.buffers.stagings.give(std::move(staging_));
}

bool Receiver::broken(Status status, const char *message) {
    failure_ = {status, XFER_ORIGIN_NONE, 0, message};
    return false;
}

// ---- the byte stream ----

Receiver::Read Receiver::read(ByteStream &carrier, uint64_t &last_heard, uint64_t now) {
    size_t turn = 0;
    if (has_unread() && !parse()) return Read::ended;
    if (!both_.hears()) return Read::drained;
    while (turn < kReadPerTurn) {
        make_room();
        size_t wanted = receive_vectors();
        const ssize_t received = carrier.read(both_.buffers.vectors);
        if (received < 0 && errno == EINTR) continue;
        if (received < 0 && errno == EAGAIN) break;
        if (received < 0 && errno == EFAULT && lose_memory()) continue;
        if (received <= 0) {
            failure_ = received < 0 ? os_failure(errno, "receiving")
                                    : Failure{XFER_EPEERLOST, XFER_ORIGIN_NONE, 0,
                                              "the peer closed the connection without a goodbye"};
            failure_.status = XFER_EPEERLOST;
            return Read::ended;
        }
        last_heard = now;
        size_t bytes = static_cast<size_t>(received);
        turn += bytes;
        if (payload_ != Payload::none && !discard_) {
            size_t placed = std::min<size_t>(bytes, left_);
            advance(placed);
            staging_->end += bytes - placed;
        } else {
            staging_->end += bytes;
        }
        if (!parse()) return Read::ended;
        if (!both_.hears()) return Read::drained;
        if (bytes < wanted) break;
    }
    settle();
    return turn < kReadPerTurn ? Read::drained : Read::more;
}

void Receiver::settle() {
    if (staging_ && staging_->size() == 0 && payload_ == Payload::none)
        both_.buffers.stagings.give(std::move(staging_));
}

void Receiver::make_room() {
    if (!staging_) {
        staging_ = both_.buffers.stagings.take();
        staging_->begin = staging_->end = 0;
        staging_->into.clear();
        return;
    }
    Staging &staging = *staging_;
    if (staging.begin == 0) return;
    std::memmove(staging.bytes, staging.data(), staging.size());
    staging.end -= staging.begin;
    staging.begin = 0;
}

// Where the next bytes go; returns how many that are at most.
size_t Receiver::receive_vectors() {
    Staging &staging = *staging_;
    std::vector<iovec> &vectors = both_.buffers.vectors;
    vectors.clear();
    size_t wanted = 0;
    size_t ahead = kStagingBytes - staging.end;
    if (payload_ != Payload::none && !discard_) {
        size_t count = std::min(staging.into.size() - staging.into_at, kReceiveVectors);
        auto first = staging.into.begin() + static_cast<ptrdiff_t>(staging.into_at);
        vectors.assign(first, first + static_cast<ptrdiff_t>(count));
        for (const iovec &vector : vectors)
            wanted += vector.iov_len;
        if (wanted < left_) return wanted;
        if (left_ >= kBulk) ahead = Frame::kSize + head_length(frame_);
    }
    vectors.push_back({staging.bytes + staging.end, ahead});
    return wanted + ahead;
}

std::vector<uint8_t> Receiver::take_unread() {
    if (!staging_) return {};
    std::vector<uint8_t> unread(staging_->data(), staging_->data() + staging_->size());
    staging_->begin = staging_->end = 0;
    return unread;
}

void Receiver::put_unread(ConstBytes bytes) {
    if (bytes.empty()) return;
    make_room();
    XFER_CHECK(staging_->end + bytes.size() <= kStagingBytes);
    std::memcpy(staging_->bytes + staging_->end, bytes.data(), bytes.size());
    staging_->end += bytes.size();
}

// ---- what the bytes mean ----

bool Receiver::parse() {
    bool progress = true;
    while (progress && both_.hears())
        if (!step(progress)) return false;
    return true;
}

bool Receiver::step(bool &progress) {
    if (payload_ != Payload::none) {
        copy_staged();
        progress = left_ == 0;
        if (progress) finish_payload();
        return true;
    }
    return both_.stage == Stage::hello ? read_hello(progress) : read_frame(progress);
}

bool Receiver::read_hello(bool &progress) {
    progress = false;
    Staging &staging = *staging_;
    if (staging.size() < kHelloHeader) return true;
    Result<HelloHeader> header = decode_hello_header(staging.data());
    if (!header) {
        failure_ = header.error();
        if (failure_.status != XFER_EVERSION) return false;
        // One of us, though of another time: it is told why.
        const ConstBytes words(staging.data(), kHelloHeader);
        staging.begin = staging.end;
        both_.channel_sink->on_hello(words);
        return true;
    }
    size_t size = kHelloHeader + header->length;
    if (size > kMaxHello) return broken(XFER_ETOOBIG, "a handshake message is too long");
    if (staging.size() < size) return true;
    ConstBytes message(staging.data(), size);
    staging.begin += size;
    progress = true;
    both_.channel_sink->on_hello(message);
    return true;
}

bool Receiver::read_frame(bool &progress) {
    progress = false;
    Staging &staging = *staging_;
    if (staging.size() < Frame::kSize) return true;
    const uint8_t *at = staging.data();
    std::optional<Frame> frame = decode_frame(at);
    if (!frame) return broken(XFER_EPROTO, "the peer sent a malformed frame");
    const uint8_t *body = at + Frame::kSize;
    size_t needed = Frame::kSize;
    if (frame->type <= FrameType::get || frame->type == FrameType::data)
        needed += head_length(*frame);
    else
        needed += frame->length;
    if (staging.size() < needed) return true;
    staging.begin += needed;
    progress = true;

    bool allowed = true;
    switch (frame->type) {
    case FrameType::put:
        return on_put(*frame, body);
    case FrameType::get:
        return on_get(*frame, body);
    case FrameType::data:
        return on_data(*frame, body);
    case FrameType::atomic:
        return on_atomic(*frame, body);
    case FrameType::ack:
        allowed = both_.send_queue.acknowledged(frame->seq, *both_.path_sink);
        break;
    case FrameType::error:
        allowed = both_.send_queue.refused(frame->seq, frame->status, *both_.path_sink);
        break;
    default:
        both_.channel_sink->on_control(*frame, ConstBytes(body, frame->length));
    }
    return allowed ? true : broken(XFER_EPROTO, "the peer answered what was not asked");
}

// ---- requests of the peer ----

bool Receiver::read_pieces(const Frame &frame, const uint8_t *access, uint64_t bytes) {
    std::vector<WirePiece> &pieces = both_.buffers.wire_pieces;
    pieces.resize(frame.pieces);
    uint64_t sum = 0;
    const uint8_t *at = access + head_length(frame) - frame.pieces * WirePiece::kSize;
    for (WirePiece &piece : pieces) {
        piece = decode_piece(at);
        sum += piece.length;
        at += WirePiece::kSize;
    }
    return frame.type == FrameType::put ? sum == bytes : sum <= bytes;
}

Status Receiver::ask_access(Dir dir, const Frame &frame, const uint8_t *access,
                            std::vector<iovec> &out) {
    out.clear();
    Access asked{frame.region, frame.generation, load<uint64_t>(access)};
    if (frame.flags & kNotified && dir == Dir::put) {
        asked.notification = load<uint64_t>(access + 8);
        asked.notification_key = load<uint64_t>(access + 16);
    }
    if (dir == Dir::put) notification_ = asked.notification;
    return both_.path_sink->on_access(dir, asked, both_.buffers.wire_pieces, out, staged_);
}

bool Receiver::on_put(const Frame &frame, const uint8_t *access) {
    uint32_t bytes = frame.length - head_length(frame);
    if (!both_.responses.admit(frame.seq))
        return broken(XFER_EPROTO, "the peer sent a request that it may not");
    if (!read_pieces(frame, access, bytes))
        return broken(XFER_EPROTO, "the peer sent a put with other lengths than its payload");
    frame_ = frame;
    refused_ = ask_access(Dir::put, frame, access, staging_->into);
    due_ = load<uint32_t>(access + access_length(0, frame.flags) - kChecksumBytes);
    begin_payload(Payload::put, bytes);
    discard_ = refused_ != XFER_OK;
    return true;
}

bool Receiver::on_get(const Frame &frame, const uint8_t *access) {
    if (!both_.responses.admit(frame.seq))
        return broken(XFER_EPROTO, "the peer sent a request that it may not");
    if (!read_pieces(frame, access, kMaxChunk))
        return broken(XFER_EPROTO, "the peer asked for too much at once");
    std::vector<iovec> &ranges = both_.buffers.vectors;
    Status status = ask_access(Dir::get, frame, access, ranges);
    if (status != XFER_OK) {
        both_.responses.refuse(frame.seq, status);
        return true;
    }
    const bool checked = frame.flags & kChecked;
    if (staged_) {
        both_.responses.data(frame.seq, frame.region, checked, *staged_);
        staged_ = nullptr;
        return true;
    }
    both_.responses.data(frame.seq, frame.region, checked, ranges);
    uint64_t bytes = 0;
    for (const WirePiece &piece : both_.buffers.wire_pieces)
        bytes += piece.length;
    both_.path_sink->on_served(Dir::get, bytes, {});
    return true;
}

// Done as soon as it is here, and once: what ends the channel from here on leaves it done.
bool Receiver::on_atomic(const Frame &frame, const uint8_t *body) {
    if (!both_.responses.admit(frame.seq))
        return broken(XFER_EPROTO, "the peer sent a request that it may not");
    both_.buffers.wire_pieces.assign(1, {load<uint64_t>(body + 8), kAtomicWidth});
    std::vector<iovec> &word = both_.buffers.vectors;
    const Status status = ask_access(Dir::atomic, frame, body, word);
    if (status != XFER_OK) {
        both_.responses.refuse(frame.seq, status);
        return true;
    }
    const Atomic asked{static_cast<AtomicOp>(frame.flags), load<uint64_t>(body + 16),
                       load<uint64_t>(body + 24)};
    both_.responses.done(frame.seq, apply(asked, word[0].iov_base));
    both_.path_sink->on_served(Dir::atomic, kAtomicWidth, {});
    return true;
}

bool Receiver::on_data(const Frame &frame, const uint8_t *head) {
    const uint32_t bytes = frame.length - head_length(frame);
    op_ = both_.send_queue.answered(frame.seq, bytes);
    if (!op_) return broken(XFER_EPROTO, "the peer sent data that was not asked for");
    if (op_->checked != ((frame.flags & kChecked) != 0))
        return broken(XFER_EPROTO,
                      "the peer sent data with or without a checksum, against our wish");
    frame_ = frame;
    std::vector<iovec> &into = staging_->into;
    into.clear();
    if (frame.flags & kChecked) due_ = load<uint32_t>(head);
    begin_payload(Payload::data, bytes);
    if (op_->dir == Dir::atomic) {
        into.push_back({&op_->before, kAtomicWidth});
        return true;
    }
    discard_ = op_->canceled;
    if (discard_) return true;
    std::vector<Piece> &pieces = both_.buffers.pieces;
    pieces.clear();
    op_->draw(pieces);
    for (const Piece &piece : pieces)
        into.push_back({reinterpret_cast<void *>(piece.local), piece.length});
    return true;
}

// ---- payloads ----

void Receiver::begin_payload(Payload payload, uint32_t bytes) {
    payload_ = payload;
    left_ = bytes_ = bytes;
    discard_ = false;
    sum_ = {};
    staging_->into_at = 0;
}

void Receiver::copy_staged() {
    const TsanIgnore copies;
    Staging &staging = *staging_;
    size_t rest = std::min<size_t>(staging.size(), left_);
    if (discard_) {
        staging.begin += rest;
        left_ -= static_cast<uint32_t>(rest);
        return;
    }
    while (rest > 0) {
        const iovec &vector = staging.into[staging.into_at];
        size_t bytes = std::min(rest, vector.iov_len);
        if (!is_there(vector.iov_base, bytes) && lose_memory()) return copy_staged();
        if (bytes > 0) std::memcpy(vector.iov_base, staging.data(), bytes);
        staging.begin += bytes;
        rest -= bytes;
        advance(bytes);
    }
}

// The kernel tells of its own copies. That the memory of a peer's put is mapped was asked of its
// owner just now; of ours it is asked where that costs little beside the copy.
bool Receiver::is_there(const void *address, size_t bytes) {
    return payload_ != Payload::data || bytes_ < kBulk || is_mapped(address, bytes);
}

// Where the payload belongs is no memory any more: that request fails, and the stream goes on
// behind it. False: nobody's payload is at fault.
bool Receiver::lose_memory() {
    if (payload_ == Payload::none || discard_) return false;
    discard_ = true;
    if (payload_ == Payload::data) {
        op_->unmapped = true;
    } else {
        refused_ = XFER_EIO;
        both_.path_sink->on_unmapped(Target::from_wire(frame_.region));
    }
    return true;
}

// So many bytes are in place.
void Receiver::advance(size_t bytes) {
    Staging &staging = *staging_;
    left_ -= static_cast<uint32_t>(bytes);
    for (;;) {
        if (staging.into_at == staging.into.size()) return;
        iovec &vector = staging.into[staging.into_at];
        if (frame_.flags & kChecked) sum_.add(vector.iov_base, std::min(bytes, vector.iov_len));
        if (bytes < vector.iov_len) {
            vector.iov_base = static_cast<uint8_t *>(vector.iov_base) + bytes;
            vector.iov_len -= bytes;
            return;
        }
        bytes -= vector.iov_len;
        ++staging.into_at;
    }
}

void Receiver::finish_payload() {
    Payload done = payload_;
    payload_ = Payload::none;
    if (done == Payload::data) {
        Op &op = *op_;
        op_ = nullptr;
        return both_.send_queue.got(op, intact() ? XFER_OK : XFER_ECHECKSUM, *both_.path_sink);
    }
    if (refused_ == XFER_OK && !intact()) refused_ = XFER_ECHECKSUM;
    if (refused_ != XFER_OK) {
        drop_staged();
        both_.responses.refuse(frame_.seq, refused_);
    } else if (staged_) {
        staged_->apply();
        both_.responses.acknowledge(frame_.seq, *staged_);
        staged_ = nullptr;
    } else {
        both_.responses.acknowledge(frame_.seq, bytes_, (frame_.flags & kAckWanted) != 0);
        both_.path_sink->on_served(Dir::put, bytes_, {notification_});
    }
}

// Of a payload that was thrown away nobody asks.
bool Receiver::intact() const {
    return discard_ || !(frame_.flags & kChecked) || sum_.value() == due_;
}

void Receiver::drop_staged() {
    if (staged_) std::exchange(staged_, nullptr)->release();
}

void Receiver::cancel(const Op &op) {
    if (payload_ == Payload::data && op_ == &op && op.dir == Dir::get) discard_ = true;
}

void Receiver::retire(Target target, Status why) {
    if (payload_ != Payload::put || frame_.region != target.wire() || refused_ != XFER_OK) return;
    discard_ = true;
    refused_ = why;
}

void Receiver::discard(NotificationId notification) {
    if (payload_ != Payload::put || notification_ != notification.value || refused_ != XFER_OK)
        return;
    discard_ = true;
    refused_ = XFER_ECANCELED;
}

}  // namespace xfer::stream
