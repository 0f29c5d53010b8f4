// SPDX-License-Identifier: Apache-2.0
// Where the local side of an operation is memory of a device, its bytes go by way of bounce memory:
// a put is copied there before a path sees it, and what a get has brought is copied from there
// before its end is told. So every path moves memory of a device (design/0065). What peers ask for
// is in request_staging.h.
//
// A chunk has one of kBounceSlots slots from its copy, or before its post, until its end; what
// would take more than kBounceShare of its connection waits, as does what finds none, in the order
// in which it came.
#pragma once

#include <memory>
#include <vector>

#include "device/copier.h"
#include "transport/op.h"

namespace xfer {

class Rail;

// Of one connection, so that a peer that has stopped leaves some to others: of its operations, and
// of what its peer asks for. That is 4 MiB under way, enough for copies and network to overlap.
constexpr uint32_t kBounceShare = 16;

class Staging final : Task {
public:
    Staging(Loop &loop, Copier &copier);
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
    class Chunk;

    bool open();
    bool may_enter(const Op &op) const;
    bool enter(Op &op);  // it has a slot; true: it needs no copy before its post
    void copy(Op &op);
    Chunk &chunk_of(const Op &op) const;
    void run() override;

    Loop &loop_;
    Copier &copier_;
    std::vector<std::unique_ptr<Chunk>> chunks_;  // of each slot; none until a first operation asks
    List<Op, InPath> waiting_;
    std::vector<DeviceRange> ranges_;
};

}  // namespace xfer
