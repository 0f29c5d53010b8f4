// SPDX-License-Identifier: Apache-2.0
#include "sim_copy_path.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "sim_transport.h"
#include "transport/atomic.h"
#include "wire/limits.h"

namespace xfer {

namespace {

constexpr uint64_t kMagic = 0x796b20656b616d73;
constexpr uint64_t kLookNs = 20'000;  // between two looks at who copies still

Failure not_exported(Status status) {
    return {status, 0, 0, "not exported"};
}

}  // namespace

struct SimCopyPath::Known final : Import {
    Known(const Shown &shown, uint64_t allowed) : Import(allowed, true), at(shown) {}
    const Shown at;
};

SimCopyPath::SimCopyPath(Owner &owner, Scope scope, bool adapter)
    : owner_(owner),
      scope_(scope),
      adapter_(adapter),
      net_(owner.transport().net),
      number_(++net_.last_copy_path) {
    net_.copy_paths[number_] = this;
}

SimCopyPath::~SimCopyPath() {
    net_.copy_paths.erase(number_);
}

void SimCopyPath::start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) {
    sink_ = &sink;
    declined_sink_ = &declined;
    max_ops_ = max_ops;
}

Caps SimCopyPath::caps() const {
    return {scope_, max_ops_, net_.copy_max_bytes, net_.copy_max_pieces};
}

CopyFate SimCopyPath::ask(CopyStep step) const {
    const CopyFate fate = net_.on_copy ? net_.on_copy(step, *this) : CopyFate::go_on;
    static const char *const kSteps[] = {"post", "begin", "finish", "cancel", "export", "import"};
    static const char *const kFates[] = {"goes on",  "is refused", "fails",     "lacks memory",
                                         "declined", "busy",       "path falls"};
    if (fate != CopyFate::go_on)
        ++net_.met[std::string("copy, ") + kSteps[static_cast<size_t>(step)] + ": " +
                   kFates[static_cast<size_t>(fate)]];
    return fate;
}

// ---- regions

Result<ExportKey> SimCopyPath::export_region(RegionId region, const ExportedMemory &memory) {
    if (closing_) return not_exported(XFER_EAGAIN);
    Shown &shown = shown_[region.value];
    if (!shown.stamp) shown = {number_, ++net_.last_stamp, memory.base, memory.length};
    switch (ask(CopyStep::exported)) {
    case CopyFate::refuse:
        return not_exported(XFER_EAGAIN);
    case CopyFate::fail:
        return not_exported(XFER_EUNSUPPORTED);
    case CopyFate::lack:
        throw std::bad_alloc();
    default:
        break;
    }
    ExportKey key;
    for (const uint64_t word :
         {kMagic, shown.path, shown.stamp, reinterpret_cast<uint64_t>(shown.base), shown.length,
          uint64_t{memory.access}}) {
        uint8_t bytes[sizeof word];
        store(bytes, word);
        for (const uint8_t byte : bytes)
            key.push_back(byte);
    }
    return key;
}

// Whether it is shown still is looked at when a copy begins.
std::unique_ptr<Import> SimCopyPath::import(ConstBytes key) {
    std::array<uint64_t, 6> words;
    if (closing_ || key.size() != sizeof words) return nullptr;
    std::memcpy(words.data(), key.data(), sizeof words);
    if (words[0] != kMagic) return nullptr;
    const CopyFate fate = ask(CopyStep::imported);
    if (fate == CopyFate::lack) throw std::bad_alloc();
    if (fate == CopyFate::refuse) return nullptr;
    return std::make_unique<Known>(
        Shown{words[1], words[2], reinterpret_cast<uint8_t *>(words[3]), words[4]}, words[5]);
}

// What moves already goes on to its end.
void SimCopyPath::drop(std::unique_ptr<Import> import) {
    for (Op &op : posted_)
        if (op.import == import.get()) op.import = nullptr;
    for (Copy &copy : copies_)
        if (copy.op->import == import.get()) copy.op->import = nullptr;
}

bool SimCopyPath::uses(RegionId region) const {
    return std::any_of(copies_.begin(), copies_.end(),
                       [&](const Copy &copy) { return copy.begun && copy.region == region; });
}

bool SimCopyPath::withdrawn(RegionId region) {
    if (!adapter_ || !uses(region)) return true;
    dropping_.push_back(region);
    return false;
}

