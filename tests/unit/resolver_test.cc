// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "loop/resolver.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "loop/uv_loop.h"
#include "util/fd.h"

using namespace xfer;

namespace {

constexpr uint64_t kSecond = 1000 * kNsPerMs;

struct Answer final : ResolveSink {
    void on_resolved(Result<std::vector<std::string>> result) override {
        ++count;
        if (result)
            addresses = *result;
        else
            failure = result.error();
    }
    int count = 0;
    std::vector<std::string> addresses;
    std::optional<Failure> failure;
};

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

std::unique_ptr<UvLoop> own() {
    auto loop = UvLoop::own(0);
    REQUIRE(loop);
    return std::move(*loop);
}

void turn_until(UvLoop &loop, const Answer &answer) {
    for (int i = 0; i < 200 && answer.count == 0; ++i)
        loop.turn(kSecond / 10);
}

}  // namespace

TEST_CASE("numeric addresses and localhost are answered later, and without a name server") {
    auto loop = own();
    const std::vector<std::string> both = {"127.0.0.1", "::1"};
    const std::map<std::string, std::vector<std::string>> table = {
        {"127.0.0.1", {"127.0.0.1"}},
        {"::1", {"::1"}},
        {"fe80::1%eth0", {"fe80::1%eth0"}},
        {"localhost", both},
        {"LocalHost", both}};
    for (const auto &entry : table) {
        CAPTURE(entry.first);
        Answer answer;
        std::unique_ptr<Resolving> asked;
        {
            UvLoop::Inside inside(*loop);
            asked = loop->resolve(entry.first, answer);
            CHECK(answer.count == 0);
        }
        loop->turn(0);
        CHECK(answer.count == 1);
        CHECK(!answer.failure);
        CHECK(answer.addresses == entry.second);
        UvLoop::Inside inside(*loop);
        asked.reset();
    }
}

TEST_CASE("a question may be forgotten before its answer") {
    auto loop = own();
    Answer answer;
    {
        UvLoop::Inside inside(*loop);
        loop->resolve("127.0.0.1", answer).reset();
    }
    loop->turn(0);
    CHECK(answer.count == 0);
}

TEST_CASE("a name server is asked for both families, and its refusal has a name") {
    auto loop = own();
    NameServer server;
    ReplyWhenAsked replies(server);
    Answer here, nowhere;
    std::unique_ptr<Resolver> resolver;
    std::unique_ptr<Resolving> first, second;
    std::unique_ptr<Watch> watch;
    {
        UvLoop::Inside inside(*loop);
        watch = loop->watch(server.fd(), replies);
        watch->want(kReadable);
        resolver = std::make_unique<Resolver>(*loop, server.address());
        first = resolver->ask("here.test.", here);
        second = resolver->ask("nowhere.test.", nowhere);
        CHECK(here.count + nowhere.count == 0);
    }
    turn_until(*loop, here);
    turn_until(*loop, nowhere);
    REQUIRE(here.count == 1);
    REQUIRE(here.addresses.size() == 2);
    std::sort(here.addresses.begin(), here.addresses.end());
    CHECK(here.addresses == std::vector<std::string>{"127.0.0.7", "fd00::7"});
    REQUIRE(nowhere.failure);
    CHECK(nowhere.failure->status == XFER_ENAME);
    CHECK(nowhere.failure->origin == XFER_ORIGIN_CARES);
    CHECK(nowhere.failure->native == ARES_ENOTFOUND);
    const std::string_view words = nowhere.failure->message;
    CHECK(words.find("nowhere.test.") != words.npos);
    UvLoop::Inside inside(*loop);
    first.reset();
    second.reset();
    resolver.reset();
    watch.reset();
}

TEST_CASE("a name server that never answers holds up nothing, and its question can be forgotten") {
    for (bool forget : {true, false}) {
        auto loop = own();
        NameServer silent;
        Answer answer, local;
        std::unique_ptr<Resolver> resolver;
        std::unique_ptr<Resolving> asked, other;
        {
            UvLoop::Inside inside(*loop);
            resolver = std::make_unique<Resolver>(*loop, silent.address());
            asked = resolver->ask("here.test.", answer);
            other = resolver->ask("localhost", local);
        }
        uint64_t start = uv_hrtime();
        turn_until(*loop, local);
        CHECK(uv_hrtime() - start < kSecond / 2);
        loop->turn(50 * kNsPerMs);
        CHECK(answer.count == 0);
        UvLoop::Inside inside(*loop);
        other.reset();
        if (forget) asked.reset();
        resolver.reset();  // with the question still open
        asked.reset();
        CHECK(answer.count == 0);
    }
}

TEST_CASE("the answer's callback may drop its question") {
    struct Drop final : ResolveSink {
        void on_resolved(Result<std::vector<std::string>>) override { question.reset(); }
        std::unique_ptr<Resolving> question;
    };
    auto loop = own();
    Drop drop;
    {
        UvLoop::Inside inside(*loop);
        drop.question = loop->resolve("::1", drop);
    }
    loop->turn(0);
    CHECK(!drop.question);
}

TEST_CASE("two threads may be the first to resolve at once") {
    auto work = [](UvLoop &loop, const NameServer &server) {
        Answer answer;
        UvLoop::Inside inside(loop);
        Resolver resolver(loop, server.address());
        auto asked = resolver.ask("here.test.", answer);
        CHECK(answer.count == 0);
    };
    auto one = own(), two = own();
    NameServer server;
    std::thread first(work, std::ref(*one), std::cref(server));
    std::thread second(work, std::ref(*two), std::cref(server));
    first.join();
    second.join();
}
