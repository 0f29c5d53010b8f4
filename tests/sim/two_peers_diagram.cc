// SPDX-License-Identifier: Apache-2.0
#include "two_peers_diagram.h"

#include <array>
#include <map>
#include <string_view>
#include <utility>

namespace xfer {
namespace {

constexpr std::array<std::string_view, 7> kPhases = {"dialing",  "hello_sent", "held", "proving",
                                                     "welcomed", "parked",     "ready"};
constexpr std::array<std::string_view, 8> kCauses = {"dial",  "up",   "reply",    "proof",
                                                     "ready", "lost", "answered", "adopted"};
constexpr std::array<std::string_view, 6> kOutputs = {"hello", "proof", "ready",
                                                      "live",  "probe", "supersede"};

std::string node(std::string_view group, uint8_t phase) {
    if (phase == Transition::kNone) return "[*]";
    // Both sides have one of that name.
    if (phase == static_cast<uint8_t>(Phase::ready)) return std::string(group) + "_ready";
    return std::string(kPhases[phase]);
}

std::string outputs_of(const Transition &transition) {
    std::string text;
    const auto add = [&](std::string_view what) {
        text.append(text.empty() ? "" : ", ").append(what);
    };
    for (size_t i = 0; i < kOutputs.size(); ++i)
        if (transition.outputs & (1u << i)) add(kOutputs[i]);
    if (transition.outputs & (1u << Output::close))
        add(std::string("close ") + xfer_status_name(transition.why));
    return text;
}

// By which inputs, of its own and of others, one thing is done.
struct Causes {
    std::set<uint8_t> own, others;

    std::string text() const {
        std::string text;
        for (const uint8_t cause : own)
            text.append(text.empty() ? "" : ", ").append(kCauses[cause]);
        std::string_view before = text.empty() ? "another's " : ", another's ";
        for (const uint8_t cause : others)
            text.append(std::exchange(before, ", ")).append(kCauses[cause]);
        return text;
    }
};

std::string group_of(const std::set<Transition> &transitions, Side side, std::string_view name) {
    std::map<std::pair<uint8_t, uint8_t>, std::map<std::string, Causes>> arrows;
    for (const Transition &one : transitions) {
        if (one.side != side) continue;
        Causes &causes = arrows[{one.before, one.after}][outputs_of(one)];
        (one.own ? causes.own : causes.others).insert(one.cause);
    }
    std::string text = "    state " + std::string(name) + " {\n        state \"ready\" as " +
                       std::string(name) + "_ready\n";
    for (const auto &[ends, labels] : arrows) {
        text += "        " + node(name, ends.first) + " --> " + node(name, ends.second);
        std::string_view before = ": ";
        for (const auto &[outputs, causes] : labels) {
            text.append(std::exchange(before, "<br/>")).append(causes.text());
            if (!outputs.empty()) text += " / " + outputs;
        }
        text += "\n";
    }
    return text + "    }\n";
}

}  // namespace

std::string diagram_of(const std::set<Transition> &transitions) {
    return "```mermaid\nstateDiagram-v2\n" + group_of(transitions, Side::ours, "ours") +
           group_of(transitions, Side::theirs, "theirs") + "```\n";
}

}  // namespace xfer
