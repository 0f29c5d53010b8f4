// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/segment.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace xfer::shm {

namespace {

constexpr uint64_t kMagic = 0x31676573'72656678;  // "xfersegt1", in part
constexpr uint32_t kVersion = 2;
constexpr int kSeals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

Failure nonsense(const char *what) {
    return {XFER_EPROTO, XFER_ORIGIN_NONE, 0, what};
}

}  // namespace

Result<std::unique_ptr<Segment>> Segment::make() {
    std::unique_ptr<Segment> segment(new Segment);
    segment->memory_ = Fd(::memfd_create("near", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!segment->memory_) return os_failure(errno, "memfd_create");
    const int memory = segment->memory_.get();
    if (::ftruncate(memory, sizeof(Shared)) != 0) return os_failure(errno, "the size of a memfd");
    if (::fcntl(memory, F_ADD_SEALS, kSeals) != 0) return os_failure(errno, "sealing a memfd");
    for (Fd &bell : segment->bells_) {
        bell = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!bell) return os_failure(errno, "eventfd");
    }
    if (Failure why = segment->map(); why.status != XFER_OK) return why;
    segment->shared_->magic = kMagic;
    segment->shared_->version = kVersion;
    segment->shared_->size = sizeof(Shared);
    return segment;
}

Result<std::unique_ptr<Segment>> Segment::take(std::vector<Fd> fds) {
    if (fds.size() != kDescriptors) return nonsense("a neighbour sent other descriptors");
    // Sealed, it can't be cut short under our feet; and only a memfd can be sealed.
    const int seals = ::fcntl(fds[0].get(), F_GET_SEALS);
    struct stat there;
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || ::fstat(fds[0].get(), &there) != 0 ||
        static_cast<uint64_t>(there.st_size) != sizeof(Shared))
        return nonsense("a neighbour sent no memory of ours");
    for (size_t i : {1, 2})
        if (::fcntl(fds[i].get(), F_SETFL, O_NONBLOCK) != 0) return os_failure(errno, "a bell");
    std::unique_ptr<Segment> segment(new Segment);
    segment->memory_ = std::move(fds[0]);
    segment->bells_[0] = std::move(fds[1]);
    segment->bells_[1] = std::move(fds[2]);
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

void Segment::ring(Side side) {
    const uint64_t once = 1;
    while (::write(bell(side), &once, sizeof once) < 0 && errno == EINTR)
        continue;  // full is as good as rung; who is not rung for sleeps on
}

void Segment::silence(Side side) {
    uint64_t times;
    [[maybe_unused]] const ssize_t rung = ::read(bell(side), &times, sizeof times);
}

}  // namespace xfer::shm
