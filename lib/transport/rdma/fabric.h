// SPDX-License-Identifier: Apache-2.0
// The adapters of this host as one loop uses them.
#pragma once

#include <memory>
#include <vector>

#include "loop/worker.h"
#include "transport/attached_path.h"
#include "transport/rdma/adapter.h"
#include "transport/rdma/devices.h"
#include "transport/rdma/port_choice.h"
#include "transport/stream/buffers.h"
#include "util/log.h"

namespace xfer::rdma {

class AdapterFabric final : public Fabric, MemoryDomainSink {
public:
    // Everything outlives it. May throw.
    AdapterFabric(const Verbs &verbs, Devices devices, const QueuePairOptions &options, Loop &loop,
                  const Log &log);
    AdapterFabric(Loop &loop, const Failure &why_none)
        : loop_(loop), worker_(loop), why_none_(why_none) {}
    ~AdapterFabric() override;

    std::string_view name() const override { return "rdma"; }
    uint32_t number() const override { return XFER_TRANSPORT_RDMA; }
    bool is_there() const override { return !adapters_.empty(); }
    void describe(JsonWriter &out) const override;
    uint32_t most_paths() const override;
    Result<std::unique_ptr<AttachedPath>> open(const AttachedPathRequest &request,
                                               AttachedPathSink &sink) override;
    Result<std::unique_ptr<AttachedChannel>> open_channel(const AttachedChannelRequest &request,
                                                          AttachedChannelSink &sink) override;

    struct Place {
        Adapter *adapter;
        const Port *port;
    };
    // Of a queue pair (port_choice.h). `beside`: paths of the same connection.
    Result<Place> place(const PortAddress *other, std::span<AttachedPath *const> beside,
                        uint32_t failures) const;
    stream::Buffers &buffers() { return buffers_; }
    void set_sink(FabricSink &sink) override { sink_ = &sink; }
    void add_region(RegionId region, const ExportedMemory &memory) override;
    bool remove_region(RegionId region) override;

private:
    void on_settled() override;
    void on_released(RegionId region) override;
    Failure why_none() const;

    Loop &loop_;
    const Log *log_ = nullptr;  // null: there is no adapter
    Worker worker_;
    Failure why_none_;
    stream::Buffers buffers_;
    std::vector<LeftOut> left_out_;
    std::vector<std::unique_ptr<Adapter>> adapters_;
    FabricSink *sink_ = nullptr;
    size_t regions_ = 0;
    std::vector<RegionId> releasing_;  // once for each adapter that is waited for
};

}  // namespace xfer::rdma
