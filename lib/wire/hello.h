// SPDX-License-Identifier: Apache-2.0
// The handshake: what two engines say before they are READY, and when a data lane joins.
//
//   initiator                      acceptor
//   hello   identity         ->
//                            <-    reply   identity, proof
//   proof   proof, terms,    ->
//           questions
//                            <-    ready   terms, token
//
// The questions are answered by frames behind `ready`, so that a first lookup costs no round trip
// of its own.
//
// A message is a header of 16 bytes that never changes (magic, kind, version range, proof length,
// length), a CBOR map (RFC 8949) with short text keys, and the proof. Unknown keys are skipped
// unless the list "need" names them. The map is plain CBOR: definite lengths, no tags, no key
// twice, at most kMaxNesting maps and lists in each other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "util/status.h"
#include "wire/bytes.h"
#include "wire/limits.h"

namespace xfer {

using EngineId = std::array<uint8_t, 16>;
using Nonce = std::array<uint8_t, 16>;
using Proof = std::array<uint8_t, 32>;
using Token = std::array<uint8_t, 16>;

constexpr uint8_t kWireVersion = 1;
constexpr int kMaxNesting = 4;
constexpr size_t kMaxTransports = 16, kMaxTransportName = 32;  // that a peer names
constexpr size_t kMaxNeeded = 16;                              // keys in the list of needed ones

enum class HelloKind : uint8_t {
    hello = 1,
    reply = 2,
    proof = 3,
    ready = 4,
    refuse = 5,
    lane = 6,
    lane_ready = 7
};

// What the sender knows of connections between the two; sequences count up from 1 within an
// incarnation.
struct Statement {
    uint64_t abandoned = 0;  // the highest sequence of mine that I have given up
    uint64_t seen = 0;       // the highest sequence of yours that I have seen
    uint64_t held = 0;       // the connection of yours that I hold, 0: none
};

// Features: bits of what an end understands. A lane may end without its connection, see
// FrameType::lane_closed; a notify may come before its puts are answered, see kCounted; a path or
// another channel may stand beside the first one, see FrameType::path_signal.
constexpr uint64_t kLanesEndAlone = 1, kCountedNotify = 2, kAttachedPaths = 4;
constexpr uint64_t kFeatures = kLanesEndAlone | kCountedNotify | kAttachedPaths;  // ours

// hello and reply.
struct Identity {
    EngineId id{};
    uint64_t incarnation = 0;
    Nonce nonce{};
    uint64_t sequence =
        0;  // of this connection, from 1, counted by its initiator; in a reply, echoed
    uint64_t features = 0;
    bool keyed = false;  // the sender has a key and demands proof
};

// proof and ready: told only to a peer that has proved itself.
struct Terms {
    uint32_t max_ops = 0;  // puts and gets of yours that may be unanswered on one lane, at least 1
    uint32_t silence_ms = 0;  // judge me lost after this; 0: never judge me by silence
    std::vector<uint8_t> blob;
    std::vector<std::string> listens;     // URIs at which I can be dialed; printable ASCII
    std::vector<std::string> transports;  // names; printable ASCII
};

// A lookup asked along with the proof. Questions are numbered from 1 as lookup frames would be.
struct Question {
    std::string name;
    bool wait = false;  // until a region of that name is there
};

// One message: only the members of its kind are encoded, and are set after decoding.
struct Hello {
    HelloKind kind{};
    Identity identity;    // hello, reply; lane (the initiator's id, incarnation, nonce, connection
                          // sequence)
    Statement statement;  // hello, reply, proof, ready
    Terms terms;          // proof, ready
    std::vector<Question> questions;  // proof; at most kMaxQuestions
    Token token{};                    // ready: what lanes of this connection must know
    uint32_t lane = 0;                // lane, lane_ready: 1 is the first
    uint64_t generation = 0;          // lane: how often it was there before
    Status status = 0;                // refuse; negative
    uint32_t retry_ms = 0;            // refuse: come back after so long; 0: do not
    Proof proof{};                    // reply, proof, lane; all zero without a key
};

constexpr size_t kHelloHeader = 16;

struct HelloHeader {
    HelloKind kind{};
    uint32_t length = 0;  // bytes that follow the header, the proof included
};

// The message without its proof: what the proof is made over. Append the proof with append_proof.
// What goes in keeps the bounds that decode_hello() demands of a peer.
std::vector<uint8_t> encode_hello(const Hello &hello);
// Appends 32 bytes and corrects nothing else: the header has counted them from the start for kinds
// with a proof.
void append_proof(std::vector<uint8_t> &message, const Proof &proof);

// The header alone, as soon as 16 bytes are there: XFER_EPROTO, XFER_EVERSION, XFER_ETOOBIG.
Result<HelloHeader> decode_hello_header(const uint8_t *from);
// The whole message: XFER_EPROTO for what is malformed, XFER_EVERSION for needed features that we
// do not know.
Result<Hello> decode_hello(ConstBytes message);
// A whole message without its proof, if its kind has one.
ConstBytes without_proof(ConstBytes message);

}  // namespace xfer
