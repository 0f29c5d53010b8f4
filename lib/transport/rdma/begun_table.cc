// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/begun_table.h"

#include "util/memory.h"

namespace xfer::rdma {

BegunTable::BegunTable(const Verbs &verbs, const Port &port, Worker &worker, BegunTableSink &sink)
    : verbs_(verbs),
      port_(port),
      worker_(worker),
      sink_(sink),
      tables_(std::make_unique<Tables>()) {}

// Memory that the device keeps is not given back: a peer may write there.
BegunTable::~BegunTable() {
    worker_.drop(*this);
    if (kept_) {
        [[maybe_unused]] Tables *const left = tables_.release();
    }
}

void BegunTable::open() {
    submit(true);
}

void BegunTable::close() {
    closing_ = true;
    if (!on_worker_) submit(false);
}

void BegunTable::submit(bool registers) {
    registers_ = registers;
    on_worker_ = true;
    worker_.submit(*this);
}

void BegunTable::run() noexcept {
    if (!registers_) return deregister();
    const RegisteredRange range{reinterpret_cast<uint8_t *>(tables_.get()), sizeof(Tables),
                                XFER_WRITE, false};
    const bool has_memory = catch_bad_alloc([&] {
        auto made = Registration::add(verbs_, port_, range);
        if (!made)
            why_ = made.error();
        else if (made->chunks() > 1)
            why_ = {XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, 0, "the adapter registers too little"};
        else
            registration_.emplace(std::move(*made));
    });
    if (!has_memory) why_ = no_memory();
}

void BegunTable::deregister() {
    if (registration_) kept_ = registration_->close_patiently().has_value();
    registration_.reset();
}

// Where there is no worker, what is to end ends here.
void BegunTable::done(Status status) {
    on_worker_ = false;
    if (status != XFER_OK) why_ = {status, XFER_ORIGIN_OS, 0, "no thread can be made"};
    if (!closing_) return sink_.on_table_open(why_);
    if (registration_ && status == XFER_OK) return submit(false);
    deregister();
    sink_.on_table_closed();
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
    return {registration_->chunk(0).lkey, sizeof(Tables) - offset};
}

}  // namespace xfer::rdma
