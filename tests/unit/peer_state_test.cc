// SPDX-License-Identifier: Apache-2.0
#include "core/peer/peer_state.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

using namespace xfer;

namespace {

constexpr uint64_t kOld = 7, kNew = 8;  // incarnations of the peer

std::string text_of(const Output &output) {
    const char *names[] = {"hello", "proof", "ready", "live", "probe", "supersede", "close"};
    std::string text = names[output.kind] + std::string(" ") + std::to_string(output.number);
    if (output.kind == Output::close) text += std::string(" ") + xfer_status_name(output.why);
    return text;
}

// One side. Each call is one input and returns what the machine wants done, as text.
struct Machine {
    explicit Machine(bool ours_smaller = true) { state.ours_smaller = ours_smaller; }
    PeerState state;
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> said;  // in hellos, by number

    std::string hear(const Input &input) {
        auto [next, outputs] = step(std::move(state), input);
        state = std::move(next);
        std::string text;
        for (const Output &output : outputs)
            text += (text.empty() ? "" : ", ") + text_of(output);
        return text;
    }
    std::string dial(uint64_t number, uint64_t sequence) {
        return hear({Input::dial, number, sequence, 0, {}});
    }
    std::string up(uint64_t number) { return hear({Input::up, number, 0, 0, {}}); }
    void hello(uint64_t number, uint64_t sequence, uint64_t incarnation = kOld) {
        said[number] = {sequence, incarnation};
    }
    std::string reply(uint64_t number, uint64_t incarnation = kOld) {
        return hear({Input::reply, number, 0, incarnation, {}});
    }
    std::string proof(uint64_t number, Statement statement = {}, bool after_ready = false) {
        const auto [sequence, incarnation] = said[number];
        return hear({Input::proof, number, sequence, incarnation, statement, after_ready});
    }
    std::string ready(uint64_t number, Statement statement = {}) {
        return hear({Input::ready, number, 0, 0, statement});
    }
    std::string lost(uint64_t number) { return hear({Input::lost, number, 0, 0, {}}); }
    std::string answered(uint64_t number) { return hear({Input::answered, number, 0, 0, {}}); }

    // Shorter ways to where most tests begin.
    void announce(uint64_t number, uint64_t sequence) {
        dial(number, sequence);
        up(number);
    }
    void prove(uint64_t number, uint64_t sequence) {
        announce(number, sequence);
        REQUIRE(reply(number) == "proof " + std::to_string(number));
    }
    void accept(uint64_t number, uint64_t sequence, uint64_t incarnation = kOld) {
        hello(number, sequence, incarnation);
        const std::string name = std::to_string(number);
        REQUIRE(proof(number) == "ready " + name + ", live " + name);
    }
    uint64_t live() const {
        const Attempt *contact = live_contact(state);
        return contact ? contact->number : 0;
    }
    // The phase of a contact, or nothing.
    int phase(uint64_t number) const {
        for (const Attempt &contact : state.attempts)
            if (contact.number == number) return static_cast<int>(contact.phase);
        return -1;
    }
    bool parked(uint64_t number) const { return phase(number) == static_cast<int>(Phase::parked); }
    bool gone(uint64_t number) const { return phase(number) == -1; }
};

bool same(const Statement &a, const Statement &b) {
    return a.abandoned == b.abandoned && a.seen == b.seen && a.held == b.held;
}

}  // namespace

TEST_CASE("an attempt of ours goes through its messages in order") {
    Machine one;
    CHECK(one.dial(1, 1) == "");
    CHECK(!may_dial(one.state));
    CHECK(one.up(1) == "hello 1");
    CHECK(one.reply(1) == "proof 1");
    CHECK(one.live() == 0);
    CHECK(one.ready(1) == "live 1");
    CHECK(one.live() == 1);
    CHECK(!may_dial(one.state));
    CHECK(one.lost(1) == "");
    CHECK(one.state.attempts.empty());
    CHECK(may_dial(one.state));
}

TEST_CASE("an attempt of theirs goes through its messages in order") {
    Machine one;
    one.hello(5, 1);
    CHECK(one.proof(5) == "ready 5, live 5");
    CHECK(one.live() == 5);
    CHECK(!may_dial(one.state));
}

