// SPDX-License-Identifier: Apache-2.0
// A name that a name server is asked for, while one allocation fails: ours, or one of c-ares. The
// question is answered all the same, soon, and the next one well.
#include <chrono>
#include <cstdlib>
#include <vector>

#include "../unit/name_server.h"
#include "loop/own_loop.h"
#include "loop/resolver.h"
#include "util/memory.h"

extern "C" {
#include "inject.h"
}

using namespace xfer;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLimit = std::chrono::seconds(10);

struct Heard final : ResolveSink {
    void on_resolved(Result<std::vector<std::string>> result) override {
        ++count;
        status = result ? XFER_OK : result.error().status;
        addresses = result ? (*result).size() : 0;
    }
    int count = 0;
    Status status = XFER_OK;
    size_t addresses = 0;
};

// False if the asking was refused.
bool ask(OwnLoop &loop, std::unique_ptr<Resolver> &resolver, const std::string &servers,
         Heard &heard) {
    const auto began = Clock::now();
    std::unique_ptr<Resolving> asked;
    {
        EngineLoop::Inside inside(loop);
        const bool begun = catch_bad_alloc([&] {
            if (!resolver) resolver = std::make_unique<Resolver>(loop, servers);
            asked = resolver->ask("here.test.", heard);
        });
        if (!begun) return false;
    }
    while (heard.count == 0 && Clock::now() < began + kLimit)
        loop.turn(10 * kNsPerMs);
    EngineLoop::Inside inside(loop);
    asked.reset();
    return true;
}

// How many allocations there were.
long try_case(long nth) {
    CAPTURE(nth);
    auto loop = OwnLoop::open();
    REQUIRE(loop);
    NameServer server;
    ReplyWhenAsked replies(server);
    std::unique_ptr<Watch> watch;
    {
        EngineLoop::Inside inside(**loop);
        watch = (*loop)->watch(server.fd(), replies, kReadable);
    }
    const std::string servers = server.address();
    std::unique_ptr<Resolver> resolver;
    Heard heard, again;
    const Fault fault{kAlloc, ENOMEM, nth, false, false};
    inject_arm(&fault);
    const bool asked = ask(**loop, resolver, servers, heard);
    inject_disarm();
    const long count = inject_count(kAlloc);
    CHECK(heard.count == (asked ? 1 : 0));
    CHECK((heard.status == XFER_OK || heard.status == XFER_ENOMEM));
    if (nth == 0) CHECK(heard.addresses == 2);
    CHECK(ask(**loop, resolver, servers, again));
    CHECK(again.addresses == 2);
    EngineLoop::Inside inside(**loop);
    resolver.reset();
    watch.reset();
    return count;
}

}  // namespace

TEST_CASE("a question ends, whatever lacks memory") {
    // An answer that c-ares lacks memory to look at is a lost one to it: it asks again, soon here.
    // Who asks by a socket that nobody watches hears ARES_ETIMEOUT in the end, which does not pass.
    setenv("RES_OPTIONS", "retrans:100 retry:2", 1);
    try_case(0);
    const long count = try_case(0);
    REQUIRE(count > 0);
    for (long nth = 1; nth <= count; ++nth) {
        const long before = inject_live();
        try_case(nth);
        CAPTURE(nth);
        CHECK(inject_live() <= before);
    }
}
