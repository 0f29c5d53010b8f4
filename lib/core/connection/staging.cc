// SPDX-License-Identifier: Apache-2.0
#include "core/connection/staging.h"

#include <utility>

#include "core/connection/connection.h"
#include "util/memory.h"

namespace xfer {

// A piece of bounce memory, and the copy between it and what its chunk is of.
class Staging::Slot final : public Worker::Job {
public:
    Slot(Staging &staging, uint32_t number, uint8_t *bounce)
        : staging_(staging), number_(number), bounce_(bounce) {}

    uint8_t *bounce() const { return bounce_; }
    // Throws std::bad_alloc.
    void set_ranges(const std::vector<Piece> &pieces) {
        ranges_.clear();
        for (const Piece &piece : pieces)
            ranges_.push_back({piece.local, piece.length});
    }
    bool revoke() {
        if (!copier_->worker.revoke(*this)) return false;
        op_ = nullptr;
        return true;
    }
    void copy(Op &op, Copier &copier) {
        op_ = &op;
        copier_ = &copier;
        copier.worker.submit_split(*this);
    }

private:
    void begin() noexcept override;
    void run() noexcept override;
    void done(Status status) override;
    Status open_streams();
    CopyStreams::Begun begin_copies();

    Staging &staging_;
    const uint32_t number_;
    uint8_t *const bounce_;
    Op *op_ = nullptr;
    Copier *copier_ = nullptr;
    std::vector<DeviceRange> ranges_;
    // ---- of the copy
    std::shared_ptr<CopyStreams> streams_;
    bool begun_ = false, gone_ = false;
    Status status_ = XFER_OK;
    int32_t error_ = 0;
};

// ---- the copier's thread

// Streams of a context that has gone since are opened again.
void Staging::Slot::begin() noexcept {
    begun_ = false;
    const bool known = copier_->streams != nullptr;
    CopyStreams::Begun begun = begin_copies();
    if (begun.gone && !begun.any && known) {
        copier_->streams.reset();
        begun = begin_copies();
    }
    begun_ = streams_ && (begun.any || !begun.error);
    gone_ = begun.gone;
    error_ = begun.error;
    if (error_) status_ = XFER_EIO;
}

CopyStreams::Begun Staging::Slot::begin_copies() {
    error_ = 0;
    status_ = copier_->streams ? XFER_OK : open_streams();
    streams_ = copier_->streams;
    if (!streams_) return {error_, false, false};
    const auto way = op_->dir == Dir::put ? CopyStreams::Way::to_host : CopyStreams::Way::to_device;
    return streams_->begin(way, ranges_, bounce_, number_);
}

// XFER_ENOMEM: of the host.
Status Staging::Slot::open_streams() {
    int32_t error = 0;
    std::shared_ptr<CopyStreams> made;
    const bool tried = catch_bad_alloc([&] {
        made = staging_.device_->open_streams(op_->device, ranges_.front().address, kBounceSlots,
                                              error);
    });
    error_ = error;
    if (!made) return tried ? XFER_EIO : XFER_ENOMEM;
    staging_.memory_.pin(*made);
    copier_->streams = std::move(made);
    return XFER_OK;
}

// Behind a copy that failed, none of its chunk goes on.
void Staging::Slot::run() noexcept {
    const auto streams = std::move(streams_);
    if (!begun_) return;
    const int32_t ended = error_ ? streams->wait_all() : streams->wait(number_);
    if (!error_) error_ = ended;
    if (error_) status_ = XFER_EIO;
    if (gone_ && copier_->streams == streams) copier_->streams.reset();
}

// ---- the loop's

void Staging::Slot::done(Status status) {
    Op &op = *std::exchange(op_, nullptr);
    op.staging = Op::Staging::none;
    op.device_error = status == XFER_OK ? error_ : 0;
    if (status == XFER_OK) status = status_;
    if (status == XFER_EAGAIN) status = XFER_ENOMEM;  // of the thread: no ROOM follows
    Rail &rail = *static_cast<Rail *>(op.rail);
    op.dir == Dir::put ? rail.on_staged(op, status) : rail.on_landed(op, status);
}

Staging::Staging(Loop &loop, const Device *device) : loop_(loop), device_(device) {}

Staging::~Staging() {
    stop();
}

void Staging::stop() {
    ListNode<>::unlink();
    copiers_.clear();
    free_.clear();
    slots_.clear();
    memory_ = {};
}

bool Staging::open() {
    if (!slots_.empty()) return true;
    BounceMemory memory = BounceMemory::take(uint64_t{kBounceSlots} * kMaxChunk);
    if (!memory.data()) return false;
    std::vector<std::unique_ptr<Slot>> slots;
    const bool made = catch_bad_alloc([&] {
        for (uint32_t i = 0; i < kBounceSlots; ++i)
            slots.push_back(
                std::make_unique<Slot>(*this, i, memory.data() + uint64_t{i} * kMaxChunk));
        free_.reserve(kBounceSlots);
    });
    if (!made) return false;
    for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot)
        free_.push_back(slot->get());  // the first is the next
    slots_ = std::move(slots);
    memory_ = std::move(memory);
    return true;
}

