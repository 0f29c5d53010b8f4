// SPDX-License-Identifier: Apache-2.0
// One engine of a random scenario from open to its end, with the handles that its application has.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "model.h"
#include "swarm.h"

namespace xfer {

class Scenario;

class Life {
public:
    struct Ep {
        uint64_t number = 0;  // its user word
        xfer_ep_t *handle = nullptr;
        size_t node = 0;
        bool room_owed = false;
        uint64_t refusals = 0, rooms = 0;
        std::optional<EngineId> expected;
        bool kept = false;      // of a PEER event
        bool accepted = false;  // the same, by XFER_ENGINE_OWN_PEERS
        bool renamed = false;   // it was given another word
        bool told_closed = false;
        std::vector<std::string> uris;  // that it was given
        bool by_id = false;   // none: whether and where its peer can be dialed is not for it to say
        bool anyone = false;  // of several engines, of which none has answered yet
        bool wanders = false;  // it was such: with its addresses it may follow another of them
        bool has(const std::string &uri) const {
            return std::find(uris.begin(), uris.end(), uri) != uris.end();
        }
    };
    struct Area {
        xfer_region_t *handle = nullptr;
        Lent *lent = nullptr;
        std::string name;
    };
    struct Grant {
        xfer_ref_t ref{};
        xfer_region_t *region = nullptr;
        Lent *lent = nullptr;
    };
    struct Held {  // a ref that it was given, and what that names
        xfer_ref_t ref{};
        Lent *lent = nullptr;
        bool granted = false;
    };
    struct Counter {
        xfer_counter_t *handle = nullptr;
        uint64_t user = 0;
    };
    struct Batch {
        xfer_batch_t *handle = nullptr;
        uint64_t last = 0;  // its last operation
        size_t node = 0;
        uint64_t ep = 0;
        xfer_ref_t ref{};  // that its entries name, if it can be rebound
        Lent *lent = nullptr;
        bool granted = false;
    };

    Life(Scenario &all, size_t node, const EngineId &id, bool listens);
    ~Life();
    Life(const Life &) = delete;
    Life &operator=(const Life &) = delete;

    bool acts() const { return !frozen && !who().closing && !who().dead && !draining; }
    Who &who() const;
    std::string name() const { return "e" + std::to_string(number); }
    Ep *ep_to(size_t to, bool fresh = false);
    Ep *own_ep_to(size_t to, bool fresh = false);  // not one that goes with its peer
    Ep *ep_by(uint64_t number);                    // null: it was closed
    void keep(size_t visitor);
    Ep *id_ep_to(size_t to);  // by its id alone
    Ep *id_ep_beside(const Ep &other);
    void admit(uint64_t visitor, xfer_status_t verdict);
    Ep *open_ep(size_t to, const std::optional<EngineId> &expected);
    Ep *open_ep(size_t to, const std::optional<EngineId> &expected,
                const std::vector<std::string> &uris);
    void add_address(Ep &ep, const std::string &uri);
    void close_ep(size_t index);
    bool open_area(const std::string &called, uint64_t length, uint32_t access,
                   const uint8_t *fixed, bool shared = false);
    void close_area(size_t index);
    void close();  // the engine, as its user does
    void crash(bool told);
    void poll_soon();  // where the application polls, and something waits
    void freeze();
    void thaw();
    bool ended() const { return ended_; }
    // The status of a call that may be refused for want of room; whether it was accepted.
    bool took(ModelOperation &operation, Ep *ep, xfer_status_t status);

    Scenario &all;
    const size_t node;
    std::vector<std::unique_ptr<SimLoop>> loops;
    std::unique_ptr<SimLoop> poller;  // its thread that polls, if it has one
    std::shared_ptr<SimProcess> process;
    uint32_t number = 0;
    EngineId id;
    xfer_engine_t *engine = nullptr;
    bool frozen = false, draining = false, listens = false;
    bool checksum = false;  // an option of the engine
    uint64_t frozen_at = 0, close_called = 0;
    // Whether it has handles for whoever answers, and whether it says that a peer is where another
    // engine is. Not both: the former follow to where any handle of their peer leads.
    bool lists = false, misleads = false;
    std::vector<Ep> eps;
    std::map<EngineId, std::set<std::string>> said;  // where any handle has said that a peer is
    bool asks = false, owns = false;                 // options of the engine
    std::vector<Ep> visitors;  // handles of PEER events: the engine's, or of whom is not known yet
    std::vector<Area> areas;
    std::vector<Grant> grants;
    std::vector<Held> held;
    std::vector<Batch> batches;
    std::vector<Counter> counters;

private:
    void open_engine();
    void poll();
    void on_event(const xfer_event_t &event);
    void on_event_of_dead(const xfer_event_t &event);
    void on_operation(const xfer_event_t &event);
    void on_peer(const xfer_event_t &event);
    void on_visitor(const xfer_event_t &event, Ep &ep);
    void on_down(const xfer_event_t &event);
    Ep *id_ep(size_t to, const EngineId &peer);
    void accept(size_t visitor);
    void give_up(size_t visitor);
    void close_handle(const Ep &ep);
    void on_ep_closed(const xfer_event_t &event);
    void check_ends();
    void check_up(const Ep &ep, const xfer_id_t &peer);
    void check_reason(const xfer_event_t &event, const ModelOperation &operation);
    void on_closed(const xfer_event_t &event);
    void on_room(const xfer_event_t &event);
    void check_entries(const xfer_event_t &event, const ModelOperation &operation);
    Ep *ep_of(const xfer_ep_t *handle);

    // Of a handle, its own or the engine's: who is there now, and since which connection.
    struct Tracked {
        uint32_t peer = 0;
        uint64_t generation = 0;
        uint64_t since = 0;
    };
    std::map<const void *, Tracked> tracked_;
    std::map<const void *, Lent *> closing_areas_;
    struct ClosingEp {
        uint64_t number = 0;
        bool surely = true;  // its CLOSED comes
    };
    std::map<const void *, ClosingEp> closing_eps_;
    uint64_t sequence_ = 0;
    int stalls_ = 0;  // that are not over, of each loop and device
    bool ended_ = false, will_poll_ = false;
};

}  // namespace xfer
