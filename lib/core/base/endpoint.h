// SPDX-License-Identifier: Apache-2.0
// The user's handle on a peer. What is known of its peer (state, peer, counters) is read from any
// thread; the rest belongs to the loop that owns the peer.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/counters.h"
#include "core/base/event.h"
#include "core/base/first_failure.h"
#include "core/base/handle.h"
#include "core/base/mailbox.h"
#include "core/base/submit_order.h"
#include "util/ref.h"
#include "wire/hello.h"

namespace xfer {

class EngineCore;
class Endpoint;
class Notice;
class Peer;
class Receive;
class ShardCore;
struct InPosted;
struct InPeer;
struct Lingering;

class Endpoint final : public Handle,
                       public RefCounted<Endpoint>,
                       public ListNode<InPeer>,
                       public ListNode<Lingering> {
public:
    // `listed`: where its peer may be dialed.
    Endpoint(EngineCore &engine, std::vector<std::string> listed, uint64_t user);
    ~Endpoint() override;

    // ---- any thread
    EngineCore &engine;
    const std::string uri;       // the first of the list; empty: by its id alone, or inbound
    std::atomic<uint64_t> user;  // of the last xfer_ep_keep, or of the open
    std::optional<EngineId> expected;
    std::atomic<ShardCore *> shard{
        nullptr};                    // whose loop owns the peer; moves when the identity is known
    std::atomic<bool> moved{false};  // to another loop, ever
    std::atomic<uint32_t> state{XFER_EP_IDLE};
    std::atomic<bool> closed{false};            // the user called close
    std::atomic<bool> ended{false};             // no new work
    bool inbound = false;                       // of a PEER event
    std::atomic<bool> kept{false};              // by xfer_ep_keep, which an inbound one takes once
    std::atomic<bool> counts_undecided{false};  // its peer is asked about
    std::atomic<bool> of_user{true};  // false: the engine's own, inbound and not the user's yet
    std::atomic<uint32_t> outstanding{0};
    std::atomic<bool> room_wanted{false};
    std::atomic<uint32_t> notices{0};  // undelivered, but for the next two
    std::atomic<uint32_t> rooms{0}, gone_regions{0};
    std::atomic<uint32_t> receives{0};  // that name it, and neither ended nor are pulled
    std::atomic<bool> had_receives{false};
    std::atomic<uint32_t> on_streams{0};  // batches, from their submit to their event
    EndpointCounters counters;
    Counter connections, rtt_ns;

    // Counts one operation; false: see refusal(). Throws std::bad_alloc, and has not counted it.
    bool admit(OpKind kind) {
        counters.make_place(kind);
        return admit(max_operations_);
    }
    bool admit_request() { return admit(max_operations_); }
    bool admit_flush() { return admit(2 * max_operations_); }  // also where operations are refused
    // A batch on a stream, which takes no place before it begins.
    bool admit_on_stream() {
        counters.make_place(OpKind::batch);
        on_streams.fetch_add(1);
        if (!ended.load()) return true;
        on_streams.fetch_sub(1);
        return false;
    }
    // Where an operation enters. An ordered one of an endpoint that has moved goes through every
    // loop, behind what was posted there before it moved; `passes` says so.
    ShardCore &entry(bool ordered, bool &passes) const {
        ShardCore *home = shard.load();
        passes = ordered && moved.load();
        return passes ? first_shard() : *home;
    }
    // XFER_EAGAIN: a ROOM event will follow.
    Status refusal() const { return ended.load() ? XFER_ECLOSED : XFER_EAGAIN; }
    void set_info(const Identity &identity, const std::vector<uint8_t> &blob,
                  const std::string &address);
    void set_identity(const Identity &identity);  // of it no more, for want of memory
    void read_info(xfer_peer_info_t &info) const;
    std::optional<EngineId> peer_id() const;  // of the last connection
    // Whose messages a receive that names it takes; nothing: it is not known yet.
    std::optional<EngineId> sender() const { return expected ? expected : peer_id(); }
    // False: it would list more than kMaxPeerUris.
    bool list(const std::vector<std::string> &uris);
    bool lists(const std::string &uri) const;
    bool lists_several() const;
    // It was opened for whoever answers at an address.
    bool is_by_address() const { return !uri.empty() && !expected; }
    bool waits_anywhere() const;  // opened by its peer's id alone, and no address was added
    template <typename Visit>
    void each_listed(Visit visit) const {
        std::lock_guard lock(info_mutex_);
        for (const std::string &each : listed_)
            visit(each);
    }
    bool gone() const { return !of_user.load() && closed.load(); }  // with its PEER_DOWN
    void give();  // to the user, who closes it from here on
    void no_longer_undecided();
    bool is_lent() const;    // its end is the engine's business, and told by no CLOSED event
    bool of_accept() const;  // inbound, with XFER_ENGINE_OWN_PEERS

    // ---- the loop
    Peer *peer = nullptr;
    std::unique_ptr<Notice> down_event;  // of the connection that there is: its end must be told
    uint32_t busy = 0;                   // operations and requests that have not ended
    SubmitOrder order;                   // of its operations, but for pulls
    FirstFailure first_failure;          // of the same
    bool closing = false;

    class Close final : public Message {
    public:
        explicit Close(Endpoint &owner) : ep(owner) {}
        void arrive(ShardCore &shard) override;
        Endpoint &ep;
    } close{*this};
    class Closed final : public EventNode {
    public:
        explicit Closed(Endpoint &owner) : ep(owner) {}
        void released() override;
        Endpoint &ep;
    } closed_event{*this};
    // Its close, on its way to its receives on the first loop, and back with them.
    class EndReceives final : public Message {
    public:
        explicit EndReceives(Endpoint &owner) : ep(owner) {}
        void arrive(ShardCore &shard) override;
        Endpoint &ep;
        ShardCore *home = nullptr;
        List<Receive, InPosted> receives;
        bool behind_copies = false;  // of messages; the first loop's
    } end_receives{*this};
    // Who its peer is, on its way to the first loop, where receives name it.
    class IdentityKnown final : public Message {
    public:
        explicit IdentityKnown(Endpoint &owner) : ep(owner) {}
        void arrive(ShardCore &shard) override;
        Endpoint &ep;
        std::atomic<bool> posted{false};
    } identity_known{*this};

private:
    bool admit(uint32_t limit) {
        if (outstanding.fetch_add(1) >= limit) return take_room(limit);
        // The loop sets the one and then looks at the other, as we do: an operation that got in is
        // waited for by the end.
        if (!ended.load()) return true;
        outstanding.fetch_sub(1);
        return false;
    }
    bool take_room(uint32_t limit);  // it was counted, and is one too many
    ShardCore &first_shard() const;

    const uint32_t max_operations_;
    mutable std::mutex info_mutex_;
    Identity identity_;
    std::vector<uint8_t> blob_;
    std::string address_;
    std::vector<std::string> listed_;
};

// An event about an endpoint that is not the end of something: PEER, PEER_UP, PEER_DOWN,
// REGION_GONE, ROOM.
class Notice final : public EventNode {
public:
    Notice(Endpoint &endpoint, uint32_t type, std::vector<uint8_t> bytes);
    void blame(const Failure &why);  // of a PEER_DOWN
    // Before it is told. False if so many wait already that one more would be growth: the user has
    // stopped listening.
    bool admit();
    bool still_valid() override;
    bool ends_handle() const override {
        return event.kind == XFER_EVENT_PEER_DOWN && !ep_.of_user.load();
    }
    void given() override;
    void released() override;

private:
    std::atomic<uint32_t> &waiting() const;
    Endpoint &ep_;  // counted from admit() on
    std::vector<uint8_t> data_;
    Text reason_;
};

}  // namespace xfer
