// SPDX-License-Identifier: Apache-2.0
#include "core/peer/acceptor.h"

#include <algorithm>

#include "core/base/options.h"
#include "core/peer/inbound.h"

namespace xfer {

Failure Acceptor::listen(Transport &transport, const Uri &uri, uint32_t mode) {
    auto listener = transport.listen(uri, mode, *this);
    if (!listener) return listener.error();
    listener_ = std::move(*listener);
    if (uri.scheme != "tcp") return {};
    const std::string at = bound();
    terms_.advertise = with_port(std::move(terms_.advertise), at.substr(at.rfind(':') + 1));
    return {};
}

bool Acceptor::admits(const Source &source) {
    return inbound_.admits(source);
}

ConstBytes Acceptor::refusal() const {
    return inbound_.refusal();
}

bool Acceptor::under_pressure() {
    return inbound_.under_pressure();
}

void Acceptor::on_accept(std::unique_ptr<Channel> channel, const Source &source) {
    inbound_.on_accept(std::move(channel), source, terms_.user);
}

bool Acceptor::shed() {
    return inbound_.shed();
}

std::vector<std::string> advertised_addresses(std::span<const Acceptor *const> all,
                                              const std::vector<std::string> &by_engine,
                                              size_t most) {
    std::vector<std::string> told;
    bool any = false, silent = false;
    for (const Acceptor *each : all) {
        any |= each->terms().of_user;
        silent |= each->terms().of_user && each->terms().advertise.empty();
    }
    if (silent || !any) told = by_engine;
    for (const Acceptor *each : all) {
        const std::vector<std::string> &own = each->terms().advertise;
        told.insert(told.end(), own.begin(), own.end());
        const bool by_itself = own.empty() && (!each->terms().of_user || by_engine.empty());
        if (!by_itself) continue;
        const std::vector<std::string> bound = each->dialable();
        told.insert(told.end(), bound.begin(), bound.end());
    }
    told.resize(std::min(told.size(), most));
    return told;
}

}  // namespace xfer
