// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/importer.h"

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

constexpr size_t kMaxDescriptors = 64;  // that have come before the keys which name them

// Work of so many bytes, more than a last-level cache holds, is copied past the caches, in pieces
// that are worth it. (lib/design/0013-same-host.md has the measurements.)
constexpr uint64_t kPastCaches = 48 << 20;
constexpr uint64_t kStreamed = 64 << 10;

// Two engines of one process may be given the same memory.
bool disjoint(const uint8_t *a, const uint8_t *b, uint64_t length) {
    return a + length <= b || b + length <= a;
}

// `region`: where the remote one begins here.
void copy_piece(Dir dir, const Piece &piece, uint8_t *region, bool large) {
    if (piece.length == 0) return;  // which may be nowhere
    const TsanIgnore copies;
    auto *local = reinterpret_cast<uint8_t *>(piece.local);
    uint8_t *remote = region + piece.offset;
    uint8_t *to = dir == Dir::put ? remote : local;
    const uint8_t *from = dir == Dir::put ? local : remote;
    if (large && piece.length >= kStreamed && disjoint(to, from, piece.length))
        streaming_copy(to, from, piece.length);
    else
        std::memmove(to, from, piece.length);
}

}  // namespace

// A memfd of the neighbour's, mapped as far as we were let.
class Importer::Mapping : public RefCounted<Mapping> {
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
    uint8_t *find(const RegionKey &region) const {
        const bool inside = region.offset <= size_ && region.length <= size_ - region.offset;
        const bool allowed = writable_ || !(region.access & kChanges);
        return data_ && inside && allowed ? data_ + region.offset : nullptr;
    }

private:
    uint8_t *data_ = nullptr;
    uint64_t size_ = 0;
    bool writable_ = false;
};

// An import: the region's key, and where it lies here if that is in reach.
struct Importer::Region final : Import {
    Region(const RegionKey &from, uint8_t *at, Ref<Mapping> in)
        : Import(from.access, at), key(from), here(at), mapping(std::move(in)) {}
    Moved way() const {
        if (!here) return Moved::kernel;
        return mapping ? Moved::mapped : Moved::process;
    }
    const RegionKey key;         // base: in the neighbour's process
    uint8_t *const here;         // or null: the kernel copies, which knows no atomics
    const Ref<Mapping> mapping;  // in which that is: it stays as long as this is here
};

const Importer::Region &Importer::region_of(const Op &op) {
    return *static_cast<const Region *>(op.import);
}

Importer::Importer(const RendezvousSocket &rendezvous, End &mine, End &theirs)
    : rendezvous_(rendezvous), mine_(mine), theirs_(theirs) {
    local_.reserve(kMaxPieces);  // so that no copy lacks memory
    remote_.reserve(kMaxPieces);
}

Importer::~Importer() = default;

// ---- keys, and the descriptors of what they lie in

void Importer::take(MappingId mapping, Fd descriptor) {
    const bool room = descriptors_.size() < kMaxDescriptors || descriptors_.contains(mapping);
    if (mapping && room) descriptors_[mapping] = std::move(descriptor);
}

std::unique_ptr<Import> Importer::import(const RegionKey &key) {
    const MappingId mapping{key.mapping};
    if (const auto came = descriptors_.find(mapping); came != descriptors_.end()) {
        if (mappings_.size() < kSlots || mappings_.contains(mapping))
            mappings_[mapping] = Ref<Mapping>::adopt(new Mapping(came->second));
        descriptors_.erase(came);
    }
    if (key.slot >= kSlots || key.stamp == 0) return nullptr;
    if (rendezvous_.pid() == ::getpid())
        return std::make_unique<Region>(key, reinterpret_cast<uint8_t *>(key.base), Ref<Mapping>());
    if (const auto there = mappings_.find(mapping); there != mappings_.end())
        if (uint8_t *here = there->second->find(key))
            return std::make_unique<Region>(key, here, there->second);
    if (!reaches()) return nullptr;
    return std::make_unique<Region>(key, nullptr, Ref<Mapping>());
}

