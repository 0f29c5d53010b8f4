// SPDX-License-Identifier: Apache-2.0
#include "sim_adapters.h"

#include <utility>

#include "transport/rdma/fabric.h"
#include "util/check.h"
#include "wire/proof.h"

namespace xfer {

// Completions are held until the dice say that they come.
SimAdapters::SimAdapters(SimWorld &world, rdma::FakePersonality personality)
    : fabric(personality), world_(world) {
    XFER_CHECK(crypto_ready());
    log_.callback = [](uint32_t, const char *line, uint64_t self) {
        reinterpret_cast<SimAdapters *>(self)->lines.emplace_back(line);
    };
    log_.user = reinterpret_cast<uint64_t>(this);
    fabric.hold_completions(true);
    fabric.on_post([this] { go_on(); });
}

std::vector<std::unique_ptr<Fabric>> SimAdapters::open(SimLoop &loop, const std::string &devices) {
    auto filter = rdma::parse_device_filter(devices);
    XFER_CHECK(filter);
    auto found = rdma::open_devices(verbs, *filter);
    XFER_CHECK(found);
    std::vector<std::unique_ptr<Fabric>> list;
    list.push_back(
        std::make_unique<rdma::AdapterFabric>(verbs, std::move(*found), options, loop, log_));
    return list;
}

void SimAdapters::raise(rdma::FakeAdapter &adapter, ibv_event_type type) {
    ibv_async_event event{};
    event.event_type = type;
    if (type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE) {
        event.element.port_num = 1;
        adapter.raise_async(event);
    } else {
        for (ibv_qp *pair : fabric.pairs()) {
            if (pair->context->device != adapter.context()->device) continue;
            event.element.qp = pair;
            adapter.raise_async(event);
        }
    }
    go_on();
}

void SimAdapters::go_on() {
    if (std::exchange(will_step_, true)) return;
    world_.post(world_.random(step_ns_max), [this] { step(); });
}

// One thing at a time, of a queue pair that the dice choose among those that have something to do.
void SimAdapters::step() {
    will_step_ = false;
    const auto pairs = stalled ? std::vector<ibv_qp *>{} : fabric.pairs();
    const uint64_t first = pairs.empty() ? 0 : world_.random(pairs.size());
    bool worked = false;
    for (size_t i = 0; i < pairs.size() && !worked; ++i)
        worked = work_on(pairs[(first + i) % pairs.size()]);
    for (const uint64_t begun = fabric.late_writes(); late_writes_ < begun; ++late_writes_)
        world_.post(world_.random(late_ns_max), [this] { fabric.land(); });
    if (worked && on_step) on_step();
    if (worked) go_on();
    world_.look_at_descriptors();
}

bool SimAdapters::work_on(ibv_qp *pair) {
    if (world_.random(2)) return execute(pair) || complete(pair);
    return complete(pair) || execute(pair);
}

bool SimAdapters::execute(ibv_qp *pair) {
    const bool could = fabric.step(pair);
    executed += could;
    return could;
}

bool SimAdapters::complete(ibv_qp *pair) {
    const bool could = !silent && (fabric.release_send(pair) || fabric.release_receive(pair));
    completed += could;
    return could;
}

}  // namespace xfer