TEST_CASE("what is late, doubled or of another phase changes nothing") {
    Machine one;
    one.announce(1, 1);
    one.hello(5, 1);
    const auto nothing = [&](const std::string &out, uint64_t live) {
        CHECK(out == "");
        CHECK(one.live() == live);
    };
    nothing(one.up(1), 0);
    nothing(one.ready(1), 0);
    nothing(one.proof(1), 0);
    nothing(one.reply(5), 0);
    nothing(one.ready(5), 0);
    nothing(one.answered(1), 0);
    nothing(one.reply(99), 0);
    nothing(one.lost(99), 0);
    CHECK(one.reply(1) == "proof 1");
    nothing(one.reply(1), 0);
    CHECK(one.ready(1) == "live 1");
    nothing(one.ready(1), 1);
    nothing(one.reply(1), 1);
    nothing(one.up(1), 1);
}

TEST_CASE("no more attempts than there is room for") {
    Machine one;
    one.prove(1, 1);
    for (uint64_t i = 2; i <= kMaxAttempts; ++i) {
        one.hello(i, i);
        CHECK(one.proof(i) == "");
    }
    one.hello(99, 99);
    CHECK(one.proof(99) == "close 99 XFER_EOVERLOAD");
    CHECK(one.state.attempts.size() == kMaxAttempts);
}

TEST_CASE("rule 3: of two under way, that of the smaller id lives") {
    SUBCASE("ours is the smaller: theirs waits until ours is ready") {
        Machine one(true);
        one.prove(1, 1);
        one.hello(5, 1);
        CHECK(one.proof(5) == "");
        CHECK(one.parked(5));
        CHECK(one.ready(1) == "live 1, close 5 XFER_EEXIST");
        CHECK(one.live() == 1);
        CHECK(one.state.attempts.size() == 1);
    }
    SUBCASE("ours is the smaller and fails: theirs takes its turn") {
        Machine one(true);
        one.prove(1, 1);
        one.hello(5, 1);
        one.proof(5);
        CHECK(one.lost(1) == "ready 5, live 5");
        CHECK(one.live() == 5);
    }
    SUBCASE("theirs is the smaller: it is ready at once, ours remains, unused") {
        Machine one(false);
        one.prove(1, 1);
        one.hello(5, 1);
        CHECK(one.proof(5) == "ready 5, live 5");
        CHECK(!one.gone(1));
        CHECK(one.ready(1) == "close 1 XFER_EEXIST");
        CHECK(one.live() == 5);
    }
    SUBCASE("theirs is the smaller and fails: the peer may say ready on ours") {
        Machine one(false);
        one.prove(1, 1);
        one.accept(5, 1);
        CHECK(one.lost(5) == "");
        CHECK(one.ready(1) == "live 1");
    }
}

TEST_CASE("a ready one is never loses_tie_break") {
    for (bool smaller : {false, true}) {
        Machine one(smaller);
        one.prove(1, 1);
        one.ready(1);
        one.hello(5, 1);
        CHECK(one.proof(5) == "close 5 XFER_EEXIST");
        CHECK(one.live() == 1);

        Machine other(smaller);
        other.accept(5, 1);
        other.announce(1, 1);
        CHECK(other.reply(1) == "close 1 XFER_EEXIST");
        CHECK(other.live() == 5);
    }
}

TEST_CASE("ours that did not prove themselves are given up for one that is ready") {
    Machine one(true);
    one.dial(1, 1);
    one.announce(2, 2);
    one.hello(5, 1);
    CHECK(one.proof(5) == "close 1 XFER_EEXIST, close 2 XFER_EEXIST, ready 5, live 5");
    CHECK(one.state.attempts.size() == 1);
}

TEST_CASE("rule 2: of two from the same side the first to prove itself lives") {
    Machine one;
    one.hello(5, 1);
    one.hello(6, 2);
    CHECK(one.proof(6, {0, 0, 0}) == "ready 6, live 6");
    CHECK(one.proof(5, {0, 0, 0}) == "close 5 XFER_EEXIST");
    CHECK(one.live() == 6);
}

