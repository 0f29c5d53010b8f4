// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/packet_carrier.h"

#include <algorithm>
#include <utility>

#include "transport/rdma/fabric.h"
#include "util/memory.h"

namespace xfer::rdma {

namespace {

constexpr uint64_t kNextFirstNs = 20 * kNsPerMs;  // doubled up to
constexpr uint64_t kNextLastNs = 2'000 * kNsPerMs;
constexpr uint64_t kCarriedNs = 100 * kNsPerMs;  // one that was up as long was a success

}  // namespace

PacketCarrier::PacketCarrier(AdapterFabric &fabric, Loop &loop,
                             const AttachedChannelRequest &request, PacketMemory &memory,
                             const HeldBuffers &held, PacketCarrierSink &sink)
    : fabric_(fabric),
      loop_(loop),
      request_(request),
      first_(request.first),
      memory_(memory),
      held_(held),
      sink_(sink) {}

PacketCarrier::~PacketCarrier() {
    loop_.disarm(next_);
}

// ---- beginning

Failure PacketCarrier::open(uint32_t failures) {
    failures_ = failures;
    return first_ ? begin(nullptr) : Failure{};
}

Failure PacketCarrier::begin(const QueuePairParameters *offer) {
    std::optional<PortAddress> other;
    if (offer) other = address_of(*offer);
    auto place = fabric_.place(other ? &*other : nullptr, {}, failures_);
    if (!place) return place.error();
    local_ = place->port->name;
    PacketLinkSink &sink = *this;
    auto made = PacketLink::open(*place->adapter, *place->port, request_, memory_, held_, sink);
    if (!made) return made.error();
    link_ = std::move(*made);
    up_since_ = 0;
    offered_ = peer_lost_ = false;
    if (first_) ++generation_;
    of_link_ = generation_;
    return {};
}

// What lacks memory or a port is tried again by the end that begins.
void PacketCarrier::begin_next() {
    const auto offer = std::exchange(offer_, {});
    Failure why = no_memory();
    [[maybe_unused]] const bool tried =
        catch_bad_alloc([&] { why = begin(offer ? &*offer : nullptr); });
    if (why.status == XFER_OK) {
        if (offer) link_->hear_offer(*offer);
    } else if (first_) {
        begin_later();
    } else {
        of_link_ = generation_;
        say(PacketSignal::Kind::lost);
        if (!was_up_) sink_.on_carrier_lost(why, true);
    }
}

void PacketCarrier::begin_later() {
    const bool lasted = up_since_ && loop_.now() >= up_since_ + kCarriedNs;
    pause_ = lasted ? kNextFirstNs : std::clamp(2 * pause_, kNextFirstNs, kNextLastNs);
    if (!up_since_) ++failures_;
    up_since_ = 0;
    loop_.arm(next_, loop_.now() + pause_);
}

void PacketCarrier::on_timer(Timer &) {
    if (first_ || offer_) begin_next();
}

void PacketCarrier::say(PacketSignal::Kind kind, const QueuePairParameters &pair) {
    PacketSignal signal;
    signal.kind = kind;
    signal.generation = of_link_;
    signal.queue_pair = pair;
    sink_.say(signal);
}

void PacketCarrier::on_offer(const QueuePairParameters &pair) {
    offered_ = true;
    say(PacketSignal::Kind::offer, pair);
}

void PacketCarrier::on_answer(const QueuePairParameters &pair) {
    say(PacketSignal::Kind::answer, pair);
}

void PacketCarrier::on_answered_up() {
    say(PacketSignal::Kind::ready);
}

void PacketCarrier::on_up() {
    up_ = was_up_ = true;
    up_since_ = loop_.now();
    failures_ = 0;
    remote_ = link_->peer();
    sink_.on_carrier_up();
}

// ---- the other end

// What is said of a generation that is over here was said before the other end heard of that.
bool PacketCarrier::hear(const PacketSignal &signal) {
    using Kind = PacketSignal::Kind;
    if (signal.kind == Kind::offer) return hear_offer(signal);
    if (signal.generation > generation_) return false;
    if (signal.generation < generation_) return true;
    if (signal.kind == Kind::lost) return hear_lost(), true;
    if (!link_ || of_link_ != generation_) return true;
    return signal.kind == Kind::answer ? link_->hear_answer(signal.queue_pair)
                                       : link_->hear_ready();
}

// Another generation: the other end's link is over. After a first one that was up, this end has a
// pause of its own: a peer may offer as fast as it likes.
bool PacketCarrier::hear_offer(const PacketSignal &signal) {
    if (first_ || signal.generation <= generation_) return false;
    generation_ = signal.generation;
    offer_ = signal.queue_pair;
    if (!link_) return was_up_ ? begin_later() : begin_next(), true;
    peer_lost_ = true;
    link_->close({XFER_EPEERLOST, XFER_ORIGIN_PEER, 0, "the peer begins another queue pair"});
    return true;
}

void PacketCarrier::hear_lost() {
    if (offer_) return offer_.reset();
    peer_lost_ = true;
    if (link_)
        link_->close({XFER_EPEERLOST, XFER_ORIGIN_PEER, 0, "the peer's queue pair was lost"});
}

// ---- the end of a generation

void PacketCarrier::on_link_lost(const Failure &why) {
    up_ = false;
    if (closing_) return;
    if (!peer_lost_ && (offered_ || !first_)) say(PacketSignal::Kind::lost);
    sink_.on_carrier_lost(why, !was_up_);
}

void PacketCarrier::on_link_over(bool kept) {
    link_over_ = true;
    sink_.on_memory_free(kept);
    loop_.defer(*this);
}

void PacketCarrier::run() {
    if (std::exchange(link_over_, false)) link_.reset();
    if (link_) return;
    if (closing_) {
        if (!std::exchange(over_, true)) sink_.on_carrier_over();
    } else if (offer_ || (was_up_ && first_)) {
        begin_later();
    }
}

void PacketCarrier::close(const Failure &why) {
    if (std::exchange(closing_, true)) return;
    up_ = false;
    loop_.disarm(next_);
    if (link_) link_->close(why);
    loop_.defer(*this);
}

}  // namespace xfer::rdma
