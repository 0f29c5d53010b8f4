// SPDX-License-Identifier: Apache-2.0
#include "core/message/message_sender.h"

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/transfer/flow.h"
#include "util/mapped.h"
#include "util/memory.h"
#include "wire/crc32c.h"

namespace xfer {

namespace {

void broken(Connection &connection) {
    connection.close({XFER_EPROTO, 0, 0, "the peer answers a message that it was not sent"});
}

}  // namespace

// Small ones are copied into the connection's own buffer, as far as the peer has room for them.
bool MessageSender::is_eager(const Transfer &transfer) const {
    return transfer.letter.length <= kMaxInline && payload_ + transfer.letter.length <= kMaxHeld;
}

bool MessageSender::room(const Transfer &transfer) const {
    const uint64_t bytes = is_eager(transfer) ? transfer.letter.length : 0;
    return open_.size() < kMaxMessages &&
           (unanswered_ == 0 || unanswered_ + bytes <= kMessageWindow);
}

void MessageSender::send_waiting(Connection &connection) {
    while (!queue_.empty() && connection.usable() && room(queue_.front())) {
        Transfer &transfer = queue_.front();
        if (catch_bad_alloc([&] { make_room(transfer); }))
            begin(connection, *queue_.pop_front());
        else
            flow_.end(transfer, XFER_ENOMEM);
    }
}

void MessageSender::make_room(const Transfer &transfer) {
    body_.reserve(8 + (is_eager(transfer) ? transfer.letter.length : 0));
    open_.try_emplace(last_ + 1);
}

void MessageSender::begin(Connection &connection, Transfer &transfer) {
    Transfer::Letter &letter = transfer.letter;
    const bool along = is_eager(transfer);
    const bool checked = connection.shard.engine.options().checksum;
    Frame frame;
    frame.type = FrameType::message;
    frame.flags = static_cast<uint8_t>((letter.sync ? kSync : 0) | (along ? 0 : kEnvelope) |
                                       (checked ? kChecked : 0));
    frame.seq = letter.number = ++last_;
    letter.connection = connection.number;
    frame.region = letter.tag;
    body_.assign(along && !checked ? 0 : 8, 0);
    if (!along) {
        store<uint64_t>(body_.data(), letter.length);
    } else {
        if (checked) {
            Crc32c sum;
            sum.add(letter.data, letter.length);
            store<uint64_t>(body_.data(), sum.value());
        }
        body_.insert(body_.end(), letter.data, letter.data + letter.length);
    }
    frame.length = static_cast<uint32_t>(body_.size());
    const auto bytes = static_cast<uint32_t>(Frame::kSize + body_.size());
    const auto payload = static_cast<uint32_t>(along ? letter.length : 0);
    open_[last_] = {&transfer, payload, bytes};
    payload_ += payload;
    unanswered_ += bytes;
    transfer.progress = connection.shard.now();
    connection.send(frame, body_);
}

void MessageSender::kept(Connection &connection, const Frame &frame) {
    const auto at = open_.find(frame.seq);
    const bool held = frame.flags & kHeld;
    if (at == open_.end() || at->second.unanswered == 0) return broken(connection);
    unanswered_ -= std::exchange(at->second.unanswered, 0);
    Transfer *transfer = at->second.transfer;
    if (transfer && held && at->second.payload < transfer->letter.length) return broken(connection);
    if (!transfer) return;
    transfer->progress = connection.shard.now();
    if (held && !transfer->letter.sync) finish(connection, *transfer, XFER_OK);
}

void MessageSender::taken(Connection &connection, const Frame &frame) {
    const auto at = open_.find(frame.seq);
    if (at == open_.end()) return broken(connection);
    Transfer *transfer = at->second.transfer;
    payload_ -= at->second.payload;
    unanswered_ -= at->second.unanswered;
    open_.erase(at);
    if (transfer) finish(connection, *transfer, frame.status);
}

void MessageSender::finish(Connection &connection, Transfer &transfer, Status status) {
    if (status == XFER_OK) {
        transfer.status = XFER_OK;  // also if it was to be canceled: that came too late
        transfer.moved.set(transfer.letter.length);
    } else if (transfer.status == XFER_OK) {
        transfer.status = status;
        transfer.origin = XFER_ORIGIN_PEER;
    }
    transfer.letter.answered = true;
    if (still(connection, transfer)) flow_.complete(transfer);
}

// A peer could answer while what it pulls is still on its way out.
bool MessageSender::still(Connection &connection, Transfer &transfer) {
    if (!transfer.letter.pulled) return true;
    if (!transfer.letter.leaving && connection.retire(transfer)) return true;
    connection.shard.loop.disarm(transfer.timer);
    return false;
}

void MessageSender::withdraw(Connection &connection, Transfer &transfer) {
    Frame frame;
    frame.type = FrameType::cancel;
    frame.seq = transfer.letter.number;
    connection.send(frame);
    if (still(connection, transfer)) flow_.fence(transfer);
}

void MessageSender::quiet(const Connection &connection, MessageId number) {
    Transfer *transfer = flow_.find_leaving(connection.number, number.value);
    if (!transfer || --transfer->letter.leaving) return;
    if (transfer->letter.answered)
        flow_.complete(*transfer);
    else
        flow_.fence(*transfer);
}

Status MessageSender::access(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                             std::vector<iovec> &out) {
    const auto message = asked.target().message();
    const auto at = message ? open_.find(message->value) : open_.end();
    Transfer *transfer = at == open_.end() ? nullptr : at->second.transfer;
    if (!transfer || transfer->fencing || asked.generation || asked.key) return XFER_ESTALE;
    if (dir != Dir::get) return XFER_EACCESS;
    const Transfer::Letter &letter = transfer->letter;
    for (const WirePiece &piece : pieces)
        if (piece.offset > letter.length || piece.length > letter.length - piece.offset)
            return XFER_ERANGE;
    if (!is_mapped(letter.data, letter.length)) return XFER_EIO;
    for (const WirePiece &piece : pieces)
        out.push_back({const_cast<uint8_t *>(letter.data) + piece.offset, piece.length});
    transfer->letter.pulled = true;
    transfer->progress = flow_.now();
    return XFER_OK;
}

void MessageSender::forget(Transfer &transfer) {
    const auto at = open_.find(transfer.letter.number);
    if (at != open_.end() && at->second.transfer == &transfer) at->second.transfer = nullptr;
}

void MessageSender::reset() {
    open_.clear();
    last_ = payload_ = unanswered_ = 0;
}

}  // namespace xfer
