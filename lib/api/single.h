// SPDX-License-Identifier: Apache-2.0
// A single operation, from the caller's thread to the loop of its peer. The endpoint has admitted
// it.
#pragma once

#include <memory>

#include "api/transfer_check.h"

namespace xfer {

// What is not posted after all gives its place on the endpoint back.
struct LeaveEndpoint {
    void operator()(Endpoint *ep) const { ep->outstanding.fetch_sub(1); }
    void operator()(Single *single) const {
        (*this)(single->ep);
        single->ep->release();
        delete single;
    }
};
using OwnSingle = std::unique_ptr<Single, LeaveEndpoint>;

inline OwnSingle take_single(Endpoint &ep, uint32_t kind, uint64_t user, uint32_t timeout_ms) {
    std::unique_ptr<Endpoint, LeaveEndpoint> admitted(&ep);
    std::unique_ptr<Single> made(ep.engine.take_single());
    ep.retain();
    made->ep = admitted.release();
    OwnSingle single(made.release());
    single->timeout_ms = resolve_timeout(ep.engine, timeout_ms);
    single->event = {};
    single->event.kind = kind;
    single->event.user = user;
    single->event.ep = reinterpret_cast<xfer_ep_t *>(&ep);
    return single;
}

// The only one that it names.
inline void set_remote(Single &single, const RemoteRegion &remote) {
    single.remotes.resize(1);
    single.remotes.front() = remote_of(remote);
}

inline Status post_single(OwnSingle single) {
    Single *posted = single.release();
    Shard &entry = posted->ep->entry(posted->ordered, posted->passes);
    if (entry.post(*posted)) return XFER_OK;
    single.reset(posted);
    return XFER_ECLOSED;
}

}  // namespace xfer
