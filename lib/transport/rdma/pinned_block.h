// SPDX-License-Identifier: Apache-2.0
// Memory of this library's own that an adapter touches, registered while a queue pair needs it.
// Thread: the loop's; pages are pinned and let go on the worker's.
#pragma once

#include <cstdint>
#include <optional>

#include "loop/worker.h"
#include "transport/rdma/port.h"
#include "transport/rdma/registration.h"
#include "transport/rdma/verbs.h"
#include "util/status.h"

namespace xfer::rdma {

class PinnedBlockSink {
public:
    virtual void on_block_open(const Failure &why) = 0;  // XFER_OK: it has its keys
    virtual void on_block_closed() = 0;

protected:
    ~PinnedBlockSink() = default;
};

class PinnedBlock final : Worker::Job {
public:
    // Everything outlives it; the memory does if is_kept() says so.
    PinnedBlock(const Verbs &verbs, const Port &port, Worker &worker, PinnedBlockSink &sink,
                const RegisteredRange &range)
        : verbs_(verbs), port_(port), worker_(worker), sink_(sink), range_(range) {}
    ~PinnedBlock() { drop(); }
    PinnedBlock(const PinnedBlock &) = delete;
    PinnedBlock &operator=(const PinnedBlock &) = delete;

    void open();   // on_block_open() follows
    void close();  // the keys are void then: on_block_closed() follows, in place of on_block_open()

    void drop() { worker_.drop(*this); }  // what is under way is waited for, and not told

    uint32_t lkey() const { return registration_->chunk(0).lkey; }
    uint32_t rkey() const { return registration_->chunk(0).rkey; }
    // The device did not let it go: it may be written there as long as the device is open.
    bool is_kept() const { return kept_; }

private:
    void submit(bool registers);
    void deregister();
    void run() noexcept override;
    void done(Status status) override;

    const Verbs &verbs_;
    const Port &port_;
    Worker &worker_;
    PinnedBlockSink &sink_;
    const RegisteredRange range_;
    std::optional<Registration> registration_;
    Failure why_;
    bool registers_ = true;  // the job, or else it deregisters
    bool closing_ = false, on_worker_ = false;
    bool kept_ = false;
};

}  // namespace xfer::rdma
