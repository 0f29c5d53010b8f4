// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

#include "loop/loop.h"
#include "util/fd.h"

namespace xfer {

// A name server on loopback. It knows "here.test." in both families, and refuses to know anything
// else.
class NameServer {
public:
    NameServer() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        REQUIRE(bind(socket_.get(), reinterpret_cast<sockaddr *>(&at), size) == 0);
        REQUIRE(getsockname(socket_.get(), reinterpret_cast<sockaddr *>(&at), &size) == 0);
        port_ = ntohs(at.sin_port);
    }
    std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
    int fd() const { return socket_.get(); }

    void reply() {
        uint8_t packet[512];
        sockaddr_in from{};
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(socket_.get(), packet, sizeof packet - 32, 0,
                               reinterpret_cast<sockaddr *>(&from), &size);
        if (got < 17) return;
        static const char kHere[] = "\4here\4test";
        bool here = std::memcmp(packet + 12, kHere, sizeof kHere) == 0;
        size_t question_end = 12 + std::strlen(reinterpret_cast<char *>(packet) + 12) + 1 + 4;
        uint8_t type = packet[question_end - 3];  // 1: A, 28: AAAA
        packet[2] = 0x81, packet[3] = here ? 0x80 : 0x83;
        packet[7] = here ? 1 : 0;
        packet[8] = packet[9] = packet[10] = packet[11] = 0;
        size_t end = question_end;
        if (here) {
            uint8_t length = type == 1 ? 4 : 16;
            const uint8_t record[] = {0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, length};
            std::memcpy(packet + end, record, sizeof record);
            end += sizeof record;
            std::memset(packet + end, 0, length);
            packet[end] = type == 1 ? 127 : 0xfd;
            packet[end + length - 1] = 7;
            end += length;
        }
        sendto(socket_.get(), packet, end, 0, reinterpret_cast<sockaddr *>(&from), size);
    }

private:
    Fd socket_;
    uint16_t port_ = 0;
};

struct ReplyWhenAsked final : WatchSink {
    explicit ReplyWhenAsked(NameServer &to) : server(to) {}
    void on_ready(uint32_t) override { server.reply(); }
    NameServer &server;
};

}  // namespace xfer
