// SPDX-License-Identifier: Apache-2.0
// Host memory that streams wait at: a line for each ticket. It stays with the process, as graphs
// may have it for as long as that: no page of it is unmapped or unregistered (who unregisters waits
// for every kernel, design/0051). A line that was given back passes, so a stream that still has it
// is held by nobody, or until the next ticket there has ended. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "device/stream_ticket.h"
#include "xfer/cuda.h"

namespace xfer {

struct alignas(64) TicketLine {
    std::atomic<uint32_t> word;
    uint32_t unused;
    xfer_cuda_result_t result;
};
static_assert(sizeof(TicketLine) == 64 && std::atomic<uint32_t>::is_always_lock_free);

class TicketMemory {
public:
    // What makes a page known to a context. False: the driver refuses.
    class Registry {
    public:
        virtual bool add(void *page, uint64_t length) = 0;

    protected:
        ~Registry() = default;
    };

    TicketMemory() = default;
    TicketMemory(TicketMemory &&other) noexcept : line_(std::exchange(other.line_, nullptr)) {}
    TicketMemory &operator=(TicketMemory &&other) noexcept {
        std::swap(line_, other.line_);
        return *this;
    }
    ~TicketMemory();  // gives it back

    // One of a page that only streams of that context wait at. Null line: memory lacks, or the
    // registry refuses.
    static TicketMemory take(uint64_t context, Registry &registry);

    TicketLine *line() const { return line_; }

private:
    struct Page;
    struct Kept;

    TicketLine *line_ = nullptr;
};

}  // namespace xfer
