// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/path.h"

#include <utility>

#include "util/memory.h"

namespace xfer::rdma {

namespace {

constexpr uint64_t kSignalNs = 5'000 * kNsPerMs;  // for the other end's next signal
constexpr uint64_t kProbe = UINT64_MAX - 1;       // the cookie of that
constexpr uint64_t kProbeBytes = 8'192;

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
      initiator_(adapter, begun_, *this),
      windows_(adapter, *this),
      end_(adapter, *this) {}

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

void Path::on_block_open(const Failure &why) {
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
    if (end.cookie == kProbe) {
        if (end.how == ChainEnd::How::done && state_ == State::opening) on_probed();
        return;
    }
    if (end.cookie == WindowTable::kBind) windows_.on_bind_ended(end);
    windows_.post();  // before the operations, which take all slots that there are
    end.cookie == WindowTable::kBind ? initiator_.go_on() : initiator_.on_chain_ended(end);
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
    exports_ = &declined;
    initiator_.start(sink, declined, max_ops, *pair_, peers_table_);
    windows_.start(*pair_);
}

// ---- regions

// By windows where that can be, whose keys work on this path alone. Else by the keys of the
// registration, and a grant not at all: a key of a part would be a key of the whole.
Result<ExportKey> Path::export_region(RegionId region, const ExportedMemory &memory) {
    const RegionId whole = is_grant(region) ? memory.whole : region;
    auto found = adapter_.memory().find(whole);
    if (!found) return found.error();
    const Registration &registration = **found;
    const bool by_windows = is_grant(region)
                                ? registration.takes_windows() && port_.limits.part_windows
                                : registration.by_windows();
    if (by_windows) {
        auto keys = windows_.find(region, memory, whole, registration);
        if (!keys) return keys.error();
        return encode(*keys);
    }
    if (is_grant(region))
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "its owner serves a grant"};
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

// What was posted is flushed, so that the adapter touches no memory any more; then the windows and
// their queue pair go, so that the peer's adapter doesn't, either; and then the table that it
// wrote.
void Path::close(const Failure &why) {
    if (state_ == State::closing || state_ == State::ended) return;
    state_ = State::closing;
    why_ = why;
    exports_ = nullptr;
    initiator_.stop();
    windows_.stop();
    loop_.disarm(limit_);
    end_.begin(*pair_);
}

void Path::on_timer(Timer &) {
    close({XFER_ETIMEDOUT, XFER_ORIGIN_NONE, 0, "the peer's adapter says nothing"});
}

void Path::on_flushed() {
    if (windows_.close()) end_.destroy();
}

void Path::on_destroyed() {
    windows_.end();
    begun_.close();
}

void Path::on_block_closed() {
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
