// SPDX-License-Identifier: Apache-2.0
#include "core/connection/rail.h"

#include "core/connection/connection.h"
#include "core/engine/engine.h"
#include "core/engine/shard.h"
#include "core/peer/peer.h"
#include "util/memory.h"

namespace xfer {

void Rail::start(Path &ready) {
    path = &ready;
    caps = ready.caps();
    one_sided_ = ready.one_sided();
}

bool Rail::has_room() const {
    return lane.state == Lane::State::ready && ops < caps.max_ops && bytes < window;
}

void Rail::post(Op &op) {
    op.rail = this;
    op.sent = op.canceled = op.unmapped = false;
    op.moved = Moved::frames;
    op.import = one_sided_ ? import_for(op) : nullptr;
    ++ops;
    bytes += op.bytes;
    unflushed = true;
    if (path->post(op)) return;
    // Its credit is what it takes, whatever was counted here.
    caps.max_ops = ops - 1;
    refused_.push_back(op);
    lane.connection.shard.loop.defer(lane.connection);
}

bool Rail::cancel(Op &op) {
    for (auto *list : {&refused_, &lost_})
        for (const Op &other : *list)
            if (&other == &op) return op.canceled = true;
    return path->cancel(op);
}

void Rail::flush() {
    unflushed = false;
    path->flush();
}

void Rail::give_back() {
    while (Op *op = refused_.pop_front())
        finish(*op, op->canceled ? XFER_ECANCELED : XFER_EPEERLOST);
    if (lane.connection.closing()) settle();
    if (lane.state == Lane::State::ready && caps.max_ops == 0)
        lane.channel->close({XFER_EPROTO, XFER_ORIGIN_NONE, 0, "a lane that takes no operations"});
}

void Rail::settle() {
    while (Op *op = lost_.pop_front())
        finish(*op, XFER_EPEERLOST);  // also if canceled: it may have left
}

// Another lane may explain the end of the connection.
const Failure &Rail::why_lost() const {
    return lane.connection.closing() ? lane.connection.why : why_;
}

void Rail::on_done(Op &op, Status status) {
    if (status == XFER_EPEERLOST && !lane.connection.closing()) return lost_.push_back(op);
    finish(op, status);
}

void Rail::finish(Op &op, Status status) {
    --ops;
    bytes -= op.bytes;
    if (status == XFER_OK) {
        Carried &way = carried[static_cast<size_t>(op.moved)];
        ++way.requests;
        way.bytes += op.bytes;
        last_moved = op.moved;
    }
    lane.connection.peer->flow.done(op, status);
    lane.connection.pump_soon();
}

Status Rail::on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                       std::vector<iovec> &out) {
    Status status = XFER_ENOMEM;
    TargetSide &target = lane.connection.target_side;
    if (!catch_bad_alloc([&] { status = target.access(dir, access, pieces, out); })) out.clear();
    return status;
}

void Rail::on_served(Dir dir, uint64_t moved) {
    ++served.requests;
    served.bytes += moved;
    lane.connection.shard.served(lane.connection, dir, moved);
}

void Rail::on_quiesced(Target target) {
    lane.connection.on_quiesced(target);
}

void Rail::on_unmapped(Target target) {
    lane.connection.target_side.unmapped(target);
}

void Rail::on_notification_begun(NotificationId notification, uint64_t key) {
    lane.connection.notify_receiver.unseen(notification, key);
}

// Its channel says so next.
void Rail::on_down(const Failure &why) {
    why_ = why;
    path = nullptr;
    one_sided_ = nullptr;
    imports_.clear();
    exported_.clear();
    unflushed = false;
}

// ---- regions that are reached without their owner

Frame Rail::about(FrameType type, RegionId region) const {
    Frame frame;
    frame.type = type;
    frame.seq = lane.number;
    frame.region = region.value;
    return frame;
}

const Import *Rail::import_for(const Op &op) {
    const ImportTable::Found found = imports_.find(op.remote);
    if (found.unknown) request_export(op.remote);
    return found.import;
}

// Where memory lacks it stays unknown.
void Rail::request_export(const Access &access) {
    if (!catch_bad_alloc([&] { imports_.asked(access); })) return;
    Frame frame = about(FrameType::request_export, RegionId{access.region});
    frame.generation = access.generation;
    uint8_t key[sizeof access.key];
    store<uint64_t>(key, access.key);
    frame.length = sizeof key;
    lane.connection.send(frame, key);
}

void Rail::on_export(const Frame &frame, ConstBytes body) {
    switch (frame.type) {
    case FrameType::request_export:
        return answer_request(frame, load<uint64_t>(body.data()));
    case FrameType::exported:
        return import(frame, body);
    default:
        return withdraw({frame.region});
    }
}

void Rail::answer_request(const Frame &asked, uint64_t key) {
    Result<ExportKey> made = export_region({asked.region, asked.generation, key});
    Frame frame = about(FrameType::exported, RegionId{asked.region});
    if (!made) {
        frame.status = made.error().status;
        lane.connection.send(frame);
        return;
    }
    frame.length = static_cast<uint32_t>((*made).size());
    lane.connection.send(frame, {(*made).begin(), (*made).size()});
}

// The allocation is noted, too: its end is told although no region of its number may be exported.
Result<ExportKey> Rail::export_region(const Access &access) {
    ExportedMemory memory;
    const Status status = lane.connection.target_side.find_export(access, memory);
    if (status != XFER_OK) return Failure{status, XFER_ORIGIN_NONE, 0, {}};
    exported_.insert(access.region);
    if (memory.memory) exported_.insert(memory.memory.value);
    return one_sided_->export_region({access.region}, memory);
}

void Rail::import(const Frame &frame, ConstBytes key) {
    const RegionId region{frame.region};
    if (!imports_.waits_for(region)) return;  // nobody has asked
    std::unique_ptr<Import> made;
    if (frame.status == XFER_OK) made = one_sided_->import(key);
    imports_.answered(region, std::move(made), frame.status == XFER_EAGAIN);
}

void Rail::withdraw(RegionId region) {
    if (auto import = imports_.withdraw(region)) one_sided_->drop(std::move(import));
    one_sided_->withdrawn(region);
}

bool Rail::retire(Target target, Status why) {
    if (!path) return true;
    const bool quiet = path->retire(target, why);
    const auto region = target.region();
    if (region && exported_.erase(region->value))
        lane.connection.send(about(FrameType::withdraw, *region));
    return quiet;
}

}  // namespace xfer
