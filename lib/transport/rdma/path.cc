// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/path.h"

#include <arpa/inet.h>

#include <utility>

#include "util/memory.h"

namespace xfer::rdma {

namespace {

constexpr uint64_t kSignalNs = 5'000 * kNsPerMs;  // for the other end's next signal
constexpr uint64_t kProbe = UINT64_MAX - 1;       // the cookie of that
constexpr uint64_t kProbeBytes = 8'192;
constexpr uint64_t kDestroyPauseNs = 20 * kNsPerMs;
constexpr uint32_t kDestroyTries = 10;
constexpr uint64_t kDrainNs = 1'000 * kNsPerMs;  // for an adapter to flush what was posted

}  // namespace

// ---- the two ends agree

Path::Path(Adapter &adapter, const Port &port, bool first, AttachedPathSink &sink)
    : adapter_(adapter),
      loop_(adapter.loop()),
      port_(port),
      attachment_(sink),
      first_(first),
      next_(first ? std::nullopt : std::optional(Signal::Kind::offer)),
      begun_(adapter.verbs(), port, adapter.worker(), *this),
      initiator_(adapter, begun_, *this) {}

Result<std::unique_ptr<AttachedPath>> Path::open(Adapter &adapter, const Port &port, bool first,
                                                 AttachedPathSink &sink) {
    std::unique_ptr<Path> path(new Path(adapter, port, first, sink));
    path->initiator_.prepare();
    auto pair = adapter.make_queue_pair(port, *path);
    if (!pair) return pair.error();
    path->pair_ = std::move(*pair);
    adapter.add(*path);
    path->begun_.open();
    path->loop_.arm(path->limit_, path->loop_.now() + kSignalNs);
    return std::unique_ptr<AttachedPath>(std::move(path));
}

Path::~Path() {
    loop_.disarm(limit_);
}

void Path::on_table_open(const Failure &why) {
    if (state_ != State::opening) return;
    if (why.status != XFER_OK) return close(why);
    table_open_ = true;
    if (first_) {
        next_ = Signal::Kind::answer;
        return say(Signal::Kind::offer);
    }
    if (offer_) answer();
}

void Path::on_signal(ConstBytes message) {
    if (state_ != State::opening) return;
    auto signal = decode_signal(message);
    if (!signal) return close(signal.error());
    if (next_ != signal->kind)
        return close({XFER_EPROTO, XFER_ORIGIN_PEER, 0,
                      "the peer's adapter says what it has not been asked"});
    next_.reset();
    loop_.arm(limit_, loop_.now() + kSignalNs);
    switch (signal->kind) {
    case Signal::Kind::offer:
        offer_ = *signal;
        if (table_open_) answer();
        return;
    case Signal::Kind::answer:
        if (connect(*signal)) probe();
        return;
    case Signal::Kind::done:
        return probe();
    case Signal::Kind::ready:
        return be_ready();
    }
}

void Path::answer() {
    if (!connect(*offer_)) return;
    next_ = Signal::Kind::done;
    say(Signal::Kind::answer);
}

bool Path::connect(const Signal &other) {
    peer_ = other.queue_pair;
    peers_table_ = {other.begun_address, other.begun_key};
    const Failure why = pair_->connect(other.queue_pair);
    if (why.status != XFER_OK) close(why);
    return why.status == XFER_OK;
}

// Zeros over the zeros of the peer's table, in packets of the full size: what lies between the two
// may be less than both of them can do.
void Path::probe() {
    const Piece piece{begun_.zeros(), 0, kProbeBytes};
    PostList &list = adapter_.scratch().list;
    list.clear();
    list.chain().build(Dir::put, {&piece, 1}, {}, {peers_table_.address, {&peers_table_.key, 1}},
                       begun_, pair_->limits(1));
    list.add(kProbe);
    const Posted posted = pair_->post(list);
    if (posted.why.status != XFER_OK) close(posted.why);
}

// The second end is ready first, and the first one when it hears of that.
void Path::on_probed() {
    if (first_) {
        next_ = Signal::Kind::ready;
        return say(Signal::Kind::done);
    }
    say(Signal::Kind::ready);
    be_ready();
}

void Path::on_chain_ended(QueuePair &, const ChainEnd &end) {
    if (end.cookie != kProbe) return initiator_.on_chain_ended(end);
    if (end.how == ChainEnd::How::done && state_ == State::opening) on_probed();
}

void Path::say(Signal::Kind kind) {
    Signal signal;
    signal.kind = kind;
    if (kind == Signal::Kind::offer || kind == Signal::Kind::answer) {
        signal.queue_pair = pair_->parameters();
        signal.begun_address = begun_.address();
        signal.begun_key = begun_.key();
    }
    const SignalBytes bytes = encode(signal);
    attachment_.send_signal({bytes.begin(), bytes.size()});
}

void Path::be_ready() {
    if (state_ != State::opening) return;
    loop_.disarm(limit_);
    state_ = State::ready;
    attachment_.on_ready();
}

void Path::start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) {
    sink_ = &sink;
    initiator_.start(sink, declined, max_ops, *pair_, peers_table_);
}

