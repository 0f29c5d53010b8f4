// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/rdma.h"

#include "transport/rdma/fabric.h"

namespace xfer::rdma {

namespace {

QueuePairOptions queue_pair_options(const RdmaOptions &options) {
    QueuePairOptions of;
    of.send_requests = options.queue_depth;
    of.ack_timeout = options.ack_timeout;
    of.retries = options.retries;
    of.traffic_class = options.traffic_class;
    of.service_level = options.service_level;
    return of;
}

}  // namespace

std::unique_ptr<Fabric> make_rdma(Loop &loop, const Log &log, const RdmaOptions &options) {
    const auto none = [&](const Failure &why) {
        log.info("no RDMA: {}", why.message);
        return std::make_unique<AdapterFabric>(loop, why);
    };
    auto filter = parse_device_filter(options.devices);
    if (!filter) return none(filter.error());
    auto verbs = load_verbs();
    if (!verbs) return none(verbs.error());
    auto devices = open_devices(**verbs, *filter);
    if (!devices) return none(devices.error());
    return std::make_unique<AdapterFabric>(**verbs, std::move(*devices),
                                           queue_pair_options(options), loop, log);
}

}  // namespace xfer::rdma
