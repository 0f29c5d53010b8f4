// SPDX-License-Identifier: Apache-2.0
// See lib/design/0026-a-successor-at-an-address.md.
#pragma once

#include "core/base/endpoint.h"

namespace xfer {

// XFER_RESTARTED for its PEER_UP if another engine answers than before; to be asked before the
// endpoint is told who its peer is.
inline uint32_t succession(const Endpoint &ep, const EngineId &now) {
    const std::optional<EngineId> before = ep.peer_id();
    return ep.is_by_address() && before && *before != now ? uint32_t{XFER_RESTARTED} : 0;
}

}  // namespace xfer
