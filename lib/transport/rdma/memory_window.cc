// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/memory_window.h"

#include <cerrno>
#include <chrono>
#include <thread>

#include "transport/rdma/verbs.h"

namespace xfer::rdma {

namespace {

// Before a device is one that keeps a window.
constexpr int kCloseTries = 10;
constexpr auto kBetweenCloseTries = std::chrono::milliseconds(2);

}  // namespace

Result<MemoryWindow> MemoryWindow::make(const Port &port) {
    ibv_mw *const window = ibv_alloc_mw(port.domain, IBV_MW_TYPE_2);
    if (!window) return verbs_failure(errno, Text(port.name) + ": no memory window");
    return MemoryWindow(window);
}

MemoryWindow::~MemoryWindow() {
    close();
}

ibv_send_wr MemoryWindow::bind_request(ibv_mr *region, uint64_t address, uint64_t length,
                                       uint32_t access) const {
    ibv_send_wr request{};
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = window_;
    request.bind_mw.rkey = key_;
    ibv_mw_bind_info &range = request.bind_mw.bind_info;
    range.mr = region, range.addr = address, range.length = length;
    if (access & XFER_READ) range.mw_access_flags |= IBV_ACCESS_REMOTE_READ;
    if (access & XFER_WRITE) range.mw_access_flags |= IBV_ACCESS_REMOTE_WRITE;
    return request;
}

std::optional<Failure> MemoryWindow::close() {
    if (!window_) return std::nullopt;
    if (const int result = ibv_dealloc_mw(window_))
        return verbs_failure(verbs_errno(result), "a memory window is not given back");
    window_ = nullptr;
    return std::nullopt;
}

std::optional<Failure> MemoryWindow::close_patiently() {
    std::optional<Failure> why = close();
    for (int i = 1; why && i < kCloseTries; ++i) {
        std::this_thread::sleep_for(kBetweenCloseTries);
        why = close();
    }
    return why;
}

}  // namespace xfer::rdma
