// SPDX-License-Identifier: Apache-2.0
#include "sim_fabric.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "sim_attached_channel.h"
#include "util/check.h"
#include "util/json.h"

namespace xfer {

namespace {

constexpr uint64_t kMagic = 0x7265747061646120;
constexpr uint64_t kPatienceNs = 1'000'000'000;  // for the other end's next signal

AttachFate ask(const SimNet &net, AttachStep step, const SimAttachedPath &path) {
    return net.on_attach ? net.on_attach(step, path) : AttachFate::go_on;
}

}  // namespace

SimAttachedPath::SimAttachedPath(SimFabric &fabric, AttachedPathSink &sink, bool first)
    : fabric_(fabric),
      transport_(fabric.transport()),
      net_(transport_.net),
      sink_(sink),
      first_(first),
      self_(std::make_shared<SimAttachedPath *>(this)),
      next_(first ? AttachStep::answer : AttachStep::offer) {
    fabric.paths.insert(this);
    if (first) soon(0, [](SimAttachedPath &path) { path.say(AttachStep::offer); });
    soon(kPatienceNs, [](SimAttachedPath &path) {
        if (!path.copies_) path.close({XFER_ETIMEDOUT, 0, 0, "the other end says nothing"});
    });
}

SimAttachedPath::~SimAttachedPath() {
    *self_ = nullptr;
    fabric_.paths.erase(this);
    XFER_CHECK(given_ == told_);
}

void SimAttachedPath::soon(uint64_t delay, std::function<void(SimAttachedPath &)> call) {
    net_.world.post(transport_.loop, delay, [self = self_, call = std::move(call)] {
        if (*self) call(**self);
    });
}

void SimAttachedPath::later(uint64_t delay, std::function<void(SimCopyPath &)> call) {
    soon(delay, [call = std::move(call)](SimAttachedPath &path) { call(*path.copies_); });
}

// ---- signals

void SimAttachedPath::say(AttachStep step) {
    if (closing_) return;
    const AttachFate fate = ask(net_, step, *this);
    if (fate == AttachFate::fail) return close({XFER_EIO, 0, 0, "the adapter says no"});
    if (fate == AttachFate::mute) return;
    std::array<uint64_t, 3> words = {kMagic, static_cast<uint64_t>(step), transport_.number};
    if (fate == AttachFate::garble) words[0] ^= 1;
    uint8_t bytes[sizeof words];
    std::memcpy(bytes, words.data(), sizeof words);
    sink_.send_signal(bytes);
}

void SimAttachedPath::on_signal(ConstBytes message) {
    std::array<uint64_t, 3> words{};
    if (closing_) return;
    if (message.size() == sizeof words) std::memcpy(words.data(), message.data(), sizeof words);
    if (words[0] != kMagic || !next_ || words[1] != static_cast<uint64_t>(*next_))
        return close({XFER_EPROTO, XFER_ORIGIN_PEER, 0, "an adapter's signal that makes no sense"});
    there_ = static_cast<uint32_t>(words[2]);
    if (next_ == AttachStep::offer) {
        next_ = AttachStep::done;
        return say(AttachStep::answer);
    }
    next_ = {};
    if (first_) say(AttachStep::done);
    if (!closing_) be_ready();
}

void SimAttachedPath::be_ready() {
    generation_ = transport_.process->generations[there_].size();
    SimCopyPath::Owner &owner = *this;
    copies_ = std::make_unique<SimCopyPath>(owner, Scope::fabric, true);
    sink_.on_ready();
}

// ---- regions

Result<ExportKey> SimAttachedPath::export_region(RegionId region, const ExportedMemory &memory) {
    if (is_grant(region) && !net_.windows)
        return Failure{XFER_EUNSUPPORTED, 0, 0, "grants are served"};
    const bool ready =
        is_grant(region) ? fabric_.opens(region, memory.whole) : fabric_.registers(region);
    if (!ready) return Failure{XFER_EAGAIN, 0, 0, "not registered yet"};
    auto key = copies_->export_region(region, memory);
    if (!key && key.error().status == XFER_EAGAIN)
        soon(kNsPerMs, [](SimAttachedPath &path) { path.on_exportable(); });
    return key;
}

bool SimAttachedPath::is_registered(RegionId region) const {
    return fabric_.is_registered(region);
}

// ---- its end

void SimAttachedPath::close(const Failure &why) {
    if (std::exchange(closing_, true)) return;
    soon(net_.detach_ns, [why](SimAttachedPath &path) {
        path.copies_ ? path.copies_->close(why) : path.ended(why);
    });
}

void SimAttachedPath::ended(const Failure &why) {
    closing_ = told_ = true;
    sink_.on_ended(why);
}

void SimFabric::describe(JsonWriter &out) const {
    out.add("number", transport_.number);
}

Result<std::unique_ptr<AttachedPath>> SimFabric::open(const AttachedPathRequest &request,
                                                      AttachedPathSink &sink) {
    if (request.beside.size() >= most_paths())
        return Failure{XFER_EUNSUPPORTED, 0, 0, "the adapter has no other port"};
    auto path = std::make_unique<SimAttachedPath>(*this, sink, request.first);
    switch (ask(transport_.net, AttachStep::open, *path)) {
    case AttachFate::fail:
        return Failure{XFER_EIO, 0, 0, "the adapter has no place"};
    case AttachFate::absent:
        return Failure{XFER_EUNSUPPORTED, 0, 0, "the adapter has no such path"};
    case AttachFate::lack:
        throw std::bad_alloc();
    default:
        break;
    }
    path->give();
    return {std::move(path)};
}

Result<std::unique_ptr<AttachedChannel>> SimFabric::open_channel(
    const AttachedChannelRequest &request, AttachedChannelSink &sink) {
    const SimNet &net = transport_.net;
    if (!net.adapter_lanes) return Failure{XFER_EUNSUPPORTED, 0, 0, "the adapter has no channels"};
    switch (net.on_channel ? net.on_channel(AttachStep::open, request.first) : AttachFate::go_on) {
    case AttachFate::fail:
        return Failure{XFER_EIO, 0, 0, "the adapter has no place"};
    case AttachFate::absent:
        return Failure{XFER_EUNSUPPORTED, 0, 0, "the adapter has no such channel"};
    case AttachFate::lack:
        throw std::bad_alloc();
    default:
        return {std::make_unique<SimAttachedChannel>(transport_, sink, request)};
    }
}

// ---- what the adapter knows of memory

SimFabric::~SimFabric() {
    *self_ = nullptr;
    const auto &registered = transport_.process->registered;
    XFER_CHECK(std::none_of(registered.begin(), registered.end(),
                            [this](const auto &at) { return at.first == this; }));
}

void SimFabric::soon(uint64_t delay, std::function<void(SimFabric &)> call) {
    transport_.net.world.post(transport_.loop, delay, [self = self_, call = std::move(call)] {
        if (*self) call(**self);
    });
}

void SimFabric::add_region(RegionId region, const ExportedMemory &memory) {
    XFER_CHECK(!is_grant(region) && memory.base);
    if (transport_.net.adapter_lacks()) throw std::bad_alloc();
    XFER_CHECK(regions_.emplace(region.value, State::unused).second);
}

bool SimFabric::registers(RegionId region) {
    const auto at = regions_.find(region.value);
    if (at == regions_.end()) return false;
    if (at->second == State::unused) {
        at->second = State::coming;
        const uint64_t delay = transport_.net.adapter_delay(transport_.net.register_ns_max);
        if (!delay) on_registered(region);
        if (delay)
            soon(delay, [region](SimFabric &self) {
                self.on_registered(region);
                for (SimAttachedPath *path : self.paths)
                    path->on_exportable();
            });
    }
    return at->second == State::registered;
}

bool SimFabric::opens(RegionId grant, RegionId whole) {
    if (!registers(whole)) return false;
    regions_.emplace(grant.value, State::unused);
    return registers(grant);
}

void SimFabric::on_registered(RegionId region) {
    const auto at = regions_.find(region.value);
    if (at == regions_.end()) return;
    at->second = State::registered;
    transport_.process->registered.emplace(this, region.value);
}

bool SimFabric::is_registered(RegionId region) const {
    return transport_.process->registered.count({this, region.value}) != 0;
}

bool SimFabric::remove_region(RegionId region) {
    const auto at = regions_.find(region.value);
    if (at == regions_.end()) return true;
    const State state = at->second;
    regions_.erase(at);
    if (state == State::unused) return true;
    const uint64_t delay = transport_.net.adapter_delay(transport_.net.release_ns_max);
    if (!delay) transport_.process->registered.erase({this, region.value});
    if (!delay) return true;
    ++transport_.net.met["region, released late"];
    soon(delay, [region](SimFabric &self) { self.release(region); });
    return false;
}

void SimFabric::release(RegionId region) {
    transport_.process->registered.erase({this, region.value});
    sink_->on_released(region);
}

}  // namespace xfer
