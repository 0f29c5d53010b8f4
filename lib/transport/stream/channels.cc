// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/channels.h"

#include "transport/stream/channel.h"
#include "transport/stream/listener.h"

namespace xfer::stream {

Result<std::unique_ptr<Listener>> Channels::listen(Fd fd, std::vector<std::string> dialable,
                                                   AcceptSink &sink) {
    auto listener = std::make_unique<StreamListener>(
        loop_, log_, sink, std::move(fd), std::move(dialable),
        [this](Fd from, std::string remote) -> Result<std::unique_ptr<Channel>> {
            auto channel = adopt({std::move(from), {}, std::move(remote)});
            if (!channel) return no_memory();
            return channel;
        });
    if (!listener->begin())
        return Failure{XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "the loop takes no more descriptors"};
    return std::unique_ptr<Listener>(std::move(listener));
}

std::unique_ptr<Channel> Channels::connect(const Uri &uri, ChannelSink &sink) {
    auto channel = std::make_unique<StreamChannel>(loop_, log_, buffers_);
    channel->set_sink(sink);
    channel->dial(uri);
    return channel;
}

std::unique_ptr<Channel> Channels::adopt(DetachedChannel ticket) {
    auto channel = std::make_unique<StreamChannel>(loop_, log_, buffers_);
    if (!channel->carry(std::move(ticket.fd), std::move(ticket.remote), ticket.unread))
        return nullptr;
    return channel;
}

}  // namespace xfer::stream
