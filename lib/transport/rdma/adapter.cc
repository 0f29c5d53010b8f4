// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/adapter.h"

#include <algorithm>

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
      device_(std::move(device)),
      memory_(verbs, device_->ports().front(), worker, log, sink),
      bounce_buffers_(verbs, device_->ports().front(), worker, log),
      scratch_(options) {}

Adapter::~Adapter() {
    XFER_CHECK(paths_.empty());
}

void Adapter::add(Path &path) {
    paths_.push_back(path);
}

size_t Adapter::paths_on(const Port &port) {
    size_t count = 0;
    for (const Path &path : paths_)
        count += &path.port() == &port;
    return count;
}

Result<std::unique_ptr<QueuePair>> Adapter::make_queue_pair(const Port &port, QueuePairSink &sink) {
    const uint32_t needed = options_.send_requests + 1;
    std::erase_if(queues_, [](const auto &queue) { return queue->is_over(); });
    for (const auto &queue : queues_)
        if (queue->room() >= needed) return QueuePair::create(verbs_, port, *queue, options_, sink);
    const uint32_t entries = std::min(std::max(kCompletions, needed), port.limits.completions);
    auto made = CompletionQueue::create(verbs_, port, entries,
                                        static_cast<uint32_t>(queues_.size()), loop_, *this);
    if (!made) return made.error();
    queues_.push_back(std::move(*made));
    return QueuePair::create(verbs_, port, *queues_.back(), options_, sink);
}

// ---- faults

template <typename Affected>
void Adapter::close_paths(Affected affected, const Failure &why) {
    for (Path &path : paths_)
        if (affected(path)) path.close(why);
}

void Adapter::on_port_down(const Port &port, const Failure &why) {
    close_paths([&](const Path &path) { return &path.port() == &port; }, why);
}

void Adapter::on_port_changed(const Port &port) {
    close_paths([&](const Path &path) { return &path.port() == &port; },
                {XFER_EPEERLOST, XFER_ORIGIN_VERBS, 0, Text(port.name) + ": its address changed"});
}

void Adapter::on_queue_pair_error(const ibv_qp *pair, ibv_event_type event) {
    close_paths([&](const Path &path) { return path.is_of(pair); },
                {XFER_EIO, XFER_ORIGIN_VERBS, event, "the adapter has given up a queue pair"});
}

void Adapter::on_completion_queue_error(const ibv_cq *failed) {
    for (const auto &queue : queues_)
        if (queue->handle() == failed) queue->retire();
    on_queue_failed({XFER_EIO, XFER_ORIGIN_VERBS, 0, "a completion queue is in error"});
}

// Which of them is not worth telling apart: it can't overrun.
void Adapter::on_queue_failed(const Failure &why) {
    close_paths([](const Path &) { return true; }, why);
}

void Adapter::on_device_fatal(const Failure &why) {
    close_paths([](const Path &) { return true; }, why);
}

}  // namespace xfer::rdma
