// SPDX-License-Identifier: Apache-2.0
#include "core/message/message_sender.h"

#include <tuple>

#include "core/base/engine_core.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/region/shard_regions.h"
#include "core/transfer/flow.h"
#include "device/copier.h"
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
bool MessageSender::is_eager(const Send &send) const {
    if (send.place != Place{}) return false;
    return send.length <= kMaxInline && payload_ + send.length <= kMaxHeld;
}

bool MessageSender::room(const Send &send) const {
    const uint64_t bytes = is_eager(send) ? send.length : 0;
    return open_.size() < kMaxMessages &&
           (unanswered_ == 0 || unanswered_ + bytes <= kMessageWindow);
}

void MessageSender::pump(Connection &connection) {
    while (!queue_.empty() && connection.usable() && room(queue_.front())) {
        Send &send = queue_.front();
        if (catch_bad_alloc([&] { make_room(send); }))
            begin(connection, *queue_.pop_front());
        else
            flow_.end(send, XFER_ENOMEM);
    }
}

void MessageSender::make_room(const Send &send) {
    body_.reserve(8 + (is_eager(send) ? send.length : 0));
    open_.make_room();
}

void MessageSender::begin(Connection &connection, Send &send) {
    const bool along = is_eager(send);
    const bool checked = connection.shard.engine.options().checksum;
    Frame frame;
    frame.type = FrameType::message;
    frame.flags = static_cast<uint8_t>((send.sync ? kSync : 0) | (along ? 0 : kEnvelope) |
                                       (checked ? kChecked : 0));
    frame.seq = send.number = ++last_;
    send.connection = connection.number;
    frame.region = send.tag;
    body_.assign(along && !checked ? 0 : 8, 0);
    if (!along) {
        store<uint64_t>(body_.data(), send.length);
    } else {
        if (checked) {
            Crc32c sum;
            sum.add(send.data, send.length);
            store<uint64_t>(body_.data(), sum.value());
        }
        body_.insert(body_.end(), send.data, send.data + send.length);
    }
    frame.length = static_cast<uint32_t>(body_.size());
    const auto bytes = static_cast<uint32_t>(Frame::kSize + body_.size());
    const auto payload = static_cast<uint32_t>(along ? send.length : 0);
    open_.insert(last_, {&send, payload, bytes});
    payload_ += payload;
    unanswered_ += bytes;
    send.progress = connection.shard.now();
    connection.send(frame, body_);
}

void MessageSender::queued(Connection &connection, const Frame &frame) {
    Open *const open = open_.find(frame.seq);
    const bool held = frame.flags & kHeld;
    if (!open || open->unanswered == 0) return broken(connection);
    unanswered_ -= std::exchange(open->unanswered, 0);
    Send *send = open->send;
    if (send && held && open->payload < send->length) return broken(connection);
    if (!send) return;
    send->progress = connection.shard.now();
    if (held && !send->sync) finish(connection, *send, XFER_OK);
}

void MessageSender::completed(Connection &connection, const Frame &frame) {
    const Open *const open = open_.find(frame.seq);
    if (!open) return broken(connection);
    Send *send = open->send;
    // Else some of it may still be read, by what was canceled there.
    if (frame.status == XFER_OK) connection.attached.forget_export(MessageId{frame.seq});
    payload_ -= open->payload;
    unanswered_ -= open->unanswered;
    open_.erase(frame.seq);
    if (send) finish(connection, *send, frame.status);
}

void MessageSender::finish(Connection &connection, Send &send, Status status) {
    if (status == XFER_OK) {
        send.status = XFER_OK;  // also if it was to be canceled: that came too late
        send.reading = 0;
        if (!send.leaving) send.ListNode<InLeaving>::unlink();
        send.moved.set(send.length);
    } else if (send.status == XFER_OK) {
        send.status = status;
        send.origin = XFER_ORIGIN_PEER;
        send.native = 0;
        if (status == XFER_EIO && send.memory_error)
            std::tie(send.origin, send.native) = copy_error(*send.memory_error);
    }
    send.answered = send.fencing = true;  // nothing changes that
    if (still(connection, send)) flow_.complete(send);
}

