// SPDX-License-Identifier: Apache-2.0
// A Transport belongs to one loop and makes channels. This and the headers of a channel and a path
// are all that core knows about moving bytes. Errors are values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"
#include "transport/channel.h"
#include "transport/source.h"
#include "util/uri.h"

namespace xfer {

class AcceptSink {
public:
    // Asked before a channel is made of a socket that was accepted. False: it is closed, with these
    // words.
    virtual bool admits(const Source &source) = 0;
    virtual ConstBytes refusal() const = 0;
    // There are more newcomers than are let in: they may wait for each other.
    virtual bool under_pressure() = 0;
    virtual void on_accept(std::unique_ptr<Channel> channel, const Source &source) = 0;
    // Descriptors or memory have run out: ends one that is not needed, if there is one.
    virtual bool shed() = 0;

protected:
    ~AcceptSink() = default;
};

class Listener {
public:
    virtual ~Listener() = default;
    // URIs that can be dialed, at least one: of a wildcard one for each interface.
    virtual std::vector<std::string> dialable() const = 0;
    std::string bound() const { return dialable().front(); }
};

class Transport {
public:
    virtual ~Transport() = default;  // after its last channel and listener
    virtual std::string_view name() const = 0;
    virtual bool serves(const Uri &uri) const = 0;
    virtual Scope scope(const Uri &) const { return Scope::network; }  // how far what is there is
    // `mode`: of the file of a UNIX socket; no other transport has one.
    virtual Result<std::unique_ptr<Listener>> listen(const Uri &uri, uint32_t mode,
                                                     AcceptSink &sink) = 0;
    // Later failures: on_closed.
    virtual Result<std::unique_ptr<Channel>> connect(const Uri &uri, ChannelSink &sink) = 0;
    virtual std::unique_ptr<Channel> adopt(DetachedChannel ticket) = 0;
};

}  // namespace xfer
