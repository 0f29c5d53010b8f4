// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/signal.h"

#include <algorithm>

namespace xfer::rdma {

namespace {

constexpr uint8_t kSignalVersion = 1;
// version, kind, zero (6); of an offer or answer also: the queue pair, address (8), key (4),
// zero (4).
constexpr size_t kSignalHeader = 8;
constexpr size_t kTable = kSignalHeader + QueuePairParameters::kSize;
static_assert(kTable + 16 == Signal::kMaxSize);

Failure malformed_signal() {
    return {XFER_EPROTO, XFER_ORIGIN_PEER, 0, "a signal of the peer's adapter is malformed"};
}

bool has_queue_pair(Signal::Kind kind) {
    return kind == Signal::Kind::offer || kind == Signal::Kind::answer;
}

bool all_zero(ConstBytes bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

SignalBytes encode(const Signal &signal) {
    uint8_t bytes[Signal::kMaxSize] = {kSignalVersion, static_cast<uint8_t>(signal.kind)};
    size_t size = kSignalHeader;
    if (has_queue_pair(signal.kind)) {
        const auto pair = encode(signal.queue_pair);
        std::copy(pair.begin(), pair.end(), bytes + kSignalHeader);
        store<uint64_t>(bytes + kTable, signal.begun_address);
        store<uint32_t>(bytes + kTable + 8, signal.begun_key);
        size = Signal::kMaxSize;
    }
    SignalBytes out;
    for (size_t i = 0; i < size; ++i)
        out.push_back(bytes[i]);
    return out;
}

Result<Signal> decode_signal(ConstBytes bytes) {
    if (bytes.size() < kSignalHeader) return malformed_signal();
    if (bytes[0] != kSignalVersion)
        return Failure{XFER_EVERSION, XFER_ORIGIN_PEER, bytes[0],
                       "the peer's adapter speaks another version"};
    if (!all_zero(bytes.subspan(2, kSignalHeader - 2))) return malformed_signal();
    Signal signal;
    signal.kind = static_cast<Signal::Kind>(bytes[1]);
    if (signal.kind == Signal::Kind::done || signal.kind == Signal::Kind::ready) {
        if (bytes.size() != kSignalHeader) return malformed_signal();
        return signal;
    }
    if (!has_queue_pair(signal.kind) || bytes.size() != Signal::kMaxSize) return malformed_signal();
    if (!all_zero(bytes.subspan(kTable + 12))) return malformed_signal();
    auto pair =
        decode_queue_pair_parameters(bytes.subspan(kSignalHeader, QueuePairParameters::kSize));
    if (!pair) return pair.error();
    signal.queue_pair = *pair;
    signal.begun_address = load<uint64_t>(&bytes[kTable]);
    signal.begun_key = load<uint32_t>(&bytes[kTable + 8]);
    return signal;
}

}  // namespace xfer::rdma
