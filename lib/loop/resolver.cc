// SPDX-License-Identifier: Apache-2.0
#include "loop/resolver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/time.h>

#include <optional>
#include <utility>
#include <vector>

#include "util/memory.h"

namespace xfer {

namespace {

using Addresses = std::vector<std::string>;

// Nothing is canceled but for want of memory.
Failure name_failure(const std::string &host, int status) {
    const bool starved = status == ARES_ENOMEM || status == ARES_ECANCELLED;
    return {starved ? XFER_ENOMEM : XFER_ENAME, XFER_ORIGIN_CARES, status,
            Text(host) + ": " + ares_strerror(status)};
}

// What needs no name server; empty if it does.
Addresses known_addresses(const std::string &host) {
    in6_addr bytes;
    if (inet_pton(AF_INET, host.c_str(), &bytes) == 1) return {host};
    // The zone of a link-local address ("fe80::1%eth0") is for whoever connects.
    if (inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &bytes) == 1) return {host};
    if (strcasecmp(host.c_str(), "localhost") == 0) return {"127.0.0.1", "::1"};
    return {};
}

Addresses numeric(const ares_addrinfo &answer) {
    Addresses found;
    for (const ares_addrinfo_node *node = answer.nodes; node; node = node->ai_next) {
        char text[INET6_ADDRSTRLEN];
        const void *bytes = nullptr;
        if (node->ai_family == AF_INET)
            bytes = &reinterpret_cast<const sockaddr_in *>(node->ai_addr)->sin_addr;
        else if (node->ai_family == AF_INET6)
            bytes = &reinterpret_cast<const sockaddr_in6 *>(node->ai_addr)->sin6_addr;
        if (bytes && inet_ntop(node->ai_family, bytes, text, sizeof text)) found.emplace_back(text);
    }
    return found;
}

// Belongs to its Asked, and to c-ares while that works on it: the last of the two frees it.
struct NameQuery final : Task {
    NameQuery(Loop &on, std::string name, ResolveSink &to)
        : loop(on), host(std::move(name)), sink(&to) {}
    void answer(Result<Addresses> with) {
        answered.emplace(std::move(with));
        loop.defer(*this);
    }
    void run() override { sink->on_resolved(*std::move(answered)); }  // may destroy this

    Loop &loop;
    std::string host;
    ResolveSink *sink;  // null once it was forgotten
    bool with_cares = false;
    std::optional<Result<Addresses>> answered;
};

class Asked final : public Resolving {
public:
    explicit Asked(NameQuery &query) : query_(query) {}
    ~Asked() override {
        query_.unlink();
        query_.sink = nullptr;
        if (!query_.with_cares) delete &query_;
    }

private:
    NameQuery &query_;
};

}  // namespace

// One of c-ares' sockets. c-ares closes it right after telling that it is done with it.
class Resolver::Socket final : private WatchSink {
public:
    Socket(Resolver &resolver, ares_socket_t fd)
        : resolver_(resolver), fd_(fd), watch_(resolver.loop_.watch(fd, *this, 0)) {}
    // False: the loop can't watch one more descriptor.
    bool want(uint32_t readiness) {
        if (watch_) watch_->want(readiness);
        return watch_ != nullptr;
    }

private:
    void on_ready(uint32_t readiness) override {
        resolver_.process(readiness & kReadable ? fd_ : ARES_SOCKET_BAD,
                          readiness & kWritable ? fd_ : ARES_SOCKET_BAD);  // may destroy this
    }
    Resolver &resolver_;
    ares_socket_t fd_;
    std::unique_ptr<Watch> watch_;
};

Resolver::Resolver(Loop &loop, std::string servers) : loop_(loop), servers_(std::move(servers)) {}

Resolver::~Resolver() {
    loop_.disarm(timer_);
    if (channel_) ares_destroy(channel_);
}

