// SPDX-License-Identifier: Apache-2.0
// A memory window of type 2: a key of its own to a part of what is registered, which works on one
// queue pair alone, and ends without the registration. Thread: one at a time; to make and to close
// no loop's.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "transport/rdma/port.h"
#include "util/status.h"

namespace xfer::rdma {

class MemoryWindow {
public:
    // In the port's domain, and open to nobody yet.
    static Result<MemoryWindow> make(const Port &port);

    MemoryWindow(MemoryWindow &&other) noexcept
        : window_(std::exchange(other.window_, nullptr)), key_(other.key_) {}
    MemoryWindow &operator=(MemoryWindow &&) = delete;
    // As close(), whose failure nobody hears then.
    ~MemoryWindow();

    // What opens it to whoever the queue pair that it is posted on is connected to, once it has
    // completed. `access`: XFER_READ, XFER_WRITE. Once for each window.
    ibv_send_wr bind_request(ibv_mr *region, uint64_t address, uint64_t length,
                             uint32_t access) const;
    uint32_t key() const { return key_; }  // once it is open

    // The key is void, in whatever state the queue pair is, and nothing is touched by it any more.
    // Before its queue pair is destroyed, and not while the request that binds it is under way. A
    // failure leaves it as it was, to be tried again.
    std::optional<Failure> close();
    // The same, tried for some 20 ms.
    std::optional<Failure> close_patiently();

private:
    explicit MemoryWindow(ibv_mw *window) : window_(window), key_(ibv_inc_rkey(window->rkey)) {}

    ibv_mw *window_;  // null: it is closed
    uint32_t key_;    // the device chooses but its last 8 bits
};

}  // namespace xfer::rdma
