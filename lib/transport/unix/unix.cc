// SPDX-License-Identifier: Apache-2.0
#include "transport/unix/unix.h"

#include "transport/stream/channels.h"
#include "transport/unix/path.h"

namespace xfer {

namespace {

class UnixListener final : public Listener {
public:
    explicit UnixListener(unix_path::File file) : file_(std::move(file)) {}
    ~UnixListener() override { unix_path::remove(file_); }
    std::vector<std::string> dialable() const override { return accepts->dialable(); }

    std::unique_ptr<Listener> accepts;

private:
    const unix_path::File file_;
};

class UnixTransport final : public Transport {
public:
    UnixTransport(Loop &loop, const Log &log) : channels_(loop, log) {}
    std::string_view name() const override { return "unix"; }
    bool serves(const Uri &uri) const override { return uri.scheme == "unix"; }

    Result<std::unique_ptr<Listener>> listen(const Uri &uri, uint32_t mode,
                                             AcceptSink &sink) override {
        unix_path::File file;
        Result<Fd> fd = unix_path::listen(uri.path, mode, file);
        if (!fd) return fd.error();
        auto listener = std::make_unique<UnixListener>(std::move(file));
        auto accepts = channels_.listen(std::move(*fd), {to_string(uri)}, sink);
        if (!accepts) return accepts.error();
        listener->accepts = std::move(*accepts);
        return std::unique_ptr<Listener>(std::move(listener));
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

std::unique_ptr<Transport> make_unix(Loop &loop, const Log &log) {
    return std::make_unique<UnixTransport>(loop, log);
}

}  // namespace xfer
