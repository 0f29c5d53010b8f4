// SPDX-License-Identifier: Apache-2.0
// The words for what a connection's state machine hears, orders and is in.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/connection/connection_state.h"

namespace xfer {

inline constexpr std::array<std::string_view, 5> kPhaseNames = {"handshake", "live", "offered",
                                                                "closing", "ended"};
inline constexpr std::array<std::string_view, 4> kDrainNames = {"none", "wanted", "said", "done"};
inline constexpr std::array<std::string_view, 16> kInputNames = {"proved",
                                                                 "live",
                                                                 "offer_idle_close",
                                                                 "idle_close_offered",
                                                                 "idle_close_denied",
                                                                 "offer_timeout",
                                                                 "drain",
                                                                 "peer_drain",
                                                                 "peer_done",
                                                                 "quiesced",
                                                                 "probe",
                                                                 "supersede",
                                                                 "pong",
                                                                 "probe_timeout",
                                                                 "close",
                                                                 "lanes_down"};
inline constexpr std::array<std::string_view, 18> kOutputNames = {
    "begin",     "send_offer",   "send_denial", "send_drain",   "send_done",   "send_ping",
    "arm_offer", "disarm_offer", "arm_probe",   "disarm_probe", "count_offer", "uncount_offer",
    "resume",    "drain",        "put_off",     "answered",     "close",       "end"};
static_assert(ConnectionInput::lanes_down + 1 == kInputNames.size());
static_assert(ConnectionOutput::end + 1 == kOutputNames.size());

inline std::string words_of(const ConnectionOutputs &outputs) {
    std::string text;
    for (const ConnectionOutput &output : outputs) {
        text.append(text.empty() ? "" : ", ").append(kOutputNames[output.kind]);
        if (output.status != XFER_OK) text.append(", bye");
    }
    return text;
}

// The same with what the bye says.
inline std::string text_of(const ConnectionOutputs &outputs) {
    std::string text = words_of(outputs);
    for (const ConnectionOutput &output : outputs)
        if (output.status != XFER_OK) text.append(" ").append(xfer_status_name(output.status));
    return text;
}

inline std::string text_of(const ConnectionState &state) {
    std::string text(kPhaseNames[static_cast<size_t>(state.phase)]);
    text.append(", ours ").append(kDrainNames[static_cast<size_t>(state.ours)]);
    text.append(", theirs ").append(kDrainNames[static_cast<size_t>(state.theirs)]);
    if (state.proved) text += ", proved";
    if (state.left_idle) text += ", left idle";
    if (state.probing) text += ", probing";
    if (state.superseded) text += ", superseded";
    return text;
}

}  // namespace xfer
