// SPDX-License-Identifier: Apache-2.0
#include "core/peer/peer_state.h"

#include <algorithm>

namespace xfer {
namespace {

// Of ours: the peer may have counted it.
bool is_proved(const Attempt &contact) {
    return contact.phase == Phase::ready || contact.phase == Phase::proving ||
           contact.phase == Phase::welcomed;
}

// Whether a statement says that its side no longer has this attempt.
bool is_over(const Attempt &contact, const Statement &statement) {
    if (contact.side == Side::theirs) return contact.sequence <= statement.abandoned;
    return is_proved(contact) && contact.sequence <= statement.seen &&
           contact.sequence != statement.held;
}

// Also one of ours that the peer no longer has. The peer had said ready on it before it heard our
// reply to the newcomer, and who has one ready at a reply proves nothing (see reply()).
bool is_over(const Attempt &live, const Input &proof) {
    const bool forgotten =
        proof.after_ready && live.side == Side::ours && live.sequence != proof.statement.held;
    return forgotten || is_over(live, proof.statement);
}

// Until a probe or the end of another decides.
bool waits(const Attempt &contact) {
    return contact.phase == Phase::parked || contact.phase == Phase::held;
}

class Step {
public:
    explicit Step(PeerState &state) : state_(state) {}
    void take(const Input &input);
    void tell();  // the peer hears a statement
    Outputs outputs;

private:
    Attempt *find(uint64_t number) {
        auto at = std::find_if(state_.attempts.begin(), state_.attempts.end(),
                               [&](const Attempt &contact) { return contact.number == number; });
        return at == state_.attempts.end() ? nullptr : &*at;
    }
    Attempt *in_phase(Phase phase) {
        auto at = std::find_if(state_.attempts.begin(), state_.attempts.end(),
                               [&](const Attempt &contact) { return contact.phase == phase; });
        return at == state_.attempts.end() ? nullptr : &*at;
    }
    void out(Output::Kind kind, uint64_t number, Status why = XFER_OK) {
        outputs.push_back({kind, number, why});
    }
    void drop(uint64_t number) {
        state_.attempts.erase_if([&](const Attempt &contact) { return contact.number == number; });
    }
    void note_end(const Attempt &contact) {
        if (contact.side == Side::theirs && contact.phase == Phase::ready &&
            contact.incarnation == state_.seen_incarnation)
            state_.ended = std::max(state_.ended, contact.sequence);
    }
    void close(uint64_t number, Status why) {
        out(Output::close, number, why);
        drop(number);
    }
    template <typename Condition>
    void close_all(Status why, Condition condition) {
        for (size_t i = 0; i < state_.attempts.size();)
            if (condition(state_.attempts[i]))
                close(state_.attempts[i].number, why);
            else
                ++i;
    }

    void dial(const Input &input);
    void reply(Attempt &contact, const Input &input);
    void proof(const Input &input);
    void ready(Attempt &contact, const Input &input);
    void lost(const Input &input);
    void give_up_older(const Attempt &ended);
    void answered(const Attempt &contact);
    void believe(const Attempt &from, const Statement &statement);
    bool loses_tie_break(const Attempt &theirs) const;
    void admit(Attempt &contact);
    void settle(uint64_t number, uint64_t incarnation);
    void promote();

