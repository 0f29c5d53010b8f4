// SPDX-License-Identifier: Apache-2.0
#include "core/connection/handshake.h"

namespace xfer {

Identity Handshake::identity() {
    Identity identity;
    identity.id = self_.id;
    identity.incarnation = self_.incarnation;
    identity.sequence = sequence_;
    identity.features = kFeatures;
    identity.keyed = !self_.key.empty();
    self_.random(self_.random_context, identity.nonce);
    return identity;
}

std::vector<uint8_t> Handshake::hello(const Statement &statement) {
    Hello message;
    message.kind = HelloKind::hello;
    message.identity = identity();
    message.statement = statement;
    hello_ = encode_hello(message);
    return hello_;
}

std::vector<uint8_t> Handshake::reply(const Statement &statement) {
    Hello message;
    message.kind = HelloKind::reply;
    message.identity = identity();
    message.statement = statement;
    reply_ = encode_hello(message);
    std::vector<uint8_t> out = reply_;
    append_proof(out, prove(self_.key, Role::acceptor, hello_, reply_));
    return out;
}

std::vector<uint8_t> Handshake::proof(const Statement &statement, std::vector<Question> questions) {
    Hello message;
    message.kind = HelloKind::proof;
    message.statement = statement;
    message.terms = self_.terms();
    message.questions = std::move(questions);
    std::vector<uint8_t> out = encode_hello(message);
    append_proof(out, prove(self_.key, Role::initiator, hello_, reply_));
    return out;
}

std::vector<uint8_t> Handshake::ready(const Statement &statement) {
    self_.random(self_.random_context, token_);
    Hello message;
    message.kind = HelloKind::ready;
    message.statement = statement;
    message.terms = self_.terms();
    message.token = token_;
    return encode_hello(message);
}

std::vector<uint8_t> Handshake::lane(uint32_t number, uint64_t generation) const {
    Hello message;
    message.kind = HelloKind::lane;
    message.identity.id = self_.id;
    message.identity.incarnation = self_.incarnation;
    message.identity.sequence = sequence_;
    message.identity.keyed = !self_.key.empty();
    self_.random(self_.random_context, message.identity.nonce);
    message.lane = number;
    message.generation = generation;
    std::vector<uint8_t> out = encode_hello(message);
    append_proof(out, prove_lane(lane_key(self_.key, hello_, reply_), token_, out));
    return out;
}

bool Handshake::hear_lane(const Hello &message, ConstBytes raw) const {
    const Proof right = prove_lane(lane_key(self_.key, hello_, reply_), token_, without_proof(raw));
    return equal(message.proof, right);
}

// Hello and reply say whether there is a key; who refuses a hello has read it.
std::string_view Handshake::why_unproved(const Hello &message) const {
    const bool own = !self_.key.empty();
    bool theirs = own;
    if (message.kind == HelloKind::hello || message.kind == HelloKind::reply)
        theirs = message.identity.keyed;
    else if (message.kind == HelloKind::refuse && reply_.empty())
        theirs = !own;
    if (own != theirs)
        return own ? "this engine has a key, and the peer has none"
                   : "the peer has a key, and this engine has none";
    return own ? "the peer has another key" : "the proof does not hold; neither engine has a key";
}

void Handshake::resume(const Hello &hello, ConstBytes heard, ConstBytes said) {
    hello_.assign(heard.begin(), heard.end());
    reply_.assign(said.begin(), said.end());
    peer_ = hello.identity;
    sequence_ = hello.identity.sequence;
}

void Handshake::be_own_peer() {
    peer_ = identity();
    peer_terms_ = self_.terms();
}

Status Handshake::hear_hello(const Hello &message, ConstBytes raw) {
    if (message.identity.keyed != !self_.key.empty()) return XFER_EAUTH;
    if (message.identity.sequence == 0) return XFER_EPROTO;
    hello_.assign(raw.begin(), raw.end());
    peer_ = message.identity;
    sequence_ = message.identity.sequence;
    return XFER_OK;
}

Status Handshake::hear_reply(const Hello &message, ConstBytes raw) {
    if (message.identity.keyed != !self_.key.empty()) return XFER_EAUTH;
    if (message.identity.sequence != sequence_) return XFER_EPROTO;
    const ConstBytes covered = without_proof(raw);
    reply_.assign(covered.begin(), covered.end());
    if (!verify(message.proof, self_.key, Role::acceptor, hello_, reply_)) return XFER_EAUTH;
    peer_ = message.identity;
    return XFER_OK;
}

Status Handshake::hear(const Hello &message, ConstBytes raw) {
    const bool initiator = side_ == Side::ours;
    switch (message.kind) {
    case HelloKind::hello:
        return !initiator && hello_.empty() ? hear_hello(message, raw) : XFER_EPROTO;
    case HelloKind::reply:
        return initiator && !hello_.empty() && reply_.empty() ? hear_reply(message, raw)
                                                              : XFER_EPROTO;
    case HelloKind::proof:
        if (initiator || reply_.empty()) return XFER_EPROTO;
        if (!verify(message.proof, self_.key, Role::initiator, hello_, reply_)) return XFER_EAUTH;
        peer_terms_ = message.terms;
        questions_ = message.questions;
        return XFER_OK;
    case HelloKind::ready:
        if (!initiator || reply_.empty()) return XFER_EPROTO;
        peer_terms_ = message.terms;
        token_ = message.token;
        return XFER_OK;
    default:
        return XFER_EPROTO;
    }
}

}  // namespace xfer
