// SPDX-License-Identifier: Apache-2.0
// The owner's side of one connection: finds regions by name, checks requests, and tells the peer of
// regions that go.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "core/region/region.h"

namespace xfer {

class Connection;
class ShardCore;

class TargetSide {
public:
    explicit TargetSide(Connection &connection) : connection_(connection) {}

    Status find_export(const Access &access, ExportedMemory &out);  // as access, for all of it
    Status access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                  std::vector<iovec> &out, Memory &memory);
    void unmapped(Target target);  // what the peer asked for is not there,
    void copy_failed(Target target, Status status, int32_t error);  // or its device can't copy it
    void lookup(uint64_t seq, std::string_view name, bool wait);
    void forget(uint64_t seq);
    void added(Region &region);    // somebody may wait for its name
    void removed(Region &region);  // somebody may hold its ref

private:
    struct Waiter {
        uint64_t seq;
        std::string name;
    };
    Region *note_failure(Target target, Status status);
    void found(uint64_t seq, const Region *region, Status status);
    bool watch(const Region &region);

    Connection &connection_;
    std::vector<Waiter> waiters_;
    std::unordered_set<uint64_t> watched_;
};

}  // namespace xfer