    PeerState &state_;
};

void Step::take(const Input &input) {
    if (input.kind == Input::dial) return dial(input);
    if (input.kind == Input::proof) return proof(input);
    if (input.kind == Input::lost) return lost(input);
    Attempt *contact = find(input.number);
    if (!contact) return;  // a reply to an attempt that is over
    switch (input.kind) {
    case Input::up:
        if (contact->phase != Phase::dialing) return;
        contact->phase = Phase::hello_sent;
        return out(Output::send_hello, contact->number);
    case Input::reply:
        return reply(*contact, input);
    case Input::ready:
        return ready(*contact, input);
    case Input::answered:
        return answered(*contact);
    default:
        return;
    }
}

void Step::dial(const Input &input) {
    state_.attempts.push_back({input.number, Side::ours, Phase::dialing, input.sequence, 0});
    state_.last_sequence = std::max(state_.last_sequence, input.sequence);
}

// Rule 1. `from` is proven, so what it says of the others counts; of another incarnation's it knows
// nothing. How a ready one ended, that itself may still tell.
void Step::believe(const Attempt &from, const Statement &statement) {
    const uint64_t incarnation = from.incarnation, self = from.number;
    if (incarnation == state_.seen_incarnation)
        state_.given_up = std::max(state_.given_up, statement.abandoned);
    close_all(XFER_EPEERLOST, [&](const Attempt &other) {
        return other.number != self && other.incarnation == incarnation &&
               other.phase != Phase::ready && is_over(other, statement);
    });
}

// Who dials an address learns only from the reply whose it is: the peer may have been told already
// that no attempt so old is alive.
void Step::reply(Attempt &contact, const Input &input) {
    if (contact.phase != Phase::hello_sent) return;
    if (contact.sequence <= state_.abandoned) return close(contact.number, kDuplicate);
    contact.incarnation = input.incarnation;
    const Attempt *live = in_phase(Phase::ready);
    if (live && live->incarnation == contact.incarnation) return close(contact.number, kDuplicate);
    if (live) {
        contact.phase = Phase::held;
        return out(Output::probe, live->number);
    }
    contact.phase = Phase::proving;
    out(Output::send_proof, contact.number);
}

// What is said here, as in ready(), may overtake a goodbye, and a connection that ended in peace is
// not to be told as lost. So a newcomer that supersedes the ready one waits for the end of that, by
// the goodbye in most cases. And whose initiator has not heard yet how its last connection ended is
// refused: our ready would overtake that goodbye.
void Step::proof(const Input &input) {
    const uint64_t number = input.number;
    if (find(number)) return;
    if (state_.attempts.size() >= kMaxAttempts) return out(Output::close, number, XFER_EOVERLOAD);
    if (state_.seen_incarnation != input.incarnation) {
        state_.seen_incarnation = input.incarnation;
        state_.seen = state_.told_seen = state_.given_up = state_.ended = 0;
    }
    if (input.sequence <= state_.given_up) return out(Output::close, number, XFER_EPEERLOST);
    if (input.sequence <= state_.told_seen) return out(Output::close, number, kDuplicate);
    state_.seen = std::max(state_.seen, input.sequence);
    const Attempt proven{number, Side::theirs, Phase::parked, input.sequence, input.incarnation};
    believe(proven, input.statement);
    if (input.statement.abandoned < state_.ended) return out(Output::close, number, kDuplicate);
    Attempt *live = in_phase(Phase::ready);
    const bool same = live && live->incarnation == proven.incarnation;
    if (same && !is_over(*live, input)) return out(Output::close, number, kDuplicate);
    state_.attempts.push_back(proven);
    if (!live) return promote();
    live->over |= same;
    out(live->over ? Output::supersede : Output::probe, live->number);
}

// Ours that did not prove themselves yet are given up: the peer has not counted them. One that did
// is a loser that the peer may still promote if it never hears our ready.
void Step::admit(Attempt &contact) {
    const uint64_t number = contact.number, incarnation = contact.incarnation;
    contact.phase = Phase::ready;
    close_all(kDuplicate, [](const Attempt &other) {
        return other.phase == Phase::dialing || other.phase == Phase::hello_sent ||
               other.phase == Phase::held;
    });
    out(Output::send_ready, number);
    settle(number, incarnation);
}

// This one lives. Others of its incarnation that wait end, since their initiator gives them up;
// those of another incarnation have asked for a probe of whoever is ready.
void Step::settle(uint64_t number, uint64_t incarnation) {
    out(Output::live, number);
    close_all(kDuplicate, [&](const Attempt &other) {
        return waits(other) && other.incarnation == incarnation;
    });
    if (std::any_of(state_.attempts.begin(), state_.attempts.end(), waits))
        out(Output::probe, number);
}

void Step::ready(Attempt &welcomed, const Input &input) {
    if (welcomed.phase != Phase::proving) return;
    const uint64_t number = welcomed.number, incarnation = welcomed.incarnation;
    believe(Attempt(welcomed), input.statement);
    if (Attempt *live = in_phase(Phase::ready)) {
        if (live->incarnation != incarnation || !is_over(*live, input.statement))
            return close(number, kDuplicate);
        live->over = true;
        find(number)->phase = Phase::welcomed;
        return out(Output::supersede, live->number);
    }
    find(number)->phase = Phase::ready;
    settle(number, incarnation);
}

void Step::lost(const Input &input) {
    if (const Attempt *contact = find(input.number)) {
        const Attempt ended = *contact;
        note_end(ended);
        drop(ended.number);
        if (ended.side == Side::ours && is_proved(ended)) give_up_older(ended);
    }
    promote();
}

// The peer may have had that one ready, and refuses the next until it is told of the end, which is
// told when none that was dialed before is left: one that never comes up would be in the way.
void Step::give_up_older(const Attempt &ended) {
    close_all(kDuplicate, [&](const Attempt &other) {
        const bool young = other.phase == Phase::dialing || other.phase == Phase::hello_sent;
        return young && other.sequence < ended.sequence;
    });
}

// Rule 3; and one of another incarnation may be heard only when ours to this one has ended.
bool Step::loses_tie_break(const Attempt &theirs) const {
    return std::any_of(state_.attempts.begin(), state_.attempts.end(), [&](const Attempt &other) {
        return other.phase == Phase::proving &&
               (state_.ours_smaller || other.incarnation != theirs.incarnation);
    });
}

// If nothing is ready, whom the peer has taken, or whom nobody beats any more, takes its turn.
void Step::promote() {
    if (in_phase(Phase::ready)) return;
    if (Attempt *welcomed = in_phase(Phase::welcomed)) {
        welcomed->phase = Phase::ready;
        return settle(welcomed->number, welcomed->incarnation);
    }
    for (Attempt &contact : state_.attempts)
        if (contact.phase == Phase::parked && !loses_tie_break(contact)) return admit(contact);
    Attempt *held = in_phase(Phase::held);
    if (!held || in_phase(Phase::proving)) return;
    held->phase = Phase::proving;
    out(Output::send_proof, held->number);
}

void Step::answered(const Attempt &live) {
    if (live.phase != Phase::ready) return;
    if (!live.over) return close_all(XFER_EIDENTITY, waits);
    close(live.number, XFER_EPEERLOST);  // it had its time for a goodbye
    promote();
}

// It names one of theirs as held: the peer gives up those before it, here too.
void Step::tell() {
    const Statement statement = statement_of(state_);
    state_.abandoned = statement.abandoned;
    state_.told_seen = state_.seen;
    close_all(kDuplicate, [&](const Attempt &other) {
        return other.phase == Phase::parked && other.incarnation == state_.seen_incarnation &&
               other.sequence < statement.held;
    });
}

bool says(const Output &output) {
    return output.kind == Output::send_proof || output.kind == Output::send_ready;
}

}  // namespace

std::pair<PeerState, Outputs> step(PeerState state, const Input &input) {
    Step step(state);
    step.take(input);
    if (std::any_of(step.outputs.begin(), step.outputs.end(), says)) step.tell();
    return {state, step.outputs};
}

Statement statement_of(const PeerState &state) {
    Statement statement{state.last_sequence, state.seen, 0};
    for (const Attempt &contact : state.attempts) {
        if (contact.side == Side::ours)
            statement.abandoned = std::min(statement.abandoned, contact.sequence - 1);
        else if (contact.incarnation == state.seen_incarnation)
            statement.held = std::max(statement.held, contact.sequence);
    }
    return statement;
}

// What was seen of one incarnation says nothing of the attempts of another, which counts anew.
Statement statement_by(const PeerState &state, uint64_t number) {
    Statement statement = statement_of(state);
    for (const Attempt &contact : state.attempts)
        if (contact.number == number && contact.incarnation &&
            contact.incarnation != state.seen_incarnation)
            statement.seen = statement.held = 0;
    return statement;
}

const Attempt *live_contact(const PeerState &state) {
    for (const Attempt &contact : state.attempts)
        if (contact.phase == Phase::ready) return &contact;
    return nullptr;
}

bool may_dial(const PeerState &state) {
    return state.attempts.empty();
}

}  // namespace xfer
