// SPDX-License-Identifier: Apache-2.0
#include "util/mapped.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace xfer {

// With MS_ASYNC the kernel writes nothing; it looks at each mapping of the range, not at each page.
bool is_mapped(const void *address, uint64_t length) {
    static const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<uint64_t>(address);
    const uint64_t begin = first & ~(page - 1);
    const uint64_t bytes = first + length - begin;
    return ::msync(reinterpret_cast<void *>(begin), bytes, MS_ASYNC) == 0 || errno != ENOMEM;
}

}  // namespace xfer
