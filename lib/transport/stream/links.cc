// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/links.h"

#include "transport/stream/link.h"
#include "transport/stream/listener.h"

namespace xfer::stream {

Result<std::unique_ptr<Listener>> Links::listen(Fd fd, std::vector<std::string> dialable,
                                                AcceptSink &sink) {
    auto listener = std::make_unique<StreamListener>(
        loop_, log_, sink, std::move(fd), std::move(dialable),
        [this](Fd from, std::string remote) -> Result<std::unique_ptr<Link>> {
            auto link = adopt({std::move(from), {}, std::move(remote)});
            if (!link) return no_memory();
            return link;
        });
    if (!listener->begin())
        return Failure{XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "the loop takes no more descriptors"};
    return std::unique_ptr<Listener>(std::move(listener));
}

std::unique_ptr<Link> Links::connect(const Uri &uri, LinkSink &sink) {
    auto link = std::make_unique<StreamLink>(loop_, log_, buffers_);
    link->set_sink(sink);
    link->dial(uri);
    return link;
}

std::unique_ptr<Link> Links::adopt(DetachedLink ticket) {
    auto link = std::make_unique<StreamLink>(loop_, log_, buffers_);
    if (!link->carry(std::move(ticket.fd), std::move(ticket.remote), ticket.unread)) return nullptr;
    return link;
}

}  // namespace xfer::stream
