// SPDX-License-Identifier: Apache-2.0
// Whether memory is there. Thread: any.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

namespace xfer {

// False if a page of it is not mapped now. One system call, whatever the length.
bool is_mapped(const void *address, uint64_t length);

// Likewise of each range that is so large that the call costs little beside its copy; the others
// are not looked at.
bool are_mapped(std::span<const iovec> ranges);

// False if the CPU cannot read the word at `address`: it is not mapped, or mapped without access.
bool is_readable(const void *address);

}  // namespace xfer
