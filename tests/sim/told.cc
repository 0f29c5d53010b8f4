// SPDX-License-Identifier: Apache-2.0
// What the applications of owners are told of the operations of others.
#include <algorithm>
#include <cstring>

#include "model.h"
#include "util/status.h"
#include "wire/limits.h"

namespace xfer {

std::vector<uint8_t> told_bytes(uint64_t number) {
    return std::vector<uint8_t>(number % 16 == 0 ? kMaxNotifyData : number % 3 * number % 100,
                                static_cast<uint8_t>(number));
}

void Model::notified(const xfer_event_t &event, Who &at) {
    if (event.tag >= kSharedKey) return told_of_many(event, at);
    ModelOperation *operation = find(event.tag);
    if (!operation) return violated("a notification that nobody made");
    if (operation->expected && at.id != *operation->expected)
        violated(named(*operation) + " is told by an engine that was not expected");
    if (operation->told) return violated(named(*operation) + ": its notification came twice");
    if (operation->announced_at != at.number && !operation->to_self)
        violated(named(*operation) + " is told where nothing of it has come");
    ++met()[event.status == XFER_OK ? "notified" : "notified of a failure"];
    const auto *data = static_cast<const uint8_t *>(event.data);
    if (std::vector(data, data + event.data_length) !=
        (event.status == XFER_OK ? told_bytes(event.tag) : std::vector<uint8_t>()))
        violated(named(*operation) + ": its notification has other bytes");
    operation->told = true;
    operation->told_status = event.status;
    check_told(*operation);
    if (operation->kind == ModelOperation::notify && operation->ended &&
        operation->status != XFER_OK && (operation->flags & XFER_FENCED))
        violated(named(*operation) + " ended FENCED, and then it was told");
    if (event.status != XFER_OK || operation->kind != ModelOperation::batch) return;
    for (const Entry &entry : operation->entries) {
        const Lent *lent = entry.put ? lent_at(entry.remote) : nullptr;
        if (!lent || lent->owner != at.number || operation->to_self) continue;
        if (entry.landed != entry.length)
            violated(named(*operation) + " is told, and not all of its data are there");
    }
}

// What a cancel, a deadline or an end may have come too late for, a refusal has not, unless it says
// so itself: an endpoint whose peer turns out to be another engine may have sent some of it.
void Model::check_told(const ModelOperation &operation) {
    if (!operation.told || !operation.ended) return;
    if (operation.status == XFER_OK && operation.told_status != XFER_OK)
        violated(named(operation) + " ends well, and its owner is told that it failed");
    const Status status = operation.status;
    const bool late = status == XFER_ECANCELED || status == XFER_ETIMEDOUT ||
                      status == XFER_EPEERLOST ||
                      (status == XFER_EIDENTITY && operation.flags & XFER_MAYBE_APPLIED);
    if (status != XFER_OK && !late && operation.told_status == XFER_OK)
        violated(named(operation) + " was refused, and its owner is told that all is well");
}

// Once it was let in it is told: that it ended well, or that it failed, also when its initiator is
// gone. Nobody is told whose engine has died or closes.
const ModelOperation *Model::untold() const {
    for (const auto &[number, operation] : all_) {
        if (!operation->announced_at || operation->told) continue;
        const Who &owner = who_.at(operation->announced_at);
        if (!owner.dead && !owner.closing) return operation.get();
    }
    return nullptr;
}

void Model::announced(uint64_t key, uint32_t owner) {
    if (key >= kSharedKey) return;
    ModelOperation *operation = find(key);
    if (!operation) return violated("a notification is announced that nobody made");
    operation->announced_at = owner;
}

// ---- memory

// A grant ends by its owner's word, with its region, or when its lease is over.
void Model::revoked(const xfer_event_t &event, Lent &grant) {
    const bool by_word = event.status == XFER_OK && grant.revoke_called;
    const bool by_time = event.status == XFER_ETIMEDOUT && grant.lapsed(net_.world.now());
    const bool by_end =
        event.status == XFER_ECLOSED && (grant.whole->close_called || who_[grant.owner].closing);
    if (!by_word && !by_time && !by_end)
        violated("e" + std::to_string(grant.owner) +
                 ": a grant ends without a reason: " + xfer_status_name(event.status));
    returned(grant);
}

const Lent *Model::overdue() {
    for (const auto &lent : lent_) {
        const Who &owner = who_[lent->owner];
        if (lent->over || owner.dead || owner.closing) continue;
        const bool with_whole = lent->whole && lent->whole->close_called;
        if (lent->close_called || lent->revoke_called || with_whole ||
            lent->lapsed(net_.world.now()))
            return lent.get();
    }
    return nullptr;
}

// ---- endpoints

void Model::closed(uint64_t ep, const Who &at) {
    quiet_ends(at, ep);
    for (const auto &[number, operation] : all_)
        if (operation->ep == ep && operation->from == at.number && operation->submitted &&
            !operation->ended)
            violated(named(*operation) + " has not ended, and its endpoint is told closed");
}

// ---- entries

void Model::entries_told(const xfer_event_t &event, const ModelOperation &operation,
                         const std::vector<xfer_status_t> &statuses) {
    const auto failed = std::find_if(statuses.begin(), statuses.end(),
                                     [](xfer_status_t status) { return status != XFER_OK; });
    if (failed != statuses.end()) {
        ++met()["entry failed"];
        if (event.status == XFER_OK)
            violated(named(operation) + " ends well, and an entry of it does not");
        if (event.index != static_cast<uint64_t>(failed - statuses.begin()))
            violated(named(operation) + " tells another entry than the first that failed");
    }
    for (size_t i = 0; i < statuses.size(); ++i) {
        const Entry &entry = operation.entries[i];
        if (statuses[i] != XFER_OK) continue;
        const bool all_there =
            entry.put ? operation.to_self || entry.landed == entry.length
                      : std::memcmp(operation.buffer + entry.at, entry.expected, entry.length) == 0;
        if (!all_there) violated(named(operation) + ": an entry ends well, and is not there");
    }
}

// ---- counters

const Count *Model::counting(uint32_t at, uint64_t key) const {
    for (const Count &count : counts_)
        if (count.at == at && count.key == key && !count.closed) return &count;
    return nullptr;
}

void Model::count(Count made) {
    made.since = last_number_;
    made.opened = net_.world.now();
    counts_.push_back(made);
}

void Model::uncount(uint64_t user) {
    for (Count &count : counts_) {
        if (count.user != user) continue;
        count.owed = enough(count);
        count.closed = true;
    }
}

// Whether its notification may come there, for all that is known of whom it meets.
bool Model::may_reach(const ModelOperation &operation, uint64_t key, const Who &at) const {
    const bool notifies = operation.notifies || operation.kind == ModelOperation::notify;
    if (!notifies || operation.key != key || !operation.submitted) return false;
    return !operation.to || who_.at(operation.to).node == at.node;
}

// So many have ended well that it must have told.
bool Model::enough(const Count &count) const {
    const auto surely = std::count_if(all_.begin(), all_.end(), [&](const auto &at) {
        const ModelOperation &operation = *at.second;
        return operation.owed && operation.key == count.key && operation.to == count.at &&
               operation.number > count.since;
    });
    return static_cast<uint64_t>(surely) >= count.expected;
}

void Model::counted(const xfer_event_t &event, const Who &at) {
    const auto count = std::find_if(counts_.begin(), counts_.end(), [&](const Count &each) {
        return each.user == event.user && each.at == at.number;
    });
    if (count == counts_.end()) return violated("a counter tells that nobody opened");
    const std::string name = "the counter " + std::to_string(count->key - kSharedKey) + " of e" +
                             std::to_string(count->at);
    if (count->told) violated(name + " tells twice");
    if (event.object != count->handle || event.tag != count->key)
        violated(name + " tells another handle or key");
    count->told = true;
    if (event.status == XFER_ETIMEDOUT) {
        ++met()["counter expired"];
        if (!count->limit || net_.world.now() < count->opened + count->limit)
            violated(name + " ends before its time");
        if (event.index >= count->expected) violated(name + " is late, and has all");
        return;
    }
    if (event.status == XFER_ECANCELED) {
        ++met()["counter canceled"];
        if (!at.closing) violated(name + " is canceled, and its engine goes on");
        if (event.index >= count->expected) violated(name + " is canceled, and has all");
        return;
    }
    ++met()["counter"];
    if (event.index != count->expected) violated(name + " tells another number");
    uint64_t most = 0;
    for (const auto &[number, operation] : all_) {
        if (!may_reach(*operation, count->key, at)) continue;
        // What has ended for certain can't come any more, and if it came, it came before.
        const bool certain = operation->ended && operation->flags & XFER_FENCED;
        if (certain && (operation->status != XFER_OK || operation->ended_at < count->opened))
            continue;
        const auto &entries = operation->entries;
        most += operation->to_self || std::all_of(entries.begin(), entries.end(), [](auto &entry) {
                    return !entry.put || entry.landed == entry.length;
                });
    }
    if (most < count->expected) violated(name + " tells before all are there");
}

void Model::told_of_many(const xfer_event_t &event, const Who &at) {
    Tally &tally = tallies_[{at.number, event.tag}];
    ++(event.status == XFER_OK ? tally.well : tally.failed);
    ++met()["notified by a shared key"];
    if (event.status != XFER_OK) return;
    for (Count &count : counts_) {
        if (count.at != at.number || count.key != event.tag || count.closed) continue;
        const auto before = std::count_if(all_.begin(), all_.end(), [&](const auto &each) {
            return each.first <= count.since && may_reach(*each.second, count.key, at);
        });
        if (++count.strays > static_cast<uint64_t>(before))
            violated("e" + std::to_string(at.number) + " is told what it has a counter for");
    }
}

void Model::check_counts() {
    for (const Count &count : counts_)
        if ((count.owed || (!count.closed && enough(count))) && !count.told && !who_[count.at].dead)
            violated("e" + std::to_string(count.at) + ": a counter has all, and does not tell");
    for (const Count &count : counts_) {
        const Who &who = who_[count.at];
        const bool waits = count.limit && !count.told && !count.closed;
        if (waits && !who.dead && !who.closing && net_.world.now() > count.opened + count.limit)
            violated("e" + std::to_string(count.at) + ": a counter waits past its deadline");
    }
    for (const auto &[number, who] : who_)
        for (uint64_t key = kSharedKey; key < kSharedKey + kSharedKeys && !who.dead; ++key) {
            const Tally tally = tallies_[{number, key}];
            uint64_t well = 0, failed = 0, surely = 0;
            for (const auto &[at, operation] : all_) {
                if (!may_reach(*operation, key, who)) continue;
                const bool good = operation->ended && operation->status == XFER_OK;
                well += good || !operation->ended || (operation->flags & XFER_MAYBE_APPLIED);
                failed += !good;
                surely += operation->owed && operation->to == number;
            }
            const auto counts = [&](const Count &each) {
                return each.at == number && each.key == key;
            };
            const bool any = std::any_of(counts_.begin(), counts_.end(), counts);
            if (tally.well > well || tally.failed > failed || (!any && tally.well < surely))
                violated("e" + std::to_string(number) + " is not told each notification once");
        }
}

}  // namespace xfer
