// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/tcp.h"

#include <cerrno>
#include <cstring>

#include "transport/tcp/link.h"
#include "transport/tcp/socket.h"
#include "util/memory.h"

namespace xfer {

namespace tcp {

namespace {

// Links made before others have their turn.
constexpr int kAcceptsPerTurn = 32;
// Without descriptors or memory, or when the engine has enough of them, nobody is accepted for so
// long; those who come meanwhile wait in the backlog.
constexpr uint64_t kPauseNs = 100 * kNsPerMs;

bool exhausted(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

class TcpListener final : public Listener, WatchSink, TimerSink {
public:
    TcpListener(Loop &loop, const Log &log, Buffers &buffers, AcceptSink &sink, Fd fd,
                std::string bound)
        : loop_(loop),
          log_(log),
          buffers_(buffers),
          sink_(sink),
          fd_(std::move(fd)),
          bound_(std::move(bound)) {}
    ~TcpListener() override { loop_.disarm(resume_); }
    bool begin() {
        watch_ = loop_.watch(fd_.get(), *this);
        if (watch_) watch_->want(kReadable);
        return watch_ != nullptr;
    }
    std::string bound() const override { return bound_; }

private:
    void on_ready(uint32_t) override {
        if (!in_memory([&] { accept(); })) pause("no memory");
    }
    void accept() {
        for (int i = 0; i < kAcceptsPerTurn; ++i) {
            if (sink_.full()) return pause("too many have not proved themselves");
            Address peer;
            Fd fd = accept_from(fd_.get(), peer);
            if (!fd) {
                if (exhausted(errno)) pause(std::strerror(errno));
                // One that went away before it was accepted says nothing about the next.
                if (errno == ECONNABORTED || errno == EINTR) continue;
                return;
            }
            auto link = std::make_unique<TcpLink>(loop_, log_, buffers_);
            if (!link->carry(std::move(fd), peer.uri(), {})) return pause("no memory");
            sink_.on_accept(std::move(link));
        }
    }
    void on_timer(Timer &) override { watch_->want(kReadable); }
    void pause(const char *why) {
        log_.warn("{}: accepting pauses: {}", bound_, why);
        watch_->want(0);
        loop_.arm(resume_, loop_.now() + kPauseNs);
    }

    Loop &loop_;
    const Log &log_;
    Buffers &buffers_;
    AcceptSink &sink_;
    Fd fd_;
    std::string bound_;
    std::unique_ptr<Watch> watch_;
    Timer resume_{*this};
};

class TcpTransport final : public Transport {
public:
    TcpTransport(Loop &loop, const Log &log) : loop_(loop), log_(log) {}
    std::string_view name() const override { return "tcp"; }
    bool serves(const Uri &uri) const override { return uri.scheme == "tcp"; }

    Result<std::unique_ptr<Listener>> listen(const Uri &uri, AcceptSink &sink) override {
        Result<Address> address =
            address_of(uri.host == "localhost" ? "127.0.0.1" : uri.host, uri.port_low);
        if (!address)
            return Failure{XFER_EADDR, XFER_ORIGIN_NONE, 0,
                           to_string(uri) + ": listening needs a numeric address or localhost"};
        for (uint32_t port = uri.port_low;; ++port) {
            address->set_port(static_cast<uint16_t>(port));
            Result<Fd> fd = listen_at(*address);
            if (!fd && fd.error().status == XFER_EADDRINUSE && port < uri.port_high) continue;
            if (!fd) return fd.error();
            Result<std::string> bound = dialable_uri(fd->get());
            if (!bound) return bound.error();
            auto listener = std::make_unique<TcpListener>(loop_, log_, buffers_, sink,
                                                          std::move(*fd), std::move(*bound));
            if (!listener->begin()) return no_watch();
            return std::unique_ptr<Listener>(std::move(listener));
        }
    }

    Result<std::unique_ptr<Link>> connect(const Uri &uri, LinkSink &sink) override {
        auto link = std::make_unique<TcpLink>(loop_, log_, buffers_);
        link->set_sink(sink);
        link->dial(uri);
        return std::unique_ptr<Link>(std::move(link));
    }

    std::unique_ptr<Link> adopt(LinkTicket ticket) override {
        auto link = std::make_unique<TcpLink>(loop_, log_, buffers_);
        if (!link->carry(std::move(ticket.fd), std::move(ticket.remote), ticket.unread))
            return nullptr;
        return link;
    }

private:
    static Failure no_watch() {
        return {XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "the loop takes no more descriptors"};
    }

    Loop &loop_;
    const Log &log_;
    Buffers buffers_;
};

}  // namespace

}  // namespace tcp

Result<std::unique_ptr<Transport>> make_tcp(Loop &loop, const Log &log) {
    return std::unique_ptr<Transport>(std::make_unique<tcp::TcpTransport>(loop, log));
}

}  // namespace xfer
