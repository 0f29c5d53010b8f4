// SPDX-License-Identifier: Apache-2.0
#include "util/fd.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>

namespace xfer {

namespace {

// One that blocks for ever takes a thread for ever.
constexpr int kMostClosers = 32;

std::atomic<int> closers{0};

void *close_for(void *fd) {
    ::close(static_cast<int>(reinterpret_cast<intptr_t>(fd)));
    closers.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
}

// Signals are the application's, and go to threads of its own. Without a thread the caller closes.
void close_on_thread(int fd) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t all, before;
    ::sigfillset(&all);
    closers.fetch_add(1, std::memory_order_relaxed);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    void *const argument = reinterpret_cast<void *>(static_cast<intptr_t>(fd));
    if (::pthread_create(&thread, &attributes, close_for, argument) != 0) close_for(argument);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_attr_destroy(&attributes);
}

}  // namespace

void Fd::reset() {
    const int fd = std::exchange(fd_, -1);
    if (fd < 0) return;
    if (std::exchange(distrusted_, false))
        close_on_thread(fd);
    else
        ::close(fd);
}

bool closing_is_busy() {
    return closers.load(std::memory_order_relaxed) >= kMostClosers;
}

}  // namespace xfer
