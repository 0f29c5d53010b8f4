// SPDX-License-Identifier: Apache-2.0
// Accepts from a listening socket, as long as there is room for more.
#pragma once

#include <memory>
#include <string>

#include "transport/stream/buffers.h"
#include "util/log.h"

namespace xfer::stream {

class StreamListener final : public Listener, WatchSink, TimerSink {
public:
    StreamListener(Loop &loop, const Log &log, Buffers &buffers, AcceptSink &sink, Fd fd,
                   std::string bound);
    ~StreamListener() override;
    bool begin();  // false: the loop can't watch it
    std::string bound() const override { return bound_; }

private:
    void on_ready(uint32_t) override;
    void on_timer(Timer &) override;
    void accept();
    void pause(const char *why);

    Loop &loop_;
    const Log &log_;
    Buffers &buffers_;
    AcceptSink &sink_;
    Fd fd_;
    std::string bound_;
    std::unique_ptr<Watch> watch_;
    Timer resume_{*this};
};

}  // namespace xfer::stream
