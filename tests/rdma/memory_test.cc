// SPDX-License-Identifier: Apache-2.0
// What memory can be registered, and that what arrives is seen by whoever else has it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "link.h"

using namespace rdma_test;

TEST_SUITE_BEGIN("memory");

namespace {

// A registration of memory that a test mapped; null with errno.
struct Registration {
    Registration(void *memory, size_t length, int access)
        : region(verbs().reg_mr(far_device().domain, memory, length, access)) {}
    ~Registration() {
        if (region) verbs().dereg_mr(region);
    }
    ibv_mr *const region;
};

// The errno of a registration that must fail, or 0.
int refused(void *memory, size_t length, int access) {
    errno = 0;
    const Registration made(memory, length, access);
    return made.region ? 0 : errno;
}

// Moves 4 KiB to or from the end of what is registered.
int move(ibv_wr_opcode opcode, Link<Here> &link, const ibv_mr *region) {
    Request request = link.request(opcode, 0, 4096);
    request.address = reinterpret_cast<uint64_t>(region->addr) + region->length - 4096;
    request.key = region->rkey;
    return link.done(request);
}

constexpr size_t kHuge = size_t(2) << 20;

}  // namespace

TEST_CASE("shared memory of a descriptor: what arrives is in each mapping of it") {
    Here target;
    Link<Here> link(target);
    const int fd = ::memfd_create("shared", MFD_CLOEXEC);
    REQUIRE(::ftruncate(fd, 65536) == 0);
    void *const one = ::mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    auto *const other =
        static_cast<uint8_t *>(::mmap(nullptr, 65536, PROT_READ, MAP_SHARED, fd, 0));
    REQUIRE(one != MAP_FAILED);
    REQUIRE(other != MAP_FAILED);
    const Registration made(one, 65536, kAllAccess);
    REQUIRE(made.region);
    link.mine.fill(4);
    CHECK(move(IBV_WR_RDMA_WRITE, link, made.region) == IBV_WC_SUCCESS);
    for (size_t i = 0; i < 4096; ++i)
        REQUIRE(other[65536 - 4096 + i] == link.mine.at()[i]);
    // What is unmapped stays the device's until it is deregistered.
    ::munmap(one, 65536);
    link.mine.fill(5);
    CHECK(move(IBV_WR_RDMA_WRITE, link, made.region) == IBV_WC_SUCCESS);
    for (size_t i = 0; i < 4096; ++i)
        REQUIRE(other[65536 - 4096 + i] == link.mine.at()[i]);
    ::munmap(other, 65536);
    ::close(fd);
}

TEST_CASE("huge pages") {
    if (std::FILE *const pages = std::fopen("/proc/sys/vm/nr_hugepages", "w")) {
        std::fputs("4", pages);
        std::fclose(pages);
    }
    void *const memory = ::mmap(nullptr, 2 * kHuge, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (memory == MAP_FAILED) {
        MESSAGE("skipped: no huge pages");
        return;
    }
    Here target;
    Link<Here> link(target);
    {
        const Registration made(memory, 2 * kHuge, kAllAccess);
        REQUIRE(made.region);
        link.mine.fill(4);
        CHECK(move(IBV_WR_RDMA_WRITE, link, made.region) == IBV_WC_SUCCESS);
        const auto *const end = static_cast<uint8_t *>(memory) + 2 * kHuge - 4096;
        for (size_t i = 0; i < 4096; ++i)
            REQUIRE(end[i] == link.mine.at()[i]);
    }
    ::munmap(memory, 2 * kHuge);
}

TEST_CASE("memory that may only be read") {
    Here target;
    Link<Here> link(target);
    const int fd = ::memfd_create("read only", MFD_CLOEXEC);
    REQUIRE(::ftruncate(fd, 4096) == 0);
    REQUIRE(::pwrite(fd, "bytes", 5, 0) == 5);
    void *const shared = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    void *const own = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    // The kernel pins it as if to write, to break what is shared before the device looks.
    CHECK(refused(shared, 4096, IBV_ACCESS_REMOTE_READ) == EFAULT);
    CHECK(refused(own, 4096, kAllAccess) == EFAULT);
    {
        const Registration made(own, 4096, IBV_ACCESS_REMOTE_READ);
        REQUIRE(made.region);
        CHECK(move(IBV_WR_RDMA_READ, link, made.region) == IBV_WC_SUCCESS);
        CHECK(std::memcmp(link.mine.at(), "bytes", 5) == 0);
    }
    ::munmap(shared, 4096);
    ::munmap(own, 4096);
    ::close(fd);
}

TEST_CASE("what is refused: nothing mapped, nothing at all, on-demand paging, dma-buf") {
    auto *const memory = static_cast<uint8_t *>(
        ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::munmap(memory + 4096, 4096);
    CHECK(refused(memory, 8192, kAllAccess) == EFAULT);
    CHECK(refused(memory, 4096, kAllAccess) == 0);
    CHECK(refused(memory, 0, kAllAccess) == EINVAL);
    CHECK(refused(memory, 4096, kAllAccess | IBV_ACCESS_ON_DEMAND) == EINVAL);
    REQUIRE(bool(verbs().reg_dmabuf_mr));
    errno = 0;
    const int fd = ::memfd_create("no dma-buf", MFD_CLOEXEC);
    CHECK_FALSE(verbs().reg_dmabuf_mr(far_device().domain, 0, 4096, 0, fd, kAllAccess));
    CHECK(errno == EOPNOTSUPP);
    ::close(fd);
    ::munmap(memory, 4096);
}

TEST_CASE("relaxed ordering is taken, as an optional right that a device may ignore") {
    Buffer memory(far_device(), 4096);
    REQUIRE(bool(verbs().reg_mr_iova2));
    ibv_mr *const region = verbs().reg_mr_iova2(far_device().domain, memory.at(), 4096,
                                                reinterpret_cast<uint64_t>(memory.at()),
                                                unsigned(kAllAccess) | IBV_ACCESS_RELAXED_ORDERING);
    REQUIRE(region);
    CHECK(verbs().dereg_mr(region) == 0);
}

TEST_CASE("a key and a number are not used again at once") {
    uint32_t key = 0, number = 0;
    for (int i = 0; i < 100; ++i) {
        const Buffer memory(far_device(), 4096);
        const Endpoint endpoint(far_device());
        CHECK(memory.remote_key() != key);
        CHECK(endpoint.pair()->qp_num != number);
        key = memory.remote_key();
        number = endpoint.pair()->qp_num;
    }
}

TEST_SUITE_END();
