// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/initiator.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xfer::rdma {

namespace {

constexpr uint32_t kMaxOps = 64;         // posted and not done
constexpr uint64_t kBegun = UINT64_MAX;  // the cookie of a record in the peer's table
constexpr uint64_t kCancelNs = 250 * kNsPerMs;

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
    if (&queue_.front() == posting) go_on();
    return true;
}

void Initiator::go_on() {
    while (!stopped_ && !queue_.empty()) {
        Posting &first = queue_.front();
        const bool waits = first.stage == Stage::waits;
        if (waits && !begin(first)) continue;
        if (!waits) draw(first);
        use_bounce(first);
        if (advance(first) != Step::posted) return;
    }
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
    if (is_inline && pieces.size() == 1) return true;
    for (const Piece &piece : pieces) {
        for (uint64_t done = 0; done < piece.length;) {
            const LocalKey key = adapter_.memory().find(piece.local + done, op.dir);
            if (key.reach == 0) return false;
            done += std::min(key.reach, piece.length - done);
        }
    }
    return true;
}

Initiator::Step Initiator::advance(Posting &posting) {
    Step step = post_begun(*posting.op);
    while (step == Step::posted && !posting.whole)
        step = post_next(posting);
    if (step != Step::posted) return step;
    posting.ListNode<InPostings>::unlink();
    if (posting.chains == 0) be_over(posting, posting.status);
    return step;
}

// Before the first byte of a notification's puts.
Initiator::Step Initiator::post_begun(const Op &op) {
    const NotificationId number{op.dir == Dir::put ? op.remote.notification : 0};
    if (!number || begun_.is_noted(number)) return Step::posted;
    const Piece record = begun_.note(number, op.remote.notification_key);
    Chain &chain = adapter_.scratch().chain;
    chain.build(Dir::put, {&record, 1}, {}, {table_.address, {&table_.key, 1}, UINT64_MAX}, begun_,
                pair_->limits(1));
    const Step step = judge(pair_->post(chain, kBegun));
    if (step == Step::full) begun_.forget(number);
    return step;
}

// The next chain, of as much as there are slots for.
Initiator::Step Initiator::post_next(Posting &posting) {
    const uint32_t slots = pair_->free_slots();
    if (slots == 0) return Step::full;
    Adapter::Scratch &scratch = adapter_.scratch();
    const Keys keys(adapter_.memory(), posting);
    const ChainPosition next =
        scratch.chain.build(posting.op->dir, scratch.pieces, posting.at, posting.remote->memory(),
                            keys, pair_->limits(slots));
    const bool at_end = next.piece == scratch.pieces.size();
    if (scratch.chain.empty()) {  // nothing but pieces without bytes; or its memory has gone
        posting.whole = true;
        if (!at_end) posting.status = XFER_EIO;
        return Step::posted;
    }
    ++posting.chains;
    posting.op->sent = true;
    const auto cookie = static_cast<uint64_t>(&posting - postings_.get());
    const Posted posted = pair_->post(scratch.chain, cookie);
    if (posted.taken == 0) --posting.chains;
    const Step step = judge(posted);
    if (step != Step::posted) return step;
    posting.at = next;
    posting.whole = at_end;
    return step;
}

Initiator::Step Initiator::judge(const Posted &posted) {
    if (posted.admitted == Admitted::full) return Step::full;
    if (posted.admitted != Admitted::granted) return Step::broken;  // its end is told
    if (posted.why.status == XFER_OK) return Step::posted;
    if (posted.taken == 0 && posted.why.status == XFER_EAGAIN) return Step::full;
    owner_.on_broken(posted.why);
    return Step::broken;
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
    if (end.cookie != kBegun) {
        Posting &posting = postings_[end.cookie];
        --posting.chains;
        const bool dead_key =
            end.how == ChainEnd::How::failed && end.native == IBV_WC_REM_ACCESS_ERR;
        if (end.how != ChainEnd::How::done && posting.status == XFER_OK)
            posting.status = dead_key ? XFER_ESTALE : XFER_EPEERLOST;
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

void Initiator::on_timer(Timer &) {
    uint64_t next = kNever;
    for (uint32_t i = 0; i < kMaxOps; ++i)
        if (postings_[i].quiet_due) next = std::min(next, postings_[i].quiet_due);
    if (next == kNever) return;
    if (next > adapter_.loop().now()) return adapter_.loop().arm(cancel_, next);
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
        posting.status = XFER_ESTALE;
        posting.ListNode<InPostings>::unlink();
        if (posting.chains == 0) be_over(posting, XFER_ESTALE);
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