TEST_CASE("rule 1: what its initiator has given up is dead") {
    Machine one;
    one.prove(1, 1);
    one.hello(5, 1);
    one.hello(6, 2);
    one.hello(7, 3);
    CHECK(one.proof(5) == "");
    CHECK(one.proof(7, {2, 0, 0}) == "close 5 XFER_EPEERLOST");
    CHECK(one.proof(6) == "close 6 XFER_EPEERLOST");  // whose proof comes late
    CHECK(one.lost(1) == "ready 7, live 7");
    one.hello(8, 1, kNew);  // another incarnation counts anew
    CHECK(one.proof(8) == "probe 7");

    Machine ready;
    ready.accept(5, 1);
    ready.hello(6, 2);
    CHECK(ready.proof(6, {1, 0, 0}) == "supersede 5");  // its goodbye may be on its way
    CHECK(ready.lost(5) == "ready 6, live 6");
}

TEST_CASE("rule 1: what the peer has seen and holds no longer is dead") {
    const auto meet = [](Statement statement) {
        Machine one(true);
        one.prove(1, 3);
        one.ready(1);
        one.hello(5, 1);
        return one.proof(5, statement);
    };
    CHECK(meet({0, 3, 0}) == "supersede 1");
    CHECK(meet({0, 4, 4}) == "supersede 1");
    CHECK(meet({0, 3, 3}) == "close 5 XFER_EEXIST");  // it holds it
    CHECK(meet({0, 2, 0}) == "close 5 XFER_EEXIST");  // it has not seen it yet

    Machine proving(true);
    proving.prove(1, 3);
    proving.hello(5, 1);
    CHECK(proving.proof(5, {0, 3, 0}) == "close 1 XFER_EPEERLOST, ready 5, live 5");

    Machine other(true);  // it speaks of attempts with its own incarnation
    other.prove(1, 3);
    other.hello(5, 1, kNew);
    CHECK(other.proof(5, {0, 3, 0}) == "");
    CHECK(!other.gone(1));

    // Nothing that did not prove itself has been seen in that sense.
    Machine hello_sent(true);
    hello_sent.prove(1, 1);
    hello_sent.announce(2, 2);
    CHECK(hello_sent.ready(1, {0, 2, 1}) == "live 1");
    CHECK(!hello_sent.gone(2));
    Machine held(true);
    held.accept(5, 4, kOld);
    held.announce(2, 2);
    REQUIRE(held.reply(2, kNew) == "probe 5");
    held.hello(6, 1, kNew);
    CHECK(held.proof(6, {0, 2, 0}) == "probe 5");
    CHECK(!held.gone(2));
}

