// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wire/hello.h"

namespace xfer {

// The first eight hexadecimal digits of an engine's id, for people.
Text short_name(const EngineId &id);

}  // namespace xfer
