// SPDX-License-Identifier: Apache-2.0
#include "util/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>

#include "util/check.h"

namespace xfer {

namespace {

struct Held {
    Held() {
        const int registered =
            ::pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); },
                             [] {
                                 ForkGuard::replace_all();
                                 all().mutex.unlock();
                             });
        XFER_CHECK(registered == 0);
    }
    // Never destroyed: a loop's thread may outlive the statics of its process.
    static Held &all() {
        static Held &held = *new Held;
        return held;
    }

    std::mutex mutex;
    List<ForkGuard> guards;
};

}  // namespace

void ForkGuard::hold(int socket) {
    drop();
    Held &held = Held::all();
    const std::lock_guard lock(held.mutex);
    socket_ = socket;
    held.guards.push_back(*this);
}

void ForkGuard::drop() {
    if (socket_ < 0) return;
    const std::lock_guard lock(Held::all().mutex);
    socket_ = -1;
    unlink();
}

// The number stays taken: what is left of the engine in the child closes it yet.
void ForkGuard::replace_all() {
    List<ForkGuard> &guards = Held::all().guards;
    if (guards.empty()) return;
    const int nobody = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (nobody < 0) return;
    for (const ForkGuard &guard : guards)
        ::dup3(nobody, guard.socket_, O_CLOEXEC);
    ::close(nobody);
}

}  // namespace xfer
