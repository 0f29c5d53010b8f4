// SPDX-License-Identifier: Apache-2.0
#include "core/connection/handshake.h"

#include <doctest/doctest.h>

#include <optional>

using namespace xfer;

namespace {

using Buffer = std::vector<uint8_t>;

Secret secret(uint8_t fill) {
    return Secret(Buffer(32, fill));
}

// An engine's words about itself; every nonce is another.
struct Speaker {
    Speaker(uint8_t name, std::optional<Secret> key) {
        self.id.fill(name);
        self.incarnation = 1000u + name;
        if (key) self.key = *key;
        self.random_context = &count;
        self.random = [](void *context, Bytes out) {
            const uint8_t next = ++*static_cast<uint8_t *>(context);
            std::fill(out.begin(), out.end(), next);
        };
        Terms terms;
        terms.max_ops = name;
        terms.blob = {name, name};
        self.set_terms(terms);
        count = static_cast<uint8_t>(name * 16);
    }
    uint8_t count = 0;
    Self self;
};

Status tell(Handshake &to, const Buffer &bytes) {
    auto message = decode_hello(bytes);
    REQUIRE(message);
    return to.hear(*message, bytes);
}

// Alice dials, Bob accepts.
struct Meeting {
    explicit Meeting(std::optional<Secret> one = {}, std::optional<Secret> two = {})
        : alice(1, one), bob(2, two) {}
    Speaker alice, bob;
    Handshake dialed{alice.self, Side::ours, 5};
    Handshake accepted{bob.self, Side::theirs, 0};
    Buffer hello, reply, proof, ready;

    void announce() {
        hello = dialed.hello({4, 3, 2});
        REQUIRE(tell(accepted, hello) == XFER_OK);
        reply = accepted.reply({});
    }
    void finish() {
        announce();
        REQUIRE(tell(dialed, reply) == XFER_OK);
        proof = dialed.proof({4, 3, 2}, {});
        REQUIRE(tell(accepted, proof) == XFER_OK);
        ready = accepted.ready({});
        REQUIRE(tell(dialed, ready) == XFER_OK);
    }
    bool joins(const Buffer &lane) const {
        auto message = decode_hello(lane);
        REQUIRE(message);
        return accepted.hear_lane(*message, lane);
    }
};

void flip_last(Buffer &bytes) {
    bytes.back() ^= 1;
}

}  // namespace

TEST_CASE("two that agree learn who the other is and what it takes") {
    for (bool keyed : {false, true}) {
        CAPTURE(keyed);
        const std::optional<Secret> key = keyed ? std::optional(secret(7)) : std::nullopt;
        Meeting meeting(key, key);
        meeting.finish();
        CHECK(meeting.dialed.peer().id == meeting.bob.self.id);
        CHECK(meeting.dialed.peer().incarnation == 1002);
        CHECK(meeting.dialed.peer_terms().max_ops == 2);
        CHECK(meeting.dialed.peer_terms().blob == Buffer{2, 2});
        CHECK(meeting.accepted.peer().id == meeting.alice.self.id);
        CHECK(meeting.accepted.peer().incarnation == 1001);
        CHECK(meeting.accepted.peer().sequence == 5);
        CHECK(meeting.accepted.peer_terms().max_ops == 1);
        CHECK(meeting.joins(meeting.dialed.lane(1, 0)));
    }
}

TEST_CASE("nothing of the terms is told before the other has proved itself") {
    Meeting meeting(secret(7), secret(7));
    meeting.announce();
    for (const Buffer &words : {meeting.hello, meeting.reply}) {
        auto message = decode_hello(words);
        REQUIRE(message);
        CHECK(message->terms.blob.empty());
        CHECK(message->terms.max_ops == 0);
        CHECK(message->token == Token{});
    }
}

TEST_CASE("a key that only one side has is refused by both") {
    for (bool dialer : {false, true}) {
        CAPTURE(dialer);
        const std::optional<Secret> key(secret(7));
        Meeting meeting(dialer ? key : std::nullopt, dialer ? std::nullopt : key);
        const Buffer hello = meeting.dialed.hello({});
        CHECK(tell(meeting.accepted, hello) == XFER_EAUTH);
        const std::string_view here = "this engine has a key, and the peer has none",
                               there = "the peer has a key, and this engine has none";
        CHECK(meeting.accepted.why_unproved(*decode_hello(hello)) == (dialer ? there : here));
        Hello refusal;
        refusal.kind = HelloKind::refuse;
        CHECK(meeting.dialed.why_unproved(refusal) == (dialer ? here : there));

        // A peer that would answer all the same.
        Meeting same(dialer ? std::nullopt : key, dialer ? std::nullopt : key);
        same.announce();
        Handshake strict(meeting.alice.self, Side::ours, 5);
        strict.hello({});
        CHECK(tell(strict, same.reply) == XFER_EAUTH);
    }
}

