// SPDX-License-Identifier: Apache-2.0
#include "core/connection/one_sided_rail.h"

#include <algorithm>
#include <utility>

#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"
#include "wire/limits.h"

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
    asked_.clear();
    while (!withdrawn_.empty())
        on_withdrawn({*withdrawn_.begin()});
    Rail::on_down(why);
    lane.connection.shard.loop.defer(lane.connection);
}

// While it was staged its region may have been withdrawn.
void OneSidedRail::hand_over(Op &op) {
    if (op.bounce) op.import = import_for(op);
    op.import ? Rail::hand_over(op) : on_declined(op);
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
        return answer({frame.region, frame.generation, load<uint64_t>(body.data())});
    case FrameType::exported:
        return import(frame, body);
    case FrameType::withdrawn:
        return on_withdrawn({frame.region});
    default:
        return withdraw({frame.region});
    }
}

// Where memory lacks it goes on by requests.
void OneSidedRail::answer(const Access &asked) {
    Status status = XFER_ENOMEM;
    ExportKey made;
    [[maybe_unused]] const bool tried =
        catch_bad_alloc([&] { status = export_region(asked, made); });
    const bool is_message = asked.target().message().has_value();
    if (status == XFER_EAGAIN && is_message) {
        if (answer_later(asked)) return;
        status = XFER_ENOMEM;
    }
    say(asked, status, status == XFER_OK ? made : ExportKey());
}

// Who asks for a message waits, and asks once: more questions of it have the same answer.
bool OneSidedRail::answer_later(const Access &asked) {
    const bool waits = std::any_of(asked_.begin(), asked_.end(), [&](const Access &other) {
        return other.target() == asked.target();
    });
    if (!waits && asked_.size() >= kMaxExportsAsked) return false;
    return waits || catch_bad_alloc([&] { asked_.push_back(asked); });
}

void OneSidedRail::on_exportable() {
    for (const Access &asked : std::exchange(asked_, {}))
        if (one_sided_) answer(asked);
}

void OneSidedRail::say(const Access &asked, Status status, const ExportKey &key) {
    Frame frame = about(FrameType::exported, RegionId{asked.region});
    frame.status = status;
    frame.length = static_cast<uint32_t>(key.size());
    lane.connection.send(frame, {key.begin(), key.size()});
}

bool OneSidedRail::is_attached() const {
    return number_ >= kFirstAttached && number_ < kFirstAttached + kMaxAttached;
}

// The allocation is noted, too: its end is told although no region of its number may be exported.
// A message that neighbours pull goes by their rings.
Status OneSidedRail::export_region(const Access &access, ExportKey &made) {
    const bool is_message = access.target().message().has_value();
    if (is_message && !is_attached()) return XFER_EUNSUPPORTED;
    ExportedMemory memory;
    const Status status = lane.connection.sink.find_export(access, memory);
    if (status != XFER_OK) return status;
    if (memory.migrates && is_attached()) return XFER_EUNSUPPORTED;
    auto key =
        one_sided_->export_region(is_message ? memory.whole : RegionId{access.region}, memory);
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
    const bool again = frame.status == XFER_EAGAIN && Target::from_wire(region.value).region();
    imports_.answered(region, std::move(made), again);
    lane.connection.pump_soon();  // a pull may have waited for it
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
    if (!withdrawn_.erase(region.value)) return;
    const Target target = Target::from_wire(region.value);
    if (const auto message = target.message()) return lane.connection.sink.on_withdrawn(*message);
    on_quiesced(target);
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

// ---- messages, which are pulled once

bool OneSidedRail::awaits(const Access &message) {
    if (!one_sided_ || takes_none()) return false;
    if (imports_.word_on(message) == ImportTable::Word::unasked) request_export(message);
    return imports_.word_on(message) == ImportTable::Word::awaited;
}

void OneSidedRail::forget_import(MessageId message) {
    const RegionId region{Target(message).wire()};
    if (auto import = imports_.forget(region)) one_sided_->drop(std::move(import));
}

void OneSidedRail::forget_export(MessageId message) {
    const Target target = message;
    std::erase_if(asked_, [&](const Access &asked) { return asked.target() == target; });
    exported_.erase(target.wire());
}

// What was asked and not answered gets its answer.
bool OneSidedRail::withdraw_export(MessageId message) {
    const Target target = message;
    const auto is_it = [&](const Access &asked) { return asked.target() == target; };
    if (std::erase_if(asked_, is_it)) say({target.wire()}, XFER_ESTALE, {});
    auto exported = exported_.extract(target.wire());
    if (!exported) return false;
    withdrawn_.insert(std::move(exported));
    lane.connection.send(about(FrameType::withdraw, RegionId{target.wire()}));
    return true;
}

}  // namespace xfer
