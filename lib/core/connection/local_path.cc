// SPDX-License-Identifier: Apache-2.0
#include "core/connection/local_path.h"

#include <algorithm>
#include <cerrno>

#include "core/base/engine_core.h"
#include "core/base/limits.h"
#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "util/memory.h"

namespace xfer {

// Who lists an address of shared memory may be a neighbour. Only trying tells.
void LocalPath::open() {
    if (!is_due() || !connection_.usable()) return;
    state_ = State::tried;
    if (LaneSet::is_local(connection_.lanes.first())) return;
    failure_ = {};
    // It goes on as it is where there is no memory for more.
    if (!catch_bad_alloc([this] { look_for_neighbour(); })) failure_ = no_memory();
    if (is_absent()) rest();
}

// Paths by adapters have been begun by the time that it is tried again. Those that move memory
// stay, and it is preferred to them; but frames move to another lane once in a connection's life.
bool LocalPath::is_due() const {
    if (!is_absent()) return state_ == State::apart;
    return !rests_ && connection_.attached_lane.is_closed() && !connection_.lanes.moves_control();
}

// A connection that we have offered to end may go on.
void LocalPath::on_asked() {
    asked_ = true;
    open();
}

void LocalPath::open_asked() {
    if (asked_) open();
}

// The first of these addresses that one copy reaches, by a transport of ours.
Transport *LocalPath::shared_memory(const std::vector<std::string> &listens, Uri &address) const {
    for (const std::string &text : listens) {
        auto uri = parse_uri(text);
        Transport *transport = uri ? connection_.shard.transport_for(*uri) : nullptr;
        if (!transport || transport->scope(*uri) > Scope::host) continue;
        address = *uri;
        return transport;
    }
    return nullptr;
}

void LocalPath::look_for_neighbour() {
    Uri address;
    Transport *transport = shared_memory(connection_.handshake.peer_terms().listens, address);
    if (!transport) {
        const Terms own = connection_.shard.engine.self().terms();
        failure_ = {XFER_EUNSUPPORTED, 0, 0,
                    shared_memory(own.listens, address)
                        ? "the peer offers no shared memory"
                        : "no transport of ours shares memory (option transports, "
                          "XFER_TRANSPORTS)"};
        return;
    }
    if (connection_.side == Side::theirs) return connection_.lanes.ask_for_lanes(kLocalLaneFlag);
    failure_ = connection_.lanes.dial_local(*transport, address);
    if (failure_.status == XFER_OK) state_ = State::joining;
}

bool LocalPath::is_open() const {
    const Lane &control = connection_.lanes.control();
    return control.channel && LaneSet::is_local(control);
}

// The end that dials it knows whether there is one, and begins no other path before. So the end
// that asks for it asks for those as well: it hears nothing of a dial that failed.
bool LocalPath::leaves_to_others() const {
    return is_absent() || (state_ == State::tried && connection_.side == Side::theirs);
}

std::string_view LocalPath::state() const {
    if (is_open()) return "open";
    if (state_ == State::joining) return "opening";
    return state_ == State::apart ? "not tried" : failure_.status ? "none" : "asked for";
}

std::string_view LocalPath::why_not() const {
    if (is_open() || state_ == State::joining) return "";
    if (state_ == State::apart) return "nothing has been moved yet";
    if (failure_.status) return failure_.message;
    return "the peer, which dialed, was asked to open it";
}

void LocalPath::on_failed(const Failure &why) {
    failure_ = why;
    state_ = State::tried;
    rest();
}

void LocalPath::rest() {
    rests_ = true;
    if (connection_.closing() || !may_pass()) return;
    pause_ = std::clamp(2 * pause_, kBackoffFirstNs, kBackoffLastNs);
    connection_.shard.loop.arm(again_, connection_.shard.now() + pause_);
}

// Another user stays one, and an address that nobody has here is of another namespace; that a
// listener takes no more for now is told by EAGAIN. Nor is an acceptor tried again that did not let
// it in in time: data lanes wait meanwhile. A peer without the feature takes a lane once.
bool LocalPath::may_pass() const {
    switch (failure_.status) {
    case XFER_EUNSUPPORTED:
    case XFER_EACCESS:
    case XFER_EVERSION:
    case XFER_EPROTO:
        return false;
    case XFER_EUNREACHABLE:
        if (failure_.native != EAGAIN) return false;
    }
    return connection_.handshake.agreed(kLanesEndAlone);
}

void LocalPath::on_timer(Timer &) {
    rests_ = false;
    if (asked_) open();
    connection_.pump_soon();  // what we have to move asks for it
}

void LocalPath::disarm() {
    connection_.shard.loop.disarm(again_);
}

}  // namespace xfer