// A peer that nobody has a use for is forgotten, and when it is met again, nothing was seen of it.
TEST_CASE("rule 1: what the peer has forgotten is dead") {
    constexpr Statement kFresh{8, 0, 0};  // all that it has dialed before is over
    for (bool smaller : {false, true}) {
        CAPTURE(smaller);
        const auto meet = [&](Statement statement, bool after_ready, uint64_t incarnation = kOld) {
            Machine one(smaller);
            one.prove(1, 3);
            one.ready(1);
            one.hello(5, 9, incarnation);
            return one.proof(5, statement, after_ready);
        };
        CHECK(meet(kFresh, true) == "supersede 1");
        CHECK(meet({8, 2, 2}, true) == "supersede 1");          // it has seen older ones since
        CHECK(meet({8, 3, 0}, true) == "supersede 1");          // it knows, as well
        CHECK(meet({8, 3, 3}, true) == "close 5 XFER_EEXIST");  // it holds it, for all that it says
        CHECK(meet(kFresh, false) == "close 5 XFER_EEXIST");    // said before it had seen it
        CHECK(meet(kFresh, true, kNew) == "probe 1");           // of another one's it knows nothing
    }
    SUBCASE("its goodbye may be on its way") {
        Machine one;
        one.prove(1, 3);
        one.ready(1);
        one.hello(5, 9);
        REQUIRE(one.proof(5, kFresh, true) == "supersede 1");
        CHECK(one.parked(5));
        CHECK(one.live() == 1);
        SUBCASE("and comes") {
            CHECK(one.lost(1) == "ready 5, live 5");
        }
        SUBCASE("and does not come") {
            CHECK(one.answered(1) == "close 1 XFER_EPEERLOST, ready 5, live 5");
        }
        SUBCASE("and the newcomer goes before") {
            CHECK(one.lost(5) == "");
            CHECK(one.answered(1) == "close 1 XFER_EPEERLOST");
            CHECK(may_dial(one.state));
        }
        SUBCASE("and it forgets again") {
            one.hello(6, 10);
            CHECK(one.proof(6, {9, 0, 0}, true) == "close 5 XFER_EPEERLOST, supersede 1");
            CHECK(one.lost(1) == "ready 6, live 6");
        }
    }
    SUBCASE("also when another incarnation was seen between") {
        Machine one;
        one.prove(1, 3);
        one.ready(1);
        one.hello(6, 1, kNew);
        REQUIRE(one.proof(6) == "probe 1");
        REQUIRE(one.answered(1) == "close 6 XFER_EIDENTITY");
        one.hello(5, 9);
        CHECK(one.proof(5, kFresh, true) == "supersede 1");
    }
    SUBCASE("of what it has dialed its statement tells") {
        Machine one;
        one.accept(4, 1);
        one.hello(5, 2);
        CHECK(one.proof(5, {0, 0, 0}, true) == "close 5 XFER_EEXIST");  // it waits for our ready
        one.hello(6, 3);
        CHECK(one.proof(6, {2, 0, 0}, true) == "supersede 4");
    }
    SUBCASE("of what is not ready here, too") {
        Machine one(true);
        one.prove(1, 3);
        one.hello(5, 9);
        CHECK(one.proof(5, kFresh) == "");
        CHECK(!one.gone(1));
        CHECK(one.parked(5));
    }
    SUBCASE("who comes too late is refused all the same") {
        Machine one;
        one.hello(4, 9);
        REQUIRE(one.proof(4, kFresh) == "ready 4, live 4");
        one.lost(4);
        one.prove(1, 3);
        one.ready(1, {9, 3, 3});
        one.hello(5, 9);
        CHECK(one.proof(5, kFresh, true) == "close 5 XFER_EPEERLOST");
        one.hello(6, 11);
        CHECK(one.proof(6, {8, 0, 0}, true) == "close 6 XFER_EEXIST");  // 4 ended unheard
    }
}

// The goodbye of the old one, which was said before, is read behind the newcomer's words.
TEST_CASE("a connection that ended in peace ends by its goodbye, not by a newcomer's statement") {
    SUBCASE("the newcomer waits for it") {
        Machine one(true);
        one.prove(1, 3);
        one.ready(1);
        one.hello(5, 1);
        CHECK(one.proof(5, {0, 3, 0}) == "supersede 1");
        CHECK(one.parked(5));
        CHECK(one.live() == 1);
        CHECK(one.lost(1) == "ready 5, live 5");
    }
    SUBCASE("but not for ever") {
        Machine one(true);
        one.accept(4, 1);
        one.hello(5, 2, kNew);
        one.hello(6, 2);
        CHECK(one.proof(6, {1, 0, 0}) == "supersede 4");
        CHECK(one.proof(5) == "supersede 4");
        CHECK(one.answered(4) == "close 4 XFER_EPEERLOST, ready 6, live 6, probe 6");
        CHECK(one.answered(6) == "close 5 XFER_EIDENTITY");
    }
    SUBCASE("also if nobody waits any more") {
        Machine one(true);
        one.accept(4, 1);
        one.hello(5, 2);
        CHECK(one.proof(5, {1, 0, 0}) == "supersede 4");
        CHECK(one.lost(5) == "");
        CHECK(one.answered(4) == "close 4 XFER_EPEERLOST");
        CHECK(one.state.attempts.empty());
    }
    SUBCASE("a newcomer of another incarnation asks nothing of it") {
        Machine one(true);
        one.accept(4, 1);
        one.hello(5, 2);
        one.hello(6, 1, kNew);
        CHECK(one.proof(5, {1, 0, 0}) == "supersede 4");
        CHECK(one.proof(6) == "supersede 4");
    }
    SUBCASE("one whose initiator has not heard it yet is refused") {
        Machine one(true);
        one.accept(4, 1);
        one.lost(4);
        one.hello(5, 2);
        CHECK(one.proof(5, {0, 0, 0}) == "close 5 XFER_EEXIST");
        one.hello(6, 3);
        CHECK(one.proof(6, {2, 0, 0}) == "ready 6, live 6");
        one.hello(7, 1, kNew);
        one.lost(6);
        CHECK(one.proof(7) == "ready 7, live 7");  // another incarnation counts anew
    }
    SUBCASE("what was never ready leaves nothing behind") {
        Machine one(true);
        one.prove(1, 1);
        one.hello(5, 3);
        one.hello(6, 4);
        one.proof(5);
        one.lost(5);
        one.lost(1);
        CHECK(one.proof(6, {2, 0, 0}) == "ready 6, live 6");
    }
}

