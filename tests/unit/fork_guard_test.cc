// SPDX-License-Identifier: Apache-2.0
// What a forked child, and a child of that, have of the sockets of their ancestor.
#include "util/fork_guard.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "util/fd.h"

using namespace xfer;

namespace {

bool in_child(const std::function<bool()> &holds) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(holds() ? 0 : 1);
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

bool is_connected(int socket) {
    const uint8_t byte = 1;
    return ::send(socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

bool is_socket(int fd) {
    struct stat what;
    return ::fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode);
}

}  // namespace

TEST_CASE("a child has other sockets in the place of those of its parent") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const Fd guarded(ends[0]), other(ends[1]);
    ForkGuard guard;
    guard.hold(guarded.get());
    CHECK(in_child([&] { return is_socket(guarded.get()) && !is_connected(guarded.get()); }));
    CHECK(is_connected(guarded.get()));
    guard.drop();
    CHECK(in_child([&] { return is_connected(guarded.get()); }));
}

TEST_CASE("a number that the child has taken for something else stays that in its own children") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const Fd guarded(ends[0]), other(ends[1]);
    ForkGuard guard;
    guard.hold(guarded.get());
    CHECK(in_child([&] {
        int pipe[2];
        if (::pipe(pipe) != 0 || ::dup2(pipe[1], guarded.get()) < 0) return false;
        return in_child([&] { return !is_socket(guarded.get()); });
    }));
}

TEST_CASE("a child that can open nothing more has none of them either") {
    CHECK(in_child([] {  // which has the limit for itself
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
        const int second = ::dup(ends[0]);
        ForkGuard guard, another;
        guard.hold(ends[0]);
        another.hold(second);
        const rlimit few{static_cast<rlim_t>(second) + 1, static_cast<rlim_t>(second) + 1};
        if (::setrlimit(RLIMIT_NOFILE, &few) != 0 || ::dup(0) >= 0) return false;
        return in_child([&] { return !is_connected(ends[0]) && !is_connected(second); }) &&
               is_connected(second);
    }));
}
