// SPDX-License-Identifier: Apache-2.0
// What the model sees of every byte that leaves, is read, written, or lands.
#include <algorithm>

#include "model.h"

namespace xfer {

ModelOperation *Model::holder(const void *at) const {
    const auto address = reinterpret_cast<Address>(at);
    auto next = by_buffer_.upper_bound(address);
    if (next == by_buffer_.begin()) return nullptr;
    ModelOperation *operation = std::prev(next)->second;
    const auto begin = reinterpret_cast<Address>(operation->buffer);
    return address < begin + operation->length ? operation : nullptr;
}

bool Model::find(const void *at, uint64_t &base, uint64_t &size) const {
    const ModelOperation *const operation = holder(at);
    if (const Lent *const lent = operation ? nullptr : lent_at(at); lent && lent->on_device) {
        base = reinterpret_cast<Address>(lent->base);
        size = lent->length;
        return true;
    }
    if (!operation || !operation->on_device) return false;
    base = reinterpret_cast<Address>(operation->buffer);
    size = operation->length;
    return true;
}

uint64_t Model::operation_at(const void *local) {
    ModelOperation *operation = holder(local);
    return operation ? operation->number : 0;
}

void Model::leaves(uint64_t number, const void *local, uint32_t to, bool checked) {
    ModelOperation *operation = find(number);
    if (!operation) return violated("bytes leave that belong to nobody");
    if (!operation->left) operation->left_at = net_.world.now();
    operation->left = true;
    if (operation->ended) violated(named(*operation) + " leaves after its end");
    if (operation->checked && !checked)
        violated(named(*operation) + " leaves without the checksum that it wants");
    if (operation->expected && to && who_[to].id != *operation->expected)
        violated(named(*operation) + " leaves for e" + std::to_string(to) +
                 ", which was not expected");
    if (!operation->chunks.insert(local).second)
        violated(named(*operation) + ": a part of it is sent twice");
}

void Model::spoiled(uint64_t number) {
    if (ModelOperation *operation = find(number)) operation->spoiled = true;
}

void Model::reads(const void *at) {
    if (ModelOperation *operation = holder(at)) {
        if (operation->ended && !who_[operation->from].dead)
            violated(named(*operation) + ": its memory is read after its end");
    } else if (Lent *lent = lent_at(at); lent && lent->over) {
        violated("memory of e" + std::to_string(lent->owner) +
                 " is read for a peer after it was told closed");
    }
}

void Model::writes(const void *at) {
    ModelOperation *operation = holder(at);
    const Lent *const lent = operation ? nullptr : lent_at(at);
    // An engine's own put, which no channel of this world carries.
    if (lent && lent->on_device && !lent->over) return;
    if (!operation) return violated("a get writes where nothing was lent");
    if (operation->ended) violated(named(*operation) + ": its memory is written after its end");
}

void Model::lands(uint64_t number, uint32_t owner, uint32_t from, uint64_t generation,
                  const uint8_t *at, size_t bytes) {
    ModelOperation *operation = find(number);
    if (!operation) return violated("bytes land that belong to nobody");
    uint64_t right = 0;
    for (Entry &entry : operation->entries) {
        const uint8_t *from = std::max<const uint8_t *>(at, entry.remote);
        const uint8_t *end = std::min<const uint8_t *>(at + bytes, entry.remote + entry.length);
        if (!entry.put || from >= end) continue;
        entry.landed += static_cast<uint64_t>(end - from);
        right += static_cast<uint64_t>(end - from);
    }
    if (right != bytes) violated(named(*operation) + " lands where it does not belong");
    check_place(*operation, owner, from, generation, at);
}

void Model::check_place(const ModelOperation &operation, uint32_t owner, uint32_t from,
                        uint64_t generation, const void *at) {
    if (operation.ended && (operation.flags & XFER_FENCED))
        violated(named(operation) + " lands after its end, which was FENCED");
    if (operation.told) violated(named(operation) + " lands after its owner was told of its end");
    const Lent *lent = lent_at(at);
    if (!lent) return violated(named(operation) + " lands where nothing was lent");
    if (lent->over) violated(named(operation) + " lands in a region that was told closed");
    if (operation.grant && operation.grant->over)
        violated(named(operation) + " lands by a grant that was told revoked");
    const auto down = down_.find({owner, from});
    if (down != down_.end() && generation <= down->second)
        violated(named(operation) + " lands by a connection whose end was told");
}

}  // namespace xfer
