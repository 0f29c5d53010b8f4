// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include "wire/status.h"
#include "xfer/xfer.h"

namespace xfer {

void encode(const Frame &frame, uint8_t *to) {
    to[0] = static_cast<uint8_t>(frame.type);
    to[1] = frame.flags;
    store<uint16_t>(to + 2, frame.pieces);
    store<uint32_t>(to + 4, frame.length);
    store<uint64_t>(to + 8, frame.seq);
    store<uint64_t>(to + 16, frame.region);
    store<uint32_t>(to + 24, frame.generation);
    store<int32_t>(to + 28, frame.status);
}

namespace {

bool plausible_notify(const Frame &frame) {
    const uint32_t count = frame.flags & kCounted ? kCountBytes : 0;
    if (frame.status != 0) return frame.status < 0 && frame.length == 0 && count == 0;
    return frame.length >= count && frame.length - count <= kMaxNotifyData;
}

bool plausible(const Frame &frame) {
    switch (frame.type) {
    case FrameType::put:
        return frame.pieces >= 1 && frame.pieces <= kMaxPieces &&
               frame.length >= head_length(frame) && frame.length - head_length(frame) <= kMaxChunk;
    case FrameType::get:
        return frame.pieces >= 1 && frame.pieces <= kMaxPieces &&
               frame.length == head_length(frame) && !(frame.flags & kNotified);
    case FrameType::data:
        return frame.pieces == 0 && frame.length >= head_length(frame) &&
               frame.length - head_length(frame) <= kMaxChunk;
    case FrameType::ack:
    case FrameType::ping:
    case FrameType::pong:
    case FrameType::lanes:
    case FrameType::forget:
    case FrameType::control_switch:
    case FrameType::lane_closed:
        return frame.pieces == 0 && frame.length == 0 && frame.status == 0;
    case FrameType::error:
    case FrameType::bye:
        return frame.pieces == 0 && frame.length == 0 && frame.status < 0;
    case FrameType::notify:
        return frame.pieces == 0 && frame.seq != 0 && plausible_notify(frame);
    case FrameType::drain:
        return frame.pieces == 0 && frame.length == 0 && frame.status == 0 && frame.seq <= 1;
    case FrameType::noted:
        return frame.pieces == 0 && frame.length == 0 && frame.status == 0;
    case FrameType::message:
        return frame.pieces == 0 && frame.status == 0 && frame.seq != 0 &&
               (frame.flags & kEnvelope
                    ? frame.length == 8
                    : frame.length >= (frame.flags & kChecked ? kChecksumBytes : 0) &&
                          frame.length <= kMaxControl);
    case FrameType::queued:
    case FrameType::cancel:
        return frame.pieces == 0 && frame.length == 0 && frame.status == 0 && frame.seq != 0;
    case FrameType::completed:
        return frame.pieces == 0 && frame.length == 0 && frame.status <= 0 && frame.seq != 0;
    case FrameType::lookup:
        return frame.pieces == 0 && frame.length >= 1 && frame.length <= kMaxName;
    case FrameType::found:
        return frame.pieces == 0 && frame.status <= 0 && frame.length <= kMaxControl;
    case FrameType::gone:
        return frame.pieces == 0 && frame.length == sizeof(xfer_ref_t);
    case FrameType::request_export:
        return frame.pieces == 0 && frame.length == 8 && frame.status == 0;
    case FrameType::exported:
        return frame.pieces == 0 && frame.status <= 0 &&
               frame.length <= (frame.status == 0 ? kMaxExportKey : 0);
    case FrameType::path_signal:
        return frame.pieces == 0 && frame.seq != 0 && frame.status <= 0 &&
               (frame.status == 0 ? frame.length >= 1 && frame.length <= kMaxSignal
                                  : frame.length == 0);
    case FrameType::withdraw:
    case FrameType::withdrawn:
        return frame.pieces == 0 && frame.length == 0 && frame.status == 0;
    case FrameType::atomic:
        return frame.pieces == 0 && frame.length == kAtomicBody && is_atomic_op(frame.flags);
    }
    return false;
}

}  // namespace

std::optional<Frame> decode_frame(const uint8_t *from) {
    Frame frame;
    frame.type = static_cast<FrameType>(from[0]);
    frame.flags = from[1];
    frame.pieces = load<uint16_t>(from + 2);
    frame.length = load<uint32_t>(from + 4);
    frame.seq = load<uint64_t>(from + 8);
    frame.region = load<uint64_t>(from + 16);
    frame.generation = load<uint32_t>(from + 24);
    frame.status = status_of_peer(load<int32_t>(from + 28));
    if (!plausible(frame)) return std::nullopt;
    return frame;
}

}  // namespace xfer
