// SPDX-License-Identifier: Apache-2.0
// One seed: what it draws is done, step by step, to engines in a simulated world; then the faults
// stop, everything must end, and everybody must find everybody again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crowd.h"
#include "life.h"
#include "model.h"
#include "swarm.h"

namespace xfer {

// Longer than what is sent eagerly, and than what adapters are not asked for.
constexpr uint64_t kLongMessage = 100'000;

template <typename Options>
Options options_of(uint32_t timeout_ms) {
    Options options{};
    options.size = sizeof options;
    options.timeout_ms = timeout_ms;
    return options;
}

class Scenario {
public:
    explicit Scenario(uint64_t seed, bool trace = false, bool plain = false);
    ~Scenario();

    // Empty, or what was violated; then nothing of it can be used any more.
    std::string run();
    uint64_t digest() const { return world.digest(); }

    SimWorld world;
    SimNet net;
    const Swarm swarm;
    Model model;
    std::map<uint64_t, uint32_t> incarnations;
    struct Dialed {
        uint64_t handles = 0, refused = 0, since = 0;
        size_t connections = 0;
    };
    std::map<std::pair<uint32_t, std::string>, Dialed> dialed;

    std::string uri(size_t node) const;
    std::vector<std::string> some_uris(size_t to, bool others);
    std::optional<size_t> home_of(const EngineId &id) const;
    const EngineId &id_of(size_t node) const { return nodes_[node].id; }
    uint64_t next_word() { return ++last_word_; }
    bool meeting() const { return meeting_; }
    void thaw(Life &life);
    void decide(const Life &life, uint64_t visitor);
    void keep_stable(const ModelOperation &operation);
    void flush(Life &life, const Life::Ep &ep);
    void flush_again(Life &life, const ModelOperation &before);
    std::string describe(const ModelOperation &operation) const;
    void note(const std::function<std::string()> &line) {
        if (model.trace()) model.note(line());
    }

private:
    struct Node {
        EngineId id{};
        std::unique_ptr<Life> life;
        uint32_t lives = 0;
        uint32_t moves = 0;  // to other addresses, so far
        bool listens = true;
    };
    struct Stable {  // bytes that a put has brought, and nobody writes any more
        Lent *lent = nullptr;
        uint64_t offset = 0, length = 0;
        const uint8_t *bytes = nullptr;
    };

    uint64_t random(uint64_t below) { return world.random(below); }
    bool one_in(uint64_t n) { return n && world.random(n) == 0; }
    Life *any(bool acting = true);
    size_t other_node(const Life &life);
    void open_life(size_t node, bool same_id);
    void introduce(Life &a, Life &b);
    void defer_delete(size_t node);
    void on_dial(SimTransport &from, const std::string &uri, int how);
    bool settle(const std::function<bool()> &done, uint64_t limit);

    // What a step does; acts.cc and faults.cc.
    void step(Act act);
    uint64_t some_length();
    uint32_t some_timeout(ModelOperation &operation);
    bool add_entry(Life &life, size_t to, bool put, ModelOperation &operation, uint64_t at,
                   uint64_t length, const Life::Held &ref, uint64_t &offset);
    const Life::Held *some_ref(Life &life, bool put, size_t &to);
    size_t home_of(const Lent &lent) const;
    uint32_t surely_at(const Life::Ep &ep) const;
    void act_single(Life &life, bool put);
    void act_atomic(Life &life);
    void act_get_all(Life &life, Life::Ep &ep, const Life::Held &ref);
    void act_batch(Life &life);
    ModelOperation &fill(Life &life, const Life::Batch &batch,
                         const std::vector<uint64_t> &lengths);
    bool is_idle(Life &life, const Life::Batch &batch);
    void act_reset(Life &life);
    void act_rebind(Life &life);
    void check_rebinds(Life &life, const Life::Batch &batch, const Life &owner,
                       const xfer_ref_t &to);
    void act_keep(Life &life);
    void act_crowd();
    Crowd &crowd_before(Life &life, uint32_t count);
    void check_half_open();
    void press();
    void talk();
    bool clogged() const;
    void talk_to(Life &life, Life::Ep &ep, Life &owner, const Life::Area &area,
                 std::vector<const ModelOperation *> &begun);
    void act_look(Life &life);
    void submit(Life &life, Life::Batch &batch, ModelOperation &operation);
    void act_resubmit(Life &life);
    void act_send(Life &life);
    void act_receive(Life &life);
    bool act_notify(Life &life, Life::Ep *ep);
    void act_counter(Life &life);
    void act_close_counter(Life &life);
    void act_shape(Life &life);
    void act_stranger(Life &life);
    void act_flood(Life &life);
    void use(Life &life, Life::Ep &ep);
    bool all_answer(const Life &asks, const EngineId &peer) const;
    void act_accepted();
    void act_listed(Life &life);
    void act_add_address(Life &life);
    void act_by_id(Life &life);
    std::string nobodys_uri();
    void send_by(Life &life, Life::Ep &ep);
    void act_question(Life &life, Act act);
    void ask_by(Life &life, Life::Ep &ep, Act act);
    void act_cancel(Life &life);
    void act_region(Life &life, bool open);
    void act_grant(Life &life);
    void act_revoke(Life &life);
    void act_drain(Life &life);
    void trouble_copies();
    void act_on_pair(Act act);
    void act_read_closing();
    void act_freeze();
    void act_restart();
    void act_crash();

    void calm();
    void check_stats();
    void check_stats(Life &life);
    void receive_all();
    void end();
    void find_each_other();
    void ask_strangers(std::vector<const ModelOperation *> &asked);
    void ask_by_place(Life &life, std::vector<const ModelOperation *> &asked);

    uint64_t last_word_ = 1ull << 40;
    std::vector<Node> nodes_;
    std::vector<std::unique_ptr<Life>> ghosts_;   // crashed or closed
    bool meeting_ = false;                        // at the end all let each other in
    std::vector<std::pair<size_t, size_t>> met_;  // nodes: the first has found the second
    std::vector<std::unique_ptr<Crowd>> crowds_;
    std::map<uint32_t, size_t> home_;  // node, by life
    std::vector<Stable> stable_;
};

}  // namespace xfer