TEST_CASE("rule 1 at ready: the other attempts that the peer no longer holds end") {
    Machine one(false);
    one.announce(1, 1);
    one.announce(2, 2);
    one.hello(5, 4);
    REQUIRE(one.reply(1) == "proof 1");
    REQUIRE(one.reply(2) == "proof 2");
    CHECK(one.ready(2, {4, 2, 2}) == "close 1 XFER_EPEERLOST, live 2");
    CHECK(one.state.attempts.size() == 1);

    Machine two(false);
    two.prove(1, 1);
    two.announce(2, 2);
    REQUIRE(two.reply(2) == "proof 2");
    two.hello(5, 4);
    two.lost(1);
    REQUIRE(two.proof(5) == "ready 5, live 5");
    CHECK(two.ready(2, {3, 2, 2}) == "close 2 XFER_EEXIST");
    two.announce(3, 3);
    REQUIRE(two.reply(3) == "close 3 XFER_EEXIST");

    Machine three(false);
    three.prove(1, 1);
    three.hello(5, 4);
    REQUIRE(three.proof(5) == "ready 5, live 5");
    CHECK(three.ready(1, {4, 1, 1}) == "supersede 5");  // its goodbye may be on its way
    CHECK(three.live() == 5);
    CHECK(three.lost(5) == "live 1");
}

// The peer uses it from its ready on, so nobody comes before it.
TEST_CASE("one that the peer has taken waits for the end of the one before") {
    Machine one(false);
    one.prove(1, 1);
    one.accept(5, 1);
    REQUIRE(one.ready(1, {1, 1, 1}) == "supersede 5");
    SUBCASE("by its goodbye") {
        CHECK(one.lost(5) == "live 1");
        CHECK(!may_dial(one.state));
    }
    SUBCASE("but not for ever") {
        CHECK(one.answered(5) == "close 5 XFER_EPEERLOST, live 1");
    }
    SUBCASE("and may end before") {
        CHECK(one.lost(1) == "");
        CHECK(one.answered(5) == "close 5 XFER_EPEERLOST");
        CHECK(one.state.attempts.empty());
    }
    SUBCASE("others that wait come after it") {
        one.hello(6, 2);
        one.hello(7, 1, kNew);
        CHECK(one.proof(6, {1, 1, 1}) == "supersede 5");
        CHECK(one.proof(7) == "supersede 5");
        CHECK(one.lost(5) == "live 1, close 6 XFER_EEXIST, probe 1");
    }
    SUBCASE("it is over when the peer says so") {
        one.hello(6, 2);
        CHECK(one.proof(6, {1, 1, 0}) == "close 1 XFER_EPEERLOST, supersede 5");
        CHECK(one.lost(5) == "ready 6, live 6");
    }
    SUBCASE("what is doubled changes nothing") {
        CHECK(one.ready(1, {1, 1, 1}) == "");
        CHECK(one.reply(1) == "");
        CHECK(one.live() == 5);
        CHECK(same(statement_of(one.state), {0, 1, 1}));
    }
}

