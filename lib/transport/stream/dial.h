// SPDX-License-Identifier: Apache-2.0
// The attempts of one dial. A host that is gone answers nothing, so those that have not answered go
// on beside the next one, and whoever answers first is taken (RFC 8305).
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "transport/stream/address.h"
#include "transport/stream/byte_stream.h"
#include "util/fork_guard.h"
#include "util/log.h"

namespace xfer::stream {

// For an address to answer, until the next one is tried, too.
constexpr uint64_t kNextAddressNs = 250 * kNsPerMs;

class Dial {
public:
    // Sockets tell `watching` that they are ready; what is connected at once runs `soon`.
    Dial(Loop &loop, const Log &log, std::string remote, WatchSink &watching, Task &soon)
        : loop_(loop), log_(log), remote_(std::move(remote)), watching_(watching), soon_(soon) {}

    void add(const Address &address) { addresses_.push_back(address); }
    void add(const std::vector<std::string> &hosts, uint16_t port);  // of a name
    bool has_next() const { return next_ < addresses_.size(); }
    bool begin_next();  // false: no attempt is left, and why() tells it
    // That one has come through; null: not yet. Another attempt may be due if some have failed.
    std::unique_ptr<ByteStream> connected(bool &failed);
    Failure why() const;

private:
    struct Attempt {
        explicit Attempt(Fd begun) : fd(std::move(begun)) { fork_guard.hold(fd.get()); }
        Fd fd;
        ForkGuard fork_guard;
        std::unique_ptr<Watch> watch;
    };
    bool begin(const Address &address);

    Loop &loop_;
    const Log &log_;
    const std::string remote_;
    WatchSink &watching_;
    Task &soon_;
    std::vector<Address> addresses_;
    size_t next_ = 0;
    std::list<Attempt> attempts_;  // that have not failed yet
    Failure last_;
};

}  // namespace xfer::stream
