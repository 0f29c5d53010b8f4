// SPDX-License-Identifier: Apache-2.0
// A path that stands beside the channel of its connection, as the queue pairs of an adapter do. It
// has no way of its own to meet its other end: what the two have to agree on, the channel carries
// as signals, which core does not read (core/connection/path_attachment.h). Thread: as Path.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "transport/attached_channel.h"
#include "transport/one_sided.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer {

class JsonWriter;

class AttachedPathSink {
public:
    // To the other end, in order; at most kMaxSignal bytes, and not none. May be called from inside
    // a method, and may itself close the path.
    virtual void send_signal(ConstBytes message) = 0;
    // Once: both ends can serve and move operations; start() comes from inside this call. The end
    // that hears of it first has sent a signal by which the other one will.
    virtual void on_ready() = 0;
    // Exactly once, last, after on_down if it was started: nothing of it moves here any more, and
    // nothing of the peer's lands by it.
    virtual void on_ended(const Failure &why) = 0;

protected:
    ~AttachedPathSink() = default;
};

class AttachedPath : public OneSidedPath {
public:
    virtual ~AttachedPath() = default;  // after on_ended, and not inside a call from it
    virtual void on_signal(ConstBytes message) = 0;  // of the other end, whatever it may say
    virtual void close(const Failure &why) = 0;      // asynchronous, and bounded in time
    // This end and the other one, as their kind has them; empty: not known.
    virtual std::string local() const = 0;
    virtual std::string remote() const = 0;
};

class FabricSink {
public:
    // What remove_region() had to wait for has ended. Never from inside a method of the fabric.
    virtual void on_released(RegionId region) = 0;

protected:
    ~FabricSink() = default;
};

// What an end of a path is opened for.
struct AttachedPathRequest {
    // It is the end that says the first signal, and not yet from inside the call.
    bool first = true;
    ConstBytes
        offer{};  // else that of the other end, which on_signal() brings next; empty: unknown
    // The other paths of this connection that are open or come to be, all of this fabric: what
    // carries them is taken.
    std::span<AttachedPath *const> beside{};
    uint32_t failures = 0;  // attempts in a row that never were ready
};

// What makes such paths on one loop, over the memory that its adapters know.
class Fabric {
public:
    virtual ~Fabric() = default;                // after its last path
    virtual std::string_view name() const = 0;  // as in the lists of transports
    virtual uint32_t number() const = 0;        // XFER_TRANSPORT_*, which names it on the wire
    // False: this host has nothing to make paths of, as describe() tells. It makes none, ever.
    virtual bool is_there() const = 0;
    // Members of an object that is open: what it has, and what it can't use.
    virtual void describe(JsonWriter &out) const = 0;
    // How many paths are of use to one connection at most, each by something else.
    virtual uint32_t most_paths() const = 0;
    // XFER_EUNSUPPORTED: it is not to be tried again for this path; all else may be.
    virtual Result<std::unique_ptr<AttachedPath>> open(const AttachedPathRequest &request,
                                                       AttachedPathSink &sink) = 0;
    // A channel; set_sink() follows, and of the end that answers on_signal() with its offer.
    virtual Result<std::unique_ptr<AttachedChannel>> open_channel(const AttachedChannelRequest &,
                                                                  AttachedChannelSink &) {
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_NONE, 0, "it has no channels"};
    }

    virtual void set_sink(FabricSink &sink) = 0;  // before all that follows
    // A region of this engine's in the host's memory. Its paths may use it on either side, until it
    // is removed; parts of it that are granted they may export. May throw: then it is as never
    // told.
    virtual void add_region(RegionId region, const ExportedMemory &memory) = 0;
    // It has ended, or a grant has, and no peer has an export of it any more. True: no key of it
    // works, and no adapter touches it; else on_released() follows when that is so. What was not
    // added is quiet.
    virtual bool remove_region(RegionId region) = 0;
};

}  // namespace xfer
