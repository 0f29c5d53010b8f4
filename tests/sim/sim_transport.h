// SPDX-License-Identifier: Apache-2.0
// A network between simulated engines, as a transport below the unchanged engine. Messages of one
// direction of one link keep their order and take their time; links are refused, cut, or go silent
// when the script or the dice say so.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sim_loop.h"
#include "transport/transport.h"

namespace xfer {

class SimLink;
class SimTransport;

class SimNet {
public:
    explicit SimNet(SimWorld &w) : world(w) {}

    // What may go wrong, from now on.
    uint64_t delay_min = 20'000, delay_max = 200'000;  // ns, one way
    uint64_t cut_one_in = 0;       // a link breaks instead of carrying a message; 0: never
    uint64_t refuse_one_in = 0;    // a dial fails; 0: never
    std::set<std::string> closed;  // URIs at which every dial is refused
    bool silent = false;           // messages vanish, links stay: a black hole

    void cut_all();  // every link breaks; the ends notice one by one
    uint64_t delay() { return delay_min + world.random(delay_max - delay_min + 1); }
    bool chance(uint64_t one_in) { return one_in && world.random(one_in) == 0; }

    SimWorld &world;
    std::map<std::string, std::pair<SimTransport *, AcceptSink *>> listeners;
    std::map<uint64_t, SimLink *> links;  // by number: iteration must not depend on addresses
    uint64_t last_link = 0;
    uint64_t dials = 0;
};

class SimTransport final : public Transport {
public:
    SimTransport(SimNet &net, SimLoop &loop) : net(net), loop(loop) {}
    std::string_view name() const override { return "sim"; }
    bool serves(const Uri &uri) const override { return uri.scheme == "tcp"; }
    Result<std::unique_ptr<Listener>> listen(const Uri &uri, AcceptSink &sink) override;
    Result<std::unique_ptr<Link>> connect(const Uri &uri, LinkSink &sink) override;
    std::unique_ptr<Link> adopt(LinkTicket) override { return nullptr; }  // there is one loop only

    SimNet &net;
    SimLoop &loop;
};

}  // namespace xfer