TEST_CASE("a statement says nothing of the connection that it comes by") {
    Machine one;
    one.hello(5, 3);
    CHECK(one.proof(5, {9, 0, 0}) == "ready 5, live 5");
    Machine two;
    two.prove(1, 1);
    CHECK(two.ready(1, {0, 9, 0}) == "live 1");
}

TEST_CASE("another incarnation waits for the probe of the old connection") {
    SUBCASE("theirs: the old one answers") {
        Machine one;
        one.accept(5, 4, kOld);
        one.hello(6, 1, kNew);
        CHECK(one.proof(6) == "probe 5");
        CHECK(one.live() == 5);
        CHECK(one.answered(5) == "close 6 XFER_EIDENTITY");
        CHECK(one.live() == 5);
    }
    SUBCASE("theirs: the old one is lost") {
        Machine one;
        one.accept(5, 4, kOld);
        one.hello(6, 1, kNew);
        one.proof(6);
        CHECK(one.lost(5) == "ready 6, live 6");
        CHECK(one.live() == 6);
    }
    SUBCASE("ours: the old one answers") {
        Machine one;
        one.accept(5, 4, kOld);
        one.announce(1, 1);
        CHECK(one.reply(1, kNew) == "probe 5");
        CHECK(one.ready(1) == "");  // nothing was proven
        CHECK(one.answered(5) == "close 1 XFER_EIDENTITY");
        CHECK(one.live() == 5);
    }
    SUBCASE("ours: the old one is lost") {
        Machine one;
        one.accept(5, 4, kOld);
        one.announce(1, 1);
        one.reply(1, kNew);
        CHECK(one.lost(5) == "proof 1");
        CHECK(one.ready(1) == "live 1");
    }
    SUBCASE("what the new one says of connections does not touch those of the old one") {
        Machine one;
        one.accept(5, 4, kOld);
        one.hello(6, 9, kNew);
        CHECK(one.proof(6, {8, 9, 0}) == "probe 5");
        CHECK(one.live() == 5);
    }
    SUBCASE("theirs, while ours to the other one is proving: ours first, then the probe") {
        for (bool smaller : {false, true}) {
            Machine one(smaller);
            one.announce(1, 1);
            one.reply(1, kOld);
            one.hello(6, 1, kNew);
            CHECK(one.proof(6) == "");
            CHECK(one.parked(6));
            CHECK(one.ready(1) == "live 1, probe 1");
            CHECK(one.answered(1) == "close 6 XFER_EIDENTITY");
            CHECK(one.live() == 1);
        }
    }
    SUBCASE("an answer counts on a ready connection alone") {
        Machine one(true);
        one.prove(1, 1);
        one.hello(5, 1, kOld);
        one.proof(5);
        CHECK(one.answered(1) == "");
        CHECK(one.parked(5));
    }
    SUBCASE("an answer says nothing to those of whom nothing is known yet") {
        Machine one;
        one.accept(5, 4, kOld);
        one.announce(1, 1);
        one.hello(6, 1, kNew);
        REQUIRE(one.proof(6) == "probe 5");
        CHECK(one.answered(5) == "close 6 XFER_EIDENTITY");
        CHECK(!one.gone(1));
    }
}

TEST_CASE("of two of ours that were held back the first to be ready lives") {
    Machine one;
    one.accept(5, 4, kOld);
    one.announce(1, 1);
    one.announce(2, 2);
    CHECK(one.reply(1, kNew) == "probe 5");
    CHECK(one.reply(2, kNew) == "probe 5");
    CHECK(one.lost(5) == "proof 1");
    one.hello(6, 1, kNew);
    CHECK(one.lost(6) == "");  // not beside one that proves itself
    CHECK(one.ready(1) == "live 1, close 2 XFER_EEXIST");
}

TEST_CASE("one that was held back asks for a probe of whoever is ready now") {
    Machine one;
    one.accept(5, 4, kOld);
    one.announce(1, 1);
    one.announce(2, 2);
    one.reply(1, kNew);
    one.reply(2, kNew + 1);
    CHECK(one.lost(5) == "proof 1");
    CHECK(one.ready(1) == "live 1, probe 1");
    CHECK(one.lost(1) == "proof 2");
}

