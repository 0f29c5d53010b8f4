// SPDX-License-Identifier: Apache-2.0
// The adapters of this host as one loop uses them.
#pragma once

#include <memory>
#include <vector>

#include "loop/worker.h"
#include "transport/attached_path.h"
#include "transport/rdma/adapter.h"
#include "transport/rdma/devices.h"
#include "util/log.h"

namespace xfer::rdma {

class AdapterFabric final : public Fabric, MemoryDomainSink {
public:
    // Everything outlives it. May throw.
    AdapterFabric(const Verbs &verbs, Devices devices, const QueuePairOptions &options, Loop &loop,
                  const Log &log);
    AdapterFabric(Loop &loop, const Failure &why_none) : worker_(loop), why_none_(why_none) {}
    ~AdapterFabric() override;

    std::string_view name() const override { return "rdma"; }
    uint32_t number() const override { return XFER_TRANSPORT_RDMA; }
    bool is_there() const override { return !adapters_.empty(); }
    void describe(JsonWriter &out) const override;
    uint32_t most_paths() const override;
    Result<std::unique_ptr<AttachedPath>> open(const AttachedPathRequest &request,
                                               AttachedPathSink &sink) override;
    void set_sink(FabricSink &sink) override { sink_ = &sink; }
    void add_region(RegionId region, const ExportedMemory &memory) override;
    bool remove_region(RegionId region) override;

private:
    void on_released(RegionId region) override;

    Worker worker_;
    Failure why_none_;
    std::vector<LeftOut> left_out_;
    std::vector<std::unique_ptr<Adapter>> adapters_;
    FabricSink *sink_ = nullptr;
    size_t regions_ = 0;
    std::vector<RegionId> releasing_;  // once for each adapter that is waited for
};

}  // namespace xfer::rdma