// Regions that lie in it and are imported still keep it mapped: they point there.
void Importer::drop(MemoryId memory) {
    for (const bool writable : {false, true}) {
        descriptors_.erase(mapping_of(memory, writable));
        mappings_.erase(mapping_of(memory, writable));
    }
}

// Whether the kernel lets us at the neighbour's memory: tried where it has put what only it knows.
bool Importer::reaches() {
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
bool Importer::note(const Op &op) {
    const uint64_t number = op.dir == Dir::put ? op.remote.notification : 0;
    Noted &noted = mine_.noted[number % kNotificationSpan];
    if (!number || noted.number.load(std::memory_order_relaxed) == number) return number;
    noted.key.store(op.remote.notification_key);
    noted.number.store(number);
    return true;
}

bool Importer::copy(Op &op, std::vector<Piece> &pieces) {
    const Region &region = region_of(op);
    pieces.clear();
    op.draw(pieces);
    for (const Piece &piece : pieces)
        if (piece.offset > region.key.length || piece.length > region.key.length - piece.offset)
            return false;
    // A neighbour may say that a region begins anywhere.
    if (op.dir == Dir::atomic &&
        !is_aligned(reinterpret_cast<uint64_t>(region.here) + pieces[0].offset))
        return false;
    op.sent |= note(op);
    bool done = publish(mine_.hazard, theirs_.slots[region.key.slot], region.key.stamp);
    op.sent |= done;
    if (done) done = region.here ? copy_here(op, region, pieces) : copy_there(op, region, pieces);
    if (done) op.moved = region.way();
    clear(mine_.hazard);
    return done;
}

std::optional<Moved> Importer::copy_now(const Import &import, Dir dir, const Piece &piece) {
    const auto &region = static_cast<const Region &>(import);
    const uint64_t limit = region.key.length;
    if (piece.offset > limit || piece.length > limit - piece.offset) return std::nullopt;
    bool done = publish(mine_.hazard, theirs_.slots[region.key.slot], region.key.stamp);
    if (done && region.here)
        copy_piece(dir, piece, region.here, false);
    else if (done)
        done = ask_kernel(dir, region, {&piece, 1});
    clear(mine_.hazard);
    return done ? std::optional(region.way()) : std::nullopt;
}

bool Importer::copy_here(Op &op, const Region &region, const std::vector<Piece> &pieces) {
    if (op.dir == Dir::atomic) {
        op.before = apply(op.atomic, region.here + pieces[0].offset);
        return true;
    }
    const bool large = op.list->bytes() >= kPastCaches;
    for (const Piece &piece : pieces)
        copy_piece(op.dir, piece, region.here, large);
    return true;
}

bool Importer::copy_there(Op &op, const Region &region, const std::vector<Piece> &pieces) {
    if (ask_kernel(op.dir, region, pieces)) return true;
    // Whose memory the kernel could not reach it does not say. Of the neighbour's its owner tells.
    for (const Piece &piece : pieces)
        op.unmapped |= !is_mapped(reinterpret_cast<void *>(piece.local), piece.length);
    return false;
}

// False: not all of it was copied.
bool Importer::ask_kernel(Dir dir, const Region &region, std::span<const Piece> pieces) {
    local_.clear();
    remote_.clear();
    uint64_t bytes = 0;
    for (const Piece &piece : pieces) {
        local_.push_back({reinterpret_cast<void *>(piece.local), piece.length});
        remote_.push_back({reinterpret_cast<void *>(region.key.base + piece.offset), piece.length});
        bytes += piece.length;
    }
    // A number is a process's own for as long as it has not ended and been waited for.
    if (!rendezvous_.there()) return false;
    const auto call = dir == Dir::put ? ::process_vm_writev : ::process_vm_readv;
    const ssize_t moved =
        call(rendezvous_.pid(), local_.data(), local_.size(), remote_.data(), remote_.size(), 0);
    return moved == static_cast<ssize_t>(bytes);
}

}  // namespace xfer::shm
