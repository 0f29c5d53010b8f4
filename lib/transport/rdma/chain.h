// SPDX-License-Identifier: Apache-2.0
// Turns pieces of an operation into a post list: pieces that follow each other in the remote region
// become one request with several scatter/gather elements, those that do so on both sides one
// element. Pure: what is looked up is asked of an interface. The last request alone is signaled.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/pieces.h"
#include "transport/rdma/port.h"

namespace xfer::rdma {

// The keys of this side's memory.
class LocalKeys {
public:
    struct Key {
        uint32_t lkey = 0;
        uint64_t reach = 0;  // bytes from that address on that it covers; 0: there is none
    };
    virtual Key look(uint64_t address) const = 0;

protected:
    ~LocalKeys() = default;
};

// Of a region of the peer's: its keys, each of a part that no request crosses.
struct RemoteMemory {
    uint64_t base = 0, length = 0;
    uint64_t part_bytes = 0;  // of each but the last
    std::span<const uint32_t> keys;
};

// As the queue pair has been granted them; each at least 1, but for the inline bytes.
struct ChainLimits {
    uint32_t requests = 1;
    uint32_t pieces = 1;       // scatter/gather elements of a write,
    uint32_t read_pieces = 1;  // and of a read
    uint64_t bytes = 1;        // of a request
    uint32_t inline_bytes = 0;
};

class Chain {
public:
    explicit Chain(const ChainLimits &limits);  // may throw; nothing else needs memory
    Chain(const Chain &) = delete;
    Chain &operator=(const Chain &) = delete;

    // How far it came: `at` is the piece that comes next, and `done` what is done of it.
    struct Progress {
        size_t at = 0;
        uint64_t done = 0;
    };
    enum class End : uint8_t {
        all,        // the pieces are done
        full,       // so is the chain: what is left is for the next one
        local_key,  // the local memory that comes next has no key
        outside,    // of the remote region; no request is built
    };
    // A new list, of what `from` leaves of the pieces, whose requests all have that number. It may
    // have no requests, if all that is left is empty.
    End build(Dir dir, std::span<const Piece> pieces, const LocalKeys &local,
              const RemoteMemory &remote, uint64_t id, Progress &from);

    ibv_send_wr *first() { return count_ ? requests_.data() : nullptr; }
    uint32_t requests() const { return count_; }
    uint64_t bytes() const { return bytes_; }

private:
    // The longest run from there on that one element of one request can have.
    struct Run {
        uint64_t local = 0, remote = 0, length = 0;
        uint32_t lkey = 0, rkey = 0;
    };
    Run run(const Piece &piece, uint64_t done, const LocalKeys &local,
            const RemoteMemory &remote) const;
    bool add(Dir dir, const Run &run);
    bool merge(const Run &run);
    void finish(Dir dir, uint64_t id);

    const ChainLimits limits_;
    std::vector<ibv_send_wr> requests_;
    std::vector<ibv_sge> elements_;  // as many for each request as it may have
    uint32_t count_ = 0;
    uint64_t bytes_ = 0;
    uint64_t request_bytes_ = 0;  // of the last request
};

}  // namespace xfer::rdma
