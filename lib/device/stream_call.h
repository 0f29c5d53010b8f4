// SPDX-License-Identifier: Apache-2.0
// What a stream of the application has of a batch: a host function that arrives, and a wait for the
// word of its ticket. One that captures has both as nodes of its graph. The stream, or its graphs,
// keep it as long as they may come to it, and with it nothing but its line of memory: no engine, no
// batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

#include "device/ticket_memory.h"
#include "util/ref.h"

namespace xfer {

class StreamCall final : public RefCounted<StreamCall> {
public:
    class Sink {
    public:
        // The stream has arrived, or no graph has it any more. On a thread of the driver's, or of
        // who destroys a graph: no call of the driver, no lock that is held for long.
        virtual void ring() noexcept = 0;

    protected:
        ~Sink() = default;
    };

    explicit StreamCall(Sink &sink) : sink_(&sink) {}

    // ---- who submits
    TicketMemory memory;        // from before it is put into a stream
    void begin(bool in_graph);  // the same

    // ---- any thread
    std::atomic<uint32_t> &word() const { return memory.line()->word; }
    xfer_cuda_result_t &result() const { return memory.line()->result; }
    // Kernels, and threads of the application, read it whenever they like.
    void write_status(xfer_status_t status, uint32_t flags);
    void count_run(bool failed);
    bool has_arrived() const { return Ticket::phase(word().load()) == Ticket::arrived; }
    TicketOutput apply(TicketInput input) { return xfer::apply(word(), input); }
    bool is_gone() const { return gone_.load(); }  // no graph has it any more
    void leave();                                  // the sink hears nothing from here on

    // ---- as the driver calls
    void arrived() noexcept;    // in a graph as often as it is launched, else once
    void forgotten() noexcept;  // no stream and no graph has it any more: gives up a reference

private:
    void ring() noexcept;

    std::atomic<bool> gone_{false};
    std::mutex mutex_;  // held while the sink is called
    Sink *sink_;        // null: it has left
};

// One stream of the application, while a thread puts something into it. Thread: that one, which may
// be capturing; the context that is current in it, and its capture mode, are the same afterwards.
class StreamEntry {
public:
    virtual ~StreamEntry() = default;
    // Gives `call` its memory, and makes that known to the stream's context. 0, or the driver's
    // error: nothing has begun.
    virtual int32_t prepare(StreamCall &call, bool &captures) = 0;
    // The stream, or the graph, takes a reference where it comes to know the call, which may be so
    // also where this fails.
    virtual int32_t put_in(StreamCall &call) = 0;
};

}  // namespace xfer
