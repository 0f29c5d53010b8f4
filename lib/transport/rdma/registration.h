// SPDX-License-Identifier: Apache-2.0
// Memory that a device may touch: its pages stay, and have keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/rdma/export_key.h"
#include "transport/rdma/port.h"
#include "transport/rdma/verbs.h"
#include "util/status.h"

namespace xfer::rdma {

struct RegisteredRange {
    uint8_t *base = nullptr;
    uint64_t length = 0;
    uint32_t access = 0;            // of peers: XFER_READ, XFER_WRITE, XFER_ATOMIC
    bool relaxed_ordering = false;  // writes may be seen in any order, where the library knows that
    bool windows = false;           // peers are to reach it by memory windows, where that can be
};

// Of one range, with as many memory regions as the device's limit makes of it. Thread: one at a
// time; to add and to close no loop's, as pages are pinned and let go.
class Registration {
public:
    // A part of the range that no request crosses.
    struct Chunk {
        uint64_t offset, length;
        uint32_t lkey, rkey;
    };

    // What a memory window spans at most: an mlx5 takes no more.
    static constexpr uint64_t kWindowBytes = uint64_t{1} << 31;

    // In the port's domain, with chunks that begin at multiples of 4,096 B from the base. Memory
    // that this process can't write may still be read by peers, and is no place for a get then, nor
    // for a window. The failure leaves nothing registered: XFER_EINVAL of an empty range,
    // XFER_ERANGE of one that wraps, XFER_ETOOBIG where the device takes no page at once; else that
    // of the call. May throw.
    static Result<Registration> add(const Verbs &verbs, const Port &port,
                                    const RegisteredRange &range);

    Registration(Registration &&other) noexcept;
    Registration &operator=(Registration &&) = delete;
    // As close(), whose failure nobody hears then.
    ~Registration();

    // The keys are void, and the device touches nothing of the range any more. What it could not
    // deregister, as its failure says, is tried again by the next call.
    std::optional<Failure> close();
    // The same, tried for some 20 ms: then a device that keeps it is left alone with it.
    std::optional<Failure> close_patiently();

    bool writable() const { return writable_; }  // by the device on our behalf: as of a get
    uint64_t base() const { return reinterpret_cast<uint64_t>(range_.base); }
    bool takes_windows() const { return takes_windows_; }
    // Peers reach nothing by its own keys: windows can span it all.
    bool by_windows() const { return takes_windows_ && !is_too_long_for_windows(); }
    uint64_t window_bytes() const { return std::min(chunk_bytes_, kWindowBytes); }
    // Where a window to these bytes of the range is bound; null: to no single chunk.
    ibv_mr *window_place(uint64_t offset, uint64_t length) const;
    uint64_t chunks() const { return regions_.size(); }
    Chunk chunk(uint64_t index) const;
    // The one that an offset of the range lies in.
    Chunk chunk_at(uint64_t offset) const { return chunk(offset / chunk_bytes_); }

private:
    Registration(const Verbs &verbs, const Port &port, const RegisteredRange &range);
    bool is_too_long_for_windows() const {
        return (range_.length - 1) / window_bytes() >= kMaxParts;
    }
    int register_all(ibv_pd *domain, int access);
    ibv_mr *register_chunk(ibv_pd *domain, uint64_t index, int access) const;
    uint64_t length_of(uint64_t index) const;

    const Verbs &verbs_;
    const RegisteredRange range_;
    const uint64_t chunk_bytes_;
    bool writable_ = true, takes_windows_ = false;
    std::vector<ibv_mr *> regions_;
};

}  // namespace xfer::rdma
