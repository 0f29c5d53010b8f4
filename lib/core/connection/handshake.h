// SPDX-License-Identifier: Apache-2.0
// The words of one connection's handshake: composes ours, checks the peer's. Knows no channel and
// no state machine; who calls decides when each message is due.
#pragma once

#include <vector>

#include "core/base/self.h"
#include "core/base/side.h"
#include "wire/proof.h"

namespace xfer {

class Handshake {
public:
    Handshake(const Self &self, Side side, uint64_t sequence)
        : self_(self), side_(side), sequence_(sequence) {}

    // Each message in its turn, ready to be sent.
    std::vector<uint8_t> hello(const Statement &statement);
    std::vector<uint8_t> reply(const Statement &statement);
    std::vector<uint8_t> proof(const Statement &statement, std::vector<Question> questions);
    std::vector<uint8_t> ready(const Statement &statement);
    std::vector<uint8_t> lane(uint32_t number, uint64_t generation) const;

    // XFER_OK if the message is the one that is due and holds; else why the connection ends.
    Status hear(const Hello &message, ConstBytes raw);
    bool hear_lane(const Hello &message, ConstBytes raw) const;
    // Why there was no proof: of XFER_EAUTH, from a message that hear() refused or a refuse.
    std::string_view why_unproved(const Hello &message) const;

    const Identity &peer() const { return peer_; }
    bool agreed(uint64_t feature) const { return peer_.features & feature & kFeatures; }
    // XFER_OK: work for that engine is the peer's.
    Status names(const EngineId &owner, uint64_t incarnation) const {
        if (owner != peer_.id) return XFER_EIDENTITY;
        return incarnation == peer_.incarnation ? XFER_OK : XFER_ESTALE;
    }
    const Terms &peer_terms() const { return peer_terms_; }
    // That came with the proof; to be answered once the connection lives.
    std::vector<Question> take_questions() { return std::move(questions_); }
    // For an outgoing connection that moves to another loop between the peer's reply and our proof.
    // The same for one that was accepted, with its proof.
    ConstBytes said() const { return side_ == Side::ours ? hello_ : reply_; }
    ConstBytes heard() const { return hello_; }
    void resume(ConstBytes said) { hello_.assign(said.begin(), said.end()); }
    void resume(const Hello &hello, ConstBytes heard, ConstBytes said);
    void be_own_peer();  // loopback needs no words

private:
    Identity identity();
    Status hear_hello(const Hello &message, ConstBytes raw);
    Status hear_reply(const Hello &message, ConstBytes raw);

    const Self &self_;
    const Side side_;
    uint64_t sequence_;                   // of an accepted one: what its initiator says
    std::vector<uint8_t> hello_, reply_;  // as sent, without the reply's proof
    Identity peer_;
    Terms peer_terms_;
    std::vector<Question> questions_;
    Token token_{};
};

}  // namespace xfer
