// SPDX-License-Identifier: Apache-2.0
#include "core/connection/import_table.h"

#include <utility>

#include "core/base/limits.h"

namespace xfer {

ImportTable::Entries::iterator ImportTable::look(RegionId region) {
    if (last_ == entries_.end() || last_->first != region) last_ = entries_.find(region);
    return last_;
}

void ImportTable::erase(Entries::iterator at) {
    if (at->second.state == Entry::State::asked) --asked_;
    entries_.erase(at);
    last_ = entries_.end();
}

// That it was out of reach for who had another key says nothing.
ImportTable::Found ImportTable::find(const Access &access) {
    if (access.target().message()) return {known(access), false};
    const auto at = look(RegionId{access.region});
    if (at == entries_.end()) return {nullptr, may_ask()};
    const Entry &entry = at->second;
    if (entry.state == Entry::State::unreachable && !entry.is_for(access)) {
        erase(at);
        return {nullptr, asked_ < kMaxExportsAsked};
    }
    return {known(access), false};
}

const Import *ImportTable::known(const Access &access) {
    const auto at = look(RegionId{access.region});
    if (at == entries_.end()) return nullptr;
    return at->second.is_for(access) ? at->second.import.get() : nullptr;
}

ImportTable::Word ImportTable::word_on(const Access &access) {
    const auto at = look(RegionId{access.region});
    if (at != entries_.end())
        return at->second.state == Entry::State::asked ? Word::awaited : Word::here;
    return may_ask() ? Word::unasked : Word::here;
}

bool ImportTable::may_ask() {
    return asked_ < kMaxExportsAsked && make_room();
}

bool ImportTable::make_room() {
    if (entries_.size() < kMaxImports) return true;
    std::erase_if(entries_,
                  [](const auto &at) { return at.second.state == Entry::State::unreachable; });
    last_ = entries_.end();
    return entries_.size() < kMaxImports;
}

void ImportTable::asked(const Access &access) {
    Entry &entry = entries_[RegionId{access.region}];
    entry.generation = access.generation;
    entry.key = access.key;
    ++asked_;
}

bool ImportTable::waits_for(RegionId region) const {
    const auto at = entries_.find(region);
    return at != entries_.end() && at->second.state == Entry::State::asked;
}

void ImportTable::answered(RegionId region, std::unique_ptr<Import> import, bool again) {
    const auto at = look(region);
    if (again) return erase(at);
    --asked_;
    at->second.state = import ? Entry::State::imported : Entry::State::unreachable;
    at->second.import = std::move(import);
}

// One that is asked for still has been asked for anew, or with a wrong key.
std::unique_ptr<Import> ImportTable::withdraw(RegionId region) {
    const auto at = look(region);
    if (at == entries_.end() || at->second.state == Entry::State::asked) return nullptr;
    std::unique_ptr<Import> import = std::move(at->second.import);
    erase(at);
    return import;
}

std::unique_ptr<Import> ImportTable::forget(RegionId message) {
    const auto at = look(message);
    if (at == entries_.end()) return nullptr;
    std::unique_ptr<Import> import = std::move(at->second.import);
    erase(at);
    return import;
}

void ImportTable::clear() {
    entries_.clear();
    last_ = entries_.end();
    asked_ = 0;
}

}  // namespace xfer
