// SPDX-License-Identifier: Apache-2.0
// The paths that stand beside the channels of a connection, one for each port of an adapter that
// both ends can spare for it. The first one is opened when there is something to move and no nearer
// path, the others by what is large: one after the other, or where the end that was dialed asks for
// them all at once. Each falls and comes back alone, and each chunk takes the one that has the
// least to do.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/connection/path_attachment.h"
#include "wire/frame.h"

namespace xfer {

class AttachedPaths {
public:
    explicit AttachedPaths(Connection &connection);

    void open(bool bulk);  // there is something to move
    void open_asked();     // there is no local path after all
    bool has_ready() const;
    // Frames of the peer's.
    void on_asked(const Frame &frame);
    void on_signal(const Frame &frame, ConstBytes body);

    OneSidedRail *find(uint64_t number) const;           // null: there is none
    OneSidedRail *reaching(const Access &access) const;  // null: none does, for now
    // A message that is pulled: its owner has to say yet by which of them it is reached.
    bool awaits(const Access &message) const;
    void forget_import(MessageId message) const;  // it is here
    void forget_export(MessageId message) const;  // it is there
    bool exports(MessageId message) const;
    // How many of them the peer may still read it by: on_withdrawn() of the sink follows for each.
    uint32_t withdraw(MessageId message) const;
    // Those of `fabric` that are open or come to be, but for `self`.
    std::vector<AttachedPath *> beside(const PathAttachment &self, const Fabric &fabric) const;
    bool flush();  // false: there was nothing
    bool busy() const;
    bool has_declined() const;
    void give_back();
    uint32_t retire(Target target, Status why);  // how many are not quiet yet

    void close(const Failure &why);
    bool is_closed() const;
    void disarm();
    // At least one. They stay where they are.
    const std::vector<std::unique_ptr<PathAttachment>> &all() const { return paths_; }

private:
    PathAttachment &at(uint64_t number);
    bool add();
    size_t max_paths() const;  // that this end has ports for

    Connection &connection_;
    std::vector<std::unique_ptr<PathAttachment>> paths_;
};

}  // namespace xfer
