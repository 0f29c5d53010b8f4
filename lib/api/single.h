// SPDX-License-Identifier: Apache-2.0
// A single operation, from the caller's thread to the loop of its peer. The endpoint has admitted
// it.
#pragma once

#include "api/transfer_check.h"

namespace xfer {

inline Single &take_single(Endpoint &ep, uint32_t kind, uint64_t user, uint32_t timeout_ms) {
    Single &single = *ep.engine.take_single();
    ep.retain();
    single.ep = &ep;
    single.timeout_ms = resolve_timeout(ep.engine, timeout_ms);
    single.event = {};
    single.event.kind = kind;
    single.event.user = user;
    single.event.ep = reinterpret_cast<xfer_ep_t *>(&ep);
    return single;
}

inline Status post_single(Single &single) {
    Endpoint &ep = *single.ep;
    if (ep.shard.load()->post(single)) return XFER_OK;
    ep.outstanding.fetch_sub(1);
    ep.engine.give_single(single);
    return XFER_ECLOSED;
}

}  // namespace xfer
