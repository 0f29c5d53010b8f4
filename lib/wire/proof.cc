// SPDX-License-Identifier: Apache-2.0
#include "wire/proof.h"

#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "util/check.h"

namespace xfer {

namespace {

// Each use of a key says what it is for, so that no output of one can pass for another's.
constexpr std::string_view kProofLabel = "xfer 1 proof";
constexpr std::string_view kLaneKeyLabel = "xfer 1 lane key";
constexpr std::string_view kLaneLabel = "xfer 1 lane";

ConstBytes bytes_of(std::string_view text) {
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

static_assert(sizeof(Proof) == crypto_auth_hmacsha256_BYTES);
static_assert(sizeof(Proof) == crypto_hash_sha256_BYTES);

class Hmac {
public:
    explicit Hmac(ConstBytes key) {
        crypto_auth_hmacsha256_init(&state_, key.empty() ? &kNone : key.data(), key.size());
    }
    Hmac(const Hmac &) = delete;
    Hmac &operator=(const Hmac &) = delete;
    ~Hmac() { sodium_memzero(&state_, sizeof state_); }

    Hmac &add(ConstBytes bytes) {
        crypto_auth_hmacsha256_update(&state_, bytes.empty() ? &kNone : bytes.data(), bytes.size());
        return *this;
    }
    // With its length before it, so that where it ends is part of what is proved.
    Hmac &add_counted(ConstBytes bytes) {
        std::array<uint8_t, 8> length;
        store<uint64_t>(length.data(), bytes.size());
        return add(length).add(bytes);
    }
    Proof finish() {
        Proof out;
        crypto_auth_hmacsha256_final(&state_, out.data());
        return out;
    }

private:
    static constexpr uint8_t kNone = 0;  // what an empty span points at

    crypto_auth_hmacsha256_state state_;
};

}  // namespace

Secret::Secret(ConstBytes bytes) : bytes_(bytes.begin(), bytes.end()) {}

Secret::Secret(Secret &&other) noexcept {
    bytes_.swap(other.bytes_);
}

Secret &Secret::operator=(Secret other) noexcept {
    bytes_.swap(other.bytes_);
    return *this;
}

Secret::~Secret() {
    sodium_memzero(bytes_.data(), bytes_.size());
}

bool crypto_ready() {
    return sodium_init() >= 0;
}

void random_bytes(Bytes out) {
    if (!out.empty()) randombytes_buf(out.data(), out.size());
}

Secret derive(ConstBytes salt, ConstBytes key, ConstBytes info, size_t length) {
    XFER_CHECK(length <= 255 * sizeof(Proof));
    Proof extracted = Hmac(salt).add(key).finish();
    std::vector<uint8_t> out(length);
    Proof block{};
    uint8_t number = 0;
    for (size_t done = 0; done < length;) {
        const ConstBytes before = ConstBytes(block).first(number == 0 ? 0 : block.size());
        number++;
        block = Hmac(extracted).add(before).add(info).add({&number, 1}).finish();
        const size_t part = std::min(block.size(), length - done);
        std::copy_n(block.begin(), part, out.begin() + static_cast<ptrdiff_t>(done));
        done += part;
    }
    Secret derived(out);
    sodium_memzero(out.data(), out.size());
    sodium_memzero(block.data(), block.size());
    sodium_memzero(extracted.data(), extracted.size());
    return derived;
}

Proof prove(const Secret &key, Role role, ConstBytes hello, ConstBytes reply) {
    if (key.empty()) return {};
    const uint8_t as = static_cast<uint8_t>(role);
    return Hmac(key.bytes())
        .add(bytes_of(kProofLabel))
        .add({&as, 1})
        .add_counted(hello)
        .add_counted(reply)
        .finish();
}

bool verify(const Proof &proof, const Secret &key, Role role, ConstBytes hello, ConstBytes reply) {
    return equal(proof, prove(key, role, hello, reply));
}

Secret lane_key(const Secret &key, ConstBytes hello, ConstBytes reply) {
    if (key.empty()) return {};
    // The salt binds the derived key to this one handshake.
    const Proof salt = Hmac({}).add_counted(hello).add_counted(reply).finish();
    return derive(salt, key.bytes(), bytes_of(kLaneKeyLabel), sizeof(Proof));
}

Proof prove_lane(const Secret &lane_key, const Token &token, ConstBytes message) {
    return Hmac(lane_key.bytes())
        .add(bytes_of(kLaneLabel))
        .add(token)
        .add_counted(message)
        .finish();
}

bool equal(const Proof &a, const Proof &b) {
    return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace xfer
