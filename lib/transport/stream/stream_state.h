// SPDX-License-Identifier: Apache-2.0
// What the two directions of a channel share.
#pragma once

#include "transport/stream/buffers.h"
#include "transport/stream/response_queue.h"
#include "transport/stream/send_queue.h"

namespace xfer::stream {

enum class Stage : uint8_t {
    dialing,  // no connection yet
    hello,    // messages of a handshake
    frames,   // control frames and operations
    closing,  // nothing is read or built any more; on_down is to come
    over,     // after on_down or detach
};

struct StreamState {
    explicit StreamState(Buffers &owner) : buffers(owner), responses(owner) {}
    bool open() const { return stage == Stage::hello || stage == Stage::frames; }
    bool hears() const { return open() && !receive_paused && !paused; }

    Buffers &buffers;
    ChannelSink *channel_sink = nullptr;
    PathSink *path_sink = nullptr;  // from start() on
    Stage stage = Stage::dialing;
    bool receive_paused = false;  // what the peer says has to wait
    bool paused = false;          // until it has read more of what we said
    SendQueue send_queue;
    ResponseQueue responses;
};

}  // namespace xfer::stream
