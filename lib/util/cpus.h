// SPDX-License-Identifier: Apache-2.0
// How many processors we may use. Thread: any.
#pragma once

#include <cstdint>
#include <string_view>

namespace xfer {

// At least 1: those that the calling thread may run on, or as much time as its control group gets.
uint32_t usable_cpus();

// The time that a control group gets, in whole processors, from its cpu.max: "200000 100000".
// UINT32_MAX: no limit, or not such a text.
uint32_t cpus_of_quota(std::string_view text);

}  // namespace xfer
