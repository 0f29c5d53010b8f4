// SPDX-License-Identifier: Apache-2.0
// A single operation, from the caller's thread to the loop of its peer. The endpoint has admitted
// it.
#pragma once

#include <memory>
#include <vector>

#include "api/transfer_check.h"

namespace xfer {

// What is not posted after all gives its place on the endpoint back.
struct LeaveEndpoint {
    void operator()(Endpoint *ep) const { ep->outstanding.fetch_sub(1); }
    void operator()(Operation *operation) const {
        (*this)(operation->ep);
        operation->released();
    }
};
template <typename Kind>
using Own = std::unique_ptr<Kind, LeaveEndpoint>;

template <typename Kind>
Own<Kind> take_operation(OperationPool<Kind> &pool, Endpoint &ep, uint32_t kind, uint64_t user,
                         uint32_t timeout_ms) {
    std::unique_ptr<Endpoint, LeaveEndpoint> admitted(&ep);
    Own<Kind> operation(pool.take());
    ep.retain();
    operation->ep = admitted.release();
    operation->timeout_ms = resolve_timeout(ep.engine, timeout_ms);
    operation->event = {};
    operation->event.kind = kind;
    operation->event.user = user;
    operation->event.ep = reinterpret_cast<xfer_ep_t *>(&ep);
    return operation;
}

// XFER_FLAG_COPY: where the caller's bytes are until the end.
inline const uint8_t *copy_bytes(const void *data, uint64_t length, std::vector<uint8_t> &into) {
    const auto *bytes = static_cast<const uint8_t *>(data);
    into.assign(bytes, bytes + length);
    return into.data();
}

// The only one that it names.
inline void set_remote(Single &single, const RemoteRegion &remote) {
    single.remotes.resize(1);
    single.remotes.front() = remote_of(remote);
}

template <typename Kind>
Status post_operation(Own<Kind> operation) {
    Kind *posted = operation.release();
    ShardCore &entry = posted->ep->entry(posted->ordered, posted->passes);
    if (post_to(entry, *posted)) return XFER_OK;
    operation.reset(posted);
    return XFER_ECLOSED;
}

}  // namespace xfer
