// SPDX-License-Identifier: Apache-2.0
// What the two ends of a byte stream over queue pairs say to each other beside them: how a queue
// pair comes about, that one is lost, and while there is none, the packets themselves, in parts.
#pragma once

#include <cstdint>

#include "transport/rdma/packet.h"
#include "transport/rdma/parameters.h"
#include "util/fixed_vector.h"
#include "util/status.h"
#include "wire/bytes.h"
#include "wire/limits.h"

namespace xfer::rdma {

struct PacketSignal {
    enum class Kind : uint8_t {
        offer = 1,   // by the end that opened the stream, for each generation of queue pairs
        answer = 2,  // the other end's receives already
        ready = 3,   // of the end that answered: probes have gone both ways
        lost = 4,    // this end of that generation carries nothing more
        part = 5,    // of a packet
        word = 6,    // what was taken
        end = 7,     // this end reads and writes no more
    };
    static constexpr size_t kPartHeader = 24;
    static constexpr size_t kPartBytes = kMaxSignal - kPartHeader;

    Kind kind{};
    uint32_t generation = 0;          // of queue pairs; 0 of what is of none
    QueuePairParameters queue_pair;   // of an offer and an answer
    uint64_t number = 0;              // of the packet; of a word: those before it were taken
    uint16_t offset = 0, length = 0;  // of a part: where in the packet, and how long that is
    ConstBytes bytes{};               // of a part, at least 1; not copied
};

using PacketSignalBytes = FixedVector<uint8_t, kMaxSignal>;

PacketSignalBytes encode(const PacketSignal &signal);
// Of a peer's bytes, whatever they are: XFER_EVERSION, XFER_EPROTO.
Result<PacketSignal> decode_packet_signal(ConstBytes bytes);

}  // namespace xfer::rdma
