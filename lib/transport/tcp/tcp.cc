// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp.h"

#include "transport/stream/channels.h"
#include "transport/stream/socket.h"
#include "transport/tcp/dialable.h"

namespace xfer {

namespace tcp {

namespace {

class TcpTransport final : public Transport {
public:
    TcpTransport(Loop &loop, const Log &log) : channels_(loop, log) {}
    std::string_view name() const override { return "tcp"; }
    bool serves(const Uri &uri) const override { return uri.scheme == "tcp"; }

    Result<std::unique_ptr<Listener>> listen(const Uri &uri, uint32_t, AcceptSink &sink) override {
        auto address =
            stream::numeric_address(uri.host == "localhost" ? "127.0.0.1" : uri.host, uri.port_low);
        if (!address)
            return Failure{XFER_EADDR, XFER_ORIGIN_NONE, 0,
                           to_string(uri) + ": listening needs a numeric address or localhost"};
        for (uint32_t port = uri.port_low;; ++port) {
            address->set_port(static_cast<uint16_t>(port));
            Result<Fd> fd = stream::listen_at(*address);
            if (!fd && fd.error().status == XFER_EADDRINUSE && port < uri.port_high) continue;
            if (!fd) return fd.error();
            auto dialable = dialable_uris(fd->get());
            if (!dialable) return dialable.error();
            return channels_.listen(std::move(*fd), std::move(*dialable), sink);
        }
    }

    Result<std::unique_ptr<Channel>> connect(const Uri &uri, ChannelSink &sink) override {
        return channels_.connect(uri, sink);
    }

    std::unique_ptr<Channel> adopt(DetachedChannel ticket) override {
        return channels_.adopt(std::move(ticket));
    }

private:
    stream::Channels channels_;
};

}  // namespace

}  // namespace tcp

std::unique_ptr<Transport> make_tcp(Loop &loop, const Log &log) {
    return std::make_unique<tcp::TcpTransport>(loop, log);
}

}  // namespace xfer
