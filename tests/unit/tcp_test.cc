// SPDX-License-Identifier: Apache-2.0
// TCP: listening, names, dialing, and sockets that hold more than one turn takes.
#include <netinet/in.h>

#include "stream_fixture.h"
#include "transport/stream/dial.h"

using namespace xfer;
using namespace xfer::test;

TEST_CASE("a range of ports is tried in order") {
    Listening first;
    const uint16_t port = uri(first.listener->bound()).port_low;
    auto range = "tcp://127.0.0.1:" + std::to_string(port) + "-" +
                 std::to_string(std::min(port + 20, 65535));
    auto second = first.transport->listen(uri(range), 0600, first.accepting);
    REQUIRE(second);
    CHECK(uri((*second)->bound()).port_low > port);
    auto same = first.transport->listen(uri(first.listener->bound()), 0600, first.accepting);
    REQUIRE(!same);
    CHECK(same.error().status == XFER_EADDRINUSE);
    CHECK(same.error().native == EADDRINUSE);
}

TEST_CASE("what is bound can be dialed") {
    Listening base;
    for (const char *text : {"tcp://0.0.0.0:0", "tcp://localhost:0", "tcp://127.0.0.2:0"}) {
        CAPTURE(text);
        auto listener = base.transport->listen(uri(text), 0600, base.accepting);
        REQUIRE(listener);
        Uri bound = uri((*listener)->bound());
        CHECK(bound.host != "0.0.0.0");
        CHECK(bound.port_low != 0);
        RecordingSink sink;
        base.accepting.channels.clear();
        auto channel = base.transport->connect(bound, sink);
        REQUIRE(channel);
        CHECK(base.until([&] { return sink.up && !base.accepting.channels.empty(); }));
        CHECK((*channel)->remote() == (*listener)->bound());
        CHECK(parse_uri(base.accepting.channels[0]->remote()));
    }
    auto named = base.transport->listen(uri("tcp://no.such.host.invalid:0"), 0600, base.accepting);
    REQUIRE(!named);
    CHECK(named.error().status == XFER_EADDR);
    auto foreign = base.transport->listen(uri("tcp://192.0.2.1:0"), 0600, base.accepting);
    REQUIRE(!foreign);
    CHECK(foreign.error().status == XFER_EADDR);
}

TEST_CASE("a name is resolved before it is dialed") {
    Listening base;
    RecordingSink sink;
    auto channel = base.transport->connect(
        uri("tcp://localhost:" + std::to_string(uri(base.listener->bound()).port_low)), sink);
    REQUIRE(channel);
    CHECK(!sink.up);
    CHECK(base.until([&] { return sink.up; }));
}

// Its queue is full: it leaves what is dialed without an answer until there is room.
TEST_CASE("an address that answers late is taken all the same, beside one that does not") {
    Listening base;
    Fd late(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    Fd never(::socket(AF_INET6, SOCK_STREAM, 0));
    auto at = *stream::numeric_address("127.0.0.1", 0);
    REQUIRE(::bind(late.get(), at.get(), at.size) == 0);
    at = stream::local_address(late.get());
    const uint16_t port = ntohs(reinterpret_cast<const sockaddr_in *>(at.get())->sin_port);
    auto other = stream::numeric_address("::1", port);
    if (!other || ::bind(never.get(), other->get(), other->size) != 0) {
        MESSAGE("skipped: no ::1 here, or that port of it is taken");
        return;
    }
    REQUIRE(::listen(late.get(), 0) == 0);
    REQUIRE(::listen(never.get(), 0) == 0);
    std::vector<Fd> fill;
    for (int i = 0; i < 4; ++i)
        for (const stream::Address *to : {&at, &*other}) {
            fill.emplace_back(::socket(to->family(), SOCK_STREAM | SOCK_NONBLOCK, 0));
            ::connect(fill.back().get(), to->get(), to->size);
        }
    RecordingSink sink;
    auto channel = base.transport->connect(uri("tcp://localhost:" + std::to_string(port)), sink);
    REQUIRE(channel);
    const uint64_t since = base.loop->now();
    base.until([&] { return base.loop->now() - since > 2 * stream::kNextAddressNs; });
    CHECK(!sink.up);
    fill.clear();
    for (int i = 0; i < 4; ++i)
        Fd(static_cast<int>(syscall(SYS_accept4, late.get(), nullptr, nullptr, SOCK_NONBLOCK)));
    CHECK(base.until([&] { return sink.up; }));  // when the first SYN is sent again
}

TEST_CASE("nobody there") {
    Listening base;
    std::string address = base.listener->bound();
    base.listener.reset();
    RecordingSink sink;
    sink.in_method = true;
    auto channel = base.transport->connect(uri(address), sink);
    sink.in_method = false;
    REQUIRE(channel);
    REQUIRE(base.until([&] { return sink.down.has_value(); }));
    CHECK(sink.down->status == XFER_EUNREACHABLE);
    CHECK(sink.down->origin == XFER_ORIGIN_OS);
    CHECK(sink.down->native == ECONNREFUSED);
    CHECK(!sink.up);
}

TEST_CASE("a dial can be given up") {
    Listening base;
    for (const char *text : {"tcp://localhost:1", "tcp://192.0.2.1:1"}) {
        RecordingSink sink;
        auto channel = base.transport->connect(uri(text), sink);
        REQUIRE(channel);
        (*channel)->close({XFER_ETIMEDOUT, 0, 0, "too long"});
        REQUIRE(base.until([&] { return sink.down.has_value(); }));
        CHECK(sink.down->status == XFER_ETIMEDOUT);
    }
}

// Of TCP alone: a UNIX socket holds less than a turn takes.
TEST_CASE("a peer that never stops sending leaves others their turn") {
    Raw raw;
    std::vector<uint8_t> all;
    for (uint64_t seq = 1; seq <= 64; ++seq) {
        std::vector<uint8_t> put = put_of(seq, pattern(100'000, 1));
        all.insert(all.end(), put.begin(), put.end());
    }
    // As much as the sockets take, before the channel looks.
    size_t queued = 0;
    for (;;) {
        ssize_t sent = ::send(raw.fd.get(), all.data() + queued, all.size() - queued,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent <= 0) break;
        queued += static_cast<size_t>(sent);
    }
    REQUIRE(queued > (3 << 20));
    raw.loop->turn(kNsPerMs);
    CHECK(raw.there.served_put > 0);
    CHECK(raw.there.served_put < (3 << 20));
}
