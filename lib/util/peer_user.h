// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <unistd.h>

namespace xfer {

// Everybody who has no number in our user name space is shown as this one, which no system changes
// (/proc/sys/kernel/overflowuid).
constexpr uid_t kUnmappedUser = 65534;
bool all_users_are_mapped();

// Whether the process that connected the other end of this UNIX socket, or listened there, runs as
// our user. False also for one that our user name space has no number for.
inline bool is_same_user(int socket) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return false;
    return who.uid == ::geteuid() && (who.uid != kUnmappedUser || all_users_are_mapped());
}

// Whether a UNIX socket, and those accepted from it, may be sent descriptors. False: the kernel,
// before Linux 6.16, can't refuse them.
inline bool take_descriptors(int socket, bool takes) {
#ifndef SO_PASSRIGHTS
    constexpr int SO_PASSRIGHTS = 83;
#endif
    const int value = takes;
    return ::setsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof value) == 0;
}

}  // namespace xfer