bool SimCopyPath::shows(uint64_t stamp) const {
    return std::any_of(shown_.begin(), shown_.end(), [&](const auto &at) {
        return at.second.stamp == stamp && owner_.is_registered(RegionId{at.first});
    });
}

bool SimCopyPath::is_copying(uint64_t stamp) const {
    return !owner_.transport().process->dead &&
           std::any_of(copies_.begin(), copies_.end(),
                       [&](const Copy &copy) { return copy.begun && copy.at.stamp == stamp; });
}

bool SimCopyPath::is_claimed(uint64_t stamp) const {
    return std::any_of(net_.copy_paths.begin(), net_.copy_paths.end(),
                       [&](const auto &at) { return at.second->is_copying(stamp); });
}

bool SimCopyPath::retire(Target target, Status) {
    if (adapter_) return true;  // its keys work until they are void
    const auto region = target.region();
    const auto at = region ? shown_.find(region->value) : shown_.end();
    if (at == shown_.end()) return true;
    const uint64_t stamp = at->second.stamp;
    shown_.erase(at);
    if (!is_claimed(stamp)) return true;
    leaving_.emplace_back(region->value, stamp);
    look();
    return false;
}

void SimCopyPath::look() {
    if (std::exchange(looking_, true)) return;
    owner_.later(kLookNs, [](SimCopyPath &path) {
        path.looking_ = false;
        path.tell_quiet();
        if (path.closing_)
            path.tell();
        else if (!path.leaving_.empty())
            path.look();
    });
}

void SimCopyPath::tell_quiet() {
    const auto over = std::partition(leaving_.begin(), leaving_.end(),
                                     [&](const auto &at) { return is_claimed(at.second); });
    const std::vector<std::pair<uint64_t, uint64_t>> quiet(over, leaving_.end());
    leaving_.erase(over, leaving_.end());
    for (const auto &[region, stamp] : quiet)
        sink_->on_quiesced(RegionId{region});
}

// ---- operations

bool SimCopyPath::post(Op &op) {
    XFER_CHECK(op.bytes <= net_.copy_max_bytes && op.pieces <= net_.copy_max_pieces);
    if (closing_ || count_ >= max_ops_) return false;
    const CopyFate fate = ask(CopyStep::post);
    if (fate == CopyFate::fall) return fall(), false;
    if (fate == CopyFate::refuse) return max_ops_ = count_, false;
    ++count_;
    if (fate != CopyFate::decline) return posted_.push_back(op), true;
    declined_.push_back(op);
    return soon(), true;
}

void SimCopyPath::flush() {
    while (Op *op = posted_.pop_front()) {
        Copy copy;
        copy.op = op;
        copy.number = ++last_copy_;
        copies_.push_back(copy);
        owner_.later(net_.copy_delay(),
                     [number = copy.number](SimCopyPath &path) { path.begin(number); });
    }
}

std::list<SimCopyPath::Copy>::iterator SimCopyPath::find(uint64_t copy) {
    return std::find_if(copies_.begin(), copies_.end(),
                        [&](const Copy &at) { return at.number == copy; });
}

void SimCopyPath::end(std::list<Copy>::iterator at, Ops &how) {
    how.push_back(*at->op);
    copies_.erase(at);
    soon();
}

// A dead process copies nothing.
void SimCopyPath::begin(uint64_t number) {
    const auto at = find(number);
    if (at == copies_.end() || owner_.transport().process->dead) return;
    Op &op = *at->op;
    if (!reaches(*at)) return end(at, declined_);
    const auto owner = net_.copy_paths.find(at->at.path);
    note(op, *owner->second);  // before it is known whether it can be done
    const CopyFate fate = ask(CopyStep::begin);
    if (fate == CopyFate::fall) return fall();
    if (fate == CopyFate::decline) return end(at, declined_);
    std::vector<Piece> pieces;
    op.draw(pieces);
    at->begun = true;
    at->region = op.import->region;
    op.sent = true;
    op.moved = adapter_ ? Moved::adapter : Moved::mapped;
    name(*at, pieces);
    move(*at, 0, op.bytes / 2);
    owner_.later(net_.copy_delay(), [number](SimCopyPath &path) { path.finish(number); });
}

