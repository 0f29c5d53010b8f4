// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm.h"

#include "transport/shm/channel.h"
#include "transport/shm/rendezvous.h"
#include "transport/stream/listener.h"

namespace xfer {

namespace {

// What of ours has a name there is told apart from others' by it.
std::string in_kernel(const Uri &uri) {
    return "xfer-" + uri.host;
}

Failure with_name(Failure why, const Uri &uri) {
    why.message = to_string(uri) + ": " + why.message;
    return why;
}

class ShmTransport final : public Transport {
public:
    ShmTransport(Loop &loop, const Log &log) : loop_(loop), log_(log) {}
    std::string_view name() const override { return "shm"; }
    bool serves(const Uri &uri) const override { return uri.scheme == "shm"; }
    Scope scope(const Uri &) const override { return Scope::host; }

    Result<std::unique_ptr<Listener>> listen(const Uri &uri, uint32_t, AcceptSink &sink) override {
        Result<Fd> fd = shm::listen_at(in_kernel(uri));
        if (!fd) return with_name(fd.error(), uri);
        auto listener = std::make_unique<stream::StreamListener>(
            loop_, log_, sink, std::move(*fd), std::vector{to_string(uri)},
            [this](Fd from, std::string remote) {
                return carry(std::move(from), std::move(remote));
            });
        if (!listener->begin())
            return Failure{XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "the loop takes no more descriptors"};
        return std::unique_ptr<Listener>(std::move(listener));
    }

    Result<std::unique_ptr<Channel>> connect(const Uri &uri, ChannelSink &sink) override {
        Result<Fd> fd = shm::connect_to(in_kernel(uri));
        if (!fd) {
            Failure why = with_name(fd.error(), uri);
            // Nobody is there, or too many are on their way to who is.
            if (why.status != XFER_ENOFILES && why.status != XFER_ENOMEM)
                why.status = XFER_EUNREACHABLE;
            return why;
        }
        auto channel = std::make_unique<shm::ShmChannel>(loop_, log_, buffers_, to_string(uri));
        channel->set_sink(sink);
        if (Failure why = channel->carry(std::move(*fd), true); why.status != XFER_OK)
            return with_name(why, uri);
        return std::unique_ptr<Channel>(std::move(channel));
    }

    std::unique_ptr<Channel> adopt(DetachedChannel ticket) override {
        auto channel = carry(std::move(ticket.fd), std::move(ticket.remote));
        if (!channel) return nullptr;
        return std::move(*channel);
    }

private:
    Result<std::unique_ptr<Channel>> carry(Fd fd, std::string remote) {
        auto channel = std::make_unique<shm::ShmChannel>(loop_, log_, buffers_, std::move(remote));
        if (Failure why = channel->carry(std::move(fd), false); why.status != XFER_OK) return why;
        return std::unique_ptr<Channel>(std::move(channel));
    }

    Loop &loop_;
    const Log &log_;
    stream::Buffers buffers_;
};

}  // namespace

std::unique_ptr<Transport> make_shm(Loop &loop, const Log &log) {
    return std::make_unique<ShmTransport>(loop, log);
}

}  // namespace xfer
