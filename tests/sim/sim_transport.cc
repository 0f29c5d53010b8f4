// SPDX-License-Identifier: Apache-2.0
#include "sim_transport.h"

#include "core/connection/connection.h"
#include "sim_channel.h"
#include "util/uri.h"

namespace xfer {

namespace {

class SimListener final : public Listener {
public:
    SimListener(SimTransport &transport, std::string uri)
        : transport_(transport), uri_(std::move(uri)) {}
    // After a death the address may be another's already.
    ~SimListener() override {
        const auto at = transport_.net.listeners.find(uri_);
        if (at != transport_.net.listeners.end() && at->second.first == &transport_)
            transport_.net.listeners.erase(at);
    }
    std::vector<std::string> dialable() const override { return {uri_}; }

private:
    SimTransport &transport_;
    const std::string uri_;
};

// The other end of a dial that was turned away: it says so, and closes.
class TurnedAway final : public ChannelSink {
public:
    TurnedAway(std::unique_ptr<SimChannel> channel, ConstBytes words)
        : channel_(std::move(channel)) {
        channel_->set_sink(*this);
        channel_->send_hello(words);
        channel_->close({XFER_EOVERLOAD, 0, 0, "turned away"});
    }
    void on_closed(const Failure &) override {
        channel_->transport().net.world.post(channel_->transport().loop, 0,
                                             [this] { delete this; });
    }
    void on_up() override {}
    void on_hello(ConstBytes) override {}
    void on_control(const Frame &, ConstBytes) override {}

private:
    std::unique_ptr<SimChannel> channel_;
};

// Whom the kernel has let in, the listener takes in a turn of its own; one that has ended meanwhile
// does not.
void accept_later(SimTransport &owner, const std::string &uri, std::unique_ptr<SimChannel> channel,
                  const Source &from) {
    SimNet &net = owner.net;
    AcceptSink *sink = net.listeners.at(uri).second;
    net.world.post(owner.loop, 0,
                   [&net, sink, uri, from,
                    held = std::make_shared<std::unique_ptr<SimChannel>>(std::move(channel))] {
                       const auto at = net.listeners.find(uri);
                       if (at != net.listeners.end() && at->second.second == sink)
                           sink->on_accept(std::move(*held), from);
                   });
}

// The other end of a doubled dial: it hears the first words a second time, and what it answers is
// heard by nobody.
void double_dial(SimTransport &owner, const std::string &uri, SimChannel &end,
                 const std::string &remote, const Source &source) {
    auto twin = std::make_unique<SimChannel>(owner, remote);
    SimChannel *second = twin.get();
    end.copy_to(*second);
    SimNet &net = owner.net;
    ++net.met["doubled dial"];
    net.note("a dial arrives twice");
    second->later(net.delay() + net.world.random(2'000 * kNsPerMs),
                  [](SimChannel &channel) { channel.cut(); });
    accept_later(owner, uri, std::move(twin), source);
}

}  // namespace

Result<std::unique_ptr<Listener>> SimTransport::listen(const Uri &uri, uint32_t, AcceptSink &sink) {
    const std::string text = to_string(uri);
    if (net.listeners.count(text)) return Failure{XFER_EADDRINUSE, 0, 0, "taken"};
    net.listeners[text] = {this, &sink};
    return std::unique_ptr<Listener>(new SimListener(*this, text));
}

Result<std::unique_ptr<Channel>> SimTransport::connect(const Uri &uri, ChannelSink &sink) {
    ++net.dials;
    const std::string text = to_string(uri);
    auto channel = std::make_unique<SimChannel>(*this, text);
    channel->set_sink(sink);
    SimChannel *end = channel.get();
    if (net.on_dial) net.on_dial(*this, text, 0);
    end->later(net.delay(), [this, text](SimChannel &dialing) { dialed(dialing, text); });
    return std::unique_ptr<Channel>(std::move(channel));
}

// What was on its way to another loop and did not come to it ends without a word.
SimTransport::~SimTransport() {
    std::erase_if(net.detached, [this](const auto &at) { return &at.second->transport() == this; });
}

std::unique_ptr<Channel> SimTransport::adopt(DetachedChannel ticket) {
    auto held = net.detached.extract(ticket.fd.get());
    XFER_CHECK(!held.empty());
    held.mapped()->move_to(*this);
    ++net.met["channel moved to another loop"];
    return std::move(held.mapped());
}

void SimTransport::dialed(SimChannel &end, const std::string &uri) {
    const auto at = net.listeners.find(uri);
    SimTransport *owner = at == net.listeners.end() ? nullptr : at->second.first;
    const SimWay &there = net.way(number, owner ? owner->number : 0);
    const bool by_dice = net.chance(net.refuse_one_in);
    if (!owner || process->dead || net.closed.count(uri) || there.refused || by_dice) {
        ++net.met[by_dice ? "refused" : "nobody there"];
        if (net.on_dial) net.on_dial(*this, uri, -1);
        // Where a neighbour is there, what fails is for want of something.
        const bool lacks = by_dice && end.scope() == Scope::host;
        return end.close({lacks ? XFER_ENOMEM : XFER_EUNREACHABLE, 0, 0, "refused"});
    }
    // The first word gets no answer: it is said again when the way is open.
    const SimWay &back = net.way(owner->number, number);
    const uint64_t silent = std::max(there.silent_until, back.silent_until);
    if (silent == kNever) return;
    if (silent > net.world.now())
        return end.later(silent - net.world.now() + net.delay(),
                         [this, uri](SimChannel &dialing) { dialed(dialing, uri); });
    AcceptSink &accept = *at->second.second;
    const Source from{Source::Kind::ipv4, source};
    const std::string name =
        end.scope() == Scope::host
            ? uri
            : "tcp://10.0.0.1:" + std::to_string(1024 + net.last_channel % 60000);
    auto far = std::make_unique<SimChannel>(*owner, name);
    SimChannel::pair(end, *far);
    if (net.chance(net.late_one_in)) {
        ++net.met["late dial"];
        end.be_late(net.world.random(net.late_max));
        far->be_late(net.world.random(net.late_max));
    }
    if (net.on_dial) net.on_dial(*this, uri, 1);
    if (!accept.admits(from)) {
        ++net.met["turned away"];
        new TurnedAway(std::move(far), accept.refusal());
        return end.up();
    }
    const bool twice = net.chance(net.double_one_in);
    accept_later(*owner, uri, std::move(far), from);
    if (twice) double_dial(*owner, uri, end, name, from);
    end.up();
}

// ---- the net

SimNet::SimNet(SimWorld &w) : world(w) {}
SimNet::~SimNet() = default;

const SimWay &SimNet::way(uint32_t from, uint32_t to) const {
    static const SimWay open;
    const auto at = ways.find({from, to});
    return at == ways.end() ? open : at->second;
}

// A connection that closes hears no more of its peer's work, though its first channel is open until
// its attached lane has ended.
void SimNet::hears(const Frame &frame, const ChannelSink &sink, uint32_t owner) {
    const auto *lane = dynamic_cast<const Lane *>(&sink);
    const bool ignored = lane && lane->connection.closing();
    if (observer && frame.type == FrameType::notify && !ignored)
        observer->announced(frame.region, owner);
}

void SimNet::cut_all() {
    for (auto &[number, channel] : channels)
        channel->cut();
}

void SimNet::cut_twins() {
    for (auto &[number, channel] : channels)
        if (channel->is_twin()) channel->cut();
}

void SimNet::cut(uint32_t a, uint32_t b) {
    for (auto &[number, channel] : channels) {
        const uint32_t here = channel->transport().number, there = channel->there();
        if ((here == a && there == b) || (here == b && there == a)) channel->cut();
    }
}

void SimNet::kill(SimProcess &process, bool told) {
    process.dead = true;
    std::erase_if(listeners,
                  [&](const auto &at) { return at.second.first->number == process.number; });
    for (auto &[number, channel] : channels) {
        if (channel->transport().number == process.number ||
            (told && channel->there() == process.number))
            channel->cut();
        else if (channel->there() == process.number)
            channel->be_lost();
    }
}

}  // namespace xfer
