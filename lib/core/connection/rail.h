// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/region/import_table.h"
#include "transport/path.h"
#include "util/list.h"

namespace xfer {

class Lane;

// What went by somewhere since it was opened.
struct Carried {
    uint64_t requests = 0, bytes = 0;
};

// A path as its connection sees it: what is posted on it and what it has room for, what it has
// carried, and the regions that are reached by it without their owner.
class Rail final : public PathSink {
public:
    explicit Rail(Lane &owner) : lane(owner) {}

    void start(Path &ready);  // it takes operations
    bool has_room() const;
    void post(Op &op);
    bool cancel(Op &op);
    void flush();
    bool retire(Target target, Status why);  // false: on_quiesced follows
    bool is_one_sided() const { return one_sided_; }
    void on_export(const Frame &frame, ConstBytes body);  // what the peer says of regions
    void give_back();                                     // what the path refused, as never sent
    void settle();  // what was lost with the path ends; it may be started again
    const Failure &why_lost() const;

    void on_done(Op &op, Status status) override;
    Status on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                     std::vector<iovec> &out) override;
    void on_served(Dir dir, uint64_t bytes) override;
    void on_quiesced(Target target) override;
    void on_unmapped(Target target) override;
    void on_notification_begun(NotificationId notification, uint64_t key) override;
    void on_down(const Failure &why) override;

    Lane &lane;
    Path *path = nullptr;  // from start to on_down
    Caps caps;
    uint32_t ops = 0;
    uint64_t bytes = 0, window = 0;
    bool unflushed = false;
    std::array<Carried, kMovedWays> carried;  // what was answered of ours, by how it moved
    Carried served;                           // what the peer asked for
    std::optional<Moved> last_moved;

private:
    void finish(Op &op, Status status);
    const Import *import_for(const Op &op);
    void request_export(const Access &access);
    void answer_request(const Frame &frame, uint64_t key);
    Result<ExportKey> export_region(const Access &access);
    void import(const Frame &frame, ConstBytes key);
    void withdraw(RegionId region);
    Frame about(FrameType type, RegionId region) const;

    OneSided *one_sided_ = nullptr;          // of the path
    ImportTable imports_;                    // of the peer's
    std::unordered_set<uint64_t> exported_;  // of ours, and allocations by their numbers
    List<Op, InPath> refused_;  // at most one a turn: the rail has no room from then on
    // With the path: they end when the peer says that its end is closed, or with the connection.
    List<Op, InPath> lost_;
    Failure why_;
};

}  // namespace xfer
