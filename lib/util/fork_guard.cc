// SPDX-License-Identifier: Apache-2.0
#include "util/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace xfer {

ForkGuard::All *ForkGuard::all_;

// Handlers of the application that are registered later run before these, with locks that may be
// taken around ours.
void ForkGuard::begin_with_process() {
    all_ = new All;
    ::pthread_atfork([] { all_->mutex.lock(); }, [] { all_->mutex.unlock(); },
                     [] {
                         replace_all();
                         all_->mutex.unlock();
                     });
}

namespace {

// Ahead of initializers of C++, which may open an engine.
[[gnu::constructor(101)]] void guard_forks() {
    ForkGuard::begin_with_process();
}

}  // namespace

// The numbers stay taken: they are those of the parent's engine. From here on they are the child's
// own affair, and that of its children.
void ForkGuard::replace_all() {
    List<ForkGuard> &guards = all_->guards;
    if (guards.empty()) return;
    int nobody = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool full = nobody < 0;
    if (full) {  // no number is free but those of the guards
        ::close(std::exchange(guards.pop_front()->socket_, -1));
        nobody = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    while (ForkGuard *guard = guards.pop_front())
        ::dup3(nobody, std::exchange(guard->socket_, -1), O_CLOEXEC);
    if (!full) ::close(nobody);
}

}  // namespace xfer
