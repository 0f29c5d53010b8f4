// SPDX-License-Identifier: Apache-2.0
#include "fake_verbs.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "fake_verbs_objects.h"

namespace xfer::rdma {

const char *name_of(Violation violation) {
    static constexpr const char *kNames[] = {
        "access_flags",
        "address",
        "attributes",
        "busy_channel",
        "busy_context",
        "busy_domain",
        "busy_pair",
        "busy_queue",
        "busy_region",
        "capacity",
        "context",
        "crossed",
        "device_list",
        "endless",
        "event_acks",
        "inline_length",
        "leaked",
        "lkey",
        "misaligned_atomic",
        "mtu",
        "notify",
        "overrun",
        "pieces",
        "post_state",
        "reads",
        "receive_full",
        "request",
        "send_full",
        "transition",
        "unacked",
        "unpolled",
        "use_after_destroy",
        "window",
    };
    static_assert(std::size(kNames) == static_cast<size_t>(Violation::window) + 1);
    return kNames[static_cast<size_t>(violation)];
}

FakeFabric::FakeFabric(FakePersonality personality) : personality_(personality) {
    enlist();
}

// A test that fails by an exception has said what is wrong.
FakeFabric::~FakeFabric() {
    delist();
    const FakeCounts left = live();
    if (!(left == FakeCounts{}))
        violate(Violation::leaked,
                std::to_string(left.lists) + " lists, " + std::to_string(left.contexts) +
                    " openings, " + std::to_string(left.domains) + " domains, " +
                    std::to_string(left.regions) + " regions, " + std::to_string(left.windows) +
                    " windows, " + std::to_string(left.channels) + " channels, " +
                    std::to_string(left.queues) + " completion queues, " +
                    std::to_string(left.pairs) + " queue pairs");
    if (async_unacked_ > 0)
        violate(Violation::unacked, std::to_string(async_unacked_) + " async events");
    if (violations_.empty() || std::uncaught_exceptions() > 0) return;
    std::fprintf(stderr, "violations of verbs that no test asked for:\n%s",
                 join_violations().c_str());
    std::abort();
}

FakeAdapter &FakeFabric::add(FakeAdapterOptions options) {
    const std::lock_guard lock(mutex_);
    const auto index = static_cast<unsigned>(adapters_.size());
    if (options.name.empty()) options.name = "fake" + std::to_string(index);
    adapters_.push_back(std::make_unique<FakeAdapter>(*this, std::move(options), index));
    return *adapters_.back();
}

void FakeFabric::run_on_post(bool on) {
    const std::lock_guard lock(mutex_);
    run_on_post_ = on;
    if (on) run_all();
}

void FakeFabric::on_post(std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    on_post_ = std::move(call);
}

void FakeFabric::posted() {
    if (run_on_post_) run_all();
    if (on_post_) on_post_();
}

void FakeFabric::fail_request(ibv_qp *pair, unsigned k, ibv_wc_status status) {
    const std::lock_guard lock(mutex_);
    request_plans_.push_back({static_cast<FakeQueuePair *>(pair), k, status});
}

void FakeFabric::fail_call(FakeCall call, unsigned k, int error) {
    const std::lock_guard lock(mutex_);
    call_plans_[call] = {k, error};
}

void FakeFabric::fail_calls(FakeCall call, int error) {
    const std::lock_guard lock(mutex_);
    call_plans_[call] = {.error = error, .for_good = true};
}

void FakeFabric::fail_modify(ibv_qp_state to, unsigned k, int error) {
    const std::lock_guard lock(mutex_);
    modify_plans_[to] = {k, error};
}

void FakeFabric::fail_post(unsigned k, unsigned taken, int error) {
    const std::lock_guard lock(mutex_);
    post_plan_ = {k, error, taken};
}

FakeFabric::Link FakeFabric::link(const FakeAdapter *one, const FakeAdapter *other) {
    return std::minmax(one, other, std::less<>{});
}

void FakeFabric::cut(FakeAdapter &one, FakeAdapter &other, FakeCut cut) {
    const std::lock_guard lock(mutex_);
    cuts_[link(&one, &other)] = cut;
}

void FakeFabric::mend(FakeAdapter &one, FakeAdapter &other) {
    const std::lock_guard lock(mutex_);
    cuts_.erase(link(&one, &other));
}

bool FakeFabric::fires(Plan &plan) {
    return plan.for_good || (plan.after > 0 && --plan.after == 0);
}

bool FakeFabric::fails(FakeCall call) {
    Plan &plan = call_plans_[call];
    if (!fires(plan)) return false;
    meet(call);
    errno = plan.error;
    return true;
}

void FakeFabric::violate(Violation violation, std::string what) {
    if (!allowed_.contains(violation)) violations_.emplace_back(violation, std::move(what));
}

std::string FakeFabric::join_violations() const {
    std::string all;
    for (const auto &[violation, what] : violations_)
        all += std::string(name_of(violation)) + ": " + what + "\n";
    return all;
}

std::string FakeFabric::report() {
    const std::lock_guard lock(mutex_);
    return join_violations();
}

bool FakeFabric::took(Violation violation) {
    const std::lock_guard lock(mutex_);
    return std::erase_if(violations_, [&](auto &kept) { return kept.first == violation; }) > 0;
}

void FakeFabric::allow(Violation violation) {
    const std::lock_guard lock(mutex_);
    allowed_.insert(violation);
}

FakeCounts FakeFabric::live() {
    const std::lock_guard lock(mutex_);
    FakeCounts counts;
    counts.lists = lists_.size();
    for (const auto &adapter : adapters_) {
        const FakeAdapter::Objects &objects = *adapter->objects_;
        counts.contexts += objects.contexts.live();
        counts.domains += objects.domains.live();
        counts.regions += objects.regions.live();
        counts.windows += objects.windows.live();
        counts.channels += objects.channels.live();
        counts.queues += objects.queues.live();
        counts.pairs += objects.pairs.live();
    }
    return counts;
}

bool FakeFabric::has_registered(const void *memory, size_t length) {
    const std::lock_guard lock(mutex_);
    const auto *const begin = static_cast<const uint8_t *>(memory);
    bool found = false;
    for (const auto &adapter : adapters_)
        adapter->objects_->regions.each_live([&](const FakeRegion &region) {
            const auto *const of = static_cast<const uint8_t *>(region.addr);
            found |= begin < of + region.length && of < begin + length;
        });
    return found;
}

bool FakeFabric::has_bound(const void *memory, size_t length) {
    const std::lock_guard lock(mutex_);
    bool found = false;
    for (const auto &adapter : adapters_)
        for (const auto &[key, window] : adapter->objects_->bound)
            found |= window->range.addr == reinterpret_cast<uint64_t>(memory) &&
                     window->range.length == length;
    return found;
}

std::map<FakeFault, uint64_t> FakeFabric::met() {
    const std::lock_guard lock(mutex_);
    return met_;
}

FakePosts FakeFabric::posts() {
    const std::lock_guard lock(mutex_);
    return posts_;
}

std::vector<ibv_qp *> FakeFabric::pairs() {
    const std::lock_guard lock(mutex_);
    return {pairs_.begin(), pairs_.end()};
}

FakeAdapter::FakeAdapter(FakeFabric &fabric, FakeAdapterOptions options, unsigned index)
    : fabric_(fabric),
      options_(std::move(options)),
      objects_(std::make_unique<Objects>(fabric.personality_.reuse_numbers)) {
    FakeDeviceHandle &device = objects_->device;
    device.adapter = this;
    std::snprintf(device.name, sizeof device.name, "%s", options_.name.c_str());
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;

    set_up(objects_->context);
    objects_->own_domain.context = &objects_->context;

    address_.layer = options_.layer;
    address_.mtu = options_.mtu;
    const auto number = static_cast<uint8_t>(index + 1);
    if (options_.layer == LinkLayer::infiniband) address_.lid = number;
    const uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, number};
    std::memcpy(address_.gid.raw, gid, sizeof gid);
}

