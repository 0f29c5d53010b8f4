// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/initiator.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace xfer::rdma {

namespace {

constexpr uint32_t kMaxOps = 64;  // posted and not done
// Cookies: of an operation its place, of a record in the peer's table the notification behind them.
constexpr uint64_t kBegun = kMaxOps;
constexpr uint64_t kCancelNs = 250 * kNsPerMs;

// What has a key that is dead.
Status status_of_end(RegionId region) {
    return is_grant(region) ? XFER_EREVOKED : XFER_ESTALE;
}

}  // namespace

// The keys of what is posted now.
class Initiator::Keys final : public LocalKeys {
public:
    Keys(MemoryDomain &memory, const Posting &posting)
        : memory_(memory),
          dir_(posting.op->dir),
          bytes_(posting.op->bytes),
          bounce_(posting.bounce) {}
    LocalKey find(uint64_t address) const override {
        if (!bounce_) {
            const LocalKey key = memory_.find(address, dir_);
            return key.reach ? key : memory_.find_removed(address, dir_);
        }
        const auto begin = reinterpret_cast<uint64_t>(bounce_->address);
        return {bounce_->lkey, begin + bytes_ - address};
    }

private:
    MemoryDomain &memory_;
    const Dir dir_;
    const uint64_t bytes_;
    const std::optional<Bounce> &bounce_;
};

Initiator::~Initiator() {
    adapter_.loop().disarm(cancel_);
}

void Initiator::prepare() {
    postings_ = std::make_unique<Posting[]>(kMaxOps);
    for (uint32_t i = 0; i < kMaxOps; ++i)
        free_.push_back(postings_[i]);
}

void Initiator::start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops, QueuePair &pair,
                      const PeersTable &table) {
    sink_ = &sink;
    declined_sink_ = &declined;
    max_ops_ = std::min(max_ops, kMaxOps);
    pair_ = &pair;
    table_ = table;
    stopped_ = false;
}

Caps Initiator::caps() const {
    return {Scope::fabric, max_ops_, kMaxChunk, kMaxPieces};
}

// ---- posting

bool Initiator::post(Op &op) {
    Posting *posting = stopped_ ? nullptr : free_.pop_front();
    if (!posting) return false;
    op.seq = static_cast<uint64_t>(posting - postings_.get());
    op.moved = Moved::adapter;
    op.notifies = false;
    posting->stage = Stage::waits;
    posting->op = &op;
    posting->remote = static_cast<const RemoteRegion *>(op.import);
    posting->region = op.import->region;
    queue_.push_back(*posting);
    adapter_.loop().defer(*this);  // a flush that does not come is not waited for
    return true;
}

// A thread that visits a loop which sleeps wakes it for what is deferred: for nothing, here.
void Initiator::flush() {
    post_waiting();
    if (over_.empty()) Task::unlink();
}

void Initiator::post_waiting() {
    while (!stopped_ && !queue_.empty()) {
        gather();
        if (!ring()) return;
    }
}

// What waits goes into the list, in its order.
void Initiator::gather() {
    adapter_.scratch().list.clear();
    while (!queue_.empty() && room() > 0) {
        Posting &first = queue_.front();
        const bool waits = first.stage == Stage::waits;
        if (waits && !begin(first)) continue;
        if (!waits) draw(first);
        use_bounce(first);
        add_begun(*first.op);
        if (room() > 0) add_next(first);
    }
}

uint32_t Initiator::room() const {
    const PostList &list = adapter_.scratch().list;
    return std::min(list.room(), pair_->free_slots() - list.size());
}

// False: the adapter can't move it, and it has left the queue.
bool Initiator::begin(Posting &posting) {
    const bool reaches = posting.remote && draw(posting);
    const bool has_keys = reaches && (is_registered(posting) || take_bounce(posting));
    if (!has_keys) {
        posting.declined = !posting.op->unmapped;
        be_over(posting, posting.declined ? XFER_OK : XFER_EIO);
        return false;
    }
    posting.stage = Stage::begun;
    posting.epoch = adapter_.memory().enter();
    return true;
}

