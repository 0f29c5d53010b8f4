// SPDX-License-Identifier: Apache-2.0
#include "core/connection/staging.h"

#include <utility>

#include "core/connection/connection.h"
#include "util/memory.h"

namespace xfer {

// What a slot is used for: the copy between it and what its chunk is of.
class Staging::Chunk final : public Copier::Copy {
public:
    Op *op = nullptr;  // while it is copied

private:
    void on_copied(Status status, int32_t error) override {
        Op &copied = *std::exchange(op, nullptr);
        copied.staging = Op::Staging::none;
        copied.device_error = error;
        Rail &rail = *static_cast<Rail *>(copied.rail);
        copied.dir == Dir::put ? rail.on_staged(copied, status) : rail.on_landed(copied, status);
    }
};

Staging::Staging(Loop &loop, Copier &copier) : loop_(loop), copier_(copier) {}

Staging::~Staging() {
    stop();
}

void Staging::stop() {
    ListNode<>::unlink();
    chunks_.clear();
}

bool Staging::open() {
    if (!chunks_.empty()) return true;
    if (!copier_.open()) return false;
    std::vector<std::unique_ptr<Chunk>> chunks;
    const bool made = catch_bad_alloc([&] {
        for (uint32_t i = 0; i < kBounceSlots; ++i)
            chunks.push_back(std::make_unique<Chunk>());
    });
    if (made) chunks_ = std::move(chunks);
    return made;
}

bool Staging::may_enter(const Op &op) const {
    const Connection &connection = static_cast<const Rail *>(op.rail)->lane.connection;
    return copier_.free_slots(Copier::For::operations) && connection.bounced < kBounceShare;
}

// Where there is no memory it fails by way of the loop.
bool Staging::stage(Op &op) {
    op.staging = Op::Staging::waiting;
    if (waiting_.empty() && open() && may_enter(op)) return enter(op);
    waiting_.push_back(op);
    if (chunks_.empty() || may_enter(op)) loop_.defer(*this);  // past those that may not
    return false;
}

bool Staging::enter(Op &op) {
    ++static_cast<Rail *>(op.rail)->lane.connection.bounced;
    op.bounce = copier_.take_slot(Copier::For::operations);
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
    const auto way = op.dir == Dir::put ? Copier::Way::to_host : Copier::Way::to_device;
    Memory memory;
    memory.device = op.device;
    const bool drawn = catch_bad_alloc([&] {
        ranges_.clear();
        op.draw_device(ranges_);
    });
    Chunk &chunk = chunk_of(op);
    chunk.op = &op;
    if (drawn && copier_.start(chunk, way, memory, ranges_, op.bounce)) return;
    chunk.op = nullptr;
    op.staging = Op::Staging::failed;
    waiting_.push_front(op);
    loop_.defer(*this);
}

void Staging::release(Op &op) {
    --static_cast<Rail *>(op.rail)->lane.connection.bounced;
    copier_.give_slot(op.bounce);
    op.bounce = nullptr;
    loop_.defer(*this);  // where what waits is looked at just now, too
}

// A copy that has begun can't be taken back; and what has failed is told in its turn.
bool Staging::forget(Op &op) {
    if (op.staging == Op::Staging::failed) return false;
    if (op.staging == Op::Staging::copying) {
        if (!chunk_of(op).revoke()) return false;
        chunk_of(op).op = nullptr;
    }
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

Staging::Chunk &Staging::chunk_of(const Op &op) const {
    return *chunks_[copier_.number_of(op.bounce)];
}

}  // namespace xfer
