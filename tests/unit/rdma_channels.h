// SPDX-License-Identifier: Apache-2.0
// Two ends with a channel between them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rdma_two_ends.h"

namespace xfer::rdma {

class ChannelEnd final : public AdapterEnd, AttachedChannelSink {
public:
    using AdapterEnd::AdapterEnd;
    Status open(bool first) {
        auto made = fabric->open_channel({first, 0, stall_ns}, *this);
        if (!made) return made.error().status;
        channel = std::move(*made);
        opened = channel.get();
        opened->set_sink(*sink);
        return XFER_OK;
    }

    // Who did not begin opens with the first signal, as a core does.
    void hear(const Octets &message) {
        if (!opened) REQUIRE(open(false) == XFER_OK);
        if (!sink->down) opened->on_signal(message);
    }

    test::RecordingSink *sink = nullptr;
    std::unique_ptr<AttachedChannel> channel;
    AttachedChannel *opened = nullptr;  // also where another has taken it over
    bool ready = false;
    std::function<void()> on_up;
    uint64_t stall_ns = UINT64_MAX;

private:
    void send_signal(ConstBytes message) override { say(message); }
    void on_ready() override {
        CHECK_FALSE(ready);
        ready = true;
        if (on_up) on_up();
    }
};

struct Channels : TwoEnds<ChannelEnd> {
    using RecordingSink = test::RecordingSink;

    explicit Channels(FakePersonality personality = {}, const FakeAdapterOptions &near_options = {},
                      const FakeAdapterOptions &far_options = {},
                      const QueuePairOptions &options = {})
        : Channels(own_here_, own_there_, personality, near_options, far_options, options) {}
    Channels(RecordingSink &near_sink, RecordingSink &far_sink, FakePersonality personality = {},
             const FakeAdapterOptions &near_options = {},
             const FakeAdapterOptions &far_options = {}, const QueuePairOptions &options = {})
        : TwoEnds(personality, near_options, far_options, options),
          here(near_sink),
          there(far_sink) {
        near->sink = &here, far->sink = &there;
    }
    // Whatever is open is closed.
    ~Channels() {
        let_go(), filter = nullptr;
        close();
        check_nothing_left();
    }

    Status begin() {
        EngineLoop::Inside inside(*own);
        near->on_up = [this] { CHECK(far->ready); };  // it may use it at once
        return near->open(true);
    }
    void meet() {
        REQUIRE(begin() == XFER_OK);
        REQUIRE(until([&] { return near->ready || here.down || there.down; }));
        if (here.down) MESSAGE(std::string_view(here.down->message));
        if (there.down) MESSAGE(std::string_view(there.down->message));
        REQUIRE(near->ready);
        REQUIRE(far->ready);
    }
    void open() {
        meet();
        EngineLoop::Inside inside(*own);
        test::start(*far->channel, there);
        far->channel->resume();
        test::start(*near->channel, here);
        near->channel->resume();
    }
    void close() {
        {
            EngineLoop::Inside inside(*own);
            for (ChannelEnd *end : {near.get(), far.get()})
                if (end->channel) end->channel->close({XFER_ECLOSED, 0, 0, "the test"});
        }
        REQUIRE(
            until([&] { return (!near->channel || here.down) && (!far->channel || there.down); }));
        EngineLoop::Inside inside(*own);
        near->channel.reset();
        far->channel.reset();
    }
    // All queue pairs of an end fail, as with its port.
    void break_pairs(ChannelEnd &end) { raise_event(fabric, end.adapter, IBV_EVENT_PORT_ERR); }

    RecordingSink &here, &there;

private:
    RecordingSink own_here_, own_there_;
};

}  // namespace xfer::rdma
