// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "core/connection/rail.h"
#include "transport/channel.h"

namespace xfer {

class Connection;

// A channel as its connection sees it, with the path that it brings along. Lane 0 is the control
// channel.
class Lane final : public ChannelSink {
public:
    enum class State : uint8_t { dialing, joining, ready, down };

    Lane(Connection &connection, uint32_t number) : connection(connection), number(number) {}

    void adopt(std::unique_ptr<Channel> made);  // it is accepted, or comes from another loop
    void start();                               // enables sending
    void open();                                // and receiving

    void on_up() override;
    void on_hello(ConstBytes message) override;
    void on_control(const Frame &frame, ConstBytes body) override;
    void on_closed(const Failure &why) override;

    Connection &connection;
    const uint32_t number;
    std::unique_ptr<Channel> channel;
    State state = State::dialing;
    Rail rail{*this};
    Carried frames;  // control frames that were sent
};

}  // namespace xfer
