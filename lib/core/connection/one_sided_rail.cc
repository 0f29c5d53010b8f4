// SPDX-License-Identifier: Apache-2.0
#include "core/connection/one_sided_rail.h"

#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"

namespace xfer {

void OneSidedRail::start(OneSidedPath &ready, uint32_t max_ops) {
    one_sided_ = &ready;
    ready.start(*this, *this, max_ops);
    Rail::start(ready);
}

void OneSidedRail::on_down(const Failure &why) {
    one_sided_ = nullptr;
    imports_.clear();
    exported_.clear();
    while (!withdrawn_.empty())
        on_withdrawn({*withdrawn_.begin()});
    Rail::on_down(why);
    lane.connection.shard.loop.defer(lane.connection);
}

// ---- operations that the path declines

// One that was canceled meanwhile goes nowhere.
void OneSidedRail::on_declined(Op &op) {
    (op.canceled || op.unwanted ? canceled_ : declined_).push_back(op);
    lane.connection.shard.loop.defer(lane.connection);
}

// Some of it may have been seen by the peer: it stays with this lane.
void OneSidedRail::repost() {
    while (Op *op = canceled_.pop_front())
        on_done(*op, XFER_ECANCELED);
    while (!declined_.empty() && (!requests_.path || requests_.has_room())) {
        Op &op = *declined_.pop_front();
        if (!requests_.path) {
            on_done(op, XFER_EPEERLOST);
            continue;
        }
        leave(op);
        op.import = nullptr;
        requests_.post(op);
    }
    if (requests_.unflushed) requests_.flush();
}

bool OneSidedRail::cancel(Op &op) {
    for (const Op &other : declined_) {
        if (&other != &op) continue;
        op.ListNode<InPath>::unlink();
        canceled_.push_back(op);
        lane.connection.shard.loop.defer(lane.connection);
        return op.canceled = true;
    }
    const bool quiet = Rail::cancel(op);
    op.unwanted = !quiet;
    return quiet;
}

// ---- regions

Frame OneSidedRail::about(FrameType type, RegionId region) const {
    Frame frame;
    frame.type = type;
    frame.seq = number_;
    frame.region = region.value;
    return frame;
}

const Import *OneSidedRail::find(const Access &access) {
    if (!one_sided_ || takes_none()) return nullptr;
    const ImportTable::Found found = imports_.find(access);
    if (found.unknown) request_export(access);
    return found.import;
}

// What its owner would refuse goes there: it knows best why.
const Import *OneSidedRail::import_for(const Op &op) {
    const Import *import = find(op.remote);
    const bool may =
        import && import->access & access_for(op.dir) && (op.dir != Dir::atomic || import->atomics);
    return may ? import : nullptr;
}

std::optional<Moved> OneSidedRail::copy_now(Dir dir, const Access &access, const Piece &piece) {
    if (!one_sided_ || takes_none() || ops) return std::nullopt;
    const Import *import = imports_.known(access);
    if (!import || !(import->access & access_for(dir))) return std::nullopt;
    return one_sided_->copy_now(*import, dir, piece);
}

// Where memory lacks it stays unknown.
void OneSidedRail::request_export(const Access &access) {
    if (!catch_bad_alloc([&] { imports_.asked(access); })) return;
    Frame frame = about(FrameType::request_export, RegionId{access.region});
    frame.generation = access.generation;
    uint8_t key[sizeof access.key];
    store<uint64_t>(key, access.key);
    frame.length = sizeof key;
    lane.connection.send(frame, key);
}

void OneSidedRail::on_export(const Frame &frame, ConstBytes body) {
    switch (frame.type) {
    case FrameType::request_export:
        return answer(frame, load<uint64_t>(body.data()));
    case FrameType::exported:
        return import(frame, body);
    case FrameType::withdrawn:
        return on_withdrawn({frame.region});
    default:
        return withdraw({frame.region});
    }
}

// Where memory lacks it goes on by requests.
void OneSidedRail::answer(const Frame &asked, uint64_t key) {
    Frame frame = about(FrameType::exported, RegionId{asked.region});
    frame.status = XFER_ENOMEM;
    ExportKey made;
    [[maybe_unused]] const bool tried = catch_bad_alloc([&] {
        frame.status = export_region({asked.region, asked.generation, key}, made);
    });
    if (frame.status != XFER_OK) made = {};
    frame.length = static_cast<uint32_t>(made.size());
    lane.connection.send(frame, {made.begin(), made.size()});
}

// The allocation is noted, too: its end is told although no region of its number may be exported.
Status OneSidedRail::export_region(const Access &access, ExportKey &made) {
    ExportedMemory memory;
    const Status status = lane.connection.sink.find_export(access, memory);
    if (status != XFER_OK) return status;
    auto key = one_sided_->export_region({access.region}, memory);
    if (!key) return key.error().status;
    exported_.insert(access.region);
    if (memory.memory) exported_.insert(memory.memory.value);
    made = *key;
    return XFER_OK;
}

void OneSidedRail::import(const Frame &frame, ConstBytes key) {
    const RegionId region{frame.region};
    if (!imports_.waits_for(region)) return;  // nobody has asked
    std::unique_ptr<Import> made;
    [[maybe_unused]] const bool tried = catch_bad_alloc([&] {
        if (frame.status == XFER_OK) made = one_sided_->import(key);
    });
    if (made) made->region = region;
    imports_.answered(region, std::move(made), frame.status == XFER_EAGAIN);
}

void OneSidedRail::withdraw(RegionId region) {
    if (auto import = imports_.withdraw(region)) one_sided_->drop(std::move(import));
    const bool quiet = one_sided_->withdrawn(region);
    if (quiet && !one_sided_->sees_use()) on_dropped(region);
}

void OneSidedRail::on_dropped(RegionId region) {
    lane.connection.send(about(FrameType::withdrawn, region));
}

void OneSidedRail::on_withdrawn(RegionId region) {
    if (withdrawn_.erase(region.value)) on_quiesced(region);
}

// What has to be remembered of a region that was exported is, so that its end needs no memory.
bool OneSidedRail::retire(Target target, Status why) {
    if (!path) return true;
    const bool quiet = path->retire(target, why);
    const auto region = target.region();
    auto exported = region ? exported_.extract(region->value) : decltype(exported_)::node_type();
    if (!exported) return quiet;
    const bool waits = !one_sided_->sees_use();
    if (waits) withdrawn_.insert(std::move(exported));
    lane.connection.send(about(FrameType::withdraw, *region));
    return quiet && !waits;
}

}  // namespace xfer
