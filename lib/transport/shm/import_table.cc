// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/import_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/atomic.h"
#include "transport/shm/hazard.h"
#include "transport/shm/streaming.h"
#include "util/mapped.h"
#include "util/tsan_ignore.h"
#include "xfer/xfer.h"

namespace xfer::shm {

namespace {

constexpr uint32_t kMaxAsked = 64;  // questions that wait for an answer

// Work of so many bytes, more than a last-level cache holds, is copied past the caches, in pieces
// that are worth it. (lib/design/0013-same-host.md has the measurements.)
constexpr uint64_t kPastCaches = 48 << 20;
constexpr uint64_t kStreamed = 64 << 10;

// Two engines of one process may be given the same memory.
bool disjoint(const uint8_t *a, const uint8_t *b, uint64_t length) {
    return a + length <= b || b + length <= a;
}

void copy_piece(uint8_t *to, const uint8_t *from, uint64_t length, bool large) {
    if (length == 0) return;  // which may be nowhere
    if (large && length >= kStreamed && disjoint(to, from, length))
        streaming_copy(to, from, length);
    else
        std::memmove(to, from, length);
}

}  // namespace

// A memfd of the neighbour's, mapped as far as we were let.
class ImportTable::Mapping : public RefCounted<Mapping> {
public:
    explicit Mapping(const Fd &fd) {
        const uint64_t size = sealed_size(fd);
        const int mode = ::fcntl(fd.get(), F_GETFL);
        if (size == 0 || mode < 0) return;
        const int protection = PROT_READ | ((mode & O_ACCMODE) == O_RDWR ? PROT_WRITE : 0);
        void *at = ::mmap(nullptr, size, protection, MAP_SHARED, fd.get(), 0);
        if (at == MAP_FAILED) return;
        data_ = static_cast<uint8_t *>(at);
        size_ = size;
        writable_ = protection & PROT_WRITE;
    }
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping() {
        if (data_) ::munmap(data_, size_);
    }
    uint8_t *find(const Word &region) const {
        const bool inside = region.offset <= size_ && region.length <= size_ - region.offset;
        const bool allowed = writable_ || !(region.access & kChanges);
        return data_ && inside && allowed ? data_ + region.offset : nullptr;
    }

private:
    uint8_t *data_ = nullptr;
    uint64_t size_ = 0;
    bool writable_ = false;
};

ImportTable::ImportTable(const RendezvousSocket &door, End &mine, End &theirs)
    : rendezvous_(door), mine_(mine), theirs_(theirs) {
    local_.reserve(kMaxPieces);  // so that no copy lacks memory
    remote_.reserve(kMaxPieces);
}

ImportTable::~ImportTable() = default;

// ---- what was shown

ImportTable::Way ImportTable::way(const Op &op) {
    const auto id = op.remote.target().region();
    if (!id) return Way::rings;  // of a message, pulled once
    auto at = regions_.find(*id);
    // That it was not shown to who had another key says nothing.
    if (at != regions_.end() && at->second.state == Region::State::beyond &&
        at->second.key != op.remote.key)
        regions_.erase(std::exchange(at, regions_.end()));
    if (at == regions_.end()) {
        if (regions_.size() >= kSlots) forget_beyond();
        return asked_ < kMaxAsked && regions_.size() < kSlots ? Way::ask : Way::rings;
    }
    const Region &region = at->second;
    return region.state == Region::State::shown && fits(op, region) ? Way::copy : Way::rings;
}

// What does not fit is refused by its owner, who knows best why. The kernel copies, but knows no
// atomics.
bool ImportTable::fits(const Op &op, const Region &region) const {
    return region.generation == op.remote.generation && region.key == op.remote.key &&
           region.access & access_for(op.dir) && (op.dir != Dir::atomic || region.here);
}

Word ImportTable::question(const Op &op) {
    Region &region = regions_[{op.remote.region}];
    region.generation = op.remote.generation;
    region.key = op.remote.key;
    ++asked_;
    Word word;
    word.kind = Word::Kind::show;
    word.region = op.remote.region;
    word.generation = op.remote.generation;
    word.key = op.remote.key;
    return word;
}

void ImportTable::hear(const Word &shown, std::vector<Fd> fds) {
    const auto at = regions_.find({shown.region});
    if (at == regions_.end() || at->second.state != Region::State::asked) return;
    --asked_;
    const MappingId mapping{shown.mapping};
    if (mapping && fds.size() == 1 && (mappings_.size() < kSlots || mappings_.contains(mapping)))
        mappings_[mapping] = Ref<Mapping>::adopt(new Mapping(fds[0]));
    Region &region = at->second;
    region.state = Region::State::beyond;
    if (shown.status != 0 || shown.slot >= kSlots) return;
    region.slot = static_cast<uint32_t>(shown.slot);
    region.stamp = shown.stamp;
    region.base = shown.base;
    region.length = shown.length;
    region.access = shown.access;
    if (rendezvous_.pid() == ::getpid()) {
        region.here = reinterpret_cast<uint8_t *>(shown.base);
    } else if (const auto there = mappings_.find(mapping); there != mappings_.end()) {
        region.mapping = there->second;
        region.here = region.mapping->find(shown);
    }
    if (region.here || reaches()) region.state = Region::State::shown;
}

void ImportTable::hide(RegionId region) {
    const auto at = regions_.find(region);
    if (at == regions_.end()) return;
    if (at->second.state == Region::State::asked) --asked_;
    regions_.erase(at);
}

// Regions that lie in it and were not hidden keep it mapped: they point there.
void ImportTable::drop(MappingId mapping) {
    mappings_.erase(mapping);
}

void ImportTable::forget_beyond() {
    std::erase_if(regions_,
                  [](const auto &at) { return at.second.state == Region::State::beyond; });
}

// Whether the kernel lets us at the neighbour's memory: tried where it has put what only it knows.
bool ImportTable::reaches() {
    if (kernel_ != Kernel::untried) return kernel_ == Kernel::works;
    kernel_ = Kernel::forbids;
    std::array<uint8_t, 16> found{}, right = theirs_.nonce;
    iovec local{found.data(), found.size()};
    iovec remote{reinterpret_cast<void *>(theirs_.nonce_at.load()), found.size()};
    if (!rendezvous_.there()) return false;
    const ssize_t read = ::process_vm_readv(rendezvous_.pid(), &local, 1, &remote, 1, 0);
    if (read == static_cast<ssize_t>(found.size()) && found == right) kernel_ = Kernel::works;
    return kernel_ == Kernel::works;
}

// ---- copies

// Before the first byte, so that an owner whose neighbour dies with half a batch copied knows of
// it. The key first: who dies in between leaves the number of one that is over.
bool ImportTable::note(const Op &op) {
    const uint64_t number = op.dir == Dir::put ? op.remote.notification : 0;
    Noted &noted = mine_.noted[number % kNotificationSpan];
    if (!number || noted.number.load(std::memory_order_relaxed) == number) return number;
    noted.key.store(op.remote.notification_key);
    noted.number.store(number);
    return true;
}

bool ImportTable::copy(Op &op, std::vector<Piece> &pieces) {
    const auto at = regions_.find({op.remote.region});
    if (at == regions_.end()) return false;
    const Region &region = at->second;
    if (!fits(op, region)) return false;
    pieces.clear();
    op.draw(pieces);
    for (const Piece &piece : pieces)
        if (piece.offset > region.length || piece.length > region.length - piece.offset)
            return false;
    // A neighbour may say that a region begins anywhere.
    if (op.dir == Dir::atomic &&
        !is_aligned(reinterpret_cast<uint64_t>(region.here) + pieces[0].offset))
        return false;
    op.sent |= note(op);
    bool done = publish(mine_.hazard, theirs_.slots[region.slot], region.stamp);
    op.sent |= done;
    if (done)
        done = region.here ? copy_here(op, region, pieces) : copy_there(op, region, pieces);
    else
        regions_.erase(at);
    if (done) op.moved = way_of(region);
    clear(mine_.hazard);
    return done;
}

Moved ImportTable::way_of(const Region &region) const {
    if (!region.here) return Moved::kernel;
    return region.mapping ? Moved::mapped : Moved::process;
}

bool ImportTable::copy_here(Op &op, const Region &region, const std::vector<Piece> &pieces) {
    if (op.dir == Dir::atomic) {
        op.before = apply(op.atomic, region.here + pieces[0].offset);
        return true;
    }
    const TsanIgnore copies;
    const bool large = op.list->bytes() >= kPastCaches;
    for (const Piece &piece : pieces) {
        auto *local = reinterpret_cast<uint8_t *>(piece.local);
        uint8_t *remote = region.here + piece.offset;
        if (op.dir == Dir::put)
            copy_piece(remote, local, piece.length, large);
        else
            copy_piece(local, remote, piece.length, large);
    }
    return true;
}

bool ImportTable::copy_there(Op &op, const Region &region, const std::vector<Piece> &pieces) {
    local_.clear();
    remote_.clear();
    for (const Piece &piece : pieces) {
        local_.push_back({reinterpret_cast<void *>(piece.local), piece.length});
        remote_.push_back({reinterpret_cast<void *>(region.base + piece.offset), piece.length});
    }
    // A number is a process's own for as long as it has not ended and been waited for.
    if (!rendezvous_.there()) return false;
    const auto call = op.dir == Dir::put ? ::process_vm_writev : ::process_vm_readv;
    const ssize_t moved =
        call(rendezvous_.pid(), local_.data(), local_.size(), remote_.data(), remote_.size(), 0);
    if (moved == static_cast<ssize_t>(op.bytes)) return true;
    // Whose memory the kernel could not reach it does not say. Of the neighbour's its owner tells.
    for (const Piece &piece : pieces)
        op.unmapped |= !is_mapped(reinterpret_cast<void *>(piece.local), piece.length);
    return false;
}

}  // namespace xfer::shm
