// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/connection/path_selector.h"
#include "transport/transport.h"
#include "util/list.h"

namespace xfer {

class Connection;

// A link as its connection sees it. Lane 0 is the control channel.
class Lane final : public LinkSink {
public:
    enum class State : uint8_t { dialing, joining, ready, down };

    Lane(Connection &connection, uint32_t number) : connection(connection), number(number) {}

    void start();  // we may speak
    void open();   // and hear
    bool has_room() const { return state == State::ready && ops < max_ops && bytes < window; }
    void post(Op &op);
    bool cancel(Op &op);
    void give_back();  // what the link refused, as never sent

    void on_up() override;
    void on_hello(ConstBytes message) override;
    void on_control(const Frame &frame, ConstBytes body) override;
    void on_done(Op &op, Status status) override;
    Status on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                     std::vector<iovec> &out) override;
    Status on_reach(const Access &access, Reach &out) override;
    void on_served(Dir dir, uint64_t bytes) override;
    void on_quiet(Target target) override;
    void on_unmapped(Target target) override;
    void on_notification_begun(NotificationId notification, uint64_t key) override;
    void on_down(const Failure &why) override;

    Connection &connection;
    const uint32_t number;
    std::unique_ptr<Link> link;
    State state = State::dialing;
    Scope distance = Scope::network;  // once we may speak
    uint32_t ops = 0, max_ops = 0;
    uint64_t bytes = 0, window = 0;
    bool unflushed = false;
    // Since it was opened: what was answered of ours, by how it moved, and what the peer asked for.
    struct Carried {
        uint64_t requests = 0, bytes = 0;
    };
    std::array<Carried, kMovedWays> carried;
    Carried served, frames;  // frames: control frames that were sent
    std::optional<Moved> last_moved;

private:
    void finish(Op &op, Status status);

    List<Op, InLink> refused_;  // at most one a turn: the lane has no room from then on
    List<Op, InLink> lost_;     // with the link; they end with the connection, which knows why
};

}  // namespace xfer
