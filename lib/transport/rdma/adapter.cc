// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/adapter.h"

#include <algorithm>
#include <utility>

#include "transport/rdma/packet_link.h"
#include "transport/rdma/path.h"
#include "util/memory.h"
#include "wire/limits.h"

namespace xfer::rdma {

namespace {

// Of a completion queue: a hundred queue pairs or so. The next ones get another queue.
constexpr uint32_t kCompletions = 16'384;
// Requests of one doorbell: half of a queue as it is asked for, so that an adapter has something to
// do while the next list is built. A doorbell, a write to the device, is as dear as a few requests;
// shared by so many it counts for nothing.
constexpr uint32_t kListRequests = 64;

}  // namespace

Adapter::Scratch::Scratch(const QueuePairOptions &options)
    : list(std::clamp(options.send_requests, 1u, kListRequests),
           size_t{kListRequests} * std::max(options.send_pieces, 1u)) {
    pieces.reserve(kMaxPieces);  // so that no post lacks memory
    ranges.reserve(kMaxPieces);
}

std::vector<iovec> &Adapter::Scratch::ranges_of_pieces() {
    ranges.clear();
    for (const Piece &piece : pieces)
        ranges.push_back({reinterpret_cast<void *>(piece.local), piece.length});
    return ranges;
}

Adapter::Adapter(const Verbs &verbs, std::unique_ptr<Device> device,
                 const QueuePairOptions &options, Loop &loop, Worker &worker, const Log &log,
                 MemoryDomainSink &sink)
    : verbs_(verbs),
      loop_(loop),
      worker_(worker),
      log_(log),
      options_(options),
      sink_(sink),
      device_(std::move(device)),
      memory_(verbs, device_->ports().front(), worker, log, sink),
      bounce_buffers_(verbs, device_->ports().front(), worker, log),
      scratch_(options) {}

Adapter::~Adapter() {
    XFER_CHECK(paths_.empty() && links_.empty());
}

void Adapter::add(Path &path) {
    paths_.push_back(path);
}

void Adapter::add(PacketLink &link) {
    links_.push_back(link);
}

size_t Adapter::links_on(const Port &port) {
    size_t count = 0;
    for (const PacketLink &link : links_)
        count += &link.port() == &port;
    return count;
}

size_t Adapter::paths_on(const Port &port) {
    size_t count = 0;
    for (const Path &path : paths_)
        count += &path.port() == &port;
    return count;
}

Result<std::unique_ptr<QueuePair>> Adapter::make_queue_pair(const Port &port, QueuePairSink &sink,
                                                            uint32_t receives) {
    QueuePairOptions options = options_;
    options.receives = receives;
    options.remote_access = receives == 0;
    const uint32_t needed = options.send_requests + 1 + receives;
    std::erase_if(queues_, [](const auto &queue) { return queue->is_over(); });
    for (const auto &queue : queues_)
        if (queue->room() >= needed) return QueuePair::create(verbs_, port, *queue, options, sink);
    const uint32_t entries = std::min(std::max(kCompletions, needed), port.limits.completions);
    auto made = CompletionQueue::create(verbs_, port, entries,
                                        static_cast<uint32_t>(queues_.size()), loop_, *this);
    if (!made) return made.error();
    queues_.push_back(std::move(*made));
    return QueuePair::create(verbs_, port, *queues_.back(), options, sink);
}

// ---- regions

// What is registered stays so until its windows are gone.
bool Adapter::remove(RegionId region) {
    bool gone = true;
    for (Path &path : paths_)
        gone &= path.remove(region);
    return memory_.remove(region) && gone;
}

bool Adapter::has_window_of(RegionId region) {
    for (const Path &path : paths_)
        if (path.has_window_of(region)) return true;
    return false;
}

void Adapter::on_settled() {
    for (Path &path : paths_)
        path.on_settled();
}

void Adapter::on_window_removed(RegionId region) {
    if (is_grant(region)) sink_.on_released(region);
}

void Adapter::on_bind_failed(const Failure &why) {
    ++failed_binds_;
    on_window_failed(why);
}

void Adapter::on_window_failed(const Failure &why) {
    if (!std::exchange(told_window_failed_, true))
        log_.warn("{}: what peers were to reach by memory windows goes by other ways: {}",
                  device_->name(), why.message);
}

// ---- faults

template <typename Affected>
void Adapter::close(Affected affected, const Failure &why) {
    for (Path &path : paths_)
        if (affected(path)) path.close(why);
    for (PacketLink &link : links_)
        if (affected(link)) link.close(why);
}

void Adapter::on_port_down(const Port &port, const Failure &why) {
    close([&](const auto &user) { return &user.port() == &port; }, why);
}

void Adapter::on_port_changed(const Port &port) {
    close([&](const auto &user) { return &user.port() == &port; },
          {XFER_EPEERLOST, XFER_ORIGIN_VERBS, 0, Text(port.name) + ": its address changed"});
}

void Adapter::on_queue_pair_error(const ibv_qp *pair, ibv_event_type event) {
    close([&](const auto &user) { return user.is_of(pair); },
          {XFER_EIO, XFER_ORIGIN_VERBS, event, "the adapter has given up a queue pair"});
}

void Adapter::on_completion_queue_error(const ibv_cq *failed) {
    for (const auto &queue : queues_)
        if (queue->handle() == failed) queue->retire();
    on_queue_failed({XFER_EIO, XFER_ORIGIN_VERBS, 0, "a completion queue is in error"});
}

// Which of them is not worth telling apart: it can't overrun.
void Adapter::on_queue_failed(const Failure &why) {
    close([](const auto &) { return true; }, why);
}

void Adapter::on_device_fatal(const Failure &why) {
    close([](const auto &) { return true; }, why);
}

}  // namespace xfer::rdma