void SimCopyPath::finish(uint64_t number) {
    const auto at = find(number);
    if (at == copies_.end() || owner_.transport().process->dead) return;
    if (ask(CopyStep::finish) == CopyFate::fall) return fall();
    const auto owner = net_.copy_paths.find(at->at.path);
    const bool is_there = owner != net_.copy_paths.end() && !owner->second->closing_;
    if (adapter_ && is_there && !owner->second->shows(at->at.stamp)) ++net_.met["copy, dead key"];
    ++net_.met["copied"];
    if (at->op->dir == Dir::atomic)
        apply_atomic(*at);
    else if (!at->op->canceled)
        move(*at, at->op->bytes / 2, at->op->bytes);
    end(at, done_);
}

// Its import, the region and its owner are there, and the owner would refuse none of it.
bool SimCopyPath::reaches(Copy &copy) const {
    const Op &op = *copy.op;
    if (!op.import) return false;
    copy.at = static_cast<const Known *>(op.import)->at;
    const auto owner = net_.copy_paths.find(copy.at.path);
    if (owner == net_.copy_paths.end()) return false;
    if (owner->second->owner_.transport().process->dead) return false;
    if (!owner->second->shows(copy.at.stamp)) {
        if (adapter_ && !owner->second->closing_) ++net_.met["copy, dead key"];
        return false;
    }
    std::vector<Piece> pieces;
    op.draw(pieces);
    return std::all_of(pieces.begin(), pieces.end(), [&](const Piece &piece) {
        const bool inside =
            piece.offset <= copy.at.length && piece.length <= copy.at.length - piece.offset;
        return inside && (op.dir != Dir::atomic ||
                          is_aligned(reinterpret_cast<uint64_t>(copy.at.base) + piece.offset));
    });
}

// The owner hears of it with the end of its path, if not before.
void SimCopyPath::note(Op &op, SimCopyPath &owner) {
    const uint64_t number = op.remote.notification;
    if (op.dir != Dir::put || !number) return;
    op.sent = true;
    owner.noted_[number] = op.remote.notification_key;
    while (owner.noted_.begin()->first + kNotificationSpan < number)
        owner.noted_.erase(owner.noted_.begin());
    if (net_.observer) net_.observer->announced(op.remote.notification_key, owner_.there());
}

void SimCopyPath::name(Copy &copy, const std::vector<Piece> &pieces) {
    if (!net_.observer || pieces.empty()) return;
    const void *const local = users_memory(*copy.op);
    copy.operation = net_.observer->operation_at(local);
    net_.observer->leaves(copy.operation, local, owner_.there(), copy.op->checked);
}

void SimCopyPath::move(const Copy &copy, uint64_t from, uint64_t to) {
    std::vector<Piece> pieces;
    if (copy.op->dir != Dir::atomic) copy.op->draw(pieces);
    uint64_t at = 0;
    for (const Piece &piece : pieces) {
        const uint64_t begin = std::max(from, at), end = std::min(to, at + piece.length);
        if (begin < end)
            move_some(copy, {piece.local + (begin - at), piece.offset + (begin - at), end - begin});
        at += piece.length;
    }
}

void SimCopyPath::move_some(const Copy &copy, const Piece &piece) {
    uint8_t *const remote = copy.at.base + piece.offset;
    auto *const local = reinterpret_cast<uint8_t *>(piece.local);
    SimObserver *const observer = net_.observer;
    if (copy.op->dir == Dir::get) {
        if (observer) observer->reads(remote);
        std::memcpy(local, remote, piece.length);
        if (observer && !copy.op->bounce) observer->writes(local);
        return;
    }
    if (observer) observer->reads(local);
    std::memcpy(remote, local, piece.length);
    const Owner &there = net_.copy_paths.at(copy.at.path)->owner_;
    if (observer)
        observer->lands(copy.operation, there.transport().number, there.there(), there.generation(),
                        remote, piece.length);
}

void SimCopyPath::apply_atomic(const Copy &copy) {
    std::vector<Piece> pieces;
    copy.op->draw(pieces);
    void *const word = copy.at.base + pieces[0].offset;
    const Owner &there = net_.copy_paths.at(copy.at.path)->owner_;
    if (net_.observer)
        net_.observer->changes(copy.operation, there.transport().number, there.there(),
                               there.generation(), word);
    copy.op->before = apply(copy.op->atomic, word);
}

