// SPDX-License-Identifier: Apache-2.0
// The attached lane of a connection: a channel that a fabric made (transport/attached_channel.h),
// which takes the control channel over from the first lane. It is opened when the first path beside
// the channels has become ready: the adapters of both ends meet, then.
//
// Its signals go by the first lane, also when frames do not any more: it may need them for as long
// as it lives. Until the switch the end of an attempt is its own; after it, that of the connection.
#pragma once

#include <string_view>

#include "core/connection/attachment.h"

namespace xfer {

class Lane;

class AttachedLane final : public Attachment, AttachedChannelSink {
public:
    explicit AttachedLane(Connection &connection);

    void open() {  // paths are ready, or something is moved
        if (may_try()) begin_if_due();
    }
    void on_lane_closed(const Failure &why) { ended(why); }  // before the switch
    // ---- for who looks
    std::string_view why_not() const;  // empty while it is open, or comes to be

private:
    // As AttachedChannelSink.
    void send_signal(ConstBytes message) override { signal(message); }
    void on_ready() override;
    // As Attachment.
    Failure make(Fabric &fabric, bool first, ConstBytes offer) override;
    void hear(ConstBytes message) override;
    void end(const Failure &why) override;
    void say(const Frame &frame, ConstBytes body) override;
    void try_again() override { open(); }

    void begin_if_due();

    Lane *lane_ = nullptr;                // of the last attempt,
    AttachedChannel *channel_ = nullptr;  // and what it has
};

}  // namespace xfer
