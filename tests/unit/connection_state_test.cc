// SPDX-License-Identifier: Apache-2.0
#include "core/connection/connection_state.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "connection_text.h"

using namespace xfer;

namespace {

using In = ConnectionInput;

constexpr uint64_t kNow = 10'000 * kNsPerMs;

struct Step {
    In input;
    std::string outputs, state;
};

struct Row {
    std::string what;
    std::vector<Step> steps;
};

const std::string kLive = "live, ours none, theirs none";
const Step kGoLive = {{.kind = In::live}, "begin", kLive};
const Step kOffer = {{.kind = In::offer_idle_close, .now = kNow},
                     "count_offer, arm_offer, send_offer",
                     "offered, ours none, theirs none, left idle"};
const std::string kSuperseded = "live, ours none, theirs said, probing, superseded";
const Step kPeerDone = {{.kind = In::peer_done}, "put_off", "live, ours none, theirs done"};

const Row kRows[] = {
    {"an attempt that fails says nothing",
     {{{.kind = In::close, .status = XFER_ECLOSED}, "close", "closing, ours none, theirs none"},
      {{.kind = In::lanes_down}, "end", "ended, ours none, theirs none"}}},
    {"the peer may take one for live that has said its proof: it hears of a close, not of a "
     "failure",
     {{{.kind = In::proved}, "", "handshake, ours none, theirs none, proved"},
      {{.kind = In::close, .status = XFER_ECLOSED},
       "close, bye XFER_ECLOSED",
       "closing, ours none, theirs none, proved"}}},
    {"the same with a failure",
     {{{.kind = In::proved}, "", "handshake, ours none, theirs none, proved"},
      {{.kind = In::close, .status = XFER_EPROTO},
       "close",
       "closing, ours none, theirs none, proved"}}},
    {"a live one says why it ends, once",
     {kGoLive,
      {{.kind = In::close, .status = XFER_EPROTO},
       "close, bye XFER_EPROTO",
       "closing, ours none, theirs none"},
      {{.kind = In::close, .status = XFER_ECLOSED}, "", "closing, ours none, theirs none"},
      {{.kind = In::lanes_down}, "end", "ended, ours none, theirs none"},
      {{.kind = In::lanes_down}, "", "ended, ours none, theirs none"}}},
    {"a bye has a reason",
     {kGoLive,
      {{.kind = In::close}, "close, bye XFER_ECLOSED", "closing, ours none, theirs none"}}},
    {"lanes that are down before anybody closed are no end",
     {{{.kind = In::lanes_down}, "", "handshake, ours none, theirs none"}}},
    {"an offer that the peer denies",
     {kGoLive,
      kOffer,
      {{.kind = In::offer_idle_close, .now = kNow}, "", kOffer.state},
      {{.kind = In::idle_close_denied, .now = kNow},
       "uncount_offer, disarm_offer, resume",
       kLive}}},
    {"a drain that begins while we have offered waits for the answer",
     {kGoLive,
      kOffer,
      {{.kind = In::drain, .idle = true}, "", "offered, ours wanted, theirs none, left idle"},
      {{.kind = In::idle_close_denied, .now = kNow},
       "uncount_offer, disarm_offer, resume, drain",
       "live, ours wanted, theirs none"},
      {{.kind = In::drain, .idle = true},
       "send_drain, send_done",
       "live, ours done, theirs none"}}},
    {"what ended while we had offered is told behind the answer",
     {kGoLive,
      {{.kind = In::drain}, "send_drain", "live, ours said, theirs none"},
      {{.kind = In::offer_idle_close, .now = kNow},
       "count_offer, arm_offer, send_offer",
       "offered, ours said, theirs none, left idle"},
      {{.kind = In::drain, .idle = true}, "", "offered, ours said, theirs none, left idle"},
      {{.kind = In::idle_close_denied, .now = kNow},
       "uncount_offer, disarm_offer, resume, drain",
       "live, ours said, theirs none"},
      {{.kind = In::drain, .idle = true}, "send_done", "live, ours done, theirs none"}}},
    {"an offer of the peer, while we are at work and then not",
     {kGoLive,
      {{.kind = In::idle_close_offered}, "send_denial", kLive},
      {{.kind = In::idle_close_offered, .idle = true, .status = XFER_ECLOSED},
       "count_offer, close, bye XFER_ECLOSED",
       "closing, ours none, theirs none, left idle"}}},
    {"both offer",
     {kGoLive,
      kOffer,
      {{.kind = In::idle_close_offered, .idle = true, .status = XFER_ECLOSED},
       "close, bye XFER_ECLOSED",
       "closing, ours none, theirs none, left idle"}}},
    {"nobody answers an offer",
     {kGoLive,
      kOffer,
      {{.kind = In::offer_timeout,
        .status = XFER_ECLOSED,
        .now = kNow + kProbeNs,
        .last_use = kNow,
        .patience = 10 * kProbeNs},
       "close, bye XFER_ECLOSED",
       "closing, ours none, theirs none, left idle"}}},
    {"a peer that has used it since has more time to answer",
     {kGoLive,
      kOffer,
      {{.kind = In::offer_timeout,
        .now = kNow + kProbeNs,
        .last_use = kNow + 1,
        .patience = kProbeNs},
       "arm_offer",
       kOffer.state},
      {{.kind = In::offer_timeout,
        .status = XFER_ECLOSED,
        .now = kNow + kProbeNs + 1,
        .last_use = kNow + 1,
        .patience = kProbeNs},
       "close, bye XFER_ECLOSED",
       "closing, ours none, theirs none, left idle"}}},
    {"a drain, at work and then not",
     {kGoLive,
      {{.kind = In::drain}, "send_drain", "live, ours said, theirs none"},
      {{.kind = In::drain}, "", "live, ours said, theirs none"},
      {{.kind = In::drain, .idle = true}, "send_done", "live, ours done, theirs none"},
      {{.kind = In::drain, .idle = true}, "", "live, ours done, theirs none"}}},
    {"a drain of who has no work",
     {kGoLive,
      {{.kind = In::drain, .idle = true},
       "send_drain, send_done",
       "live, ours done, theirs none"}}},
    {"the peer drains",
     {kGoLive,
      {{.kind = In::peer_drain}, "put_off", "live, ours none, theirs said"},
      {{.kind = In::quiesced}, "", "live, ours none, theirs said"},
      kPeerDone,
      {{.kind = In::peer_drain}, "put_off", kPeerDone.state},
      {{.kind = In::quiesced, .status = XFER_ECLOSED},
       "close, bye XFER_ECLOSED",
       "closing, ours none, theirs done"}}},
    {"a peer that drains does not wait for its answer to an offer",
     {kGoLive,
      kOffer,
      {{.kind = In::peer_done}, "put_off", "offered, ours none, theirs done, left idle"},
      {{.kind = In::quiesced, .status = XFER_ECLOSED},
       "close, bye XFER_ECLOSED",
       "closing, ours none, theirs done, left idle"}}},
    {"a probe that is answered",
     {kGoLive,
      {{.kind = In::pong}, "", kLive},
      {{.kind = In::probe, .now = kNow}, "arm_probe, send_ping", kLive + ", probing"},
      {{.kind = In::probe, .now = kNow}, "", kLive + ", probing"},
      {{.kind = In::pong}, "disarm_probe, answered", kLive},
      {{.kind = In::probe_timeout}, "", kLive}}},
    {"a probe that is not",
     {kGoLive,
      {{.kind = In::probe, .now = kNow}, "arm_probe, send_ping", kLive + ", probing"},
      {{.kind = In::probe_timeout, .status = XFER_EPEERLOST},
       "close, bye XFER_EPEERLOST",
       "closing, ours none, theirs none, probing"}}},
    {"one that is superseded takes nothing new, and has some time for its goodbye",
     {kGoLive,
      {{.kind = In::supersede, .now = kNow}, "put_off, arm_probe", kSuperseded},
      {{.kind = In::supersede, .now = kNow + 1}, "", kSuperseded},
      {{.kind = In::probe, .now = kNow}, "", kSuperseded},
      {{.kind = In::pong}, "", kSuperseded},
      {{.kind = In::quiesced}, "", kSuperseded},
      {{.kind = In::probe_timeout, .status = XFER_EPEERLOST},
       "disarm_probe, answered",
       "live, ours none, theirs said, superseded"},
      {{.kind = In::probe_timeout}, "", "live, ours none, theirs said, superseded"}}},
    {"one that is superseded while it is probed",
     {kGoLive,
      {{.kind = In::probe, .now = kNow}, "arm_probe, send_ping", kLive + ", probing"},
      {{.kind = In::supersede, .now = kNow}, "disarm_probe, put_off, arm_probe", kSuperseded}}},
};

ConnectionState after(const std::vector<In> &inputs) {
    ConnectionState state;
    for (const In &input : inputs)
        state = step(state, input).first;
    return state;
}

uint64_t until(const ConnectionOutputs &outputs, ConnectionOutput::Kind kind) {
    for (const ConnectionOutput &output : outputs)
        if (output.kind == kind) return output.until;
    return 0;
}

}  // namespace

