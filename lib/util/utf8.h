// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace xfer {

// RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace xfer
