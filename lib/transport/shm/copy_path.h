// SPDX-License-Identifier: Apache-2.0
// The path of a local channel that copies: to and from regions of the neighbour's that were
// imported, without its help, and lets the neighbour do the same. It has ended when nobody copies
// any more.
#pragma once

#include <array>

#include "loop/loop.h"
#include "transport/one_sided.h"
#include "transport/shm/importer.h"
#include "transport/shm/slot_table.h"
#include "transport/stream/buffers.h"

namespace xfer::shm {

class CopyPath final : public OneSidedPath, Task, TimerSink {
public:
    // The channel, as it is needed here.
    class Owner {
    public:
        // 0, or errno. EAGAIN: something else waits to be sent, or the socket is full.
        virtual int send_descriptor(MappingId mapping, int fd) = 0;
        virtual void read_descriptors() = 0;  // those that have come: take()
        virtual void on_copies_over() = 0;    // after on_down

    protected:
        ~Owner() = default;
    };

    CopyPath(Loop &loop, stream::Buffers &buffers, const RendezvousSocket &rendezvous, Owner &owner,
             End &mine, End &theirs);
    ~CopyPath();
    CopyPath(const CopyPath &) = delete;
    CopyPath &operator=(const CopyPath &) = delete;

    void take(MappingId mapping, Fd descriptor);  // one has come
    void close(const Failure &why);               // asynchronous
    bool is_over() const { return over_; }

    void start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) override;
    Caps caps() const override { return {Scope::host, max_ops_, kMaxChunk, kMaxPieces}; }
    bool post(Op &op) override;
    void flush() override;
    bool cancel(Op &op) override;
    bool retire(Target target, Status why) override;
    void discard(NotificationId) override {}
    Result<ExportKey> export_region(RegionId region, const ExportedMemory &memory) override;
    std::unique_ptr<Import> import(ConstBytes key) override;
    void drop(std::unique_ptr<Import> import) override;
    bool withdrawn(RegionId region) override;
    bool sees_use() const override { return true; }  // by the slot that it claims
    std::optional<Moved> copy_now(const Import &import, Dir dir, const Piece &piece) override;

private:
    using Ops = List<Op, InPath>;
    void run() override;
    void on_timer(Timer &timer) override;
    void settle(bool dead);
    void look_again(bool first);
    bool is_quiet();
    void report_begun();

    Loop &loop_;
    stream::Buffers &buffers_;
    const RendezvousSocket &rendezvous_;
    Owner &owner_;
    const std::array<uint8_t, 16> nonce_;  // who reads it here reaches all of our memory
    Importer importer_;
    SlotTable slots_;
    PathSink *sink_ = nullptr;  // from start() on
    OneSidedSink *declined_sink_ = nullptr;
    Ops posted_, done_, declined_, ended_;
    uint32_t max_ops_ = 0, count_ = 0;  // posted and not told
    Timer claims_{*this};               // looks again at who copies still
    uint64_t next_look_ns_ = 0;
    bool closing_ = false, over_ = false;
    Failure why_;
};

}  // namespace xfer::shm
