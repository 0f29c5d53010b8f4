// SPDX-License-Identifier: Apache-2.0
#include "core/connection/connection_state.h"

#include <utility>

namespace xfer {
namespace {

class ConnectionStep {
public:
    using State = ConnectionState;
    using Input = ConnectionInput;
    using Output = ConnectionOutput;
    using Phase = State::Phase;
    using Drain = State::Drain;

    explicit ConnectionStep(State &state) : state_(state) {}
    void take(const Input &input);
    ConnectionOutputs outputs;

private:
    void out(Output::Kind kind, uint64_t until = 0) { outputs.push_back({kind, until, XFER_OK}); }
    void take_open(const Input &input);
    void go_live();
    void offer(const Input &input);
    void hear_offer(const Input &input);
    void hear_denial(const Input &input);
    void offer_unanswered(const Input &input);
    void drain(const Input &input);
    void hear_drain(Drain word);
    void probe(const Input &input);
    void supersede(const Input &input);
    void hear_pong();
    void end_probe();
    void probe_timeout(Status why);
    void close(Status why);
    void leave_idle();

    State &state_;
};

void ConnectionStep::take(const Input &input) {
    if (input.kind == Input::lanes_down) {
        if (state_.phase != Phase::closing) return;
        state_.phase = Phase::ended;
        return out(Output::end);
    }
    if (is_closing(state_)) return;
    if (input.kind == Input::close) return close(input.status);
    if (is_open(state_)) return take_open(input);
    if (input.kind == Input::proved) state_.proved = true;
    if (input.kind == Input::live) go_live();
}

void ConnectionStep::take_open(const Input &input) {
    switch (input.kind) {
    case Input::offer_idle_close:
        return offer(input);
    case Input::idle_close_offered:
        return hear_offer(input);
    case Input::idle_close_denied:
        return hear_denial(input);
    case Input::offer_timeout:
        return offer_unanswered(input);
    case Input::drain:
        return drain(input);
    case Input::peer_drain:
        return hear_drain(Drain::said);
    case Input::peer_done:
        return hear_drain(Drain::done);
    case Input::quiesced:
        if (awaits_quiet(state_)) close(input.status);
        return;
    case Input::probe:
        return probe(input);
    case Input::supersede:
        return supersede(input);
    case Input::pong:
        return hear_pong();
    case Input::probe_timeout:
        return probe_timeout(input.status);
    default:
        return;
    }
}

void ConnectionStep::go_live() {
    state_.phase = Phase::live;
    state_.lived = true;
    out(Output::begin);
}

void ConnectionStep::leave_idle() {
    if (!state_.left_idle) out(Output::count_offer);
    state_.left_idle = true;
}

void ConnectionStep::offer(const Input &input) {
    if (state_.phase == Phase::offered) return;
    state_.phase = Phase::offered;
    state_.offered_at = input.now;
    leave_idle();
    out(Output::arm_offer, input.now + kProbeNs);
    out(Output::send_offer);
}

void ConnectionStep::hear_offer(const Input &input) {
    if (!input.idle) return out(Output::send_denial);
    leave_idle();
    close(input.status);
}

void ConnectionStep::hear_denial(const Input &input) {
    if (state_.phase == Phase::offered) {
        out(Output::uncount_offer);
        out(Output::disarm_offer);
    }
    state_.phase = Phase::live;
    state_.left_idle = false;
    state_.denied_at = input.now;
    out(Output::resume);
    if (state_.ours == Drain::wanted || state_.ours == Drain::said) out(Output::drain);
}

// A peer that has used the connection since then lives, and is in the midst of something: its
// answer is on its way, and it has as long as any silent peer.
void ConnectionStep::offer_unanswered(const Input &input) {
    if (state_.phase != Phase::offered) return;
    const bool used = input.last_use > state_.offered_at;
    const uint64_t limit = used ? input.last_use + input.patience : 0;
    if (input.now < limit) return out(Output::arm_offer, limit);
    close(input.status);
}

void ConnectionStep::drain(const Input &input) {
    if (!is_usable(state_)) {
        if (state_.ours == Drain::none) state_.ours = Drain::wanted;
        return;
    }
    if (state_.ours < Drain::said) {
        state_.ours = Drain::said;
        out(Output::send_drain);
    }
    if (state_.ours == Drain::done || !input.idle) return;
    state_.ours = Drain::done;
    out(Output::send_done);
}

// What has begun goes on; all else waits for who comes after the peer.
void ConnectionStep::hear_drain(Drain word) {
    if (state_.theirs < word) state_.theirs = word;
    out(Output::put_off);
}

// The limit counts from the first newcomer: more of them extend no silent connection's life.
void ConnectionStep::probe(const Input &input) {
    if (state_.probing) return;
    state_.probing = true;
    out(Output::arm_probe, input.now + kProbeNs);
    out(Output::send_ping);
}

// Its goodbye is on its way, if there is one; nothing new goes by it. The first limit counts here
// as well.
void ConnectionStep::supersede(const Input &input) {
    if (std::exchange(state_.superseded, true)) return;
    if (state_.probing) out(Output::disarm_probe);
    hear_drain(Drain::said);
    state_.probing = true;
    out(Output::arm_probe, input.now + kGoodbyeNs);
}

// To an older probe, if it is superseded: its goodbye follows.
void ConnectionStep::hear_pong() {
    if (state_.probing && !state_.superseded) end_probe();
}

void ConnectionStep::probe_timeout(Status why) {
    if (!state_.probing) return;
    state_.superseded ? end_probe() : close(why);
}

void ConnectionStep::end_probe() {
    state_.probing = false;
    out(Output::disarm_probe);
    out(Output::answered);
}

// To a peer that has our proof the connection may be live already, while its answer is on the way.
void ConnectionStep::close(Status why) {
    const bool told = state_.lived || (state_.proved && why == XFER_ECLOSED);
    const Status bye = why < 0 ? why : XFER_ECLOSED;
    state_.phase = Phase::closing;
    outputs.push_back({Output::close, 0, told ? bye : XFER_OK});
}

}  // namespace

std::pair<ConnectionState, ConnectionOutputs> step(ConnectionState state,
                                                   const ConnectionInput &input) {
    ConnectionStep step(state);
    step.take(input);
    return {state, step.outputs};
}

}  // namespace xfer
