// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/pinned_block.h"

#include "util/memory.h"

namespace xfer::rdma {

void PinnedBlock::open() {
    submit(true);
}

void PinnedBlock::close() {
    closing_ = true;
    if (!on_worker_ || worker_.revoke(*this)) submit(false);
}

void PinnedBlock::submit(bool registers) {
    registers_ = registers;
    on_worker_ = true;
    registers ? worker_.submit(*this) : worker_.submit_urgent(*this);
}

void PinnedBlock::run() noexcept {
    if (!registers_) return deregister();
    const bool has_memory = catch_bad_alloc([&] {
        auto made = Registration::add(verbs_, port_, range_);
        if (!made)
            why_ = made.error();
        else if (made->chunks() > 1)
            why_ = {XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, 0, "the adapter registers too little"};
        else
            registration_.emplace(std::move(*made));
    });
    if (!has_memory) why_ = no_memory();
}

void PinnedBlock::deregister() {
    if (registration_) kept_ = registration_->close_patiently().has_value();
    registration_.reset();
}

// Where there is no worker, what is to end ends here.
void PinnedBlock::done(Status status) {
    on_worker_ = false;
    if (status != XFER_OK) why_ = {status, XFER_ORIGIN_OS, 0, "no thread can be made"};
    if (!closing_) return sink_.on_block_open(why_);
    if (registration_ && status == XFER_OK) return submit(false);
    deregister();
    sink_.on_block_closed();
}

}  // namespace xfer::rdma
