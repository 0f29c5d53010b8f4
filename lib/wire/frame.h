// SPDX-License-Identifier: Apache-2.0
// Frames: what two engines say on a lane once they are READY. A frame is a header of 32 bytes, then
// `length` bytes. Put and get carry a key, then a list of ranges of one region; put, and the data
// that answers a get, end with the payload. Every put, get and atomic has a sequence number, one
// more than the one before on its lane, and is answered in that order: acks cover all puts up to a
// number, an error or data answers one.
#pragma once

#include <cstdint>
#include <optional>

#include "wire/bytes.h"
#include "wire/ids.h"
#include "wire/limits.h"

namespace xfer {

enum class FrameType : uint8_t {
    put = 1,
    get = 2,
    ack = 3,     // all puts up to seq are applied
    error = 4,   // the request seq is refused with status; nothing of it was or will be applied
    data = 5,    // the bytes of get seq, or what was there before atomic seq
    lookup = 6,  // seq: the question's number; payload: a name; flags: kLookupWait
    found = 7,   // answers lookup seq: status; payload: a ref, then the region's blob
    gone = 8,    // a region that was looked up is closed: region, generation; payload: its ref
    ping = 9,    // seq: any number
    pong = 10,   // seq: as in the ping
    lanes = 11,  // asks the initiator of the connection to open its data lanes; kLocalLaneFlag: the
                 // local path; kAttachedPathFlag: path seq beside the channels
    bye = 12,  // the sender closes; status says why. XFER_EAGAIN: it offers to, as nothing is going
               // on
    forget = 13,  // lookup seq is not waited for any more
    notify = 14,  // closes notification seq: region: its key; status: why it failed, or 0: all that
                  // belongs to it is acknowledged, or with kCounted will be when so many bytes of
                  // its puts are applied; payload: its bytes, and then that count
    noted = 15,   // notification seq is held, 0: none; region: how many the application has had
    drain = 16,   // begin nothing new on this connection; seq 1: and I have nothing under way, so
                  // end it when you have nothing either
    message = 17,  // region: its tag; payload: its bytes, or with kEnvelope its length. kSync: the
                   // sender waits until it is received
    queued = 18,   // message seq waits for its receive; kHeld: its bytes are here
    completed = 19,       // message seq was received, or with a status thrown away
    cancel = 20,          // the sender wants message seq back
    control_switch = 21,  // the sender's last word here: its control channel goes on by the local
                          // path, or by the attached lane
    atomic = 22,  // changes 8 bytes; answered as a get of them by what they were. flags: AtomicOp
    lane_closed = 23,  // lane seq is closed at this end: nothing that comes by it is looked at any
                       // more. The other end closes it, and says the same (kLanesEndAlone)
    // Of lanes and paths by which an initiator reaches regions by itself; seq is its number.
    request_export = 24,  // asks for a region: region, generation; payload: its key
    exported = 25,  // answers it: region, status; payload: what reaches it, as the lane's transport
                    // has it
    withdraw = 26,  // a region that was exported has ended: region
    path_signal = 27,  // of path region beside the channels, or of the attached lane
                       // (kAttachedLane, always on the first lane): attempt seq, of the fabric
                       // generation; payload: what its other end is to know, or with a status
                       // nothing: this end of it is closed (kAttachedPaths)
    withdrawn = 28,    // answers withdraw on such a path: nothing here uses that region any more
};

// Messages of one connection and direction are numbered from 1 in seq. Their receiver pulls what
// did not come along by gets of a Target that is a message.

constexpr uint8_t kSync = 1, kEnvelope = 2;                   // flags of message
constexpr uint8_t kHeld = 1;                                  // flags of queued
constexpr uint8_t kLookupWait = 1;                            // flags of lookup
constexpr uint8_t kCounted = 1;                               // flags of notify (kCountedNotify)
constexpr uint8_t kLocalLaneFlag = 1, kAttachedPathFlag = 2;  // flags of lanes
constexpr uint8_t kAckWanted = 1;  // flags of put: the initiator waits, acknowledge at once
constexpr uint8_t kChecked =
    4;  // flags of put, data: with a CRC-32C of the payload; of get: wanted
constexpr uint8_t kNotified =
    2;  // flags of put: it belongs to a notification, named behind the key

struct Frame {
    static constexpr size_t kSize = 32;

    FrameType type{};
    uint8_t flags = 0;
    uint16_t pieces = 0;
    uint32_t length = 0;  // bytes that follow the header
    uint64_t seq = 0;
    uint64_t region = 0;
    uint32_t generation = 0;
    int32_t status = 0;
};

struct WirePiece {
    static constexpr size_t kSize = 16;
    uint64_t offset;
    uint32_t length;
};

// Bytes that stand before the payload. Put: the region's key, the notification (number and key) if
// it belongs to one, the checksum if there is one, and the ranges. Get: key and ranges. Data: the
// checksum if there is one.
constexpr uint32_t kNotificationBytes = 16, kChecksumBytes = 8;
constexpr uint32_t kCountBytes = 8;  // behind the bytes of a notify
constexpr uint32_t access_length(uint32_t pieces, uint8_t flags = 0) {
    return 8 + (flags & kNotified ? kNotificationBytes : 0) +
           (flags & kChecked ? kChecksumBytes : 0) +
           pieces * static_cast<uint32_t>(WirePiece::kSize);
}
constexpr uint32_t head_length(const Frame &frame) {
    switch (frame.type) {
    case FrameType::put:
        return access_length(frame.pieces, frame.flags);
    case FrameType::get:
        return access_length(frame.pieces);
    default:
        return frame.type == FrameType::data && frame.flags & kChecked ? kChecksumBytes : 0;
    }
}

void encode(const Frame &frame, uint8_t *to);

// Nothing if no peer that keeps the protocol would send it: unknown type, lengths past the limits
// or at odds with each other. What it names may still not exist.
std::optional<Frame> decode_frame(const uint8_t *from);

inline void encode(const WirePiece &piece, uint8_t *to) {
    store<uint64_t>(to, piece.offset);
    store<uint32_t>(to + 8, piece.length);
    store<uint32_t>(to + 12, 0);
}

inline WirePiece decode_piece(const uint8_t *from) {
    return {load<uint64_t>(from), load<uint32_t>(from + 8)};
}

// The numbers of the header.
enum class AtomicOp : uint8_t { add = 1, cas = 2 };
constexpr bool is_atomic_op(uint32_t number) {
    return number == static_cast<uint32_t>(AtomicOp::add) ||
           number == static_cast<uint32_t>(AtomicOp::cas);
}
constexpr uint32_t kAtomicWidth = 8;  // bytes that it changes, at a multiple of that

// What an atomic does.
struct Atomic {
    AtomicOp op = AtomicOp::add;
    uint64_t operand = 0, compare = 0;
};

// The body of an atomic: the region's key, then these.
constexpr uint32_t kAtomicBody = 32;
inline void encode(const Atomic &atomic, uint64_t offset, uint8_t *to) {
    store<uint64_t>(to, offset);
    store<uint64_t>(to + 8, atomic.operand);
    store<uint64_t>(to + 16, atomic.compare);
}

}  // namespace xfer
