// SPDX-License-Identifier: Apache-2.0
#include "core/connection/attached_paths.h"

#include <algorithm>
#include <tuple>

#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"
#include "wire/limits.h"

namespace xfer {

AttachedPaths::AttachedPaths(Connection &connection) : connection_(connection) {
    at(kFirstAttached);
}

size_t AttachedPaths::max_paths() const {
    size_t most = 1;
    for (const auto &fabric : connection_.shard.fabrics)
        most = std::max<size_t>(most, fabric->most_paths());
    return std::min<size_t>(most, kMaxAttached);
}

PathAttachment &AttachedPaths::at(uint64_t number) {
    while (paths_.size() <= number - kFirstAttached)
        paths_.push_back(std::make_unique<PathAttachment>(
            connection_, kFirstAttached + static_cast<uint32_t>(paths_.size())));
    return *paths_[number - kFirstAttached];
}

// ---- opening them

// Where neighbours may come to share memory, that is known first. The peer may have signaled paths
// that this end has no port for.
void AttachedPaths::open(bool bulk) {
    if (!connection_.usable() || !connection_.lanes.local.leaves_to_others()) return;
    connection_.attached_lane.open();
    for (size_t i = 0; i < paths_.size() || bulk; ++i) {
        if (i > 0 && i >= max_paths()) return;
        if (i == paths_.size() && !add()) return;
        PathAttachment &path = *paths_[i];
        path.open();
        if (path.is_opening() || (!bulk && !path.is_closed())) return;
    }
}

// It goes on as it is where there is no memory for more.
bool AttachedPaths::add() {
    return catch_bad_alloc([this] { at(kFirstAttached + paths_.size()); });
}

void AttachedPaths::open_asked() {
    for (const auto &path : paths_)
        path->open_asked();
}

// One that is of no use here is not opened.
void AttachedPaths::on_asked(const Frame &frame) {
    const bool is_of_use = frame.seq >= kFirstAttached && frame.seq < kFirstAttached + max_paths();
    if (connection_.side == Side::theirs || !is_of_use) return;
    connection_.in_turn([&] { at(frame.seq).on_asked(); });
}

void AttachedPaths::on_signal(const Frame &frame, ConstBytes body) {
    if (frame.region < kFirstAttached || frame.region >= kFirstAttached + kMaxAttached)
        return connection_.close({XFER_EPROTO, 0, 0, "a signal of a path that has no number"});
    connection_.in_turn([&] { at(frame.region).on_signal(frame, body); });
}

bool AttachedPaths::has_ready() const {
    return std::any_of(paths_.begin(), paths_.end(),
                       [](const auto &path) { return path->is_ready(); });
}

// ---- which one carries what

OneSidedRail *AttachedPaths::find(uint64_t number) const {
    const uint64_t index = number - kFirstAttached;
    return index < paths_.size() ? &paths_[index]->rail : nullptr;
}

OneSidedRail *AttachedPaths::reaching(const Access &access) const {
    OneSidedRail *best = nullptr;
    const auto load = [](const OneSidedRail &rail) {
        return std::tuple(!rail.has_room(), rail.bytes);
    };
    for (const auto &path : paths_)
        if (path->rail.reaches(access) && (!best || load(path->rail) < load(*best)))
            best = &path->rail;
    return best;
}

// All of them are asked, and the first answer that is of use is enough.
bool AttachedPaths::awaits(const Access &message) const {
    bool awaited = false;
    for (const auto &path : paths_)
        awaited |= path->rail.awaits(message);
    return awaited && !reaching(message);
}

void AttachedPaths::forget_import(MessageId message) const {
    for (const auto &path : paths_)
        path->rail.forget_import(message);
}

void AttachedPaths::forget_export(MessageId message) const {
    for (const auto &path : paths_)
        path->rail.forget_export(message);
}

bool AttachedPaths::exports(MessageId message) const {
    return std::any_of(paths_.begin(), paths_.end(),
                       [&](const auto &path) { return path->rail.exports(message); });
}

uint32_t AttachedPaths::withdraw(MessageId message) const {
    uint32_t reading = 0;
    for (const auto &path : paths_)
        reading += path->rail.withdraw_export(message);
    return reading;
}

std::vector<AttachedPath *> AttachedPaths::beside(const PathAttachment &self,
                                                  const Fabric &fabric) const {
    std::vector<AttachedPath *> others;
    for (const auto &path : paths_)
        if (AttachedPath *open = path->path_of(fabric); open && path.get() != &self)
            others.push_back(open);
    return others;
}

bool AttachedPaths::flush() {
    bool flushed = false;
    for (const auto &path : paths_) {
        if (!path->rail.unflushed) continue;
        path->rail.flush();
        flushed = true;
    }
    return flushed;
}

bool AttachedPaths::busy() const {
    return std::any_of(paths_.begin(), paths_.end(),
                       [](const auto &path) { return path->rail.ops != 0; });
}

bool AttachedPaths::has_declined() const {
    return std::any_of(paths_.begin(), paths_.end(),
                       [](const auto &path) { return path->rail.has_declined(); });
}

void AttachedPaths::give_back() {
    for (const auto &path : paths_) {
        path->rail.repost();
        path->rail.give_back();
    }
}

uint32_t AttachedPaths::retire(Target target, Status why) {
    uint32_t waiting = 0;
    for (const auto &path : paths_)
        waiting += !path->rail.retire(target, why);
    return waiting;
}

// ---- their end

void AttachedPaths::close(const Failure &why) {
    for (const auto &path : paths_)
        path->close(why);
}

bool AttachedPaths::is_closed() const {
    return std::all_of(paths_.begin(), paths_.end(),
                       [](const auto &path) { return path->is_closed(); });
}

void AttachedPaths::disarm() {
    for (const auto &path : paths_)
        path->disarm();
}

}  // namespace xfer
