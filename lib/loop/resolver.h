// SPDX-License-Identifier: Apache-2.0
// Names to addresses, by c-ares on a loop: no thread, nothing that waits. Numeric addresses and
// "localhost" need no name server and are answered without one, but later all the same. Thread: the
// loop's.
#pragma once

#include <ares.h>

#include <map>
#include <memory>
#include <string>

#include "loop/loop.h"

namespace xfer {

class Resolver final : private TimerSink {
public:
    // `servers` ("host:port,...") instead of those of the system.
    explicit Resolver(Loop &loop, std::string servers = {});
    ~Resolver();
    Resolver(const Resolver &) = delete;
    Resolver &operator=(const Resolver &) = delete;

    std::unique_ptr<Resolving> ask(const std::string &host, ResolveSink &sink);

private:
    class Socket;

    int open_channel();
    void pace();
    void on_timer(Timer &timer) override;
    void process(ares_socket_t readable, ares_socket_t writable);
    void end_starved();
    void watch(ares_socket_t fd, uint32_t readiness);
    static void on_socket(void *self, ares_socket_t fd, int readable, int writable);
    static void on_answer(void *question, int status, int timeouts, ares_addrinfo *addresses);

    Loop &loop_;
    std::string servers_;
    ares_channel channel_ = nullptr;  // opened by the first name that needs it
    Timer timer_{*this};              // for the next time-out of c-ares
    std::map<ares_socket_t, std::unique_ptr<Socket>> sockets_;
    bool starved_ = false;  // memory lacked inside a call of c-ares, which must not see that
};

}  // namespace xfer
