// SPDX-License-Identifier: Apache-2.0
#include "core/base/event.h"

#include "xfer/text.h"

namespace xfer {

std::string_view event_name(uint32_t kind) {
    constexpr std::string_view kPrefix = "XFER_EVENT_";
    return kind ? std::string_view(xfer_event_name(kind)).substr(kPrefix.size()) : "";
}

}  // namespace xfer