// False: a piece lies outside of the region as the peer has exported it.
bool Initiator::draw(const Posting &posting) {
    auto &pieces = adapter_.scratch().pieces;
    pieces.clear();
    posting.op->draw(pieces);
    return std::all_of(pieces.begin(), pieces.end(),
                       [&](const Piece &piece) { return posting.remote->holds(piece); });
}

bool Initiator::is_registered(const Posting &posting) const {
    const Op &op = *posting.op;
    const auto &pieces = adapter_.scratch().pieces;
    const bool is_inline = op.dir == Dir::put && op.bytes <= pair_->caps().inline_bytes;
    if (is_inline && pieces.size() == 1 && posting.remote->has_in_one_part(pieces[0])) return true;
    for (const Piece &piece : pieces) {
        for (uint64_t done = 0; done < piece.length;) {
            const LocalKey key = adapter_.memory().find(piece.local + done, op.dir);
            if (key.reach == 0) return false;
            done += std::min(key.reach, piece.length - done);
        }
    }
    return true;
}

// Before the first byte of a notification's puts.
void Initiator::add_begun(const Op &op) {
    const NotificationId number{op.dir == Dir::put ? op.remote.notification : 0};
    if (!number || begun_.is_noted(number)) return;
    const Piece record = begun_.note(number, op.remote.notification_key);
    PostList &list = adapter_.scratch().list;
    list.chain().build(Dir::put, {&record, 1}, {}, {table_.address, {&table_.key, 1}, UINT64_MAX},
                       begun_, pair_->limits(1));
    list.add(kBegun + number.value);
}

// The next chain, of as much as there is room for.
void Initiator::add_next(Posting &posting) {
    Adapter::Scratch &scratch = adapter_.scratch();
    const Keys keys(adapter_.memory(), posting);
    Chain &chain = scratch.list.chain();
    posting.at = chain.build(posting.op->dir, scratch.pieces, posting.at, posting.remote->memory(),
                             keys, pair_->limits(room()));
    const bool at_end = posting.at.piece == scratch.pieces.size();
    posting.whole = at_end || chain.empty();
    if (posting.whole && !at_end) posting.status = XFER_EIO;  // its memory has gone
    if (!chain.empty()) {
        ++posting.chains;
        scratch.list.add(static_cast<uint64_t>(&posting - postings_.get()));
    }
    if (!posting.whole) return;
    posting.ListNode<InPostings>::unlink();
    if (posting.chains == 0) be_over(posting, posting.status);
}

// False: nothing was in the list, or nothing more can be posted now.
bool Initiator::ring() {
    PostList &list = adapter_.scratch().list;
    if (list.empty()) return false;
    const Posted posted = pair_->post(list);
    note_taken(posted.taken);
    if (posted.admitted != Admitted::granted) return false;  // its end is told
    if (posted.why.status == XFER_OK) return true;
    if (posted.taken == 0 && posted.why.status == XFER_EAGAIN) return false;
    owner_.on_broken(posted.why);
    return false;
}

// From behind, so that what was not taken comes back to the queue in its order.
void Initiator::note_taken(uint32_t taken) {
    const PostList &list = adapter_.scratch().list;
    uint32_t first = list.size();
    for (auto chain = list.chains().rbegin(); chain != list.chains().rend(); ++chain) {
        first -= chain->requests;
        if (first >= taken) {
            take_back(chain->cookie);
        } else if (chain->cookie < kMaxOps) {
            Posting &posting = postings_[chain->cookie];
            posting.posted = posting.at;
            posting.op->sent = true;
        }
    }
}