TEST_CASE("another key is refused by who hears its proof first") {
    Meeting meeting(secret(7), secret(8));
    meeting.announce();
    CHECK(tell(meeting.dialed, meeting.reply) == XFER_EAUTH);
    CHECK(meeting.dialed.why_unproved(*decode_hello(meeting.reply)) == "the peer has another key");
    // A dialer that goes on without having checked.
    Meeting right(secret(7), secret(7));
    right.announce();
    REQUIRE(tell(right.dialed, right.reply) == XFER_OK);
    const Buffer proof = right.dialed.proof({}, {});
    CHECK(tell(meeting.accepted, proof) == XFER_EAUTH);
    CHECK(meeting.accepted.why_unproved(*decode_hello(proof)) == "the peer has another key");
}

TEST_CASE("where neither has a key a proof that is none is not told as a missing key") {
    Meeting meeting;
    meeting.announce();
    REQUIRE(tell(meeting.dialed, meeting.reply) == XFER_OK);
    Buffer proof = meeting.dialed.proof({}, {});
    flip_last(proof);
    CHECK(tell(meeting.accepted, proof) == XFER_EAUTH);
    const std::string_view words = "the proof does not hold; neither engine has a key";
    CHECK(meeting.accepted.why_unproved(*decode_hello(proof)) == words);

    Meeting other;
    other.announce();
    flip_last(other.reply);
    CHECK(tell(other.dialed, other.reply) == XFER_EAUTH);
    CHECK(other.dialed.why_unproved(*decode_hello(other.reply)) == words);
    Hello refusal;
    refusal.kind = HelloKind::refuse;
    CHECK(meeting.dialed.why_unproved(refusal) == words);
}

TEST_CASE("one flipped bit of any message before ready is noticed") {
    Meeting meeting(secret(7), secret(7));
    meeting.announce();
    Buffer altered = meeting.reply;
    flip_last(altered);
    Meeting other(secret(7), secret(7));
    other.announce();
    CHECK(tell(other.dialed, altered) == XFER_EAUTH);

    REQUIRE(tell(meeting.dialed, meeting.reply) == XFER_OK);
    Buffer proof = meeting.dialed.proof({}, {});
    flip_last(proof);
    CHECK(tell(meeting.accepted, proof) == XFER_EAUTH);

    // A hello that changed on its way: what both prove is then not the same.
    Meeting bent(secret(7), secret(7));
    Buffer hello = bent.dialed.hello({});
    auto message = decode_hello(hello);
    REQUIRE(message);
    message->identity.incarnation ^= 1;
    REQUIRE(tell(bent.accepted, encode_hello(*message)) == XFER_OK);
    CHECK(tell(bent.dialed, bent.accepted.reply({})) == XFER_EAUTH);
}

TEST_CASE("words of another handshake are refused") {
    Meeting first(secret(7), secret(7)), second(secret(7), secret(7));
    first.finish();
    second.alice.count = second.bob.count = 100;  // other nonces
    second.announce();
    CHECK(tell(second.dialed, first.reply) == XFER_EAUTH);
    CHECK(tell(second.accepted, first.proof) == XFER_EAUTH);
}

TEST_CASE("words that are sent back to their speaker are refused") {
    Meeting meeting(secret(7), secret(7));
    meeting.announce();
    CHECK(tell(meeting.dialed, meeting.hello) == XFER_EPROTO);
    CHECK(tell(meeting.accepted, meeting.reply) == XFER_EPROTO);
    REQUIRE(tell(meeting.dialed, meeting.reply) == XFER_OK);
    const Buffer proof = meeting.dialed.proof({}, {});
    CHECK(tell(meeting.dialed, proof) == XFER_EPROTO);

    // The acceptor's proof in the initiator's place.
    auto reflected = decode_hello(proof);
    REQUIRE(reflected);
    reflected->proof = decode_hello(meeting.reply)->proof;
    Buffer bytes = encode_hello(*reflected);
    append_proof(bytes, reflected->proof);
    CHECK(tell(meeting.accepted, bytes) == XFER_EAUTH);
}

