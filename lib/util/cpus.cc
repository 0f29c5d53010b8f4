// SPDX-License-Identifier: Apache-2.0
#include "util/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "util/fd.h"

namespace xfer {

namespace {

uint32_t cpus_of_affinity() {
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) < 0) return 1;  // there are more than fit
    return static_cast<uint32_t>(std::max(CPU_COUNT(&set), 1));
}

}  // namespace

uint32_t cpus_of_quota(std::string_view text) {
    uint64_t quota = 0, period = 0;
    const char *end = text.data() + text.size();
    const auto [space, wrong] = std::from_chars(text.data(), end, quota);
    if (wrong != std::errc() || space == end || *space != ' ') return UINT32_MAX;
    if (std::from_chars(space + 1, end, period).ec != std::errc() || !period) return UINT32_MAX;
    return static_cast<uint32_t>(std::clamp<uint64_t>(quota / period, 1, UINT32_MAX));
}

// In a container the root of what is mounted there is its own group.
uint32_t usable_cpus() {
    char text[64];
    const Fd file(::open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC));
    const ssize_t length = file ? ::read(file.get(), text, sizeof text) : 0;
    const std::string_view quota(text, length > 0 ? static_cast<size_t>(length) : 0);
    return std::min(cpus_of_affinity(), cpus_of_quota(quota));
}

}  // namespace xfer
