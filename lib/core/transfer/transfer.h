// SPDX-License-Identifier: Apache-2.0
// Bytes of regions: a batch, a single put, get or atomic, a notification with or without any, or
// the pull of a message. It is drawn in chunks, each an Op that a path carries.
#pragma once

#include <vector>

#include "core/base/limits.h"
#include "core/transfer/entry_runs.h"
#include "core/transfer/operation.h"
#include "transport/transport.h"

namespace xfer {

class Route;

// What one ref of a batch names, and whether its owner has refused it.
struct Remote {
    EngineId owner{};
    uint64_t incarnation = 0;
    Access access;
    Status refused = XFER_OK;
};

class Transfer : public Operation {
public:
    // Set before the submit.
    PieceList list;
    std::vector<Remote> remotes;
    bool checked = false;
    bool notifies = false;
    uint64_t notify_key = 0;
    std::vector<uint8_t> notify_data;  // for the owner's application, if it ends well

    Atomic atomic;               // of an atomic: what it does,
    uint64_t *result = nullptr;  // and where the value before goes, beside the event; null: nowhere
    uint64_t before = 0;

    EntryRuns runs;  // of entries that failed

    // The notification, on its connection. Its owner's application is told when all that the
    // transfer has put there was answered, and the transfer ends when the owner has noted that.
    enum class Notification : uint8_t { none, begun, closed, noted };
    Notification notification = Notification::none;
    uint64_t notification_number = 0;

    bool drawn() const { return stopped_ || (unsent_.empty() && list.at_end(next_)); }
    bool feed(Connection &connection);  // as far as there is room; false: not for all of it
    void done(Op &op, Status status);   // a path's answer
    void try_complete();
    // How many bytes the owner gets as frames of its puts, whatever is canceled from now on. 0: not
    // all of them have left, or not so.
    uint64_t left();
    // All of it was answered, and the owner was told so.
    bool awaits_noted() const {
        return notification == Notification::closed && inflight_count_ == 0 && status == XFER_OK;
    }
    bool told();  // the owner, of the end of its notification; maybe with the put that it is of

    bool brief() const override {
        return list.bytes() <= kSmall && list.entries() <= kBriefEntries;
    }
    void reset() override;
    bool start() override;
    bool begun() const override;
    bool stays() override;
    void withdraw() override;
    void connection_lost(Connection &lost) override;
    void fence_expired() override;
    void ended() override;

protected:
    ~Transfer() = default;

    void end_lost(const Failure &why);  // with its connection, when what was posted has come back
    // What comes back as never sent goes on with another connection.
    virtual bool resumable() const { return !notifies || !answered_; }

private:
    bool await_export(const Connection &connection, const Access &access);
    bool refuse(const Connection &connection);  // skips what is for another engine than that
    Op &draw(const Caps &caps);
    // The chunk from there on, as far as the op may be long.
    void cut(Op &op, Cursor &from, std::vector<Piece> &scratch);
    void post(Op &op, const Route &route);
    void detach(Op &op);  // from what is in flight
    void hear_of_notify(const Op &op);
    void count_inflight(bool begins);
    void abandon(Op &op);
    void stop();  // no more is drawn; what was drawn and never left is withdrawn
    void fence();
    void count(const Op &op);
    void fail(const Op &op, Status why);  // its first failure is what it ends with
    void apply(const Op &op);             // an atomic was done, whatever became of it here
    void fail_entries(const Op &op, Status why);
    void fail_entries(uint64_t first, uint64_t last, Status why);

    Cursor next_;  // what was not drawn yet
    List<Op, InTransfer> inflight_;
    List<Op, InTransfer> unsent_;  // drawn for a path that ended before they left
    uint32_t inflight_count_ = 0;
    bool stopped_ = false;       // no more is drawn
    bool answered_ = false;      // some of it, on the connection of its notification
    uint64_t framed_ = 0;        // bytes of puts that were answered, and went as frames
    uint64_t awaits_until_ = 0;  // of a pull: the answer how it is reached; 0: it has not asked
};

}  // namespace xfer