// Found by the walk of two_peers: a twin's attempt waited beside ours, and nobody asked.
TEST_CASE("who waits is not forgotten when another takes its turn") {
    SUBCASE("theirs of another incarnation, while ours is proving") {
        Machine one(true);
        one.prove(1, 1);
        one.hello(5, 1, kOld);
        one.hello(6, 1, kNew);
        CHECK(one.proof(5) == "");
        CHECK(one.proof(6) == "");
        CHECK(one.lost(1) == "ready 5, live 5, probe 5");
        CHECK(one.answered(5) == "close 6 XFER_EIDENTITY");
    }
    SUBCASE("theirs of two incarnations, while a third is ready") {
        Machine one;
        one.accept(4, 1, kOld);
        one.hello(5, 1, kNew);
        one.hello(6, 1, kNew + 1);
        CHECK(one.proof(5) == "probe 4");
        CHECK(one.proof(6) == "probe 4");
        CHECK(one.lost(4) == "ready 5, live 5, probe 5");
        CHECK(one.lost(5) == "ready 6, live 6");
    }
}

TEST_CASE("one that waited for another incarnation is then judged by rule 3") {
    for (bool smaller : {false, true}) {
        Machine one(smaller);
        one.announce(1, 1);
        one.announce(2, 2);
        REQUIRE(one.reply(1, kOld) == "proof 1");
        one.hello(5, 1, kNew);
        CHECK(one.proof(5) == "");
        REQUIRE(one.reply(2, kNew) == "proof 2");
        CHECK(one.lost(1) == (smaller ? "" : "ready 5, live 5"));
        CHECK(one.parked(5) == smaller);
    }
}

// Its initiator gives the second one up as soon as the first is ready there: kept, it was promoted
// when the first had ended, and its end was told as the loss of a connection.
TEST_CASE("of several that wait the first is promoted, those of its incarnation end") {
    SUBCASE("for a probe") {
        Machine one(true);
        one.accept(4, 1, kOld);
        one.hello(5, 1, kNew);
        one.hello(6, 2, kNew);
        CHECK(one.proof(5) == "probe 4");
        CHECK(one.proof(6) == "probe 4");
        CHECK(one.lost(4) == "ready 5, live 5, close 6 XFER_EEXIST");
        CHECK(one.lost(5) == "");
        CHECK(one.state.attempts.empty());
    }
    SUBCASE("for ours, which is proving") {
        Machine one(true);
        one.prove(1, 1);
        one.hello(5, 1);
        one.hello(6, 2);
        CHECK(one.proof(5) == "");
        CHECK(one.proof(6) == "");
        CHECK(one.lost(1) == "ready 5, live 5, close 6 XFER_EEXIST");
        CHECK(one.lost(5) == "");
    }
}

TEST_CASE("a parked one keeps from dialing, an unproven one does not") {
    Machine one(true);
    one.prove(1, 1);
    one.hello(5, 1);
    CHECK(!may_dial(one.state));
    one.proof(5);
    one.lost(1);
    CHECK(one.live() == 5);
    CHECK(!may_dial(one.state));
    one.lost(5);
    one.hello(6, 2);
    CHECK(may_dial(one.state));
}

// The peer takes no other before it is told of the end of the last one that it had ready.
TEST_CASE("one that never comes up does not keep the peer from being told of an end") {
    for (bool heard : {false, true}) {
        Machine one;
        one.dial(1, 1);
        one.prove(2, 2);
        one.announce(3, 3);
        if (heard) REQUIRE(one.ready(2) == "live 2");
        CHECK(!one.gone(1));
        CHECK(one.lost(2) == "close 1 XFER_EEXIST");
        CHECK(!one.gone(3));
        CHECK(same(statement_of(one.state), {2, 0, 0}));
    }
    Machine other;  // whose end is not told, since the peer has not counted it
    other.dial(1, 1);
    other.announce(2, 2);
    CHECK(other.lost(2) == "");
    CHECK(!other.gone(1));
}

