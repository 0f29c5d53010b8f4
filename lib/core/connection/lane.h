// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/connection/one_sided_rail.h"
#include "core/connection/rail.h"
#include "core/connection/route.h"
#include "loop/loop.h"
#include "transport/channel.h"
#include "util/uri.h"

namespace xfer {

class Connection;
class Transport;

// A channel as its connection sees it, with the paths that it brings along. Lane 0 is the control
// channel.
class Lane final : public ChannelSink {
public:
    // fallen: it is closed here, and what was sent by it waits for the peer to say the same.
    enum class State : uint8_t { dialing, joining, ready, fallen, down };

    Lane(Connection &connection, uint32_t number) : connection(connection), number(number) {}

    void dial(Transport &transport, const Uri &address);  // is_closed(): why not
    void adopt(std::unique_ptr<Channel> made);  // it is accepted, or comes from another loop
    void start();                               // enables sending
    void open();                                // and receiving
    // ---- operations: those that can go by its one-sided path, and others as requests
    Route route() { return {rail, one_sided}; }
    std::optional<Moved> copy_now(Dir dir, const Access &access, const Piece &piece) {
        if (state != State::ready) return std::nullopt;
        const std::optional<Moved> moved = one_sided.copy_now(dir, access, piece);
        if (moved) count_carried(*moved, piece.length);
        return moved;
    }
    void count_carried(Moved moved, uint64_t bytes) {
        carried[static_cast<size_t>(moved)].add(bytes);
        last_moved = moved;
    }
    bool flush();      // false: there was nothing
    void give_back();  // what its paths refused, or declined, or lost with the connection
    void settle();     // what was lost with its paths ends; it may be started again
    uint32_t retire(Target target, Status why);  // how many of its paths are not quiet yet
    bool has_limit() const { return state != State::ready && state != State::down; }
    void set_limit(uint64_t until) {
        limit = until;
        overdue = false;
    }
    bool is_closed() const { return state == State::fallen || state == State::down; }

    void on_up() override;
    void on_hello(ConstBytes message) override;
    void on_control(const Frame &frame, ConstBytes body) override;
    void on_closed(const Failure &why) override;

    Connection &connection;
    const uint32_t number;
    std::unique_ptr<Channel> channel;
    State state = State::dialing;
    Rail rail{*this};
    OneSidedRail one_sided{*this, rail, number};
    std::array<Carried, kMovedWays> carried;  // what was answered of ours, by how it moved
    std::optional<Moved> last_moved;
    Carried frames;  // control frames that were sent
    Failure why;     // it has ended, or was not opened
    bool peer_closed = false;
    bool reported = false;             // that it can't be opened
    bool closed_unsaid = false;        // the peer is to hear of its end behind copies
    uint64_t ready_since = 0;          // 0: it never was, since it was dialed
    uint64_t fell_at = 0;              // when its end here was closed
    uint64_t limit = kNever;           // until when the peer is to answer, let it in, or say
    bool overdue = false;              // its end; put off once, for a loop that was late
    uint64_t unacknowledged = kNever;  // since then, when that was looked at last
    uint64_t falls = 0;
    uint64_t generation = 0;  // counts how often it was dialed again: none joins twice
};

}  // namespace xfer
