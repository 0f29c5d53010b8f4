// SPDX-License-Identifier: Apache-2.0
// The owner's side of a connection's notifications. One begins with the first put that belongs to
// it; it is told once all of them are applied, or once it failed: the peer says so, or the
// connection ends. That all are applied the peer says once it knows it, or it says beforehand how
// many bytes that will be. From then on nothing that belongs to it lands: its end waits for what a
// device copies of it.
#pragma once

#include "core/transfer/notification.h"
#include "util/number_map.h"
#include "util/ref.h"
#include "util/status.h"
#include "wire/frame.h"

namespace xfer {

class Connection;
class Endpoint;

class NotifyReceiver {
public:
    explicit NotifyReceiver(Connection &connection);
    ~NotifyReceiver();

    // A put that belongs to it wants to be applied.
    Status touch(uint64_t number, uint64_t key);
    void begun_unheard(NotificationId number,
                       uint64_t key);  // its puts may have been applied by the peer
    void applied(NotificationId number, uint64_t bytes);  // of a put that belongs to it
    void copied(NotificationId number);  // a copy of it that its end waits for is over
    void hear(const Frame &notify, ConstBytes data);
    void lost();  // the connection has ended
    bool quiet() const { return open_.empty(); }
    void send_credit(uint64_t number = 0);

private:
    struct Open {
        Notifications::Own notification;  // what will be told; null: it was, with the connection
        uint64_t applied = 0;             // bytes of its puts,
        uint64_t awaited = 0;             // and how many end it well; 0: the peer has not said
        Status status = XFER_OK;          // its end, told once so many
        uint32_t copies = 0;              // are over
    };

    bool over(uint64_t number) const;
    bool has_room(uint64_t number) const;  // it may begin
    Open *begin(uint64_t number, uint64_t key);
    void end_applied(uint64_t number, const Open &open);  // if so many bytes were
    void end(uint64_t number, Status status);
    void finish(uint64_t number, Status status);
    Endpoint *somebody();
    void raise(Notifications::Own notification, Status status);

    Connection &connection_;
    Ref<NotifyCredit> credit_;
    NumberMap<Open> open_;
    uint64_t begun_ = 0;
    uint64_t reported_ = 0;   // the peer knows of so many
    uint64_t low_water_ = 0;  // all up to here are over,
    NumberMap<bool> over_;    // and these
    bool lost_ = false;       // what was open has been told
};

}  // namespace xfer