TEST_CASE("what is told to the peer") {
    Machine one;
    CHECK(same(statement_of(one.state), {0, 0, 0}));
    one.announce(1, 3);
    CHECK(same(statement_of(one.state), {2, 0, 0}));  // all before it are over
    one.lost(1);
    CHECK(same(statement_of(one.state), {3, 0, 0}));
    one.prove(2, 4);
    one.dial(3, 6);
    CHECK(same(statement_of(one.state), {3, 0, 0}));  // the oldest that is not over counts
    one.lost(2);
    CHECK(same(statement_of(one.state), {5, 0, 0}));
    one.lost(3);
    CHECK(same(statement_of(one.state), {6, 0, 0}));

    one.hello(5, 8);
    CHECK(same(statement_of(one.state), {6, 0, 0}));  // not proven, not seen
    one.proof(5);
    CHECK(same(statement_of(one.state), {6, 8, 8}));
    one.hello(6, 9);
    CHECK(one.proof(6) == "close 6 XFER_EEXIST");
    CHECK(same(statement_of(one.state), {6, 9, 8}));  // the live one is held
    one.lost(5);
    CHECK(same(statement_of(one.state), {6, 9, 0}));
    one.accept(7, 1, kNew);
    CHECK(same(statement_of(one.state), {6, 1, 1}));  // sequences of another incarnation
}

// Found with eight processes, one of them restarting: told of attempts of its predecessor, the
// newcomer took its own for one that we had seen and dropped.
TEST_CASE("a restarted peer is told nothing of the attempts of its predecessor") {
    Machine one;
    one.accept(5, 8, kOld);
    one.lost(5);
    one.announce(1, 3);
    CHECK(one.reply(1, kNew) == "proof 1");
    CHECK(same(statement_by(one.state, 1), {2, 0, 0}));

    Machine held;  // until the connection of the predecessor has ended
    held.accept(5, 8, kOld);
    held.announce(1, 3);
    CHECK(held.reply(1, kNew) == "probe 5");
    CHECK(same(statement_by(held.state, 5), {2, 8, 8}));
    CHECK(held.lost(5) == "proof 1");
    CHECK(same(statement_by(held.state, 1), {2, 0, 0}));
}

TEST_CASE("a reply to an attempt that the peer was told is over comes too late") {
    Machine one;
    one.prove(2, 2);  // its proof says that no other than 2 is alive
    // Dialed before by an address that turned out to be this peer's, as Peer::adopt_dialed() does.
    one.state.attempts.push_back({1, Side::ours, Phase::hello_sent, 1, 0});
    CHECK(one.reply(1) == "close 1 XFER_EEXIST");
    CHECK(one.ready(2) == "live 2");

    // One that is dialed later is told apart.
    one.state.attempts.push_back({3, Side::ours, Phase::hello_sent, 3, 0});
    one.lost(2);
    CHECK(one.reply(3) == "proof 3");
}

// Its proof came by another channel than the words that said so, and was late.
TEST_CASE("an attempt of theirs that the peer was told is over comes too late") {
    Machine one;
    one.prove(1, 1);
    one.hello(5, 1);
    one.hello(6, 2);
    CHECK(one.proof(6) == "");
    one.announce(2, 2);
    CHECK(one.reply(2) == "proof 2");
    CHECK(same(statement_by(one.state, 2), {0, 2, 2}));  // 5 is over, for all that it says
    CHECK(one.proof(5) == "close 5 XFER_EEXIST");
    one.hello(7, 1, kNew);  // another incarnation counts anew
    CHECK(one.proof(7) == "");
    CHECK(one.parked(7));

    Machine waits;  // one that waits already
    waits.prove(1, 1);
    waits.hello(5, 1);
    waits.hello(6, 2);
    CHECK(waits.proof(5) == "");
    CHECK(waits.proof(6) == "");
    waits.announce(2, 2);
    CHECK(waits.reply(2) == "proof 2, close 5 XFER_EEXIST");
    CHECK(waits.parked(6));

    Machine old;  // of another incarnation nothing was said
    old.prove(1, 1);
    old.hello(5, 1);
    old.hello(6, 3, kNew);
    CHECK(old.proof(5) == "");
    CHECK(old.proof(6) == "");
    old.announce(2, 2);
    CHECK(old.reply(2) == "proof 2");
    CHECK(old.parked(5));
}
