// SPDX-License-Identifier: Apache-2.0
#include "crowd.h"

#include "util/uri.h"

namespace xfer {

namespace {

constexpr uint64_t kAwayNs = 200 * kNsPerMs;  // at most, until one comes again

}  // namespace

class Crowd::Visitor final : public ChannelSink {
public:
    Visitor(Crowd &crowd, std::vector<uint8_t> words) : crowd_(crowd), words_(std::move(words)) {
        dial();
    }
    void leave() {
        if (channel_) channel_->close({XFER_ECLOSED, 0, 0, "it leaves"});
    }

    void on_up() override {
        if (!words_.empty()) channel_->send_hello(words_);
    }
    void on_closed(const Failure &) override {
        ++crowd_.net_.met["half-open connection"];
        SimWorld &world = crowd_.net_.world;
        world.post(crowd_.loop_, world.random(kAwayNs), [this] { dial(); });
    }
    void on_hello(ConstBytes) override {}  // and nothing is proved
    void on_control(const Frame &, ConstBytes) override {}

private:
    void dial() {
        channel_.reset();
        if (crowd_.gone_) return;
        auto channel = crowd_.transport_.connect(*parse_uri(crowd_.uri_), *this);
        if (channel) channel_ = std::move(*channel);
    }

    Crowd &crowd_;
    const std::vector<uint8_t> words_;
    std::unique_ptr<Channel> channel_;
};

Crowd::Crowd(SimNet &net, std::string uri, uint32_t source)
    : net_(net), uri_(std::move(uri)), loop_(net.world), transport_(net, loop_) {
    if (source) transport_.source = source;
}

Crowd::~Crowd() = default;

void Crowd::come(uint32_t count, Says says, const EngineId &claimed) {
    for (uint32_t i = 0; i < count; ++i)
        visitors_.push_back(std::make_unique<Visitor>(*this, words(says, claimed)));
}

void Crowd::leave() {
    gone_ = true;
    for (auto &visitor : visitors_)
        visitor->leave();
}

std::vector<uint8_t> Crowd::words(Says says, const EngineId &claimed) {
    if (says == Says::nothing) return {};
    SimWorld &world = net_.world;
    Hello hello;
    hello.kind = HelloKind::hello;
    hello.identity.id = claimed;
    hello.identity.incarnation = 1 + world.random() / 2;
    hello.identity.sequence = 1 + world.random(100);
    hello.identity.keyed = world.random(2) != 0;
    for (uint8_t &byte : hello.identity.nonce)
        byte = static_cast<uint8_t>(world.random());
    std::vector<uint8_t> message = encode_hello(hello);
    if (says == Says::nonsense) message[kHelloHeader + world.random(4)] ^= 0xff;
    return message;
}

}  // namespace xfer
