// SPDX-License-Identifier: Apache-2.0
// The regions of one peer that a one-sided path reaches by itself, as their initiator knows them.
// A region is asked for when the first op names it; until the answer is here, and where the path
// can't reach it, ops go as requests. Only who has shown the generation and the key of a ref uses
// what was imported by it. Thread: the loop's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "transport/one_sided.h"
#include "transport/op.h"

namespace xfer {

class ImportTable {
public:
    struct Found {
        const Import *import = nullptr;  // null: the op goes as a request
        bool unknown = false;            // the owner is to be asked
    };
    Found find(const Access &access);
    const Import *known(const Access &access);  // the same, and asks nobody
    void asked(const Access &access);           // may throw
    // A message, which nobody asks for by the way: whether its owner has to say yet where it is.
    enum class Word : uint8_t { unasked, awaited, here };
    Word word_on(const Access &access);
    bool waits_for(RegionId region) const;
    // The answer. Null: it can't be reached. `again`: it may be asked for once more.
    void answered(RegionId region, std::unique_ptr<Import> import, bool again);
    // The region has ended: what was imported of it, if it was.
    std::unique_ptr<Import> withdraw(RegionId region);
    std::unique_ptr<Import> forget(RegionId message);  // the same, and no answer is waited for
    void clear();

private:
    struct Entry {
        enum class State : uint8_t { asked, imported, unreachable } state = State::asked;
        uint64_t generation = 0, key = 0;
        bool is_for(const Access &access) const {
            return generation == access.generation && key == access.key;
        }
        std::unique_ptr<Import> import;
    };
    using Entries = std::map<RegionId, Entry>;
    Entries::iterator look(RegionId region);
    void erase(Entries::iterator at);
    bool may_ask();
    bool make_room();

    Entries entries_;
    Entries::iterator last_ = entries_.end();  // that was found: most ops name the same region
    uint32_t asked_ = 0;
};

}  // namespace xfer
