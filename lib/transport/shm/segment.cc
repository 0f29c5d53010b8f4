// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace xfer::shm {

namespace {

constexpr uint64_t kMagic = 0x31676573'72656678;  // "xfersegt1", in part
constexpr uint32_t kVersion = 4;
constexpr int kSeals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

Failure nonsense(const char *what) {
    return {XFER_EPROTO, XFER_ORIGIN_NONE, 0, what};
}

}  // namespace

// The seals are asked for first, which never blocks: fstat of a file whose server is the neighbour
// (FUSE) would wait for it. Pages of a sealed memfd are always there, punched holes read as zeros;
// those of a hugetlb one may be lacking when they are touched, which ends a process.
uint64_t sealed_size(const Fd &memory) {
    const int seals = ::fcntl(memory.get(), F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK)) return 0;
    struct stat there;
    if (::fstat(memory.get(), &there) != 0) return 0;
    return static_cast<uint64_t>(there.st_size);
}

Result<std::unique_ptr<Segment>> Segment::make() {
    std::unique_ptr<Segment> segment(new Segment);
    segment->memory_ = Fd(::memfd_create("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!segment->memory_) return os_failure(errno, "memfd_create");
    const int memory = segment->memory_.get();
    if (::ftruncate(memory, sizeof(Shared)) != 0) return os_failure(errno, "the size of a memfd");
    if (::fcntl(memory, F_ADD_SEALS, kSeals) != 0) return os_failure(errno, "sealing a memfd");
    if (Failure why = segment->map(); why.status != XFER_OK) return why;
    segment->shared_->magic = kMagic;
    segment->shared_->version = kVersion;
    segment->shared_->size = sizeof(Shared);
    return segment;
}

Result<std::unique_ptr<Segment>> Segment::take(std::vector<Fd> fds) {
    if (fds.size() != 1) return nonsense("a neighbour sent other descriptors");
    if (sealed_size(fds[0]) != sizeof(Shared))
        return nonsense("a neighbour sent no memory of ours");
    std::unique_ptr<Segment> segment(new Segment);
    segment->memory_ = std::move(fds[0]);
    if (Failure why = segment->map(); why.status != XFER_OK) return why;
    const Shared &shared = *segment->shared_;
    if (shared.magic != kMagic || shared.version != kVersion || shared.size != sizeof(Shared))
        return Failure{XFER_EVERSION, XFER_ORIGIN_NONE, 0, "a neighbour shares memory otherwise"};
    return segment;
}

Failure Segment::map() {
    void *at =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
    if (at == MAP_FAILED) return os_failure(errno, "mapping a memfd");
    shared_ = static_cast<Shared *>(at);
    return {};
}

Segment::~Segment() {
    if (shared_) ::munmap(shared_, sizeof(Shared));
}

}  // namespace xfer::shm
