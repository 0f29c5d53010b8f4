// SPDX-License-Identifier: Apache-2.0
#include "util/fd.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <mutex>

namespace xfer {

namespace {

constexpr int kMostThreads = 32;
constexpr size_t kMostWaiting = 1024;

// Descriptors that threads close, one each. A thread whose close blocks for ever is lost.
class Closing {
public:
    // Never destroyed: its threads may outlive the statics of their process.
    static Closing &of_process() {
        static Closing &closing = *new Closing;
        return closing;
    }
    static void prepare_for_forks() {
        of_process();
        ::pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                         [] { of_process().begin_anew(); });
    }

    void add(int fd) {
        const std::lock_guard lock(mutex_);
        // Where so many wait there is an attack, and one more stays open.
        if (waiting_ == kMostWaiting) return;
        fds_[waiting_++] = fd;
        if (threads_ < kMostThreads && start_thread()) ++threads_;
    }
    bool is_busy() {
        const std::lock_guard lock(mutex_);
        return waiting_ > kMostWaiting / 2;
    }

private:
    // In a child, which has none of the threads; what waited stays open there.
    void begin_anew() {
        threads_ = 0;
        waiting_ = 0;
        mutex_.unlock();
    }
    // Signals are the application's, and go to threads of its own. Without a thread they wait for
    // the next one.
    bool start_thread() {
        sigset_t all, before;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_t thread;
        const bool started = ::pthread_create(&thread, nullptr, close_for, this) == 0;
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        if (started) ::pthread_detach(thread);
        return started;
    }
    static void *close_for(void *self) {
        static_cast<Closing *>(self)->close_all();
        return nullptr;
    }
    void close_all() {
        std::unique_lock lock(mutex_);
        while (waiting_ > 0) {
            const int fd = fds_[--waiting_];
            lock.unlock();
            ::close(fd);
            lock.lock();
        }
        --threads_;
    }

    std::mutex mutex_;
    int threads_ = 0;
    size_t waiting_ = 0;
    std::array<int, kMostWaiting> fds_{};
};

// When the library is loaded: later there may be no memory for it, and a fork.
[[gnu::constructor]] void prepare_closing() {
    Closing::prepare_for_forks();
}

}  // namespace

void close_on_thread(int fd) {
    Closing::of_process().add(fd);
}

bool closing_is_busy() {
    return Closing::of_process().is_busy();
}

}  // namespace xfer
