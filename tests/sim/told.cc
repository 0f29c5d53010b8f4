// SPDX-License-Identifier: Apache-2.0
// What the applications of owners are told of the operations of others.
#include "model.h"
#include "util/status.h"

namespace xfer {

void Model::notified(const xfer_event_t &event, Who &at) {
    Operation *operation = find(event.tag);
    if (!operation) return violated("a notification that nobody made");
    if (operation->told) return violated(named(*operation) + ": its notification came twice");
    if (operation->announced_at != at.number && !operation->to_self)
        violated(named(*operation) + " is told where nothing of it has come");
    ++met()[event.status == XFER_OK ? "notified" : "notified of a failure"];
    operation->told = true;
    operation->told_status = event.status;
    if (operation->ended && operation->status == XFER_OK && event.status != XFER_OK)
        violated(named(*operation) + " ended well, and its owner is told that it failed");
    if (operation->kind == Operation::notify && operation->ended && operation->status != XFER_OK &&
        (operation->flags & XFER_FENCED))
        violated(named(*operation) + " ended FENCED, and then it was told");
    if (event.status != XFER_OK || operation->kind != Operation::batch) return;
    for (const Entry &entry : operation->entries) {
        const Lent *lent = entry.put ? lent_at(entry.remote) : nullptr;
        if (!lent || lent->owner != at.number || operation->to_self) continue;
        if (entry.landed != entry.length)
            violated(named(*operation) + " is told, and not all of its data are there");
    }
}

// Once it was let in it is told: that it ended well, or that it failed, also when its initiator is
// gone. Nobody is told whose engine has died or closes.
const Operation *Model::untold() const {
    for (const auto &[number, operation] : all_) {
        if (!operation->announced_at || operation->told) continue;
        const Who &owner = who_.at(operation->announced_at);
        if (!owner.dead && !owner.closing) return operation.get();
    }
    return nullptr;
}

void Model::announced(uint64_t key, uint32_t owner) {
    Operation *operation = find(key);
    if (!operation) return violated("a notification is announced that nobody made");
    operation->announced_at = owner;
}

}  // namespace xfer
