// SPDX-License-Identifier: Apache-2.0
// An xfer_recv, from the call to its event: it waits in the ReceiveQueue, and if the message that
// it has matched is still with its sender it is the get that pulls the bytes.
#pragma once

#include <array>
#include <memory>

#include "core/message/arrival.h"
#include "core/message/tag_matcher.h"
#include "core/transfer/transfer.h"

namespace xfer {

class EngineCore;
class Envelope;
struct InPosted;  // a list tag

class Receive : public Transfer, public Posted, public ListNode<InPosted> {
public:
    void arrive(ShardCore &shard) override;
    void on_timer(Timer &timer) override;
    const Endpoint *begun_with() const override { return named.get(); }
    void cancel() override;
    bool still_valid() override;
    void dequeued() override { leave(); }  // the next one may begin inside the callback

    // ---- as a pull
    bool begun() const override { return true; }
    bool stays() override;
    void connection_lost(Connection &lost) override;
    void ended() override;
    void settle(FirstFailure &) override {}  // no flush waits for it

    // XFER_FLAG_TAKE: the memory for the message that it has matched. Throws std::bad_alloc.
    void make_room();
    void match(const Arrival &arrival);
    void end(ShardCore &shard, Status status);  // without a pull
    Status truncated(Status status) const {     // what it ends with, if the bytes end with that
        return status == XFER_OK && length > capacity ? XFER_ETRUNC : status;
    }

    // For the next one. Returns what it had hold of.
    std::array<Ref<Endpoint>, 3> clear();

    EngineCore *engine = nullptr;
    bool counted = false;  // among the receives of its engine
    Ref<Endpoint> named;   // from whom; nothing: from any
    uint8_t *buffer = nullptr;
    uint64_t capacity = 0;
    Place place;         // whose memory it is
    bool takes = false;  // into memory of its own

    // The message that it has matched: the number of its connection, 0: none yet; its own on that.
    uint64_t connection = 0, number = 0;
    uint64_t length = 0;
    Envelope *copied = nullptr;  // that, while it is on its way into memory of a device

protected:
    ~Receive() = default;

private:
    bool resumable() const override { return false; }
    void report_taken();
    void leave();  // gives its place back

    Ref<Endpoint> source_;
    xfer_id_t sender_{};
    std::unique_ptr<uint8_t[]> taken_;  // the sender's identity, and the message
};

}  // namespace xfer
