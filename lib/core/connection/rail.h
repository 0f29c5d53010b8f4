// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/path.h"
#include "util/list.h"

namespace xfer {

class Lane;

// What went by somewhere since it was opened.
struct Carried {
    void add(uint64_t more) {
        ++requests;
        bytes += more;
    }
    uint64_t requests = 0, bytes = 0;
};

// A path as its connection sees it: what is posted on it, and what it has room for.
class Rail : public PathSink {
public:
    explicit Rail(Lane &owner) : lane(owner) {}

    void start(Path &ready);  // it takes operations
    bool has_room() const;
    bool takes_none() const { return caps.max_ops == 0; }  // and never will
    void post(Op &op);
    virtual bool cancel(Op &op);
    void flush();
    void give_back();  // what the path refused, as never sent
    void settle();     // what was lost with the path ends; it may be started again
    const Failure &why_lost() const;
    // From Staging: the op may be posted; what it has brought is in memory of the device; or
    // neither, and why. Not from inside post() or on_done().
    void on_staged(Op &op, Status status);
    void on_landed(Op &op, Status status);
    void drop(Op &op);  // it waits for neither any more
    // From RequestStaging: what the peer asked for is there, or is not to be; and so ends its copy.
    void answer_soon();
    void leave_request_copy(Dir dir);

    void on_done(Op &op, Status status) override;
    Status on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                     std::vector<iovec> &out, StagedRequest *&staged) override;
    void on_served(Dir dir, uint64_t bytes, NotificationId notification) override;
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
    Carried carried;      // what was answered of ours
    Carried served;       // what the peer asked for
    uint32_t copies = 0;  // of its puts, which may land

protected:
    void leave(Op &op);  // it goes on elsewhere
    virtual void hand_over(Op &op);

private:
    void finish(Op &op, Status status);
    void leave_staging();

    // At most one a turn, as the rail has no room from then on; and what was dropped by Staging.
    List<Op, InPath> refused_;
    // With the path: they end when the peer says that its end is closed, or with the connection.
    List<Op, InPath> lost_;
    Failure why_;
};

}  // namespace xfer
