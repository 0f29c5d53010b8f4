// SPDX-License-Identifier: Apache-2.0
// One address at which an engine accepts peers: what its user said of it, and the way of what comes
// there into the engine.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace xfer {

class Inbound;

// What an xfer_listen_options_t says of one.
struct ListenTerms {
    uint64_t user = 0;                   // tag of the PEER events
    std::vector<std::string> advertise;  // what peers should dial; empty: what the engine says
    bool of_user = false;                // false: the engine's own, which only neighbours are told
};

class Acceptor final : public AcceptSink {
public:
    Acceptor(Inbound &inbound, ListenTerms terms) : inbound_(inbound), terms_(std::move(terms)) {}

    Failure listen(Transport &transport, const Uri &uri, uint32_t mode);
    const ListenTerms &terms() const { return terms_; }
    std::string bound() const { return listener_->bound(); }
    std::vector<std::string> dialable() const { return listener_->dialable(); }

    bool admits(const Source &source) override;
    ConstBytes refusal() const override;
    bool under_pressure() override;
    void on_accept(std::unique_ptr<Channel> channel, const Source &source) override;
    bool shed() override;

private:
    Inbound &inbound_;
    ListenTerms terms_;
    std::unique_ptr<Listener> listener_;
};

// What peers are told to dial: of each listener what it says itself; `by_engine` stands for all
// that say nothing, and for none, too; without it, what was bound. The first `most` of them.
std::vector<std::string> advertised_addresses(std::span<const Acceptor *const> all,
                                              const std::vector<std::string> &by_engine,
                                              size_t most);

}  // namespace xfer
