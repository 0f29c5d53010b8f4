// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/port_choice.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <vector>

namespace xfer::rdma {

namespace {

// Of the end that offers: then its peer may have ports of another link layer alone.
constexpr uint32_t kLayerFailures = 2;

// Their first bits that agree. On InfiniBand the subnet alone says who meets.
int common_bits(const PortAddress &a, const PortAddress &b) {
    const size_t bytes = a.layer == LinkLayer::infiniband ? 8 : sizeof a.gid.raw;
    int bits = 0;
    for (size_t i = 0; i < bytes; ++i) {
        const auto differ = static_cast<uint8_t>(a.gid.raw[i] ^ b.gid.raw[i]);
        bits += std::countl_zero(differ);
        if (differ) break;
    }
    return bits;
}

bool meets(const Port &port, const PortAddress *other) {
    return port.active && (!other || port.address.layer == other->layer);
}

uint64_t fastest(std::span<const PortCandidate> ports, const PortAddress *other) {
    uint64_t most = 0;
    for (const PortCandidate &at : ports)
        if (meets(*at.port, other)) most = std::max(most, at.port->bits_per_second);
    return most;
}

}  // namespace

std::optional<size_t> choose_port(std::span<const PortCandidate> ports, const PortAddress *other,
                                  int node, uint32_t failures) {
    const uint64_t speed = fastest(ports, other);
    const bool alone =
        std::none_of(ports.begin(), ports.end(), [](const PortCandidate &at) { return at.taken; });
    const bool any_layer = !other && alone && failures >= kLayerFailures;
    std::vector<size_t> fit;
    for (size_t i = 0; i < ports.size(); ++i) {
        const Port &port = *ports[i].port;
        const uint64_t least = any_layer ? fastest(ports, &port.address) : speed;
        if (meets(port, other) && !ports[i].taken && port.bits_per_second == least)
            fit.push_back(i);
    }
    if (fit.empty()) return {};
    const auto rank = [&](size_t i) {
        const Port &port = *ports[i].port;
        return std::tuple(port.bits_per_second != speed,
                          other ? -common_bits(port.address, *other) : 0,
                          node < 0 || port.numa_node != node, ports[i].paths);
    };
    std::stable_sort(fit.begin(), fit.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
    const uint64_t count = fit.size();
    const uint64_t step = other ? failures + failures / (2 * count) : failures / 2;
    return fit[step % count];
}

}  // namespace xfer::rdma