void Initiator::take_back(uint64_t cookie) {
    if (cookie >= kMaxOps) return begun_.forget({cookie - kBegun});
    Posting &posting = postings_[cookie];
    --posting.chains;
    posting.at = posting.posted;
    if (!std::exchange(posting.whole, false)) return;
    posting.status = XFER_OK;
    queue_.push_front(posting);
}

// ---- bounce buffers

namespace {

// Between memory of the application, which may not be there, and ours. False: it is not there.
bool copy_own(Dir dir, std::vector<iovec> &theirs, uint64_t bytes, uint8_t *ours) {
    iovec local{ours, bytes};
    const auto call = dir == Dir::put ? ::process_vm_readv : ::process_vm_writev;
    const ssize_t done = call(::getpid(), &local, 1, theirs.data(), theirs.size(), 0);
    if (done == static_cast<ssize_t>(bytes)) return true;
    if (done >= 0 || errno == EFAULT) return false;
    for (const iovec &range : theirs) {  // the system forbids the call
        if (dir == Dir::put)
            std::memcpy(ours, range.iov_base, range.iov_len);
        else
            std::memcpy(range.iov_base, ours, range.iov_len);
        ours += range.iov_len;
    }
    return true;
}

}  // namespace

bool Initiator::take_bounce(Posting &posting) {
    Op &op = *posting.op;
    posting.bounce = adapter_.bounce_buffers().take(op.bytes);
    if (!posting.bounce || op.dir != Dir::put) return posting.bounce.has_value();
    op.unmapped =
        !copy_own(op.dir, adapter_.scratch().ranges_of_pieces(), op.bytes, posting.bounce->address);
    return !op.unmapped;
}

// The pieces that were drawn lie there one behind the other.
void Initiator::use_bounce(const Posting &posting) {
    if (!posting.bounce) return;
    auto at = reinterpret_cast<uint64_t>(posting.bounce->address);
    for (Piece &piece : adapter_.scratch().pieces) {
        piece.local = at;
        at += piece.length;
    }
}

void Initiator::copy_out(Posting &posting) {
    Op &op = *posting.op;
    if (op.dir != Dir::get || op.canceled || posting.status != XFER_OK) return;
    auto &pieces = adapter_.scratch().pieces;
    pieces.clear();
    op.draw(pieces);
    op.unmapped =
        !copy_own(op.dir, adapter_.scratch().ranges_of_pieces(), op.bytes, posting.bounce->address);
    if (op.unmapped) posting.status = XFER_EIO;
}

// ---- ends

// The first bad news of an operation says what became of it. A dead key says that nothing of what
// follows was applied; of all else nobody knows whether it was.
void Initiator::on_chain_ended(const ChainEnd &end) {
    if (end.cookie < kMaxOps) {
        Posting &posting = postings_[end.cookie];
        --posting.chains;
        const bool dead_key =
            end.how == ChainEnd::How::failed && end.native == IBV_WC_REM_ACCESS_ERR;
        if (end.how != ChainEnd::How::done && posting.status == XFER_OK)
            posting.status = dead_key ? status_of_end(posting.region) : XFER_EPEERLOST;
        if (!stopped_ && posting.whole && posting.chains == 0) finish(posting);
    }
    go_on();
}

void Initiator::be_over(Posting &posting, Status status) {
    posting.ListNode<InPostings>::unlink();
    posting.stage = Stage::over;
    posting.status = status;
    over_.push_back(posting);
    adapter_.loop().defer(*this);
}

void Initiator::run() {
    if (stopped_) return;
    while (Posting *posting = over_.pop_front())
        finish(*posting);
    post_waiting();
}

