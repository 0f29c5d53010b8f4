// SPDX-License-Identifier: Apache-2.0
// A status as a peer says it. One that this version does not know, be it of a later version or
// made up, would reach the application as a number without a name.
#pragma once

#include "util/status.h"

namespace xfer {

inline Status status_of_peer(Status said) {
    return said < XFER_EINTERNAL ? XFER_EPROTO : said;
}

}  // namespace xfer
