// SPDX-License-Identifier: Apache-2.0
// An xfer_send: a message, until the peer has received it or holds it. MessageSender sends it.
#pragma once

#include <optional>
#include <vector>

#include "core/region/lent_memory.h"
#include "core/transfer/operation.h"
#include "transport/pieces.h"

namespace xfer {

struct InLeaving;  // a list tag

class Send : public Operation, public ListNode<InLeaving>, public LentMemory {
public:
    // Set before the submit.
    const uint8_t *data = nullptr;
    uint64_t length = 0, tag = 0;
    bool sync = false;
    Place place;                  // whose memory that is; a device's is pulled, however short
    bool migrates = false;        // it is the host's, and moves: no adapter reads it
    std::vector<uint8_t> copied;  // where `data` is, if the caller's bytes are his again

    // The loop's.
    uint64_t number = 0;      // on its connection; 0: it is not on one yet
    uint64_t connection = 0;  // whose number that is
    bool pulled = false;      // the peer has asked for its bytes
    uint32_t leaving = 0;     // lanes by which they are on their way out: its end waits for them
    uint32_t reading = 0;     // paths by which the peer may still read: it waits for a while
    bool answered = false;    // it has ended but for that
    // Its memory could not be read: its driver's error; 0: it is not there any more.
    std::optional<int32_t> memory_error;

    void reset() override;
    bool start() override;
    bool begun() const override { return number != 0; }
    bool stays() override { return begun(); }
    void withdraw() override;
    void connection_lost(Connection &lost) override;
    void fence_expired() override { maybe_applied |= !answered; }
    bool leave_adapters() override;
    void on_left() override;
    void look_for_progress() override;
    bool patient() const override { return deadline != kNever; }
    void ended() override;

    Ref<Endpoint> clear();  // for the next one; returns its endpoint

protected:
    ~Send() = default;
};

}  // namespace xfer
