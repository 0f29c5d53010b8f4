// SPDX-License-Identifier: Apache-2.0
#include "sim_fabric.h"

#include <array>
#include <cstring>
#include <new>

#include "util/check.h"

namespace xfer {

namespace {

constexpr uint64_t kMagic = 0x7265747061646120;
constexpr uint64_t kPatienceNs = 1'000'000'000;  // for the other end's next signal

AttachFate ask(const SimNet &net, AttachStep step, const SimAttachedPath &path) {
    return net.on_attach ? net.on_attach(step, path) : AttachFate::go_on;
}

}  // namespace

SimAttachedPath::SimAttachedPath(SimTransport &transport, AttachedPathSink &sink, bool first)
    : transport_(transport),
      net_(transport.net),
      sink_(sink),
      first_(first),
      self_(std::make_shared<SimAttachedPath *>(this)),
      next_(first ? AttachStep::answer : AttachStep::offer) {
    if (first) soon(0, [](SimAttachedPath &path) { path.say(AttachStep::offer); });
    soon(kPatienceNs, [](SimAttachedPath &path) {
        if (!path.copies_) path.close({XFER_ETIMEDOUT, 0, 0, "the other end says nothing"});
    });
}

SimAttachedPath::~SimAttachedPath() {
    *self_ = nullptr;
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

Result<std::unique_ptr<AttachedPath>> SimFabric::open(bool first, AttachedPathSink &sink) {
    auto path = std::make_unique<SimAttachedPath>(transport_, sink, first);
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

}  // namespace xfer
