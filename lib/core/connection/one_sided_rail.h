// SPDX-License-Identifier: Apache-2.0
// The rail of a path by which regions are reached without their owner: both ends' side of
// exporting, importing and withdrawing them (design/0048). What the path declines goes on by the
// lane's other rail, as a request.
#pragma once

#include <optional>
#include <set>

#include "core/connection/import_table.h"
#include "core/connection/rail.h"
#include "transport/one_sided.h"

namespace xfer {

class OneSidedRail final : public Rail, OneSidedSink {
public:
    // `number`: of the path, in the frames about it.
    OneSidedRail(Lane &lane, Rail &requests, uint32_t number)
        : Rail(lane), requests_(requests), number_(number) {}

    void start(OneSidedPath &path, uint32_t max_ops);
    const Import *import_for(const Op &op);  // null: it goes as a request
    bool reaches(const Access &access) {     // its owner is asked, if that is not known
        return one_sided_ && find(access);
    }
    // As the path has it, where nothing that was posted waits.
    std::optional<Moved> copy_now(Dir dir, const Access &access, const Piece &piece);
    void on_export(const Frame &frame, ConstBytes body);
    bool retire(Target target, Status why);  // false: on_quiesced follows
    void repost();                           // what was declined, as far as there is room
    bool has_declined() const { return !declined_.empty(); }
    // What has an import; without it, and where the path takes none, it goes as a request.
    bool may_take() const { return !path || takes_none() || has_room(); }
    bool cancel(Op &op) override;

private:
    void on_down(const Failure &why) override;
    void on_declined(Op &op) override;
    void on_dropped(RegionId region) override;
    const Import *find(const Access &access);
    void request_export(const Access &access);
    void answer(const Frame &asked, uint64_t key);
    Status export_region(const Access &access, ExportKey &made);
    void import(const Frame &frame, ConstBytes key);
    void withdraw(RegionId region);
    void on_withdrawn(RegionId region);
    Frame about(FrameType type, RegionId region) const;

    Rail &requests_;
    const uint32_t number_;
    OneSidedPath *one_sided_ = nullptr;  // the path, from start to on_down
    ImportTable imports_;                // of the peer's
    std::set<uint64_t> exported_;        // of ours, and allocations by their numbers
    std::set<uint64_t> withdrawn_;       // of these, until the peer says that it has let go of them
    List<Op, InPath> declined_, canceled_;
};

}  // namespace xfer
