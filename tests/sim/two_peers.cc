// SPDX-License-Identifier: Apache-2.0
#include "two_peers.h"

#include <deque>
#include <unordered_set>
#include <utility>
#include <vector>

namespace xfer {
namespace {

// How many dial again where nobody is connected, each once.
constexpr size_t kAgain = 2;

class Walk {
public:
    Walk(const TwoPeersLimits &limits, TwoPeersResult &result) : limits_(limits), result_(result) {}
    // Undisturbed: nobody does anything but dial.
    void run(World start, bool undisturbed = false);
    std::string fault;
    size_t states() const { return known_.size(); }

private:
    struct Step {
        uint32_t before;
        Happening what;
    };
    struct Visit {
        World world;
        uint32_t index;
        uint8_t dials;
    };
    void tell(const std::string &what, uint32_t index, const std::string &further = "");
    void visit(const Visit &from);
    void rest(const Visit &at);
    void dial_again(const Visit &at);

    const TwoPeersLimits limits_;
    TwoPeersResult &result_;
    bool undisturbed_ = false;
    std::deque<Visit> waiting_;
    std::vector<Step> steps_;
    std::unordered_set<std::string> known_;
};

void Walk::tell(const std::string &what, uint32_t index, const std::string &further) {
    std::string history = further;
    for (; index; index = steps_[index].before)
        history = "\n  " + text_of(steps_[index].what) + history;
    fault = what + ":" + history;
}

// Nobody is locked out: with whatever is left in their memory, any two that dial now, one before,
// while or after the other does, end up connected.
void Walk::dial_again(const Visit &at) {
    TwoPeersLimits limits = limits_;
    World start = at.world;
    for (size_t i = 0; i < start.engines.size(); ++i)
        limits.dials[i] = start.engines[i].dials + 1;
    start.disturbed = start.broken = start.dialed = false;
    Walk walk(limits, result_);
    walk.run(std::move(start), true);
    result_.again += walk.states();
    if (walk.fault.empty()) return;
    const size_t colon = walk.fault.find(':');
    tell("dialing again, " + walk.fault.substr(0, colon), at.index,
         "\n  --" + walk.fault.substr(colon + 1));
}

void Walk::rest(const Visit &at) {
    bool connected = false;
    if (const std::string wrong = judge(at.world, connected); !wrong.empty())
        return tell(wrong, at.index);
    if (undisturbed_) return;
    ++result_.quiet;
    result_.connected += connected;
    if (!connected) dial_again(at);
}

void Walk::visit(const Visit &from) {
    std::vector<Happening> next;
    natural(from.world, next);
    if (next.empty()) rest(from);
    if (!fault.empty()) return;
    if (!undisturbed_ || from.dials < kAgain) dials(from.world, limits_.dials, next);
    if (!undisturbed_) disturbances(from.world, limits_, next);
    for (const Happening &what : next) {
        const bool dials = what.kind <= Happening::dial_address;
        // Who is frozen answers later, which is a disturbance.
        if (undisturbed_ && dials && from.world.engines[what.to].life == Life::frozen) continue;
        World world = from.world;
        const std::string wrong = make(world, what, result_.transitions);
        if (wrong.empty() && !known_.insert(world.key()).second) continue;
        steps_.push_back({from.index, what});
        const auto index = static_cast<uint32_t>(steps_.size() - 1);
        if (!wrong.empty()) return tell(wrong, index);
        waiting_.push_back({std::move(world), index, static_cast<uint8_t>(from.dials + dials)});
    }
}

void Walk::run(World start, bool undisturbed) {
    undisturbed_ = undisturbed;
    steps_.push_back({});
    known_.insert(start.key());
    waiting_.push_back({std::move(start), 0, 0});
    while (!waiting_.empty() && fault.empty()) {
        visit(waiting_.front());
        waiting_.pop_front();
    }
}

}  // namespace

TwoPeersResult explore_two_peers(const TwoPeersLimits &limits) {
    TwoPeersResult result;
    Walk walk(limits, result);
    walk.run(World(limits));
    result.states = walk.states();
    result.fault = walk.fault;
    return result;
}

}  // namespace xfer