void Initiator::finish(Posting &posting) {
    Op &op = *posting.op;
    if (posting.bounce) {
        copy_out(posting);
        adapter_.bounce_buffers().give_back(*posting.bounce);
    }
    if (posting.epoch) adapter_.memory().leave(posting.epoch);
    const Status status =
        posting.status == XFER_OK && op.canceled ? XFER_ECANCELED : posting.status;
    const bool declined = posting.declined;
    const RegionId awaited = posting.awaited ? posting.region : RegionId{};
    posting.ListNode<InPostings>::unlink();
    std::destroy_at(&posting);
    std::construct_at(&posting);
    free_.push_back(posting);
    if (declined)
        declined_sink_->on_declined(op);
    else
        sink_->on_done(op, status);
    if (awaited && !stopped_ && !uses(awaited)) declined_sink_->on_dropped(awaited);
}

void Initiator::stop() {
    stopped_ = true;
    adapter_.loop().disarm(cancel_);
}

void Initiator::end() {
    stopped_ = true;
    for (uint32_t i = 0; postings_ && i < kMaxOps; ++i) {
        Posting &posting = postings_[i];
        if (!posting.op) continue;
        const bool done = posting.whole && posting.chains == 0;
        if (posting.stage != Stage::over && !done && posting.status == XFER_OK)
            posting.status = XFER_EPEERLOST;
        if (posting.declined) posting.status = XFER_EPEERLOST;
        posting.declined = false;
        finish(posting);
    }
}

// ---- cancel, and the end of a region

// What is begun, and not by way of a bounce buffer, is in use until the adapter says otherwise.
bool Initiator::cancel(Op &op) {
    Posting &posting = postings_[op.seq];
    const bool begun = posting.stage == Stage::begun && posting.chains > 0;
    if (begun && !posting.whole) {
        posting.ListNode<InPostings>::unlink();
        posting.whole = true;
        posting.status = XFER_ECANCELED;
    }
    if (begun && !posting.bounce) {
        posting.quiet_due = adapter_.loop().now() + kCancelNs;
        if (!cancel_.armed()) adapter_.loop().arm(cancel_, posting.quiet_due);
        return false;
    }
    op.canceled = true;
    posting.declined = false;
    if (posting.stage != Stage::over && !begun) be_over(posting, XFER_ECANCELED);
    return true;
}

// A loop that was kept from its work has not seen what ended meanwhile.
void Initiator::on_timer(Timer &) {
    const uint64_t now = adapter_.loop().now();
    uint64_t next = kNever;
    for (uint32_t i = 0; i < kMaxOps; ++i) {
        Posting &posting = postings_[i];
        if (!posting.quiet_due) continue;
        const bool late = now > posting.quiet_due + kCancelNs / 4;
        if (late && !std::exchange(posting.was_late, true)) posting.quiet_due = now + kCancelNs / 4;
        next = std::min(next, posting.quiet_due);
    }
    if (next == kNever) return;
    if (next > now) return adapter_.loop().arm(cancel_, next);
    owner_.on_broken({XFER_ETIMEDOUT, XFER_ORIGIN_NONE, 0,
                      "an operation that was canceled does not end by itself"});
}

void Initiator::drop(const Import &import) {
    for (uint32_t i = 0; i < kMaxOps; ++i) {
        Posting &posting = postings_[i];
        if (!posting.op || posting.remote != &import) continue;
        posting.remote = nullptr;
        if (posting.stage != Stage::begun || posting.whole) continue;
        posting.whole = true;  // the rest of it has nowhere to go
        posting.status = status_of_end(posting.region);
        posting.ListNode<InPostings>::unlink();
        if (posting.chains == 0) be_over(posting, posting.status);
    }
}

bool Initiator::uses(RegionId region) const {
    return std::any_of(postings_.get(), postings_.get() + kMaxOps, [&](const Posting &posting) {
        return posting.op && posting.chains > 0 && posting.region == region;
    });
}

bool Initiator::withdrawn(RegionId region) {
    if (stopped_ || !uses(region)) return true;
    for (uint32_t i = 0; i < kMaxOps; ++i)
        if (postings_[i].chains > 0 && postings_[i].region == region) postings_[i].awaited = true;
    return false;
}

}  // namespace xfer::rdma
