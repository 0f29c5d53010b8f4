// SPDX-License-Identifier: Apache-2.0
// Batches in a random scenario: filled, submitted, submitted again, emptied, and bound to another
// ref.
#include <algorithm>

#include "scenario.h"
#include "util/status.h"

namespace xfer {

void Scenario::act_batch(Life &life) {
    size_t to = 0;
    const Life::Held *ref = some_ref(life, !one_in(4), to);
    if (!ref) return act_question(life, Act::lookup);
    const uint64_t count = one_in(6) ? 1 + random(60) : 1 + random(5);
    std::vector<uint64_t> lengths;
    uint64_t room = 0;
    for (uint64_t i = 0; i < count; ++i) {
        lengths.push_back(count > 5 ? random(3'000) : some_length());
        room += lengths.back() + 1;
    }
    if (room > 1'500'000) return;
    Life::Ep *ep = life.ep_to(to);
    if (!ep) return;
    Life::Batch batch;
    batch.node = to, batch.ep = ep->number;
    batch.ref = ref->ref, batch.lent = ref->lent, batch.granted = ref->granted;
    if (xfer_batch_open(ep->handle, nullptr, &batch.handle, nullptr) != XFER_OK) return;
    submit(life, batch, fill(life, batch, lengths));
    life.batches.push_back(batch);
}

ModelOperation &Scenario::fill(Life &life, const Life::Batch &batch,
                               const std::vector<uint64_t> &lengths) {
    const Life::Held ref{batch.ref, batch.lent, batch.granted};
    uint64_t room = 0;
    for (const uint64_t length : lengths)
        room += length + 1;
    ModelOperation &operation = model.begin(ModelOperation::batch, life.number, room);
    operation.ep = batch.ep;
    uint64_t at = 0;
    const bool mixed = one_in(3);
    for (const uint64_t length : lengths) {
        const bool put = mixed ? one_in(2) : !ref.lent->fixed;
        uint64_t offset = 0;
        if (!add_entry(life, batch.node, put, operation, at, length, ref, offset)) continue;
        uint8_t *local = operation.buffer + at;
        const xfer_status_t status =
            put ? xfer_batch_put(batch.handle, local, &ref.ref, offset, length)
                : xfer_batch_get(batch.handle, local, &ref.ref, offset, length);
        at += length + 1;
        if (status != XFER_OK) operation.entries.pop_back();
    }
    return operation;
}

void Scenario::submit(Life &life, Life::Batch &batch, ModelOperation &operation) {
    auto options = options_of<xfer_submit_options_t>(some_timeout(operation));
    operation.notifies = one_in(3);
    operation.ordered = one_in(5);
    if (operation.notifies) options.flags |= XFER_SUBMIT_NOTIFY;
    if (operation.ordered) options.flags |= XFER_SUBMIT_ORDERED;
    if (operation.notifies && swarm.counts && one_in(2))
        operation.key = kSharedKey + random(kSharedKeys);
    if (swarm.sums && one_in(4)) {
        options.flags |= XFER_SUBMIT_CHECKSUM;
        operation.checked = true;
    }
    options.notify_key = operation.key ? operation.key : operation.number;
    const auto bytes = told_bytes(operation.number);
    if (operation.notifies) options.notify_data = bytes.data();
    if (operation.notifies) options.notify_length = bytes.size();
    batch.last = operation.number;
    // A polled engine takes operations on a handle whose end was told, and cancels them in the next
    // poll.
    Life::Ep *ep = life.ep_by(operation.ep);
    operation.withdrawn = !ep;
    life.took(operation, ep, xfer_batch_submit(batch.handle, operation.number, &options));
}

// Only what surely lands no more may be sent again by a test that judges bytes.
void Scenario::act_resubmit(Life &life) {
    if (life.batches.empty()) return;
    const size_t index = random(life.batches.size());
    Life::Batch &batch = life.batches[index];
    const ModelOperation *last = model.find(batch.last);
    if (one_in(4)) {
        note([&] { return life.name() + " closes a batch"; });
        model.withdraw(batch.last);
        xfer_batch_close(batch.handle);
        life.batches.erase(life.batches.begin() + static_cast<ptrdiff_t>(index));
        return;
    }
    if (!last->ended || !(last->flags & XFER_FENCED)) return;
    ModelOperation &operation = model.again(*last);
    operation.grant = last->grant;
    submit(life, batch, operation);
}

// While it is in flight nobody may look at it or change it.
bool Scenario::is_idle(Life &life, const Life::Batch &batch) {
    if (model.find(batch.last)->ended) return true;
    xfer_status_t status = XFER_OK;
    for (const xfer_status_t answer :
         {xfer_batch_reset(batch.handle), xfer_batch_entries(batch.handle, 0, 1, &status),
          life.ep_by(batch.ep) ? xfer_batch_rebind(batch.handle, &batch.ref, &batch.ref, nullptr)
                               : XFER_EBUSY})
        if (answer != XFER_EBUSY)
            model.violated(life.name() + ": a batch in flight answers " + xfer_status_name(answer));
    return false;
}

// Emptied, and filled with something else.
void Scenario::act_reset(Life &life) {
    if (life.batches.empty()) return;
    Life::Batch &batch = life.batches[random(life.batches.size())];
    if (!batch.lent || !is_idle(life, batch)) return;
    xfer_status_t status = xfer_batch_reset(batch.handle);
    note([&] { return life.name() + " empties a batch: " + xfer_status_name(status); });
    if (status != XFER_OK) return model.violated(life.name() + ": a batch is not to be emptied");
    if (xfer_batch_entries(batch.handle, 0, 0, &status) != XFER_EINVAL)
        model.violated(life.name() + ": an emptied batch tells of entries");
    std::vector<uint64_t> lengths(1 + random(5));
    for (uint64_t &length : lengths)
        length = random(5'000);
    submit(life, batch, fill(life, batch, lengths));
}

// Its entries name another region of that owner, or of the one that has come after it, at the same
// offsets. That region is there for this batch alone.
void Scenario::act_rebind(Life &life) {
    if (life.batches.empty()) return;
    Life::Batch &batch = life.batches[random(life.batches.size())];
    if (!batch.lent || batch.granted || !is_idle(life, batch)) return;
    const ModelOperation *last = model.find(batch.last);
    Life *owner = nodes_[batch.node].life.get();
    const Lent &from = *batch.lent;
    const bool moves =
        std::all_of(last->entries.begin(), last->entries.end(),
                    [&](const Entry &entry) { return from.fixed ? !entry.put : entry.put; });
    if (!moves || last->entries.empty() || !(last->flags & XFER_FENCED)) return;
    if (!owner || !owner->acts() || owner->areas.size() >= 8) return;
    const uint32_t access = from.fixed ? XFER_READ : XFER_READ | XFER_WRITE;
    const std::string name = "z" + std::to_string(next_word());
    if (!owner->open_area(name, from.length, access, from.fixed ? from.content : nullptr)) return;
    Lent &to = *owner->areas.back().lent;
    to.next = from.next;
    xfer_ref_t ref;
    xfer_region_ref(owner->areas.back().handle, &ref);
    check_rebinds(life, batch, *owner, ref);
    const xfer_status_t status = xfer_batch_rebind(batch.handle, &batch.ref, &ref, nullptr);
    note([&] { return life.name() + " rebinds a batch: " + xfer_status_name(status); });
    const Life::Ep *ep = life.ep_by(batch.ep);
    if (status == XFER_ECLOSED && !ep) return;
    if (status == XFER_EIDENTITY && ep && ep->expected) return;  // the owner has another id now
    if (status != XFER_OK) return model.violated(life.name() + ": a batch is not to be rebound");
    ModelOperation &operation = model.again(*last);
    for (Entry &entry : operation.entries)
        if (entry.put) entry.remote = to.base + (entry.remote - from.base);
    operation.to = owner->number;
    operation.lent = &to;
    batch.ref = ref, batch.lent = &to;
    submit(life, batch, operation);
}

// What the new ref must have, and the batch must name.
void Scenario::check_rebinds(Life &life, const Life::Batch &batch, const Life &owner,
                             const xfer_ref_t &to) {
    const Life::Ep *ep = life.ep_by(batch.ep);
    const auto rebind = [&](const xfer_ref_t &from, const xfer_ref_t &into, xfer_status_t wanted) {
        const xfer_status_t status = xfer_batch_rebind(batch.handle, &from, &into, nullptr);
        const bool of_another = status == XFER_EIDENTITY && ep && ep->expected;
        if (status != wanted && status != XFER_ECLOSED && !of_another)
            model.violated(life.name() + ": a wrong ref for a batch answers " +
                           xfer_status_name(status));
    };
    rebind(to, to, XFER_ENOTFOUND);
    for (const Life::Held &held : life.held)
        if (held.lent->length < batch.lent->length) rebind(batch.ref, held.ref, XFER_ERANGE);
    if (batch.lent->fixed) return;
    xfer_grant_options_t options{};
    options.size = sizeof options;
    options.access = XFER_READ;
    options.length = batch.lent->length;
    options.user = next_word();
    xfer_ref_t less;
    xfer_region_t *region = owner.areas.back().handle;
    if (xfer_region_grant(region, &options, &less, nullptr) != XFER_OK) return;
    rebind(batch.ref, less, XFER_EACCESS);
    xfer_region_revoke(region, &less);
}

}  // namespace xfer
