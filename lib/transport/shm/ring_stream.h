// SPDX-License-Identifier: Apache-2.0
// Two rings as a byte stream. Whoever finds nothing for a while, or before its loop sleeps, waits
// for a packet through the rendezvous socket.
#pragma once

#include "loop/loop.h"
#include "transport/shm/rendezvous.h"
#include "transport/shm/segment.h"
#include "transport/stream/byte_stream.h"

namespace xfer::shm {

class RingStream final : public stream::ByteStream, Poller {
public:
    RingStream(Loop &loop, RendezvousSocket &door, Segment &segment, Side side, WatchSink &sink);
    void rung();  // something came through the rendezvous socket
    // The neighbour is gone: what it has written is read, and then comes the end.
    void hang_up();

    bool unread() { return reader_.there() > 0; }

    Scope scope() const override { return Scope::host; }
    bool direct() const override { return true; }
    ssize_t write(std::span<const iovec> from) override;
    ssize_t read(std::span<const iovec> into) override;
    void want(uint32_t readiness) override;
    void end() override;
    Fd release() override { return Fd(); }

private:
    bool poll() override;
    bool doze() override;
    void ring();
    uint32_t ready();

    Loop &loop_;
    RendezvousSocket &rendezvous_;
    WatchSink &sink_;
    RingWriter<> writer_;
    RingReader<> reader_;
    uint32_t wanted_ = 0;
    uint32_t fruitless_ = 0;  // looks in a row
    bool unrung_ = false;     // the neighbour is to be rung for yet
    bool hung_up_ = false, ended_ = false;
};

}  // namespace xfer::shm
