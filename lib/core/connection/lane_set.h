// SPDX-License-Identifier: Apache-2.0
// The lanes of a connection: its first one, data lanes, which join it, and one that takes the
// control channel over: the local lane, through memory that both ends share, or the attached lane,
// by adapters (core/connection/attached_lane.h). They are opened when there is something to move;
// the local lane alone carries all of it, so that the others are opened only where there is none.
//
// Frames have an order, and two channels have none between them. So each end sends `control_switch`
// as its last word on the old channel and goes on by the new one, and hears the new one once it has
// heard the other's `control_switch`. The initiator begins: what it could not join costs nothing.
//
// A lane that carries no control frames ends alone (design/0047). Each end says `lane_closed` once
// its own end is closed, and what was sent by it has ended when both have said so: nothing of it is
// applied after that. What was not sent goes by other lanes, and the initiator opens it again,
// after pauses that double.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/limits.h"
#include "core/connection/lane.h"
#include "core/connection/local_path.h"
#include "core/connection/path_selector.h"
#include "loop/loop.h"
#include "wire/hello.h"

namespace xfer {

class Connection;

class LaneSet final : TimerSink {
public:
    explicit LaneSet(Connection &connection);
    ~LaneSet();

    Lane &first() const { return *lanes_[0]; }
    Lane &control() const { return *control_; }  // where frames are sent
    const std::vector<std::unique_ptr<Lane>> &all() const { return lanes_; }
    bool hears_control_on(const Lane &lane) const;
    bool moves_control() const;   // it moves to another lane, or has moved there
    uint64_t last_heard() const;  // from the peer, where frames or signals come
    static bool is_local(const Lane &lane) { return lane.channel->scope() <= Scope::host; }

    LocalPath local;

    // ---- which one carries what
    Choice choose_lane(uint64_t bytes) const;  // what of so many bytes would take
    // Where a chunk of that region goes, of so many bytes in all; better lanes are opened.
    Route route_for(uint64_t bytes, const Access &access);
    bool flush();  // false: there was nothing

    // ---- opening them
    Lane &add(uint32_t number);  // or the one that has ended
    Failure dial_local(Transport &transport, const Uri &address);
    void ask_for_lanes(uint8_t which);  // of the initiator
    void asked(const Frame &frame);
    // A lane of the peer's takes the channel of a half-open connection; else why not.
    std::string_view join(Connection &half_open, const Hello &message, ConstBytes raw);
    void joined(Lane &lane);                   // a lane of ours is let in
    void await_switch_to(Lane &lane);          // one of the peer's is to take its frames
    void on_control_switch(const Lane &from);  // the peer's last word on the first lane
    bool busy() const {                        // operations are under way
        return std::any_of(lanes_.begin(), lanes_.end(),
                           [](const auto &lane) { return lane->rail.ops || lane->one_sided.ops; });
    }

    // What the peer has asked for is in a copy.
    bool lands() const {
        return std::any_of(lanes_.begin(), lanes_.end(),
                           [](const auto &lane) { return lane->rail.copies != 0; });
    }

    // ---- their end
    // True: the connection goes on without it, for now at least.
    bool survives(Lane &lane, const Failure &why);
    void on_lane_closed(const Frame &frame);  // the peer's end of one
    void on_copied(Lane &lane);  // the last copy of what the peer asked for by it is over
    void on_export(const Frame &frame, ConstBytes body);  // of regions that are reached by one
    uint32_t retire(Target target, Status why);           // how many are not quiet yet
    // Of a chunk that is half received the rest is refused.
    void discard(NotificationId notification);
    void give_back();  // what their paths refused, or lost with the connection
    void close(const Failure &why);
    bool all_closed() const;
    void disarm();

private:
    static bool takes_control(const Lane &lane) {
        return lane.number == kLocalLane || lane.number == kAttachedLane;
    }
    bool is_heard() const;  // control frames may still come
    PathView view(Lane &lane) const;
    Lane *find(uint64_t number) const;
    void open_data_lanes(uint32_t at_most = kMaxLanes);
    std::string_view why_not(const Connection &half_open, const Hello &message,
                             ConstBytes raw) const;  // empty: it may join
    void switch_control_to(Lane &lane);
    void local_path_failed(const Failure &why);
    void not_opened(Lane &lane, const Failure &why);
    bool ends_alone(const Lane &lane) const;
    void say_closed(uint64_t number);
    void settle(Lane &lane);
    void arm_limit();
    void on_limit();
    void open_again_later(const Lane &lane);
    void on_timer(Timer &timer) override;

    Connection &connection_;
    std::vector<std::unique_ptr<Lane>> lanes_;
    Lane *control_;
    Lane *next_control_ = nullptr;   // that frames go by next, or now
    bool control_switched_ = false;  // the peer's
    bool wanted_ = false;            // data lanes
    Timer limit_{*this};             // the first of those of the lanes
    Timer reopen_{*this};
    uint64_t pause_ = 0;  // before that
    uint32_t tried_ = 0;  // the last data lane that was dialed alone
};

}  // namespace xfer
