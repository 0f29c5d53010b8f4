// SPDX-License-Identifier: Apache-2.0
#include "loop/resolver.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "loop/own_loop.h"
#include "name_server.h"

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

std::unique_ptr<OwnLoop> own() {
    auto loop = OwnLoop::open();
    REQUIRE(loop);
    return std::move(*loop);
}

void turn_until(OwnLoop &loop, const Answer &answer) {
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
            EngineLoop::Inside inside(*loop);
            asked = loop->resolve(entry.first, answer);
            CHECK(answer.count == 0);
        }
        loop->turn(0);
        CHECK(answer.count == 1);
        CHECK(!answer.failure);
        CHECK(answer.addresses == entry.second);
        EngineLoop::Inside inside(*loop);
        asked.reset();
    }
}

TEST_CASE("a question may be forgotten before its answer") {
    auto loop = own();
    Answer answer;
    {
        EngineLoop::Inside inside(*loop);
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
        EngineLoop::Inside inside(*loop);
        watch = loop->watch(server.fd(), replies, kReadable);
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
    EngineLoop::Inside inside(*loop);
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
            EngineLoop::Inside inside(*loop);
            resolver = std::make_unique<Resolver>(*loop, silent.address());
            asked = resolver->ask("here.test.", answer);
            other = resolver->ask("localhost", local);
        }
        uint64_t start = loop->clock();
        turn_until(*loop, local);
        CHECK(loop->clock() - start < kSecond);
        loop->turn(50 * kNsPerMs);
        CHECK(answer.count == 0);
        EngineLoop::Inside inside(*loop);
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
        EngineLoop::Inside inside(*loop);
        drop.question = loop->resolve("::1", drop);
    }
    loop->turn(0);
    CHECK(!drop.question);
}

TEST_CASE("two threads may be the first to resolve at once") {
    auto work = [](OwnLoop &loop, const NameServer &server) {
        Answer answer;
        EngineLoop::Inside inside(loop);
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
