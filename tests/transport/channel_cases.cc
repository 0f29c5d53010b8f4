// SPDX-License-Identifier: Apache-2.0
// What core relies on of every channel (transport/channel.h).
#include <doctest/doctest.h>

#include "ends.h"
#include "wire/hello.h"

using namespace xfer;
using namespace xfer::test;
using doctest::test_suite;

namespace {

Frame lookup(uint64_t seq, size_t length) {
    Frame frame;
    frame.type = FrameType::lookup;
    frame.seq = seq;
    frame.length = static_cast<uint32_t>(length);
    return frame;
}

// Cases that a loopback, whose ends are one and the same, does not have.
constexpr const char *kTwoEnds = "two-ends";

constexpr int kSomeTurns = 300;  // in which all that is on its way comes

// A message of a handshake, as a whole; none of these is its last.
std::vector<uint8_t> words(Status status) {
    Hello hello;
    hello.kind = HelloKind::refuse;
    hello.status = status;
    return encode_hello(hello);
}

}  // namespace

TEST_CASE("messages of a handshake come whole and in order, both ways" * test_suite(kTwoEnds)) {
    auto ends = make_strangers();
    Channel *const from[] = {ends->channel.get(), &ends->back()};
    RecordingSink *const to[] = {&ends->there(), &ends->here};
    for (int way = 0; way < 2; ++way) {
        const Status statuses[] = {XFER_EAUTH, XFER_EOVERLOAD, XFER_EIDENTITY};
        for (const Status status : statuses)
            ends->inside([&] { return from[way]->send_hello(words(status)), true; });
        REQUIRE(ends->until([&] { return to[way]->hellos.size() == 3; }));
        for (size_t i = 0; i < 3; ++i)
            CHECK(to[way]->hellos[i] == words(statuses[i]));
    }
}

TEST_CASE("a channel that was detached goes on where it is adopted, and has lost nothing" *
          test_suite(kTwoEnds)) {
    auto ends = make_strangers();
    DetachedChannel ticket;
    ends->there().hello_hook = [&] {
        if (!ticket.fd) ticket = ends->back().detach();
    };
    for (const Status status : {XFER_EAUTH, XFER_EOVERLOAD})
        ends->channel->send_hello(words(status));
    REQUIRE(ends->until([&] { return bool(ticket.fd); }));
    ends->there().hello_hook = nullptr;
    ends->channel->send_hello(words(XFER_EIDENTITY));
    ends->pass(kSomeTurns);
    CHECK(ends->there().hellos.size() == 1);
    const std::string remote = ticket.remote;
    ends->adopt(std::move(ticket));
    CHECK(ends->back().remote() == remote);
    REQUIRE(ends->until([&] { return ends->there().hellos.size() == 3; }));
    CHECK(ends->there().hellos[1] == words(XFER_EOVERLOAD));
    CHECK(ends->there().hellos[2] == words(XFER_EIDENTITY));
    CHECK(!ends->there().down);
    ends->get_to_know();
    CHECK(ends->channel->send(lookup(1, 3), pattern(3, 1)));
    CHECK(ends->until([&] { return ends->there().controls.size() == 1; }));
}

TEST_CASE("who does not listen yet hears all of it later, in order" * test_suite(kTwoEnds)) {
    auto ends = make_strangers();
    ends->get_to_know(false);
    for (uint64_t i = 0; i < 50; ++i)
        REQUIRE(ends->channel->send(lookup(i, 100), pattern(100, 1)));
    ends->pass(kSomeTurns);
    CHECK(ends->there().controls.empty());
    ends->back().resume();
    REQUIRE(ends->until([&] { return ends->there().controls.size() == 50; }));
    for (size_t i = 0; i < 50; ++i)
        CHECK(ends->there().controls[i].frame.seq == i);
}

TEST_CASE("what was heard last is no earlier than what has come") {
    auto ends = make_ends();
    for (uint64_t i = 0; i < 5; ++i) {
        const uint64_t before = ends->now();
        ends->pass(10);
        REQUIRE(ends->channel->send(lookup(i, 3), pattern(3, 1)));
        REQUIRE(ends->until([&] { return ends->there().controls.size() == i + 1; }));
        CHECK(ends->back().last_heard() >= before);
        CHECK(ends->back().last_heard() <= ends->now());
    }
}

TEST_CASE("the end of a channel is told once to each side, with the reason, and nothing after it") {
    auto ends = make_ends();
    ends->inside([&] {
        ends->channel->close({XFER_ECLOSED, 0, 0, "enough"});
        ends->channel->close({XFER_EPROTO, 0, 0, "another reason"});
        return true;
    });
    CHECK(!ends->here.down);  // not from inside
    REQUIRE(ends->until([&] { return ends->here.down && ends->there().down; }));
    CHECK(ends->here.down->status == XFER_ECLOSED);
    if (!is_loopback()) CHECK(ends->there().down->status == XFER_EPEERLOST);
    ends->pass(20);
}

TEST_CASE("control frames come whole and in order, both ways, and only so many may wait") {
    auto ends = make_ends();
    const std::vector<uint8_t> body = pattern(100, 2);
    Channel *const from[] = {ends->channel.get(), &ends->back()};
    RecordingSink *const to[] = {&ends->there(), &ends->here};
    for (int way = 0; way < (is_loopback() ? 1 : 2); ++way) {
        uint64_t said = 0;
        while (ends->inside([&] { return from[way]->send(lookup(said, 100), body); }))
            REQUIRE(++said < 1'000'000);
        CHECK(said > 100);
        REQUIRE(ends->until([&] { return to[way]->controls.size() == said; }));
        for (size_t i = 0; i < said; ++i) {
            CHECK(to[way]->controls[i].frame.seq == i);
            CHECK(to[way]->controls[i].body == body);
        }
        CHECK(from[way]->send(lookup(said, 100), body));
        REQUIRE(ends->until([&] { return to[way]->controls.size() == said + 1; }));
        to[way]->controls.clear();
    }
}

// That too much waits is another end than the one that it has.
TEST_CASE("what is said to a channel that ends is taken and forgotten") {
    auto ends = make_ends();
    ends->channel->close({XFER_ECLOSED, 0, 0, "bye"});
    CHECK(ends->inside([&] { return ends->channel->send(lookup(0, 3), pattern(3, 1)); }));
    REQUIRE(ends->until([&] { return ends->here.down.has_value(); }));
    CHECK(ends->here.down->status == XFER_ECLOSED);
    CHECK(ends->inside([&] { return ends->channel->send(lookup(1, 3), pattern(3, 1)); }));
    if (is_loopback()) return;  // that was its only end
    REQUIRE(ends->until([&] { return ends->there().down.has_value(); }));
    CHECK(ends->there().controls.empty());
}

TEST_CASE("last words are heard before the end" * test_suite(kTwoEnds)) {
    auto ends = make_ends();
    for (uint64_t i = 0; i < 50; ++i)
        REQUIRE(ends->channel->send(lookup(i, 3), pattern(3, 1)));
    ends->channel->close({XFER_ECLOSED, 0, 0, "bye"});
    REQUIRE(ends->until([&] { return ends->there().down.has_value(); }));
    CHECK(ends->there().controls.size() == 50);
    CHECK(ends->there().down->status == XFER_EPEERLOST);
}
