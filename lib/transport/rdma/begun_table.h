// SPDX-License-Identifier: Apache-2.0
// Notifications whose puts have begun: a peer notes each here, by its own adapter, before the first
// byte of it lands, so that an owner whose peer dies with half a batch written knows of it. And
// what this side notes at its peer, from where the adapter takes it. One for each path. Thread: the
// loop's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "loop/worker.h"
#include "transport/pieces.h"
#include "transport/rdma/chain.h"
#include "transport/rdma/port.h"
#include "transport/rdma/registration.h"
#include "transport/rdma/verbs.h"
#include "util/status.h"
#include "wire/ids.h"
#include "wire/limits.h"

namespace xfer::rdma {

// By the number of the notification, modulo kNotificationSpan; what another replaces is long over.
struct BegunRecord {
    uint64_t number = 0, key = 0;  // number 0: none
};

class BegunTableSink {
public:
    virtual void on_table_open(const Failure &why) = 0;  // XFER_OK: it can be written
    virtual void on_table_closed() = 0;

protected:
    ~BegunTableSink() = default;
};

class BegunTable final : Worker::Job, public LocalKeys {
public:
    // May throw. Everything outlives it.
    BegunTable(const Verbs &verbs, const Port &port, Worker &worker, BegunTableSink &sink);
    ~BegunTable();
    BegunTable(const BegunTable &) = delete;
    BegunTable &operator=(const BegunTable &) = delete;

    void open();   // registers it: on_table_open() follows
    void close();  // the keys are void then: on_table_closed() follows, in place of on_table_open()

    // What the peer has to know of it.
    uint64_t address() const { return reinterpret_cast<uint64_t>(tables_->peers); }
    uint32_t key() const { return registration_->chunk(0).rkey; }

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
    void submit(bool registers);
    void deregister();
    void run() noexcept override;
    void done(Status status) override;

    const Verbs &verbs_;
    const Port &port_;
    Worker &worker_;
    BegunTableSink &sink_;
    std::unique_ptr<Tables> tables_;
    std::optional<Registration> registration_;
    Failure why_;
    bool registers_ = true;  // the job, or else it deregisters
    bool closing_ = false, on_worker_ = false;
    bool kept_ = false;  // by the device
};

}  // namespace xfer::rdma
