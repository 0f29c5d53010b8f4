// SPDX-License-Identifier: Apache-2.0
#include "device/shared_memory.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include <cerrno>

namespace xfer {

namespace {

constexpr uint64_t kPage = 4096, kHugePage = 2 << 20;
constexpr int kMaxNodes = 1024;

struct Mapping {
    Fd fd;
    void *data = MAP_FAILED;
    uint64_t size = 0;
};

// The kernel counts the pages of a memfd only when they are touched, and then ends a process. What
// can never be there is refused, as it would be of malloc().
bool there_could_be(uint64_t length) {
    struct sysinfo host;
    if (::sysinfo(&host) != 0) return true;
    return length / host.mem_unit < host.totalram + host.totalswap;
}

Result<Mapping> map(uint64_t length, bool huge) {
    if (!there_could_be(length)) return os_failure(ENOMEM, "more than this host has");
    Mapping mapping;
    const uint64_t page = huge ? kHugePage : kPage;
    mapping.size = (length + page - 1) / page * page;
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0u);
    mapping.fd = Fd(::memfd_create("xfer", flags));
    if (!mapping.fd) return os_failure(errno, "memfd_create");
    if (::ftruncate(mapping.fd.get(), static_cast<off_t>(mapping.size)) != 0)
        return os_failure(errno, "the size of a memfd");
    if (::fcntl(mapping.fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return os_failure(errno, "sealing a memfd");
    mapping.data =
        ::mmap(nullptr, mapping.size, PROT_READ | PROT_WRITE, MAP_SHARED, mapping.fd.get(), 0);
    if (mapping.data == MAP_FAILED) return os_failure(errno, "mapping a memfd");
    return mapping;
}

// A wish, and of the file: whoever touches a page first, it comes from there.
void prefer(void *data, uint64_t size, int node) {
    if (node < 0 || node >= kMaxNodes) return;
    constexpr int kBits = 8 * sizeof(unsigned long);
    unsigned long nodes[kMaxNodes / kBits] = {};
    nodes[node / kBits] = 1ul << (node % kBits);
    ::syscall(SYS_mbind, data, size, MPOL_PREFERRED, nodes, kMaxNodes, 0u);
}

}  // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::make(uint64_t length, bool huge, int node) {
    Result<Mapping> mapping = map(length, huge);
    if (!mapping && huge) {
        mapping = map(length, false);
        if (mapping) ::madvise(mapping->data, mapping->size, MADV_HUGEPAGE);
    }
    if (!mapping) return mapping.error();
    auto memory = std::unique_ptr<SharedMemory>(new SharedMemory(
        std::move(mapping->fd), static_cast<uint8_t *>(mapping->data), mapping->size));
    prefer(memory->data_, memory->mapped_, node);
    return memory;
}

SharedMemory::~SharedMemory() {
    ::munmap(data_, mapped_);
}

}  // namespace xfer
