// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/begun_table.h"

namespace xfer::rdma {

BegunTable::BegunTable(const Verbs &verbs, const Port &port, Worker &worker, PinnedBlockSink &sink)
    : tables_(std::make_unique<Tables>()),
      block_(verbs, port, worker, sink,
             {reinterpret_cast<uint8_t *>(tables_.get()), sizeof(Tables), XFER_WRITE, false}) {}

// Memory that the device keeps is not given back: a peer may write there.
BegunTable::~BegunTable() {
    block_.drop();
    if (block_.is_kept()) {
        [[maybe_unused]] Tables *const left = tables_.release();
    }
}

Piece BegunTable::note(NotificationId number, uint64_t key) {
    BegunRecord &record = ours(number);
    record = {number.value, key};
    const uint64_t place = number.value % kNotificationSpan;
    return {reinterpret_cast<uint64_t>(&record), place * sizeof record, sizeof record};
}

LocalKey BegunTable::find(uint64_t address) const {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(tables_.get());
    if (offset >= sizeof(Tables)) return {};
    return {block_.lkey(), sizeof(Tables) - offset};
}

}  // namespace xfer::rdma