// As "::ffff:10.0.0.1, queue pair 17" or "LID 5, queue pair 17".
std::string Path::remote() const {
    if (!peer_) return {};
    char address[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET6, peer_->gid.raw, address, sizeof address);
    const bool by_lid = peer_->layer == LinkLayer::infiniband;
    return (by_lid ? "LID " + std::to_string(peer_->lid) : std::string(address)) + ", queue pair " +
           std::to_string(peer_->qpn);
}

// ---- regions

Result<ExportKey> Path::export_region(RegionId region, const ExportedMemory &memory) {
    if (is_grant(region))
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "its owner serves a grant"};
    auto found = adapter_.memory().find(region);
    if (!found) return found.error();
    const Registration &registration = **found;
    RegionKeys keys;
    keys.base = reinterpret_cast<uint64_t>(memory.base);
    keys.length = memory.length;
    keys.part_bytes = registration.chunk(0).length;
    keys.access = memory.access;
    for (uint64_t i = 0; i < registration.chunks(); ++i)
        keys.keys.push_back(registration.chunk(i).rkey);
    return encode(keys);
}

std::unique_ptr<Import> Path::import(ConstBytes key) {
    const auto keys = decode_region_keys(key);
    if (!keys || state_ != State::ready) return nullptr;
    return std::make_unique<RemoteRegion>(*keys);
}

// ---- its end

// What was posted is flushed, so that the adapter touches no memory any more; then the queue pair
// goes, so that the peer's adapter doesn't, either; and then the table that it wrote.
void Path::close(const Failure &why) {
    if (state_ == State::closing || state_ == State::ended) return;
    state_ = State::closing;
    why_ = why;
    initiator_.stop();
    loop_.arm(limit_, loop_.now() + kDrainNs);
    if (pair_) pair_->fail();
    loop_.defer(*this);
}

void Path::run() {
    if (state_ == State::closing && pair_ && pair_->is_drained()) destroy_pair();
}

// An adapter that flushes nothing in all that time will not; destroying ends it as well.
void Path::on_timer(Timer &) {
    if (state_ == State::closing) return destroy_pair();
    close({XFER_ETIMEDOUT, XFER_ORIGIN_NONE, 0, "the peer's adapter says nothing"});
}

// What refers to it may have to end first. A device that keeps it for good is broken, or has
// failed; in ERR it lets nothing in.
void Path::destroy_pair() {
    if (destroyed_) return;
    const Failure why = pair_->destroy();
    if (why.status != XFER_OK && ++destroy_tries_ < kDestroyTries)
        return loop_.arm(limit_, loop_.now() + kDestroyPauseNs);
    loop_.disarm(limit_);
    destroyed_ = true;
    if (why.status != XFER_OK) adapter_.log().error("{}", why.message);
    begun_.close();
}

void Path::on_table_closed() {
    end();
}

void Path::end() {
    initiator_.end();
    if (sink_) {
        begun_.each([this](NotificationId number, uint64_t key) {
            [[maybe_unused]] const bool told =
                catch_bad_alloc([&] { sink_->on_notification_begun(number, key); });
        });
        sink_->on_down(why_);
    }
    state_ = State::ended;
    ListNode<InAdapter>::unlink();
    attachment_.on_ended(why_);
}

}  // namespace xfer::rdma
