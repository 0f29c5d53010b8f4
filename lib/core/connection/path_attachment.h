// SPDX-License-Identifier: Apache-2.0
// A path that stands beside the channels of a connection (transport/attached_path.h), and what is
// posted on it. What it declines goes on as a request by the first lane.
//
// The initiator begins attempts (core/connection/attachment.h); the other end asks it to. What was
// posted by one ends when both ends have said that theirs is closed: nothing of it can land then.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/connection/attachment.h"
#include "core/connection/one_sided_rail.h"

namespace xfer {

class PathAttachment final : public Attachment, AttachedPathSink {
public:
    PathAttachment(Connection &connection, uint32_t number);

    void open() {  // there is something to move
        if (may_try()) begin_or_ask();
    }
    void on_asked();     // by the peer, which has something to move
    void open_asked() {  // there is no local path after all
        if (asked_) open();
    }
    // While it is open, or comes to be, by that fabric; else null.
    AttachedPath *path_of(const Fabric &fabric) const {
        return !is_closed() && fabric_ == &fabric ? path_.get() : nullptr;
    }
    // ---- for who looks
    std::string_view why_not() const;  // empty while it is open, or comes to be
    std::string local() const { return is_closed() ? "" : path_->local(); }
    std::string remote() const { return is_closed() ? "" : path_->remote(); }

    OneSidedRail rail;

private:
    // As AttachedPathSink.
    void send_signal(ConstBytes message) override { signal(message); }
    void on_ready() override;
    void on_ended(const Failure &why) override { ended(why); }
    // As Attachment.
    Failure make(Fabric &fabric, bool first, ConstBytes offer) override;
    void hear(ConstBytes message) override { path_->on_signal(message); }
    void end(const Failure &why) override { path_->close(why); }
    void say(const Frame &frame, ConstBytes body) override;
    void on_over() override { rail.settle(); }
    void try_again() override;

    void begin_or_ask();

    std::unique_ptr<AttachedPath> path_;
    bool asked_ = false;  // the peer has
};

}  // namespace xfer
