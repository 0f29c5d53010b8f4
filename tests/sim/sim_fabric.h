// SPDX-License-Identifier: Apache-2.0
// A simulated adapter: paths that stand beside the channel of their connection. Their ends agree in
// three signals: offer, answer, done. What moves is SimCopyPath's. Thread: as AttachedPath.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "sim_copy_path.h"
#include "sim_transport.h"
#include "transport/attached_path.h"

namespace xfer {

// When a script is asked: a path or a channel is to be opened; one of its signals is to be sent.
// `last`: of a channel alone, whose first end is the last to be ready.
enum class AttachStep : uint8_t { open, offer, answer, done, last };

enum class AttachFate : uint8_t {
    go_on,
    fail,    // open: it can't be; else this end closes in place of the signal
    absent,  // open: it never will be
    lack,    // open: memory lacks
    garble,  // the signal is noise
    mute,    // it is not sent
};

class SimFabric;

class SimAttachedPath final : public AttachedPath, SimCopyPath::Owner {
public:
    SimAttachedPath(SimFabric &fabric, AttachedPathSink &sink, bool first);
    ~SimAttachedPath();
    bool first() const { return first_; }
    void give() { given_ = true; }
    void on_exportable() {
        if (copies_ && !closing_) copies_->on_exportable();
    }

    void on_signal(ConstBytes message) override;
    void close(const Failure &why) override;
    std::string local() const override { return std::to_string(transport_.number); }
    std::string remote() const override { return copies_ ? std::to_string(there_) : ""; }

    // Of the copies, from on_ready on.
    void start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) override {
        copies_->start(sink, declined, max_ops);
    }
    Caps caps() const override { return copies_->caps(); }
    bool post(Op &op) override { return copies_->post(op); }
    void flush() override { copies_->flush(); }
    bool cancel(Op &op) override { return copies_->cancel(op); }
    bool retire(Target target, Status why) override { return copies_->retire(target, why); }
    void discard(NotificationId notification) override { copies_->discard(notification); }
    Result<ExportKey> export_region(RegionId region, const ExportedMemory &memory) override;
    std::unique_ptr<Import> import(ConstBytes key) override { return copies_->import(key); }
    void drop(std::unique_ptr<Import> import) override { copies_->drop(std::move(import)); }
    bool withdrawn(RegionId region) override { return copies_->withdrawn(region); }
    bool sees_use() const override { return copies_->sees_use(); }

private:
    // As Owner.
    SimTransport &transport() const override { return transport_; }
    bool is_registered(RegionId region) const override;
    uint32_t there() const override { return there_; }
    uint64_t generation() const override { return generation_; }
    void later(uint64_t delay, std::function<void(SimCopyPath &)> call) override;
    void on_copies_over(const Failure &why) override { ended(why); }
    void on_fallen(const Failure &why) override { ended(why); }

    void say(AttachStep step);
    void be_ready();
    void soon(uint64_t delay, std::function<void(SimAttachedPath &)> call);
    void ended(const Failure &why);

    SimFabric &fabric_;
    SimTransport &transport_;
    SimNet &net_;
    AttachedPathSink &sink_;
    const bool first_;
    const std::shared_ptr<SimAttachedPath *> self_;  // null inside when it is gone
    std::optional<AttachStep> next_;                 // that has to be heard
    uint32_t there_ = 0;
    uint64_t generation_ = 0;
    std::unique_ptr<SimCopyPath> copies_;
    bool closing_ = false;
    bool given_ = false, told_ = false;  // to core; and its end was, without which it may not go
};

class SimFabric final : public Fabric {
public:
    SimFabric(SimNet &net, SimLoop &loop, std::shared_ptr<SimProcess> process)
        : transport_(net, loop, std::move(process)), self_(std::make_shared<SimFabric *>(this)) {}
    ~SimFabric() override;
    SimTransport &transport() { return transport_; }
    std::string_view name() const override { return "adapter"; }
    uint32_t number() const override { return XFER_TRANSPORT_RDMA; }
    bool is_there() const override { return true; }
    void describe(JsonWriter &out) const override;
    uint32_t most_paths() const override {
        const SimNet &net = transport_.net;
        return transport_.number % 2 == 0 && net.other_ports ? net.other_ports : net.ports;
    }
    Result<std::unique_ptr<AttachedPath>> open(const AttachedPathRequest &request,
                                               AttachedPathSink &sink) override;
    Result<std::unique_ptr<AttachedChannel>> open_channel(const AttachedChannelRequest &request,
                                                          AttachedChannelSink &sink) override;
    void set_sink(FabricSink &sink) override { sink_ = &sink; }
    void add_region(RegionId region, const ExportedMemory &memory) override;
    bool remove_region(RegionId region) override;
    bool registers(RegionId region);             // false: not yet
    bool opens(RegionId grant, RegionId whole);  // a window of it, likewise
    bool is_registered(RegionId region) const;
    std::set<SimAttachedPath *> paths;

private:
    enum class State : uint8_t { unused, coming, registered };
    void soon(uint64_t delay, std::function<void(SimFabric &)> call);
    void on_registered(RegionId region);
    void release(RegionId region);

    SimTransport transport_;
    const std::shared_ptr<SimFabric *> self_;  // null inside when it is gone
    FabricSink *sink_ = nullptr;
    std::map<uint64_t, State> regions_;  // that were added
};

}  // namespace xfer
