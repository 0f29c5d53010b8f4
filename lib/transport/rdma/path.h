// SPDX-License-Identifier: Apache-2.0
// A path of one queue pair (design/0060). Its two ends agree by four signals: an offer; the answer
// of an end that receives and sends already; and each one's word that a write of its own has
// reached the other, as adapters may be of networks that do not meet.
// After an error the queue pair is flushed and destroyed, and the path ends; core opens another.
// Thread: as AttachedPath.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/attached_path.h"
#include "transport/rdma/adapter.h"
#include "transport/rdma/begun_table.h"
#include "transport/rdma/initiator.h"
#include "transport/rdma/queue_pair.h"
#include "transport/rdma/queue_pair_end.h"
#include "transport/rdma/signal.h"
#include "transport/rdma/window_table.h"
#include "util/list.h"

namespace xfer::rdma {

class Path final : public AttachedPath,
                   public ListNode<InAdapter>,
                   QueuePairSink,
                   QueuePairEndSink,
                   PinnedBlockSink,
                   Initiator::Owner,
                   WindowTableSink,
                   TimerSink {
public:
    // May throw. A failure of the device leaves nothing.
    static Result<std::unique_ptr<AttachedPath>> open(Adapter &adapter, const Port &port,
                                                      bool first, AttachedPathSink &sink);
    ~Path() override;

    const Port &port() const { return port_; }
    bool is_of(const ibv_qp *pair) const { return pair_ && pair_->handle() == pair; }
    // Of what it has exported by memory windows. True: nothing; else the adapter hears of it.
    bool remove(RegionId region) { return windows_.remove(region); }
    bool has_window_of(RegionId region) const { return windows_.has(region); }
    void on_settled() override {  // of its windows, or of a registration
        if (exports_) exports_->on_exportable();
    }

    void on_signal(ConstBytes message) override;
    void close(const Failure &why) override;
    std::string local() const override { return port_.name; }
    std::string remote() const override { return peer_ ? to_text(*peer_) : ""; }

    void start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) override;
    Caps caps() const override { return initiator_.caps(); }
    bool post(Op &op) override { return initiator_.post(op); }
    void flush() override { initiator_.flush(); }
    bool cancel(Op &op) override { return initiator_.cancel(op); }
    bool retire(Target, Status) override { return true; }
    void discard(NotificationId) override {}
    Result<ExportKey> export_region(RegionId region, const ExportedMemory &memory) override;
    std::unique_ptr<Import> import(ConstBytes key) override;
    void drop(std::unique_ptr<Import> import) override { initiator_.drop(*import); }
    bool withdrawn(RegionId region) override { return initiator_.withdrawn(region); }
    bool sees_use() const override { return false; }

private:
    enum class State : uint8_t { opening, ready, closing, ended };

    Path(Adapter &adapter, const Port &port, bool first, AttachedPathSink &sink);
    void on_block_open(const Failure &why) override;
    void on_block_closed() override;
    void answer();
    bool connect(const Signal &other);
    void probe();
    void on_probed();
    void say(Signal::Kind kind);
    void be_ready();

    void on_chain_ended(QueuePair &pair, const ChainEnd &end) override;
    void on_error(QueuePair &, const Failure &why) override { close(why); }
    void on_drained(QueuePair &) override { end_.on_drained(); }
    void on_flushed() override;
    void on_destroyed() override;
    void on_broken(const Failure &why) override { close(why); }
    void on_removed(RegionId region) override { adapter_.on_window_removed(region); }
    void on_windows_closed() override { end_.destroy(); }
    void on_timer(Timer &timer) override;

    Adapter &adapter_;
    Loop &loop_;
    const Port &port_;
    AttachedPathSink &attachment_;
    const bool first_;
    State state_ = State::opening;
    std::optional<Signal::Kind> next_;  // that has to be heard
    std::optional<Signal> offer_;       // the other end's
    bool table_open_ = false;
    BegunTable begun_;
    Initiator initiator_;
    WindowTable windows_;
    std::unique_ptr<QueuePair> pair_;
    QueuePairEnd end_;
    std::optional<QueuePairParameters> peer_;  // its queue pair, once it is known
    PeersTable peers_table_;
    PathSink *sink_ = nullptr;         // from start() on
    OneSidedSink *exports_ = nullptr;  // from start() until it closes
    Timer limit_{*this};               // for the signals of the other end
    Failure why_;
};

}  // namespace xfer::rdma