// A peer could answer while what it pulls is still on its way out.
bool MessageSender::still(Connection &connection, Send &send) {
    if (!send.pulled) return true;
    if (!send.leaving && !send.reading) {
        send.leaving = connection.retire(MessageId{send.number}, XFER_ESTALE);
        send.reading = connection.attached.withdraw(MessageId{send.number});
        if (!send.leaving && !send.reading) return true;
        leaving_.push_back(send);
    }
    await_rest(send);
    return false;
}

// Lanes have a limit of their own. A peer whose adapter may still read is waited for a while: then
// the key is void all the same, and who uses it loses its path.
void MessageSender::await_rest(Send &send) {
    if (send.leaving) return flow_.shard.loop.disarm(send.timer);
    send.fencing = true;
    send.await_fence();
}

void MessageSender::cancel(Connection &connection, Send &send) {
    Frame frame;
    frame.type = FrameType::cancel;
    frame.seq = send.number;
    connection.send(frame);
    if (still(connection, send)) send.await_fence();
}

Send *MessageSender::find_leaving(const Connection &connection, MessageId number) {
    for (Send &send : leaving_)
        if (send.connection == connection.number && send.number == number.value) return &send;
    return nullptr;
}

void MessageSender::quiet(const Connection &connection, MessageId number) {
    Send *send = find_leaving(connection, number);
    if (!send || --send->leaving) return;
    if (send->reading) return await_rest(*send);
    send->ListNode<InLeaving>::unlink();
    return send->answered ? flow_.complete(*send) : send->await_fence();
}

void MessageSender::withdrawn(const Connection &connection, MessageId number) {
    Send *send = find_leaving(connection, number);
    if (!send || !send->reading || --send->reading || send->leaving) return;
    send->ListNode<InLeaving>::unlink();
    return send->answered ? flow_.complete(*send) : send->await_fence();
}

Send *MessageSender::asked_for(const Access &asked) {
    const auto message = asked.target().message();
    const Open *const open = message ? open_.find(message->value) : nullptr;
    Send *send = open ? open->send : nullptr;
    return !send || send->fencing || asked.generation || asked.key ? nullptr : send;
}

// Lent with the first question of an adapter's.
Status MessageSender::find_export(const Access &asked, ExportedMemory &out) {
    Send *send = asked_for(asked);
    if (!send) return XFER_ESTALE;
    if (send->length <= kSmall || send->place != Place{} || send->migrates)
        return XFER_EUNSUPPORTED;
    out.base = const_cast<uint8_t *>(send->data);
    out.length = send->length;
    out.access = XFER_READ;
    out.lent = true;
    if (!send->is_lent() && !flow_.shard.regions.lend(*send, out)) return XFER_ENOMEM;
    out.whole = send->memory;
    send->pulled = true;
    return XFER_OK;
}

Status MessageSender::access(Dir dir, const Access &asked, std::span<const WirePiece> pieces,
                             std::vector<iovec> &out, Memory &memory) {
    Send *send = asked_for(asked);
    if (!send) return XFER_ESTALE;
    if (dir != Dir::get) return XFER_EACCESS;
    for (const WirePiece &piece : pieces)
        if (piece.offset > send->length || piece.length > send->length - piece.offset)
            return XFER_ERANGE;
    if (send->place != Place{}) {
        memory.kind = XFER_MEM_CUDA;
        memory.device = send->place.device;
        memory.base = reinterpret_cast<uint64_t>(send->data);
        memory.id = send->place.id;
    } else if (!is_mapped(send->data, send->length)) {
        return XFER_EIO;
    }
    for (const WirePiece &piece : pieces)
        out.push_back({const_cast<uint8_t *>(send->data) + piece.offset, piece.length});
    send->pulled = true;
    send->progress = flow_.now();
    return XFER_OK;
}

// Its peer is told, and says what comes of it.
void MessageSender::memory_failed(MessageId number, int32_t error) {
    const Open *const open = open_.find(number.value);
    if (open && open->send && !open->send->memory_error) open->send->memory_error = error;
}

void MessageSender::forget(Send &send) {
    send.ListNode<InLeaving>::unlink();
    Open *const open = open_.find(send.number);
    if (open && open->send == &send) open->send = nullptr;
}

void MessageSender::reset() {
    open_.clear();
    last_ = payload_ = unanswered_ = 0;
}

}  // namespace xfer