TEST_CASE("what a connection hears, orders, and comes to be") {
    for (const Row &row : kRows) {
        CAPTURE(row.what);
        ConnectionState state;
        for (const Step &wanted : row.steps) {
            CAPTURE(kInputNames[wanted.input.kind]);
            const auto [next, outputs] = step(state, wanted.input);
            CHECK(text_of(outputs) == wanted.outputs);
            CHECK(text_of(next) == wanted.state);
            state = next;
        }
    }
}

TEST_CASE("an offer and a probe have their time") {
    const ConnectionState live = after({{.kind = In::live}});
    const In offer{.kind = In::offer_idle_close, .now = kNow};
    CHECK(until(step(live, offer).second, ConnectionOutput::arm_offer) == kNow + kProbeNs);
    const In probe{.kind = In::probe, .now = kNow};
    CHECK(until(step(live, probe).second, ConnectionOutput::arm_probe) == kNow + kProbeNs);
    const In supersede{.kind = In::supersede, .now = kNow};
    CHECK(until(step(after({{.kind = In::live}, probe}), supersede).second,
                ConnectionOutput::arm_probe) == kNow + kGoodbyeNs);
    const In patient{
        .kind = In::offer_timeout, .now = kNow + 5, .last_use = kNow + 3, .patience = 10};
    CHECK(until(step(after({{.kind = In::live}, offer}), patient).second,
                ConnectionOutput::arm_offer) == kNow + 13);
}

TEST_CASE("who said no is left alone for a while") {
    ConnectionState state = after({{.kind = In::live}});
    CHECK(may_go(state, kNow));
    state = after({{.kind = In::live},
                   {.kind = In::offer_idle_close, .now = kNow},
                   {.kind = In::idle_close_denied, .now = kNow + 1}});
    CHECK(!may_go(state, kNow + kBusyMs * kNsPerMs));
    CHECK(may_go(state, kNow + kBusyMs * kNsPerMs + 1));
}
