// SPDX-License-Identifier: Apache-2.0
#include "core/message/held_messages.h"

#include "core/base/limits.h"

namespace xfer {

bool HeldMessages::take(const EngineId &sender, uint64_t payload) {
    const uint64_t bytes = kHeldMessage + payload;
    if (bytes > kMaxHeldInEngine - total_) return false;
    const auto at = by_sender_.find(sender);
    const uint64_t held = at == by_sender_.end() ? 0 : at->second;
    if (bytes > kMaxHeldOfSender - held) return false;
    by_sender_[sender] = held + bytes;
    total_ += bytes;
    return true;
}

void HeldMessages::give_back(const EngineId &sender, uint64_t payload) {
    const uint64_t bytes = kHeldMessage + payload;
    const auto at = by_sender_.find(sender);
    total_ -= bytes;
    at->second -= bytes;
    // Who sends the next one needs no memory for his sum.
    if (at->second == 0 && by_sender_.size() > kKeptSenders) by_sender_.erase(at);
}

}  // namespace xfer
