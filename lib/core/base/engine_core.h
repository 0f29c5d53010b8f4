// SPDX-License-Identifier: Apache-2.0
// What every room knows of its engine: who it is, what it was told, its loops, and the way of
// events to the user. What the rooms above have of it is named here, and used where its class is
// known: in its own room, and above. Engine (core/engine/engine.h) is the whole.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "core/base/budget.h"
#include "core/base/drain.h"
#include "core/base/event.h"
#include "core/base/handle.h"
#include "core/base/options.h"
#include "core/base/self.h"
#include "util/ref.h"

namespace xfer {

class CancelRequests;
class Endpoint;
class Message;
class Notifications;
class NotifyCounters;
class ReceiveQueue;
class RegionRegistry;
class ShardCore;
class StreamSubmissions;

// Takes events to the user.
class EventSink {
public:
    // Loops dispatch by themselves, at the end of their turn; else they hand over what they have.
    virtual bool dispatches() const = 0;
    virtual void dispatch(EventNode &node) = 0;
    virtual void hand_over(EventList &events, uint64_t count) = 0;
    // The same, of a thread that submits, which is not the loop's driver. Not where loops dispatch.
    virtual void hand_in(EventNode &node) = 0;

protected:
    ~EventSink() = default;
};

class EngineCore : public Handle, public RefCounted<EngineCore> {
public:
    // Any thread, all of it.
    struct Name {
        EngineId id{};
        uint64_t incarnation = 0;
    };
    const Name &identity() const { return identity_; }
    const Self &self() const { return self_; }
    const Options &options() const { return options_; }
    const Log &log() const { return options_.log; }
    bool forked() const { return all_forks_.load(std::memory_order_relaxed) != forks_; }
    bool closing() const { return closing_.load(); }
    bool refuses() const { return closing() || draining_.on(); }  // new work

    ShardCore &home(const EngineId &id) const {  // the loop of that peer
        return *shards_[load<uint64_t>(id.data()) % shards_.size()];
    }
    ShardCore &first_shard() const { return *shards_[0]; }
    ShardCore &shard(size_t index) const { return *shards_[index]; }
    size_t shard_count() const { return shards_.size(); }
    // To the first loop from there on that has not ended; false: there is none.
    bool post_from(size_t index, Message &message) const;

    uint64_t next_sequence() { return sequence_.fetch_add(1) + 1; }
    // The word of a PEER event's handle until it is kept.
    uint64_t next_peer_word() { return uint64_t{1} << 63 | ++peer_words_; }
    uint64_t random_u64() const {
        std::array<uint8_t, 8> bytes;
        self_.random(self_.random_context, bytes);
        return load<uint64_t>(bytes.data());
    }

    Budget &slots() { return slots_; }
    Budget &undecided() { return undecided_; }  // peers that the application is asked about
    Drain &draining() { return draining_; }
    EventSink &events() { return *events_; }
    CancelRequests &cancel_requests() { return rooms_.cancel_requests; }
    NotifyCounters &counters() { return rooms_.counters; }
    Notifications &notifications() { return rooms_.notifications; }
    ReceiveQueue &receive_queue() { return rooms_.receive_queue; }
    RegionRegistry &regions() { return rooms_.regions; }
    StreamSubmissions &submissions() { return rooms_.submissions; }

    void close_silently(Endpoint &ep);

    ~EngineCore() override;

protected:
    struct Rooms {
        CancelRequests &cancel_requests;
        NotifyCounters &counters;
        Notifications &notifications;
        ReceiveQueue &receive_queue;
        RegionRegistry &regions;
        StreamSubmissions &submissions;
    };
    EngineCore(Options options, uint32_t undecided, const Rooms &rooms);

    Options options_;
    Name identity_;
    Self self_;
    std::vector<std::unique_ptr<ShardCore>> shards_;
    std::atomic<bool> closing_{false};
    Drain draining_;
    EventSink *events_ = nullptr;  // from the construction of Engine on

private:
    static uint32_t forks_so_far();

    // Counted by who comes out of them. Asking the system who we are, at every call, would cost as
    // much as a small operation does.
    static inline std::atomic<uint32_t> all_forks_{0};

    const uint32_t forks_;  // before it was opened
    std::atomic<uint64_t> sequence_{0}, peer_words_{0};
    Budget slots_, undecided_;
    const Rooms rooms_;
};

}  // namespace xfer
