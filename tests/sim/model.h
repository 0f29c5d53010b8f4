// SPDX-License-Identifier: Apache-2.0
// What is known of every operation and of all memory in a random scenario, and what must hold. The
// model sees the calls, the events and each byte that moves; the first thing that must not be is
// kept as `fault`.
#pragma once

#include <xfer/xfer.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim_device.h"
#include "sim_transport.h"

namespace xfer {

constexpr uint8_t kPoison = 0xee;  // no payload has it
constexpr uint64_t kSecond = 1'000 * kNsPerMs;

// The bytes of everything that moves are taken from one table; none of them is 0 or poison.
const uint8_t *payload_table();
constexpr uint64_t kTableBytes = 3u << 20;

// One engine, from open to its end, by the number of its transport.
struct Who {
    uint32_t number = 0;
    uint64_t incarnation = 0;
    EngineId id{};
    size_t node = 0;
    std::string uri;      // where it listens; empty: nowhere
    uint64_t frozen = 0;  // ns so far
    bool closing = false, dead = false;
    bool turns_away = false;  // some that come to it
    bool late = false;        // it hears of events some time after they came about
};

// Memory that an engine has lent.
struct Lent {
    uint32_t owner = 0;
    uint64_t id = 0;
    uint8_t *base = nullptr;
    uint64_t length = 0;
    uint64_t next = 0;                 // what lies behind was not used yet
    bool fixed = false;                // never written,
    const uint8_t *content = nullptr;  // and equal to this
    bool on_device = false;
    bool close_called = false, over = false;
    const Lent *whole = nullptr;  // of a grant: the region
    bool revoke_called = false;
    uint64_t lease = 0, lease_from = 0;  // of a grant, ns; 0: it has none
    uint64_t *words =
        nullptr;         // two for atomics: of others, and of the owner's own; null: none yet
    uint64_t value = 0;  // of the first
    bool lapsed(uint64_t now) const { return lease && now >= lease_from + lease; }
    std::unique_ptr<uint8_t, void (*)(void *)> memory{nullptr, nullptr};
};

struct Entry {
    bool put = true;
    uint64_t at = 0;  // in the operation's buffer
    uint64_t length = 0;
    uint8_t *remote = nullptr;
    const uint8_t *expected = nullptr;  // of a get
    uint64_t landed = 0;
};

struct ModelOperation {
    enum Kind { single, batch, send, receive, notify, question, flush, atomic } kind = single;
    uint64_t number = 0;
    uint32_t from = 0;
    uint32_t to = 0;  // whose memory it is about, or 0
    uint64_t ep = 0;
    uint8_t *buffer = nullptr;
    uint64_t length = 0;
    std::vector<Entry> entries;
    const Lent *lent = nullptr;  // that it moves bytes of
    const Lent *grant = nullptr;
    uint64_t submitted = 0, timeout = 0;  // ns
    uint64_t frozen = 0;                  // what its engine had been by then
    uint64_t tag = 0;
    uint64_t key = 0;                  // of its notification, shared with others; 0: its number
    std::optional<EngineId> expected;  // of its endpoint
    size_t places = 0;                 // addresses that the endpoint had
    bool checked = false, spoiled = false;
    uint64_t left_at = 0, ended_at = 0;
    bool notifies = false, ordered = false, sync = false, quiet = false, unheard = false,
         to_self = false;
    bool ended = false, left = false;
    bool on_device = false;  // its buffer
    bool withdrawn = false;  // canceled, or what it was begun with was closed
    bool owed = false;       // the owner will tell its application, unless it dies
    xfer_status_t status = XFER_OK;
    uint32_t flags = 0;
    std::set<const void *> chunks;
    uint32_t announced_at = 0;  // the engine that owes its application the word of the end
    bool told = false;          // to the owner's application, with:
    xfer_status_t told_status = XFER_OK;
    uint64_t received_by = 0;
    uint32_t received_at = 0;
    struct Change {  // of an atomic
        uint64_t *word = nullptr;
        uint32_t op = 0;
        uint64_t operand = 0, compare = 0;
        bool done = false;
        uint64_t before = 0;  // if it was
    } change;
    // It is about memory of its owner.
    bool moves() const { return kind == single || kind == batch || kind == atomic; }
};

std::string named(const ModelOperation &operation);

// Keys of notifications from here on are those of many operations; the others are their numbers.
constexpr uint64_t kSharedKey = 1ull << 32;
constexpr uint64_t kSharedKeys = 3;

// What the notification of an operation brings along: nothing, some bytes, as many as can be.
std::vector<uint8_t> told_bytes(uint64_t number);

// A counter of an application. How many notifications it has had is not to be seen; the operations
// of others bound it from both sides.
struct Count {
    uint32_t at = 0;
    uint64_t key = 0, expected = 0, user = 0;
    const void *handle = nullptr;
    uint64_t since = 0, opened = 0;  // the last operation, and the time, when it was opened
    uint64_t limit = 0;              // until its deadline; 0: none
    uint64_t strays = 0;             // that were told, and not counted
    bool told = false, closed = false, owed = false;
};

class Model final : public SimObserver, public SimDevice::Memories {
public:
    Model(SimNet &net, bool trace, bool devices)
        : device{net, *this}, net_(net), trace_(trace), devices_(devices) {}

    const SimDevice device;
    bool find(const void *at, uint64_t &base, uint64_t &size) const override;

    std::string fault;  // empty, or what was violated
    void violated(const std::string &what);
    std::map<std::string, uint64_t> &met() { return net_.met; }
    bool trace() const { return trace_; }
    void note(const std::string &line) override;