TEST_CASE("each message has its turn, once") {
    Meeting right;
    right.finish();
    for (const Buffer &early : {right.reply, right.proof, right.ready}) {
        Meeting fresh;
        CHECK(tell(fresh.dialed, early) == XFER_EPROTO);    // nothing was said yet
        CHECK(tell(fresh.accepted, early) == XFER_EPROTO);  // nothing was heard yet
    }
    Meeting meeting;
    meeting.announce();
    CHECK(tell(meeting.accepted, meeting.hello) == XFER_EPROTO);
    CHECK(tell(meeting.dialed, right.ready) == XFER_EPROTO);
    REQUIRE(tell(meeting.dialed, meeting.reply) == XFER_OK);
    CHECK(tell(meeting.dialed, meeting.reply) == XFER_EPROTO);
    CHECK(tell(meeting.accepted, right.ready) == XFER_EPROTO);
    for (HelloKind kind : {HelloKind::refuse, HelloKind::lane_ready}) {
        Hello other;
        other.kind = kind;
        other.status = XFER_EAUTH;
        other.lane = 1;
        CHECK(tell(meeting.dialed, encode_hello(other)) == XFER_EPROTO);
        CHECK(tell(meeting.accepted, encode_hello(other)) == XFER_EPROTO);
    }
}

TEST_CASE("a reply answers one attempt, and attempts are counted from one") {
    Meeting meeting;
    meeting.announce();
    Handshake another(meeting.alice.self, Side::ours, 6);
    another.hello({});
    CHECK(tell(another, meeting.reply) == XFER_EPROTO);

    auto uncounted = decode_hello(meeting.hello);
    REQUIRE(uncounted);
    uncounted->identity.sequence = 0;
    Meeting fresh;
    CHECK(fresh.accepted.hear(*uncounted, meeting.hello) == XFER_EPROTO);
}

TEST_CASE("an engine that dials itself sees its own id in the reply") {
    Speaker alice(1, secret(7));
    Handshake out(alice.self, Side::ours, 1), in(alice.self, Side::theirs, 0);
    REQUIRE(tell(in, out.hello({})) == XFER_OK);
    REQUIRE(tell(out, in.reply({})) == XFER_OK);
    CHECK(out.peer().id == alice.self.id);
    CHECK(out.peer().incarnation == alice.self.incarnation);

    Handshake loopback(alice.self, Side::ours, 2);
    loopback.be_own_peer();
    CHECK(loopback.peer().id == alice.self.id);
    CHECK(loopback.peer().incarnation == alice.self.incarnation);
    CHECK(loopback.peer_terms().max_ops == 1);
}

TEST_CASE("a handshake goes on in another object with what was said in the first") {
    Meeting meeting(secret(7), secret(7));
    meeting.announce();
    Handshake moved(meeting.alice.self, Side::ours, 5);
    const ConstBytes said = meeting.dialed.said();
    moved.resume(said);
    REQUIRE(tell(moved, meeting.reply) == XFER_OK);
    CHECK(tell(meeting.accepted, moved.proof({}, {})) == XFER_OK);
    REQUIRE(tell(moved, meeting.accepted.ready({})) == XFER_OK);
    CHECK(meeting.joins(moved.lane(1, 0)));
}

TEST_CASE("a lane proves that it comes from the other end of its connection") {
    for (bool keyed : {false, true}) {
        CAPTURE(keyed);
        const std::optional<Secret> key = keyed ? std::optional(secret(7)) : std::nullopt;
        Meeting meeting(key, key);
        meeting.announce();
        REQUIRE(tell(meeting.dialed, meeting.reply) == XFER_OK);
        REQUIRE(tell(meeting.accepted, meeting.dialed.proof({}, {})) == XFER_OK);
        const Buffer ready = meeting.accepted.ready({});
        CHECK(!meeting.joins(meeting.dialed.lane(1, 0)));  // it has not heard the token
        REQUIRE(tell(meeting.dialed, ready) == XFER_OK);
        const Buffer lane = meeting.dialed.lane(3, 0);
        CHECK(decode_hello(lane)->lane == 3);
        CHECK(decode_hello(lane)->identity.sequence == 5);
        CHECK(meeting.joins(lane));
        CHECK(meeting.joins(meeting.dialed.lane(4, 0)));

        Buffer bent = lane;
        flip_last(bent);
        CHECK(!meeting.joins(bent));
        auto message = decode_hello(lane);
        REQUIRE(message);
        message->lane = 4;
        Buffer renamed = encode_hello(*message);
        append_proof(renamed, message->proof);
        CHECK(!meeting.joins(renamed));

        Meeting other(key, key);
        other.bob.count = 100;  // other nonces, another token
        other.finish();
        CHECK(!meeting.joins(other.dialed.lane(3, 0)));
    }
}

TEST_CASE("whoever knows the token but not the key joins no lane") {
    Meeting meeting(secret(7), secret(7));
    meeting.finish();
    auto message = decode_hello(meeting.dialed.lane(1, 0));
    auto ready = decode_hello(meeting.ready);
    REQUIRE(message);
    REQUIRE(ready);
    Buffer forged = encode_hello(*message);
    append_proof(forged, prove_lane(Secret(), ready->token, forged));
    CHECK(!meeting.joins(forged));
}