FakeAdapter::~FakeAdapter() = default;

// abi_compat is not that of extended operations: the inline functions of the header then find only
// these.
void FakeAdapter::set_up(FakeContext &context) {
    context.device = &objects_->device;
    context.adapter = this;
    context.cmd_fd = context.async_fd = -1;
    context.num_comp_vectors = 1;
    context.ops.poll_cq = FakeTable::poll_cq;
    context.ops.req_notify_cq = FakeTable::req_notify_cq;
    context.ops.post_send = FakeTable::post_send;
    context.ops.post_recv = FakeTable::post_recv;
    if (!options_.windows) return;
    context.ops.alloc_mw = FakeTable::alloc_mw;
    context.ops.dealloc_mw = FakeTable::dealloc_mw;
}

ibv_context *FakeAdapter::context() {
    return &objects_->context;
}

void FakeAdapter::offer_dmabuf(int fd, void *memory, size_t length) {
    const std::lock_guard lock(fabric_.mutex_);
    dmabufs_[fd] = {memory, length};
}

Port FakeAdapter::port() {
    Port port;
    port.context = context();
    port.domain = &objects_->own_domain;
    port.name = options_.name + ":1";
    port.address = address_;
    port.limits = options_.limits;
    port.limits.atomics_with_cpu = options_.atomics == IBV_ATOMIC_GLOB;
    port.limits.windows = options_.windows;
    port.limits.part_windows = options_.windows && !options_.loose_windows;
    port.bits_per_second = uint64_t{400'000'000'000};
    port.message_bytes = options_.message_bytes;
    return port;
}

}  // namespace xfer::rdma
