// SPDX-License-Identifier: Apache-2.0
// Two rings as a carrier. Whoever finds nothing for a while, or before its loop sleeps, waits for
// its bell.
#pragma once

#include <memory>

#include "loop/loop.h"
#include "transport/shm/segment.h"
#include "transport/stream/carrier.h"

namespace xfer::shm {

class RingCarrier final : public stream::Carrier, Poller, WatchSink {
public:
    RingCarrier(Loop &loop, Segment &segment, Side side, WatchSink &sink);
    bool begin();  // false: the loop can't watch the bell
    // The neighbour is gone: what it has written is read, and then comes the end.
    void hang_up();

    ssize_t write(std::span<const iovec> from) override;
    ssize_t read(std::span<const iovec> into) override;
    void want(uint32_t readiness) override;
    void end() override;
    Fd release() override { return Fd(); }

private:
    void on_ready(uint32_t) override;  // the bell
    bool poll() override;
    bool doze() override;
    uint32_t ready();

    Loop &loop_;
    Segment &segment_;
    const Side side_;
    WatchSink &sink_;
    RingWriter<> writer_;
    RingReader<> reader_;
    std::unique_ptr<Watch> watch_;
    uint32_t wanted_ = 0;
    uint32_t fruitless_ = 0;  // looks in a row
    bool hung_up_ = false;
};

}  // namespace xfer::shm