std::unique_ptr<Resolving> Resolver::ask(const std::string &host, ResolveSink &sink) {
    auto made = std::make_unique<NameQuery>(loop_, host, sink);
    auto asked = std::make_unique<Asked>(*made);
    NameQuery *query = made.release();
    Addresses known = known_addresses(host);
    if (!known.empty()) {
        query->answer(std::move(known));
        return asked;
    }
    int error = open_channel();
    if (error != ARES_SUCCESS) {
        query->answer(name_failure(host, error));
        return asked;
    }
    ares_addrinfo_hints hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    query->with_cares = true;
    ares_getaddrinfo(channel_, host.c_str(), nullptr, &hints, on_answer, query);
    end_starved();
    pace();
    return asked;
}

int Resolver::open_channel() {
    if (channel_) return ARES_SUCCESS;
    // Counted by the process, and to be called by one thread at a time; there is nothing that we
    // would undo.
    static const int library = ares_library_init(ARES_LIB_INIT_ALL);
    if (library != ARES_SUCCESS) return library;
    ares_options options{};
    options.sock_state_cb = on_socket;
    options.sock_state_cb_data = this;
    int error = ares_init_options(&channel_, &options, ARES_OPT_SOCK_STATE_CB);
    if (error == ARES_SUCCESS && !servers_.empty()) {
        error = ares_set_servers_ports_csv(channel_, servers_.c_str());
        if (error != ARES_SUCCESS) ares_destroy(channel_);
    }
    if (error != ARES_SUCCESS) channel_ = nullptr;
    return error;
}

void Resolver::on_answer(void *arg, int status, int, ares_addrinfo *answer) {
    auto *query = static_cast<NameQuery *>(arg);
    query->with_cares = false;
    if (!query->sink) {
        delete query;
    } else if (status != ARES_EDESTRUCTION) {  // then nobody runs tasks any more
        Addresses found;
        if (status == ARES_SUCCESS && !catch_bad_alloc([&] { found = numeric(*answer); }))
            status = ARES_ENOMEM;
        if (status == ARES_SUCCESS && found.empty()) status = ARES_ENODATA;
        if (status == ARES_SUCCESS)
            query->answer(std::move(found));
        else
            query->answer(name_failure(query->host, status));
    }
    if (answer) ares_freeaddrinfo(answer);
}

void Resolver::on_socket(void *self, ares_socket_t fd, int readable, int writable) {
    Resolver &resolver = *static_cast<Resolver *>(self);
    if (!readable && !writable) {
        resolver.sockets_.erase(fd);
        return;
    }
    uint32_t readiness = 0;
    if (readable) readiness |= kReadable;
    if (writable) readiness |= kWritable;
    if (!catch_bad_alloc([&] { resolver.watch(fd, readiness); })) resolver.starved_ = true;
}

void Resolver::watch(ares_socket_t fd, uint32_t readiness) {
    auto &socket = sockets_[fd];
    if (!socket) socket = std::make_unique<Socket>(*this, fd);
    if (!socket->want(readiness)) starved_ = true;
}

void Resolver::process(ares_socket_t readable, ares_socket_t writable) {
    ares_process_fd(channel_, readable, writable);
    end_starved();
    pace();
}

// A socket that nobody watches: what is asked by it would wait for its time-out, and so would all
// that is asked by it later.
void Resolver::end_starved() {
    if (std::exchange(starved_, false)) ares_cancel(channel_);
}

void Resolver::on_timer(Timer &) {
    process(ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

void Resolver::pace() {
    timeval left;
    if (!ares_timeout(channel_, nullptr, &left)) return loop_.disarm(timer_);
    uint64_t ns = static_cast<uint64_t>(left.tv_sec) * 1'000'000'000 +
                  static_cast<uint64_t>(left.tv_usec) * 1000;
    // c-ares has a clock of its own: a little later than asked is in time for both.
    loop_.arm(timer_, loop_.now() + ns + kNsPerMs);
}

}  // namespace xfer
