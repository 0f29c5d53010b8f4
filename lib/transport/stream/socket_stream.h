// SPDX-License-Identifier: Apache-2.0
// A connected socket as a byte stream.
#pragma once

#include <memory>

#include "loop/loop.h"
#include "transport/stream/byte_stream.h"
#include "util/fork_guard.h"

namespace xfer::stream {

class SocketStream final : public ByteStream {
public:
    SocketStream(Fd fd, std::unique_ptr<Watch> watch)
        : fd_(std::move(fd)), watch_(std::move(watch)) {
        fork_guard_.hold(fd_.get());
    }

    Scope scope() const override { return Scope::network; }
    ssize_t write(std::span<const iovec> from) override;
    ssize_t read(std::span<const iovec> into) override;
    void want(uint32_t readiness) override { watch_->want(readiness); }
    void cork() override { corked_ = true; }
    bool delivered() const override;
    std::optional<uint32_t> unacknowledged_ms() const override;
    void end() override;
    Fd release() override;

private:
    ssize_t read_bytes_only(std::span<const iovec> into);
    ssize_t read_bytes_only(const iovec &into);

    Fd fd_;
    ForkGuard fork_guard_;
    std::unique_ptr<Watch> watch_;
    bool corked_ = false;
};

}  // namespace xfer::stream
