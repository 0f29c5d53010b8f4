// SPDX-License-Identifier: Apache-2.0
#include "wire/proof.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <set>
#include <string_view>

using namespace xfer;

namespace {

// A block of memory, and whether it held only zeros when it was given back.
constexpr size_t kWatched = 40;
const void *watched = nullptr;
bool wiped = false;

}  // namespace

[[gnu::noinline]] void *operator new(size_t size) {
    if (void *memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}

[[gnu::noinline]] void operator delete(void *memory) noexcept {
    if (memory && memory == watched) {
        const auto *bytes = static_cast<const uint8_t *>(memory);
        wiped = std::all_of(bytes, bytes + kWatched, [](uint8_t byte) { return byte == 0; });
        watched = nullptr;
    }
    std::free(memory);
}

[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept {
    operator delete(memory);
}

namespace {

using Buffer = std::vector<uint8_t>;

Buffer from_hex(std::string_view text) {
    Buffer bytes;
    for (size_t at = 0; at < text.size(); at += 2) {
        bytes.push_back(
            static_cast<uint8_t>(std::stoi(std::string(text.substr(at, 2)), nullptr, 16)));
    }
    return bytes;
}

Buffer counting(uint8_t first, size_t size) {
    Buffer bytes(size);
    for (uint8_t &byte : bytes)
        byte = first++;
    return bytes;
}

Buffer copy(ConstBytes bytes) {
    return {bytes.begin(), bytes.end()};
}
Buffer copy(const Secret &secret) {
    return copy(secret.bytes());
}

const Secret kKey(counting(0, 32));
const Buffer kHello = counting(10, 90);
const Buffer kReply = counting(200, 120);

Buffer flipped(Buffer bytes, size_t at) {
    bytes[at] ^= 0x40;
    return bytes;
}

}  // namespace

TEST_CASE("libsodium starts, twice too") {
    CHECK(crypto_ready());
    CHECK(crypto_ready());
}

TEST_CASE("HKDF keeps to the vectors of RFC 5869, appendix A") {
    // A.1
    CHECK(copy(derive(counting(0, 13), Buffer(22, 0x0b), counting(0xf0, 10), 42)) ==
          from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b8871"
                   "85865"));
    // A.2
    CHECK(copy(derive(counting(0x60, 80), counting(0, 80), counting(0xb0, 80), 82)) ==
          from_hex("b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827"
                   "271cb41c65e590e09"
                   "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"));
    // A.3
    CHECK(copy(derive({}, Buffer(22, 0x0b), {}, 42)) ==
          from_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61"
                   "a96c8"));
    CHECK(derive({}, Buffer(1), {}, 255 * 32).bytes().size() == 255 * 32);
    CHECK(derive({}, Buffer(1), {}, 0).empty());
}

TEST_CASE("what is signed does not change between versions") {
    // Computed once by another implementation of HMAC.
    CHECK(copy(prove(kKey, Role::initiator, kHello, kReply)) ==
          from_hex("65b9f4c3ce24fc6f82c5dba53650f94cf55026cbd14e921ef754a9c2ad7ca6a7"));
    CHECK(copy(prove(kKey, Role::acceptor, kHello, kReply)) ==
          from_hex("9aa942a21df0d0af13243fb9ebb453c3f400cc0ee6a2e677e39cce2e93936977"));
    const Secret lane = lane_key(kKey, kHello, kReply);
    CHECK(copy(lane) ==
          from_hex("54e68fb038fda3cb188998cb84c02247f3fbf847a0720631d6d3a5f53b47bdc2"));
    Token token;
    token.fill(7);
    CHECK(copy(prove_lane(lane, token, kHello)) ==
          from_hex("07ecb14aad77bd42741126c20cad6bf2da37038cd8d3001b039de4a15f7567df"));
    CHECK(copy(prove_lane(Secret(), token, kHello)) ==
          from_hex("72224219d879a9438af26e966857ee1f6df03e777983a54d27d94c6c98afd7bc"));
}

TEST_CASE("a proof is of one key, one role and every byte of both messages") {
    for (Role role : {Role::initiator, Role::acceptor}) {
        const Role other = role == Role::initiator ? Role::acceptor : Role::initiator;
        const Proof proof = prove(kKey, role, kHello, kReply);
        CHECK(verify(proof, kKey, role, kHello, kReply));
        // Reflected to the one who made it.
        CHECK_FALSE(verify(proof, kKey, other, kHello, kReply));
        for (size_t at = 0; at < kHello.size(); at++) {
            CHECK_FALSE(verify(proof, kKey, role, flipped(kHello, at), kReply));
        }
        for (size_t at = 0; at < kReply.size(); at++) {
            CHECK_FALSE(verify(proof, kKey, role, kHello, flipped(kReply, at)));
        }
        for (size_t at = 0; at < proof.size(); at++) {
            Proof wrong = proof;
            wrong[at] ^= 1;
            CHECK_FALSE(verify(wrong, kKey, role, kHello, kReply));
        }
        for (size_t at = 0; at < 32; at++) {
            CHECK_FALSE(verify(proof, Secret(flipped(copy(kKey), at)), role, kHello, kReply));
        }
    }
}

