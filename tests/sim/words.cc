// SPDX-License-Identifier: Apache-2.0
// Atomics in a random scenario. The model does each of them itself when a channel is about to, so
// it knows what every word holds, and what each must bring back. Those of an engine with itself are
// not seen; they add to a word of their own, of which their ends bound the sum.
#include <cstring>

#include "scenario.h"

namespace xfer {

uint64_t *Model::words_of(Lent &lent) {
    constexpr uint64_t kBytes = 2 * sizeof(uint64_t);
    const uint64_t at = (lent.next + 7) / 8 * 8;
    if (lent.words || lent.fixed || at + kBytes > lent.length) return lent.words;
    lent.next = at + kBytes;
    lent.words = reinterpret_cast<uint64_t *>(lent.base + at);
    return lent.words;
}

void Model::changes(uint64_t number, uint32_t owner, uint32_t from, uint64_t generation,
                    const void *word) {
    ModelOperation *operation = find(number);
    if (!operation || operation->kind != ModelOperation::atomic)
        return violated("a word is changed for nobody");
    ModelOperation::Change &change = operation->change;
    if (change.done) violated(named(*operation) + " is done twice");
    if (word != change.word) violated(named(*operation) + " changes another word");
    check_place(*operation, owner, from, generation, word);
    Lent &lent = const_cast<Lent &>(*operation->lent);
    change.done = true;
    change.before = lent.value;
    if (change.op == XFER_ATOMIC_ADD)
        lent.value += change.operand;
    else if (lent.value == change.compare)
        lent.value = change.operand;
}

// At its end.
void Model::check_change(const ModelOperation &operation) {
    const uint8_t *untouched = payload_table() + operation.number * 7919 % (1 << 20);
    const bool well = operation.status == XFER_OK;
    if (!well && std::memcmp(operation.buffer, untouched, sizeof(uint64_t)) != 0)
        violated(named(operation) + " failed, and has written its result");
    if (operation.to_self) return;
    const ModelOperation::Change &change = operation.change;
    if (!well && change.done && (operation.flags & XFER_FENCED))
        violated(named(operation) + " ends as never done, and it was");
    if (!well) return;
    if (!change.done) return violated(named(operation) + " ends well, and was not done");
    if (std::memcmp(operation.buffer, &change.before, sizeof change.before) != 0)
        violated(named(operation) + " brings back what was not there");
}

void Model::check_words(const Lent &lent) {
    if (!lent.words) return;
    const std::string whose = "a word of e" + std::to_string(lent.owner);
    if (lent.words[0] != lent.value) violated(whose + " holds what no atomic has left there");
    uint64_t least = 0, most = 0;
    for (const auto &[number, operation] : all_) {
        if (operation->kind != ModelOperation::atomic || operation->lent != &lent) continue;
        if (!operation->to_self || !operation->submitted) continue;
        const bool done = operation->ended && operation->status == XFER_OK;
        const bool maybe = !operation->ended || (operation->flags & XFER_MAYBE_APPLIED);
        least += done ? operation->change.operand : 0;
        most += done || maybe ? operation->change.operand : 0;
    }
    if (lent.words[1] < least || lent.words[1] > most)
        violated(whose + " of its own is not the sum of its atomics");
}

void Scenario::act_atomic(Life &life) {
    size_t to = 0;
    const Life::Held *ref = some_ref(life, true, to);
    if (!ref) return act_question(life, Act::lookup);
    xfer_ref_info_t info{};
    xfer_ref_info(&ref->ref, &info, sizeof info);
    ModelOperation &operation = model.begin(ModelOperation::atomic, life.number, sizeof(uint64_t));
    Life::Ep *ep = life.ep_to(to, one_in(20));
    Lent &lent = *ref->lent;
    const bool lends = info.access & XFER_ATOMIC;
    uint64_t *words = ep && lends ? model.words_of(lent) : nullptr;
    if (!words) return model.refused(operation);
    operation.ep = ep->number;
    operation.to = lent.owner;
    operation.lent = &lent;
    operation.to_self = to == life.node;
    if (ref->granted) operation.grant = &lent;
    ModelOperation::Change &change = operation.change;
    change.word = operation.to_self ? words + 1 : words;
    change.op = operation.to_self || one_in(2) ? XFER_ATOMIC_ADD : XFER_ATOMIC_CAS;
    change.operand = random(1'000'000);
    if (change.op == XFER_ATOMIC_CAS) change.compare = one_in(3) ? random(1'000'000) : lent.value;
    const auto offset = static_cast<uint64_t>(reinterpret_cast<uint8_t *>(change.word) - lent.base);
    const auto options = options_of<xfer_op_options_t>(some_timeout(operation));
    life.took(
        operation, ep,
        xfer_atomic(ep->handle, change.op, reinterpret_cast<uint64_t *>(operation.buffer),
                    &ref->ref, offset, change.operand, change.compare, operation.number, &options));
}

}  // namespace xfer