    Who &who(uint32_t number) { return who_[number]; }
    const Who &who(uint32_t number) const { return who_.at(number); }
    // `fixed`: what it holds for ever, in memory of its own or, shared, in its place.
    Lent &lend(uint32_t owner, uint64_t length, const uint8_t *fixed, bool shared);
    Lent &grant(Lent &whole, uint64_t offset, uint64_t length, uint64_t id);
    Lent *find_lent(uint32_t owner, uint64_t id);
    bool grants_over(const Lent &lent) const;
    uint64_t *words_of(Lent &lent);  // null: it has no room for them
    void returned(Lent &lent);       // the event that it is quiet was told
    void revoked(const xfer_event_t &event, Lent &grant);
    const Lent *overdue();  // that was closed, revoked or has lapsed, and nobody is told

    ModelOperation &begin(ModelOperation::Kind kind, uint32_t from, uint64_t length);
    ModelOperation &again(const ModelOperation &before);  // a batch that is submitted once more
    void died(Who &who);                                  // nothing of it is waited for any more
    void refused(ModelOperation &operation);  // its call was: nothing of it may be heard
    void submitted(ModelOperation &operation);
    ModelOperation *find(uint64_t number);
    void withdraw(uint64_t number);
    void withdraw_all(uint64_t ep, uint32_t from);
    void ended(const xfer_event_t &event, Who &by);
    void entries_told(const xfer_event_t &event, const ModelOperation &operation,
                      const std::vector<xfer_status_t> &statuses);
    void unheard(const ModelOperation &flush);
    bool waits_unheard(uint32_t from) const;
    void quiet_ends(const Who &at, uint64_t ep);  // 0: of all endpoints; they have ended
    void closed(uint64_t ep, const Who &at);      // its endpoint
    void notified(const xfer_event_t &event, Who &at);
    const ModelOperation *untold() const;  // that was announced where somebody is there to be told
    void peer_down(uint32_t at, uint32_t from, uint64_t generation);
    const Count *counting(uint32_t at, uint64_t key) const;
    void count(Count made);
    void uncount(uint64_t user);
    void counted(const xfer_event_t &event, const Who &at);
    bool is_somebody(const EngineId &id) const;
    // Whether an engine that this is true of has ever listened there.
    bool has_listened(const std::string &uri, const std::function<bool(const Who &)> &who) const;
    // Operations, as far as was told. A receive of its engine may be one, while it pulls.
    uint64_t open_on(uint64_t ep, uint32_t life) const;
    uint64_t pending(bool receives) const;
    std::string pending_one() const;
    void check_end();
    const std::map<uint64_t, std::unique_ptr<ModelOperation>> &operations() const { return all_; }

    uint64_t operation_at(const void *local) override;
    void leaves(uint64_t operation, const void *local, uint32_t to, bool checked) override;
    void spoiled(uint64_t operation) override;
    void reads(const void *at) override;
    void writes(const void *at) override;
    void lands(uint64_t operation, uint32_t owner, uint32_t from, uint64_t generation,
               const uint8_t *at, size_t bytes) override;
    void changes(uint64_t operation, uint32_t owner, uint32_t from, uint64_t generation,
                 const void *word) override;
    void announced(uint64_t key, uint32_t owner) override;

private:
    using Address = uintptr_t;
    ModelOperation *holder(const void *at) const;
    Lent *lent_at(const void *at) const;
    void told_of_many(const xfer_event_t &event, const Who &at);
    bool may_reach(const ModelOperation &operation, uint64_t key, const Who &at) const;
    bool enough(const Count &count) const;
    void check_counts();
    void flushed(ModelOperation &flush);
    void note_failure(const ModelOperation &operation);
    void ended_quietly(ModelOperation &operation);
    void check_rest(const ModelOperation &operation);
    void check_told(const ModelOperation &operation);
    void check_flags(const ModelOperation &operation);
    void check_time(const ModelOperation &operation, const Who &by);
    void check_reason(const ModelOperation &operation, const Who &by);
    void check_success(ModelOperation &operation);
    void check_place(const ModelOperation &operation, uint32_t owner, uint32_t from,
                     uint64_t generation, const void *at);
    void check_change(const ModelOperation &operation);
    void check_words(const Lent &lent);
    void received(const xfer_event_t &event, ModelOperation &receive, const Who &by);
    void check_buffer(const ModelOperation &operation);
    void check_order();
    void check_ordered(const ModelOperation &operation);

    // Of an endpoint: whether the next flush has a failure to tell.
    enum class Untold { none, failure, perhaps };

    SimNet &net_;
    const bool trace_, devices_;
    uint64_t last_number_ = 0;
    std::map<uint32_t, Who> who_;
    std::vector<std::unique_ptr<Lent>> lent_;
    std::map<Address, Lent *> lent_by_address_;
    std::map<uint64_t, std::unique_ptr<ModelOperation>> all_;
    std::map<Address, ModelOperation *> by_buffer_;  // the last that used it
    std::vector<std::unique_ptr<uint8_t[]>> buffers_;
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> down_;  // generations whose end was told
    uint64_t pending_ = 0, pending_receives_ = 0;
    std::map<uint64_t, Untold> untold_;
    struct Tally {
        uint64_t well = 0, failed = 0;
    };
    std::map<std::pair<uint32_t, uint64_t>, Tally> tallies_;  // of shared keys, by engine
    std::vector<Count> counts_;
};

}  // namespace xfer
