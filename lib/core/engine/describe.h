// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace xfer {

class Engine;

// The engine as JSON, for people and their tools. Thread: any.
std::string describe(Engine &engine);

}  // namespace xfer
