// SPDX-License-Identifier: Apache-2.0
#include "core/message/envelope.h"

#include "core/message/receive_queue.h"

namespace xfer {

void Envelope::address(const Arrival &told) {
    arrival = told;
    arrival.whole = false;
    arrival.payload = {};
    from = told.from;
    tag = told.tag;
}

void Envelope::hold(ConstBytes bytes) {
    payload.assign(bytes.begin(), bytes.end());
    arrival.whole = true;
    arrival.payload = payload;
}

void Envelope::clear() {
    ListNode<InReturned>::unlink();
    arrival = {};
    payload.clear();
    counted = false;
}

bool Envelope::copy(Copier &copier, Receive &into, uint64_t bytes) {
    const DeviceRange range{reinterpret_cast<uint64_t>(into.buffer), bytes, into.place.id};
    Memory memory;
    memory.device = into.place.device;
    if (!copier.start(*this, Copier::Way::to_device, memory, {&range, 1}, payload.data()))
        return false;
    receive = &into;
    return true;
}

void Envelope::on_copied(Status status, int32_t error) {
    queue_.copied(*this, status, error);
}

}  // namespace xfer
