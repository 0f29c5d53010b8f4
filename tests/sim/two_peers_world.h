// SPDX-License-Identifier: Apache-2.0
// What two_peers walks through: the engines and attempts of one moment, what may happen next, and
// what that does. A is one end of every attempt; B or Z is the other.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/peer/peer_state.h"

namespace xfer {

// Who Z is.
enum class Third : uint8_t {
    none,
    twin,    // has B's identity and lives beside it, at another address
    zombie,  // the same, once B has frozen; B may resume
    heir,    // another identity, found at B's address once B has died
};

// How much may happen on the way.
struct TwoPeersLimits {
    std::array<uint8_t, 3> dials{};  // of one incarnation of A, B, Z
    uint8_t cuts = 0;
    std::array<uint8_t, 2> restarts{};  // of A, B; of B at most one
    Third third = Third::none;
    bool a_larger = false;  // A has a larger engine id than the others
    uint8_t closes = 0;     // of a live connection, by the will of one side
    uint8_t expiries = 0;   // of the time that a handshake may take
    uint8_t data = 0;       // frames on live connections
    uint8_t hangs = 0;      // channels that never come up
    uint8_t forgets = 0;    // of what A or B knows of a peer that it has nothing with
    bool slow = false;      // channels take time to come up
};

// What the machine did to one contact, as lib/README.md draws it.
struct Transition {
    static constexpr uint8_t kNone = 7;     // in place of a phase
    static constexpr uint8_t kAdopted = 7;  // in place of a cause: Peer::adopt_dialed
    Side side;
    uint8_t before, after;
    bool own;  // the input was about this very contact
    uint8_t cause;
    uint8_t outputs;  // a bit for each kind
    Status why;
    auto operator<=>(const Transition &) const = default;
};

constexpr uint8_t kA = 0, kB = 1, kZ = 2;
constexpr HelloKind kSilence{};
constexpr uint8_t kNobody = 2;          // in place of one of A's peers
constexpr uint8_t kData = 1, kBye = 2;  // frames

enum class End : uint8_t { waiting, open, closing, gone };  // waiting: in the listener's queue
enum class Probe : uint8_t { none, asked, answered };
enum class Life : uint8_t { absent, alive, frozen, dead };

// One attempt between A (end 0) and `other` (end 1). What one end says waits for the other in
// `said`, with frames behind it; the handshake never has more than one message under way in one
// direction.
struct TwoEnds {
    uint64_t number = 0;
    uint8_t from = 0;    // the end that dialed
    uint8_t other = kB;  // B or Z
    uint8_t peer =
        kNobody;  // whose the dialing side takes it to be; an address alone tells nothing
    bool up = false;
    bool hangs = false;  // it never comes up; who dialed it may give it up
    bool cut = false;    // what is said from now on is lost
    uint64_t sequence = 0;
    uint64_t beside = 0;  // what was ready at the end that was dialed when that replied
    std::array<uint64_t, 2> incarnation{};
    std::array<End, 2> end{};
    std::array<Probe, 2> probe{};
    std::array<bool, 2> live{};
    std::array<HelloKind, 2> said{};  // on its way to this end
    std::array<Statement, 2> statement{};
    std::array<uint8_t, 2> frames{};
};

// One identity as an engine knows it.
struct Known {
    PeerState state;
    uint64_t live = 0;  // Peer::live_: which attempt carries data
};

struct Engine {
    std::array<Known, 2> peers;  // A: B, the heir. B and Z: A.
    Life life = Life::alive;
    uint64_t incarnation = 1;
    uint8_t dials = 0;
    uint8_t restarts = 0;
};

struct Happening {
    enum Kind : uint8_t {
        dial,
        dial_address,
        up,
        deliver,
        frames,
        notice,
        end,
        pong,
        answer,
        cut,
        close,
        expire,
        hang,
        data,
        restart,
        freeze,
        resume,
        die,
        forget
    };
    Kind kind;
    uint8_t who = kA;
    uint64_t number = 0;  // of the attempt
    uint8_t to = kB;      // who is dialed
    uint8_t peer = 0;     // as whom; who is forgotten
};

struct World {
    explicit World(const TwoPeersLimits &limits);

    const TwoEnds *find(uint64_t number) const;
    // Which of A's peers B or Z is.
    uint8_t identity(uint8_t other) const { return other == kZ && third == Third::heir; }
    bool frozen(const TwoEnds &attempt) const {
        return engines[attempt.other].life == Life::frozen;
    }
    // As the machine at the end that was dialed hears it with the proof.
    bool after_ready(const TwoEnds &attempt) const;
    // All that the future depends on, and nothing else.
    std::string key() const;

    Third third;
    bool slow;
    std::array<Engine, 3> engines;
    std::vector<TwoEnds> attempts;
    uint8_t cuts = 0, closes = 0, expiries = 0, hangs = 0, data = 0, forgets = 0;
    bool disturbed = false;  // something was cut, closed, or started anew
    bool broken = false;     // the same, but for what was closed, or never came up
    bool dialed = false;
};

// What happens by itself: all of it does, sooner or later, if nothing else is in its way.
void natural(const World &world, std::vector<Happening> &out);
void dials(const World &world, const std::array<uint8_t, 3> &limits, std::vector<Happening> &out);
void disturbances(const World &world, const TwoPeersLimits &limits, std::vector<Happening> &out);

// Returns what is wrong, or nothing.
std::string make(World &world, const Happening &what, std::set<Transition> &transitions);
// Nothing more happens by itself: is that as it should be?
std::string judge(const World &world, bool &connected);

std::string text_of(const Happening &what);

}  // namespace xfer
