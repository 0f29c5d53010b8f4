// SPDX-License-Identifier: Apache-2.0
// Notifications whose puts have begun: a peer notes each here, by its own adapter, before the first
// byte of it lands, so that an owner whose peer dies with half a batch written knows of it. And
// what this side notes at its peer, from where the adapter takes it. One for each path. Thread: the
// loop's.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/pieces.h"
#include "transport/rdma/chain.h"
#include "transport/rdma/pinned_block.h"
#include "wire/ids.h"
#include "wire/limits.h"

namespace xfer::rdma {

// By the number of the notification, modulo kNotificationSpan; what another replaces is long over.
struct BegunRecord {
    uint64_t number = 0, key = 0;  // number 0: none
};

class BegunTable final : public LocalKeys {
public:
    // May throw. Everything outlives it.
    BegunTable(const Verbs &verbs, const Port &port, Worker &worker, PinnedBlockSink &sink);
    ~BegunTable();
    BegunTable(const BegunTable &) = delete;
    BegunTable &operator=(const BegunTable &) = delete;

    void open() { block_.open(); }  // registers it
    void close() { block_.close(); }

    // What the peer has to know of it.
    uint64_t address() const { return reinterpret_cast<uint64_t>(tables_->peers); }
    uint32_t key() const { return block_.rkey(); }

    uint64_t zeros() const { return reinterpret_cast<uint64_t>(tables_->ours); }  // as yet

    // Of ours: whether it was given out to be written to the peer's table; what is; and that it was
    // not after all.
    bool is_noted(NotificationId number) const { return ours(number).number == number.value; }
    Piece note(NotificationId number, uint64_t key);
    void forget(NotificationId number) { ours(number) = {}; }
    LocalKey find(uint64_t address) const override;

    // Visits those of the peer that are noted here. When it can't write any more.
    template <typename Visit>
    void each(Visit visit) const {
        for (const BegunRecord &record : tables_->peers)
            if (record.number) visit(NotificationId{record.number}, record.key);
    }

private:
    struct alignas(4096) Tables {  // pages of their own
        BegunRecord peers[kNotificationSpan], ours[kNotificationSpan];
    };

    BegunRecord &ours(NotificationId number) const {
        return tables_->ours[number.value % kNotificationSpan];
    }

    std::unique_ptr<Tables> tables_;
    PinnedBlock block_;
};

}  // namespace xfer::rdma
