// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <utility>

namespace xfer {

void close_on_thread(int fd);
// More wait for a thread than should: keep new ones from it.
bool closing_is_busy();

// Owns a file descriptor.
class Fd {
public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd &&other) noexcept
        : fd_(std::exchange(other.fd_, -1)), distrusted_(std::exchange(other.distrusted_, false)) {}
    Fd &operator=(Fd &&other) noexcept {
        std::swap(fd_, other.fd_);
        std::swap(distrusted_, other.distrusted_);
        return *this;
    }
    ~Fd() { reset(); }

    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }
    int release() {
        distrusted_ = false;
        return std::exchange(fd_, -1);
    }
    void reset() {
        const int fd = std::exchange(fd_, -1);
        if (fd < 0) return;
        if (std::exchange(distrusted_, false))
            close_on_thread(fd);
        else
            ::close(fd);
    }

    // A UNIX socket whose peer runs as another user. Closing it closes the descriptors that were
    // sent to it and not received, and that may block: for a TCP socket with SO_LINGER as long as
    // its sender has set. It is closed by a thread of its own.
    void distrust() { distrusted_ = true; }
    bool distrusted() const { return distrusted_; }

private:
    int fd_ = -1;
    bool distrusted_ = false;
};

}  // namespace xfer
