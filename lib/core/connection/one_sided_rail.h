// SPDX-License-Identifier: Apache-2.0
// The rail of a path by which regions are reached without their owner: both ends' side of
// exporting, importing and withdrawing them (design/0048). What the path declines goes on by the
// lane's other rail, as a request.
#pragma once

#include <optional>
#include <set>
#include <vector>

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
    // A message that is pulled: whether its owner, which is asked, has to say yet how it is
    // reached.
    bool awaits(const Access &message);
    void forget_import(MessageId message);  // it is here
    void forget_export(MessageId message);  // it is there: its peer reads nothing of it any more
    bool exports(MessageId message) const { return exported_.count(Target(message).wire()) != 0; }
    bool withdraw_export(MessageId message);  // true: the sink's on_withdrawn() follows
    void on_export(const Frame &frame, ConstBytes body);
    bool retire(Target target, Status why);  // false: on_quiesced follows
    void repost();                           // what was declined, as far as there is room
    bool has_declined() const { return !declined_.empty(); }
    // What has an import; without it, and where the path takes none, it goes as a request.
    bool may_take() const { return !path || takes_none() || has_room(); }
    bool cancel(Op &op) override;

private:
    void hand_over(Op &op) override;
    void on_down(const Failure &why) override;
    void on_declined(Op &op) override;
    void on_dropped(RegionId region) override;
    void on_exportable() override;
    const Import *find(const Access &access);
    void request_export(const Access &access);
    void answer(const Access &asked);
    bool answer_later(const Access &asked);
    void say(const Access &asked, Status status, const ExportKey &key);
    Status export_region(const Access &access, ExportKey &made);
    bool is_attached() const;
    void import(const Frame &frame, ConstBytes key);
    void withdraw(RegionId region);
    void on_withdrawn(RegionId region);
    Frame about(FrameType type, RegionId region) const;

    Rail &requests_;
    const uint32_t number_;
    OneSidedPath *one_sided_ = nullptr;  // the path, from start to on_down
    ImportTable imports_;                // of the peer's
    std::set<uint64_t> exported_;   // of ours, as on the wire, and allocations by their numbers
    std::set<uint64_t> withdrawn_;  // of these, until the peer says that it has let go of them
    std::vector<Access> asked_;     // messages of ours that can't be exported yet
    List<Op, InPath> declined_, canceled_;
};

}  // namespace xfer