Staging::Copier *Staging::copier_of(int32_t device) {
    Copier *copier = nullptr;
    const bool made =
        catch_bad_alloc([&] { copier = &copiers_.try_emplace(device, loop_).first->second; });
    return made ? copier : nullptr;
}

bool Staging::may_enter(const Op &op) const {
    const Connection &connection = static_cast<const Rail *>(op.rail)->lane.connection;
    return !free_.empty() && connection.bounced < kBounceShare;
}

// Where there is no memory it fails by way of the loop.
bool Staging::stage(Op &op) {
    op.staging = Op::Staging::waiting;
    if (waiting_.empty() && open() && may_enter(op)) return enter(op);
    waiting_.push_back(op);
    if (slots_.empty() || may_enter(op)) loop_.defer(*this);  // past those that may not
    return false;
}

bool Staging::enter(Op &op) {
    ++static_cast<Rail *>(op.rail)->lane.connection.bounced;
    op.bounce = free_.back()->bounce();
    free_.pop_back();
    op.staging = Op::Staging::none;
    if (op.dir == Dir::get) return true;
    copy(op);
    return false;
}

void Staging::land(Op &op) {
    copy(op);
}

// Where memory lacks its end is told by way of the loop, too.
void Staging::copy(Op &op) {
    op.staging = Op::Staging::copying;
    Slot &slot = slot_of(op);
    Copier *const copier = copier_of(op.device);
    const bool drawn = copier && catch_bad_alloc([&] {
                           pieces_.clear();
                           op.draw_device(pieces_);
                           slot.set_ranges(pieces_);
                       });
    if (drawn) return slot.copy(op, *copier);
    op.staging = Op::Staging::failed;
    waiting_.push_front(op);
    loop_.defer(*this);
}

void Staging::release(Op &op) {
    --static_cast<Rail *>(op.rail)->lane.connection.bounced;
    free_.push_back(&slot_of(op));
    op.bounce = nullptr;
    loop_.defer(*this);  // where what waits is looked at just now, too
}

// A copy that has begun can't be taken back; and what has failed is told in its turn.
bool Staging::forget(Op &op) {
    if (op.staging == Op::Staging::failed) return false;
    if (op.staging == Op::Staging::copying && !slot_of(op).revoke()) return false;
    op.ListNode<InPath>::unlink();
    op.staging = Op::Staging::none;
    return true;
}

void Staging::drop_waiting(const Rail &rail) {
    List<Op, InPath> others;
    while (Op *op = waiting_.pop_front()) {
        if (op->rail != &rail || op->staging != Op::Staging::waiting) {
            others.push_back(*op);
            continue;
        }
        op->staging = Op::Staging::none;
        static_cast<Rail *>(op->rail)->drop(*op);
    }
    waiting_.append(others);
}

// There is room, or there was no memory. What is told meanwhile may stage more, which waits behind,
// and take the path of what is still looked at: that is seen when its turn comes.
void Staging::run() {
    List<Op, InPath> looked, stays;
    looked.append(waiting_);
    while (Op *op = looked.pop_front()) {
        Rail &rail = *static_cast<Rail *>(op->rail);
        const bool failed = std::exchange(op->staging, Op::Staging::waiting) == Op::Staging::failed;
        if (failed || !open()) {
            op->staging = Op::Staging::none;
            op->dir == Dir::get && op->bounce ? rail.on_landed(*op, XFER_ENOMEM)
                                              : rail.on_staged(*op, XFER_ENOMEM);
        } else if (!rail.path || rail.lane.connection.closing()) {
            op->staging = Op::Staging::none;
            rail.on_staged(*op, XFER_OK);
        } else if (!may_enter(*op)) {
            stays.push_back(*op);
        } else if (enter(*op)) {
            rail.on_staged(*op, XFER_OK);
        }
    }
    stays.append(waiting_);
    waiting_.append(stays);
}

Staging::Slot &Staging::slot_of(const Op &op) const {
    return *slots_[static_cast<size_t>(op.bounce - memory_.data()) / kMaxChunk];
}

}  // namespace xfer
