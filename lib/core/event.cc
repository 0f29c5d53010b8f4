// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"

#include <array>

namespace xfer {

std::string_view event_name(uint32_t kind) {
    constexpr std::array<std::string_view, XFER_EVENT_FLUSH + 1> kNames = {
        "",        "PUT",     "GET",     "BATCH",     "SEND",        "RECV",   "LOOKUP",  "PROBE",
        "CONNECT", "PEER",    "PEER_UP", "PEER_DOWN", "REGION_GONE", "NOTIFY", "COUNTER", "REVOKED",
        "ROOM",    "STALLED", "DRAINED", "CLOSED",    "NOTIFIED",    "",       "FLUSH"};
    return kind < kNames.size() ? kNames[kind] : "";
}

}  // namespace xfer
