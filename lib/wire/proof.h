// SPDX-License-Identifier: Apache-2.0
// Proof of the shared key, by libsodium: HMAC-SHA-256 over the prover's role and every byte of both
// hellos. Keys of a session are derived by HKDF (RFC 5869), so that the shared key itself signs
// nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "wire/hello.h"

namespace xfer {

enum class Role : uint8_t { initiator = 1, acceptor = 2 };

// A secret that is wiped when it goes.
class Secret {
public:
    Secret() = default;
    explicit Secret(ConstBytes bytes);
    Secret(const Secret &) = default;
    Secret(Secret &&) noexcept;
    Secret &operator=(Secret) noexcept;
    ~Secret();
    bool empty() const { return bytes_.empty(); }
    ConstBytes bytes() const { return bytes_; }

private:
    std::vector<uint8_t> bytes_;
};

// False if libsodium can't start; call once before the rest. Thread: any.
bool crypto_ready();
void random_bytes(Bytes out);

// HKDF (RFC 5869) with HMAC-SHA-256; length is at most 255 * 32.
Secret derive(ConstBytes salt, ConstBytes key, ConstBytes info, size_t length);

// With an empty key the proof is all zero, and verify() accepts only that.
Proof prove(const Secret &key, Role role, ConstBytes hello, ConstBytes reply);
bool verify(const Proof &proof, const Secret &key, Role role, ConstBytes hello, ConstBytes reply);

// The key that lanes of one connection are signed with; empty for an empty key.
Secret lane_key(const Secret &key, ConstBytes hello, ConstBytes reply);
// Over the lane message without its proof and the token of its connection. Without a key this is
// still a keyless hash over the token, which only the other end of the connection knows.
Proof prove_lane(const Secret &lane_key, const Token &token, ConstBytes message);
bool equal(const Proof &a, const Proof &b);  // in constant time

}  // namespace xfer
