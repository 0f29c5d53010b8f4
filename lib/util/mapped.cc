// SPDX-License-Identifier: Apache-2.0
#include "util/mapped.h"

#include <algorithm>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace xfer {

namespace {

constexpr size_t kLargeRange = 32 * 1024;

}  // namespace

// With MS_ASYNC the kernel writes nothing; it looks at each mapping of the range, not at each page.
bool is_mapped(const void *address, uint64_t length) {
    static const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<uint64_t>(address);
    const uint64_t begin = first & ~(page - 1);
    const uint64_t bytes = first + length - begin;
    return ::msync(reinterpret_cast<void *>(begin), bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

// The kernel reads the set of signals before it finds out that there is nothing to do with it.
bool are_mapped(std::span<const iovec> ranges) {
    return std::all_of(ranges.begin(), ranges.end(), [](const iovec &range) {
        return range.iov_len < kLargeRange || is_mapped(range.iov_base, range.iov_len);
    });
}

bool is_readable(const void *address) {
    constexpr uint64_t kWord = 8;
    const uint64_t word = reinterpret_cast<uint64_t>(address) & ~(kWord - 1);
    ::syscall(SYS_rt_sigprocmask, ~0, word, nullptr, kWord);
    return errno != EFAULT;
}

}  // namespace xfer