// ---- the end of one, and of all

// What was not begun is given up at once, and what moves in the middle.
bool SimCopyPath::cancel(Op &op) {
    for (const Op &other : done_)
        if (&other == &op) return true;
    const auto at = std::find_if(copies_.begin(), copies_.end(),
                                 [&](const Copy &copy) { return copy.op == &op; });
    const bool begun = at != copies_.end() && at->begun;
    const CopyFate fate = ask(CopyStep::cancel);
    if (begun && net_.copy_bounces && op.dir == Dir::get) return op.canceled = true;
    if (fate == CopyFate::busy) {
        if (!begun) op.import = nullptr;  // that it was taken is all that has become of it
        return false;
    }
    op.canceled = true;
    Ops &how = fate == CopyFate::decline && !begun ? declined_ : ended_;
    if (at != copies_.end()) return end(at, how), true;
    op.ListNode<InPath>::unlink();
    how.push_back(op);
    return soon(), true;
}

void SimCopyPath::soon() {
    owner_.later(0, [](SimCopyPath &path) { path.tell(); });
}

void SimCopyPath::tell() {
    if (closing_) ended_.append(declined_);
    while (Op *op = ended_.pop_front()) {
        --count_;
        sink_->on_done(*op, op->canceled ? XFER_ECANCELED : XFER_EPEERLOST);
    }
    while (Op *op = done_.pop_front()) {
        --count_;
        sink_->on_done(*op, XFER_OK);
    }
    while (Op *op = declined_.pop_front()) {
        --count_;
        declined_sink_->on_declined(*op);
    }
    std::erase_if(dropping_, [this](RegionId region) {
        if (uses(region)) return false;
        if (!closing_) declined_sink_->on_dropped(region);
        return true;
    });
    if (!closing_ || over_ || count_ || !may_end()) return;
    for (const auto &[notification, key] : noted_)
        sink_->on_notification_begun({notification}, key);
    over_ = true;
    sink_->on_down(why_);
    with_channel_ ? close(why_) : owner_.on_fallen(why_);
}

// Before the end is told, nobody copies any more.
bool SimCopyPath::may_end() {
    tell_quiet();
    const bool claimed = std::any_of(last_stamps_.begin(), last_stamps_.end(),
                                     [this](uint64_t stamp) { return is_claimed(stamp); });
    if (leaving_.empty() && !claimed) return true;
    look();
    return false;
}

void SimCopyPath::fall() {
    if (std::exchange(closing_, true)) return;
    if (!why_.status) why_ = {XFER_EPEERLOST, 0, 0, "the path has fallen"};
    while (!copies_.empty()) {
        if (adapter_ && copies_.front().begun) go_astray(copies_.front());
        end(copies_.begin(), ended_);
    }
    ended_.append(posted_);
    for (const auto &[region, shown] : std::exchange(shown_, {}))
        last_stamps_.push_back(shown.stamp);
    soon();
}

// The rest of a put is on its way: it has been read, and lands if the owner's end lets it in.
void SimCopyPath::go_astray(const Copy &copy) {
    if (copy.op->dir != Dir::put) return;
    std::vector<Piece> pieces;
    copy.op->draw(pieces);
    const Piece &last = pieces.back();
    const auto *from = reinterpret_cast<const uint8_t *>(last.local);
    const std::vector<uint8_t> bytes(from, from + last.length);
    ++net_.met["copy, astray"];
    net_.world.post(owner_.transport().loop, net_.copy_delay(),
                    [&net = net_, copy, offset = last.offset, bytes] {
                        const auto at = net.copy_paths.find(copy.at.path);
                        if (at == net.copy_paths.end() || !at->second->shows(copy.at.stamp)) return;
                        ++net.met["copy, landed astray"];
                        std::memcpy(copy.at.base + offset, bytes.data(), bytes.size());
                        const Owner &there = at->second->owner_;
                        if (net.observer)
                            net.observer->lands(copy.operation, there.transport().number,
                                                there.there(), there.generation(),
                                                copy.at.base + offset, bytes.size());
                    });
}

void SimCopyPath::close(const Failure &why) {
    with_channel_ = true;
    if (!closing_) why_ = why;
    if (!over_) return fall();
    owner_.later(0, [why](SimCopyPath &path) { path.owner_.on_copies_over(why); });
}

}  // namespace xfer
