// SPDX-License-Identifier: Apache-2.0
// The channels and listeners of a transport over sockets: what they share, and how they are made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/stream/buffers.h"
#include "util/log.h"

namespace xfer::stream {

class Channels {
public:
    Channels(Loop &loop, const Log &log) : loop_(loop), log_(log) {}

    Result<std::unique_ptr<Listener>> listen(Fd fd, std::vector<std::string> dialable,
                                             AcceptSink &sink);
    std::unique_ptr<Channel> connect(const Uri &uri, ChannelSink &sink);
    std::unique_ptr<Channel> adopt(DetachedChannel ticket);

private:
    Loop &loop_;
    const Log &log_;
    Buffers buffers_;
};

}  // namespace xfer::stream