TEST_CASE("where hello ends is proved as well") {
    Buffer longer = kHello, shorter = kReply;
    longer.push_back(shorter.front());
    shorter.erase(shorter.begin());
    const Proof proof = prove(kKey, Role::acceptor, kHello, kReply);
    CHECK_FALSE(verify(proof, kKey, Role::acceptor, longer, shorter));
    CHECK_FALSE(verify(proof, kKey, Role::acceptor, kReply, kHello));
    CHECK(copy(lane_key(kKey, longer, shorter)) != copy(lane_key(kKey, kHello, kReply)));
}

TEST_CASE("without a key the proof is zero, and zero proves nothing to one who has a key") {
    const Secret none;
    CHECK(prove(none, Role::initiator, kHello, kReply) == Proof{});
    CHECK(verify({}, none, Role::initiator, kHello, kReply));
    CHECK_FALSE(verify({}, kKey, Role::initiator, kHello, kReply));
    CHECK_FALSE(verify(prove(kKey, Role::initiator, kHello, kReply), none, Role::initiator, kHello,
                       kReply));
    CHECK(lane_key(none, kHello, kReply).empty());
}

TEST_CASE("encoded handshakes: a flip of any covered byte is seen") {
    Hello hello, reply;
    hello.kind = HelloKind::hello;
    reply.kind = HelloKind::reply;
    hello.identity.sequence = reply.identity.sequence = 1;
    const Buffer first = encode_hello(hello);
    Buffer second = encode_hello(reply);
    append_proof(second, prove(kKey, Role::acceptor, first, second));
    const auto proved = [&](const Buffer &a, const Buffer &b) {
        Proof proof;
        std::copy_n(b.end() - 32, 32, proof.begin());
        return verify(proof, kKey, Role::acceptor, a, without_proof(b));
    };
    CHECK(proved(first, second));
    for (size_t at = 0; at < first.size(); at++)
        CHECK_FALSE(proved(flipped(first, at), second));
    for (size_t at = 0; at < second.size(); at++)
        CHECK_FALSE(proved(first, flipped(second, at)));
}

TEST_CASE("a lane's proof is of its key, its token and every byte of its message") {
    const Token token = {1, 2, 3};
    const Secret key = lane_key(kKey, kHello, kReply);
    CHECK(key.bytes().size() == 32);
    for (const Secret &with : {key, Secret()}) {
        const Proof proof = prove_lane(with, token, kHello);
        CHECK(equal(proof, prove_lane(with, token, kHello)));
        for (size_t at = 0; at < token.size(); at++) {
            Token other = token;
            other[at] ^= 1;
            CHECK_FALSE(equal(proof, prove_lane(with, other, kHello)));
        }
        for (size_t at = 0; at < kHello.size(); at++) {
            CHECK_FALSE(equal(proof, prove_lane(with, token, flipped(kHello, at))));
        }
    }
    CHECK_FALSE(equal(prove_lane(key, token, kHello), prove_lane(Secret(), token, kHello)));
    CHECK_FALSE(equal(prove_lane(key, token, kHello), prove_lane(kKey, token, kHello)));
    // Every handshake has its own.
    for (size_t at = 0; at < kHello.size(); at++) {
        CHECK(copy(lane_key(kKey, flipped(kHello, at), kReply)) != copy(key));
    }
    for (size_t at = 0; at < kReply.size(); at++) {
        CHECK(copy(lane_key(kKey, kHello, flipped(kReply, at))) != copy(key));
    }
}

TEST_CASE("secrets are copied and moved whole") {
    Secret one(counting(1, 40));
    Secret two = one;
    CHECK(copy(two) == copy(one));
    Secret three = std::move(one);
    CHECK(one.empty());  // NOLINT(bugprone-use-after-move): a move leaves nothing behind
    CHECK(copy(three) == copy(two));
    two = Secret(counting(9, 33));
    CHECK(copy(two) == counting(9, 33));
    two = std::move(three);
    CHECK(copy(two) == counting(1, 40));
    const Secret &alias = two;
    two = alias;
    CHECK(copy(two) == counting(1, 40));
}

TEST_CASE("secrets are wiped wherever they end") {
    const auto ends_wiped = [](auto end) {
        auto *secret = new Secret(counting(1, kWatched));
        Secret other(counting(1, kWatched));
        watched = secret->bytes().data();
        wiped = false;
        end(*secret, other);
        delete secret;
        return watched == nullptr && wiped;
    };
    CHECK(ends_wiped([](Secret &, Secret &) {}));
    CHECK(ends_wiped([](Secret &secret, Secret &) { secret = Secret(); }));
    CHECK(ends_wiped([](Secret &secret, Secret &other) { secret = other; }));
    CHECK(ends_wiped([](Secret &secret, Secret &other) { secret = std::move(other); }));
    CHECK(ends_wiped([](Secret &secret, Secret &) { Secret moved = std::move(secret); }));
}

TEST_CASE("random bytes fill all of a span and do not come twice") {
    std::set<Buffer> seen;
    for (int round = 0; round < 100; round++) {
        Buffer bytes(16);
        random_bytes(bytes);
        CHECK(seen.insert(bytes).second);
    }
    Buffer ends(64);
    bool first = false, last = false;
    for (int round = 0; round < 64; round++) {
        random_bytes(ends);
        first |= ends.front() != 0;
        last |= ends.back() != 0;
    }
    CHECK(first);
    CHECK(last);
    random_bytes({});
}
