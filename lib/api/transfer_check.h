// SPDX-License-Identifier: Apache-2.0
// Is what the user asks for within what the ref allows? Checked here so that mistakes are told at
// the call; the owner checks again.
#pragma once

#include <fmt/format.h>

#include "api/guard.h"

namespace xfer {

inline Status copy_operation(const xfer_op_options_t *given, xfer_op_options_t &options,
                             uint32_t known_flags, Failure &why) {
    const bool plain =
        given && given->size == sizeof options && !(given->reserved[0] | given->reserved[1]);
    if (plain)
        options = *given;
    else if (Status status = copy_input(given, options, why); status != XFER_OK)
        return status;
    return check_flags("xfer_op_options_t.flags", options.flags, known_flags, why);
}

// XFER_FLAG_COPY: what is copied is small, so that a call takes no time to speak of.
inline Status check_copy(uint32_t flags, uint64_t length, Failure &why) {
    if (!(flags & XFER_FLAG_COPY) || length <= kMaxCopy) return XFER_OK;
    return refuse(why, XFER_ETOOBIG,
                  fmt::format("XFER_FLAG_COPY takes at most {} bytes, not {}", kMaxCopy, length));
}

// And the CPU copies it.
inline Status check_copied_kind(uint32_t flags, const Memory &memory, Failure &why) {
    if (!(flags & XFER_FLAG_COPY) || memory.kind == XFER_MEM_HOST) return XFER_OK;
    return refuse(why, XFER_EMEMKIND, Text("XFER_FLAG_COPY of ") + name_of(memory));
}

// An endpoint that was opened with its peer's id reaches that engine alone. Of others it is seen
// when they are connected: who is at an address may change.
inline Status check_owner(const Endpoint &ep, const RemoteRegion &remote, Failure &why) {
    if (!ep.expected || *ep.expected == remote.id) return XFER_OK;
    return refuse(why, XFER_EIDENTITY, "the ref is of another engine than the endpoint's peer");
}

inline bool in_range(uint64_t offset, uint64_t length, uint64_t limit) {
    return offset <= limit && length <= limit - offset;
}

// Of what a ref names, which is `limit` bytes long.
inline Status check_range(uint64_t offset, uint64_t length, uint64_t limit, Failure &why) {
    if (in_range(offset, length, limit)) return XFER_OK;
    return refuse(why, XFER_ERANGE,
                  fmt::format("{} bytes at {} are past the end, at {}", length, offset, limit));
}

inline Status check_access(const RemoteRegion &remote, Dir dir, Failure &why) {
    if (remote.access & access_for(dir)) return XFER_OK;
    constexpr const char *kLacks[] = {"", "the ref does not allow XFER_WRITE",
                                      "the ref does not allow XFER_READ",
                                      "the ref does not allow XFER_ATOMIC"};
    return refuse(why, XFER_EACCESS, kLacks[static_cast<size_t>(dir)]);
}

inline Status refuse_kind(const Memory &memory, Failure &why) {
    return refuse(why, XFER_EMEMKIND, Text("no transport of this build serves ") + name_of(memory));
}

inline Status check_served(const Engine &engine, const Memory &memory, Failure &why) {
    return engine.stages(memory) ? XFER_OK : refuse_kind(memory, why);
}

// The local side of a put or a get. `memory`: what the call has looked at last, so that an
// allocation is asked about once; then what this is.
inline Status check_local(const Engine &engine, uint64_t address, uint64_t length, Memory &memory,
                          Failure &why) {
    const bool known = length && memory.holds(address, length);
    if (!known) memory = {};
    if (known || length == 0) return XFER_OK;
    if (!address) return invalid(why, "local is NULL");
    if (address + length < address) return refuse(why, XFER_ERANGE, "the local range wraps around");
    if (engine.knows(address, length, memory)) return XFER_OK;
    const auto *local = reinterpret_cast<const void *>(address);
    if (Status status = engine.look(local, length, memory, why); status != XFER_OK) return status;
    return check_served(engine, memory, why);
}

// As a piece of an operation has it.
inline Place place_of(const Memory &memory) {
    if (memory.kind == XFER_MEM_HOST) return {};
    const uint64_t id = memory.one_id();
    return {memory.device, id ? id : memory.base, id};
}

// Of what the CPU touches.
inline Status check_host(const Engine &engine, uint64_t address, uint64_t length, Failure &why) {
    Memory memory;
    if (Status status = check_local(engine, address, length, memory, why); status != XFER_OK)
        return status;
    if (memory.kind == XFER_MEM_HOST) return XFER_OK;
    return refuse(why, XFER_EMEMKIND,
                  Text("the CPU needs memory of the host, not ") + name_of(memory));
}

inline Status check_notify_data(const Engine &engine, const void *data, uint64_t length,
                                Failure &why) {
    if (length > kMaxNotifyData)
        return refuse(
            why, XFER_ETOOBIG,
            fmt::format("a notification has at most {} bytes, not {}", kMaxNotifyData, length));
    if (!data && length) return invalid(why, "the data of the notification is NULL");
    return check_host(engine, reinterpret_cast<uint64_t>(data), length, why);
}

inline void copy_notify_data(const void *data, uint64_t length, std::vector<uint8_t> &to) {
    const auto *bytes = static_cast<const uint8_t *>(data);
    to.assign(bytes, bytes + length);
}

inline Remote remote_of(const RemoteRegion &region) {
    return {region.id, region.incarnation, {region.region, region.generation, region.key}, XFER_OK};
}

inline uint32_t resolve_timeout(const EngineCore &engine, uint32_t timeout_ms) {
    if (timeout_ms == XFER_NONE) return 0;
    return timeout_ms ? timeout_ms : engine.options().timeout_ms;
}

}  // namespace xfer
