// SPDX-License-Identifier: Apache-2.0
// Where the local side of an operation is memory of a device, its bytes go by way of bounce memory:
// a put is copied there before a path sees it, and what a get has brought is copied from there
// before its end is told. So every path moves memory of a device (design/0065). A thread for each
// device makes the copies: a loop calls no driver before its end.
//
// A chunk has one of kBounceSlots slots from its copy, or before its post, until its end; what
// would take more than kBounceShare of its connection waits, as does what finds none, in the order
// in which it came.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/bounce_memory.h"
#include "device/copy_streams.h"
#include "device/device.h"
#include "loop/worker.h"
#include "transport/op.h"

namespace xfer {

class Rail;

// Of a loop, of kMaxChunk bytes each; and of one connection, so that a peer that has stopped leaves
// some to others. That is 4 MiB under way, enough for copies and network to overlap.
constexpr uint32_t kBounceSlots = 64, kBounceShare = 16;

class Staging final : Task {
public:
    // Null: there is no device.
    Staging(Loop &loop, const Device *device);
    ~Staging();
    void stop();  // with its loop; nothing is under way

    // True: it may be posted at once. Else Rail::on_staged() follows.
    bool stage(Op &op);
    void land(Op &op);     // Rail::on_landed() follows
    void release(Op &op);  // its bounce memory is another's
    bool forget(Op &op);   // true: neither follows, and nothing is copied
    // Those of the rail that wait for a slot: Rail::drop() has them.
    void drop_waiting(const Rail &rail);

private:
    class Slot;
    // Of one device: what its thread has.
    struct Copier {
        explicit Copier(Loop &loop) : worker(loop) {}
        std::shared_ptr<CopyStreams> streams;
        Worker worker;  // joined first
    };

    bool open();
    bool may_enter(const Op &op) const;
    bool enter(Op &op);  // it has a slot; true: it needs no copy before its post
    void copy(Op &op);
    Copier *copier_of(int32_t device);
    Slot &slot_of(const Op &op) const;
    void run() override;

    Loop &loop_;
    const Device *const device_;
    BounceMemory memory_;
    std::vector<std::unique_ptr<Slot>> slots_;  // none until a first operation asks
    std::vector<Slot *> free_;
    List<Op, InPath> waiting_;
    std::vector<Piece> pieces_;
    std::map<int32_t, Copier> copiers_;  // by the number of the device
};

}  // namespace xfer
