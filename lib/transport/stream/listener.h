// SPDX-License-Identifier: Apache-2.0
// Accepts from a listening socket, as long as there is room for more, and makes channels of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"
#include "util/fork_guard.h"
#include "util/log.h"
#include "util/log_limit.h"

namespace xfer::stream {

// A channel over an accepted socket. XFER_EACCESS: who is there is not let in; else: not now.
using Carry = std::function<Result<std::unique_ptr<Channel>>(Fd fd, std::string remote)>;

class StreamListener final : public Listener, WatchSink, TimerSink {
public:
    StreamListener(Loop &loop, const Log &log, AcceptSink &sink, Fd fd,
                   std::vector<std::string> dialable, Carry carry);
    ~StreamListener() override;
    bool begin();  // false: the loop can't watch it
    std::vector<std::string> dialable() const override { return dialable_; }

private:
    void on_ready(uint32_t) override;
    void on_timer(Timer &) override;
    void accept();
    void not_let_in(const Failure &why);
    void turn_away(const Fd &fd);
    void pause(const char *why);
    void sleep(uint64_t ns);

    Loop &loop_;
    const Log &log_;
    AcceptSink &sink_;
    Fd fd_;
    ForkGuard fork_guard_;
    const std::vector<std::string> dialable_;
    const Carry carry_;
    bool is_unix_ = false;
    bool takes_words_ = false;  // of a handshake, as soon as it is connected
    LogLimit strangers_;
    std::unique_ptr<Watch> watch_;
    Timer resume_{*this};
};

}  // namespace xfer::stream
