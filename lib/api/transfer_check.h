// SPDX-License-Identifier: Apache-2.0
// Is what the user asks for within what the ref allows? Checked here so that mistakes are told at
// the call; the owner checks again.
#pragma once

#include "api/guard.h"

namespace xfer {

inline Status copy_operation(const xfer_op_options_t *given, xfer_op_options_t &options,
                             uint32_t known_flags, Failure &why) {
    if (Status status = copy_input(given, options, why); status != XFER_OK) return status;
    return check_flags("xfer_op_options_t.flags", options.flags, known_flags, why);
}

inline Status check_range(uint64_t offset, uint64_t length, uint64_t limit) {
    return offset > limit || length > limit - offset ? XFER_ERANGE : XFER_OK;
}

inline Status check_access(const RemoteRegion &remote, Dir dir) {
    return remote.access & (dir == Dir::put ? XFER_WRITE : XFER_READ) ? XFER_OK : XFER_EACCESS;
}

inline Status check_local(const Engine &engine, uint64_t address, uint64_t length) {
    if (length == 0) return XFER_OK;
    if (!address) return XFER_EINVAL;
    if (address + length < address) return XFER_ERANGE;
    uint32_t kind = 0;
    return engine.kind_of(reinterpret_cast<const void *>(address), length, kind);
}

inline Remote remote_of(const RemoteRegion &region) {
    return {region.id, region.incarnation, {region.region, region.generation, region.key}, XFER_OK};
}

inline uint32_t resolve_timeout(const Engine &engine, uint32_t timeout_ms) {
    if (timeout_ms == XFER_NONE) return 0;
    return timeout_ms ? timeout_ms : engine.options().timeout_ms;
}

}  // namespace xfer
