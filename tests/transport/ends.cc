// SPDX-License-Identifier: Apache-2.0
#include "ends.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "sim_transport.h"
#include "transport/loopback/loopback.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/unix/unix.h"
#include "wire/hello.h"

namespace xfer::test {

namespace {

std::string way() {
    const char *wanted = std::getenv("XFER_TEST_TRANSPORT");
    return wanted ? wanted : "tcp";
}

std::vector<uint8_t> some_hello() {
    Hello hello;
    hello.kind = HelloKind::lane_ready;  // the last of a handshake
    return encode_hello(hello);
}

class Loopback final : public Ends {
public:
    Loopback() {
        channel = make_loopback_channel(*loop_);
        channel->set_sink(here);
        start(*channel, here);
        channel->resume();
        lend();
    }
    ~Loopback() override {
        part();
        channel.reset();
    }
    bool until(const std::function<bool()> &condition) override {
        return turn_until(*loop_, condition);
    }
    void turn() override { loop_->turn(kNsPerMs / 10); }
    RecordingSink &there() override { return here; }
    Channel &back() override { return *channel; }

private:
    std::unique_ptr<OwnLoop> loop_ = std::move(*OwnLoop::open(0));
};

struct RendezvousSocket final : AcceptSink {
    explicit RendezvousSocket(std::function<void(std::unique_ptr<Channel>)> in)
        : in(std::move(in)) {}
    bool admits(const Source &) override { return true; }
    ConstBytes refusal() const override { return {}; }
    bool under_pressure() override { return false; }
    bool shed() override { return false; }
    void on_accept(std::unique_ptr<Channel> channel, const Source &) override {
        in(std::move(channel));
    }
    std::function<void(std::unique_ptr<Channel>)> in;
};

class OnKernel final : public Ends {
public:
    OnKernel() {
        static int made = 0;
        const std::string name =
            "xfer-suite-" + std::to_string(::getpid()) + "-" + std::to_string(++made);
        const bool shm = way().starts_with("shm");
        transport_ = shm               ? make_shm(*loop_, log_)
                     : way() == "unix" ? make_unix(*loop_, log_)
                                       : make_tcp(*loop_, log_);
        auto at = parse_uri(shm               ? "shm://" + name
                            : way() == "unix" ? "unix:///tmp/" + name
                                              : "tcp://127.0.0.1:0");
        REQUIRE(at);
        auto listening = transport_->listen(*at, 0600, rendezvous_);
        REQUIRE(listening);
        listener_ = std::move(*listening);
        auto dialed = transport_->connect(*parse_uri(listener_->bound()), here);
        REQUIRE(dialed);
        channel = std::move(*dialed);
        meet();
        if (way() == "shm-shown") imported = share(*accepted_, there_, *channel, kRegion);
    }
    ~OnKernel() override {
        part();
        channel.reset();
        accepted_.reset();
    }
    bool until(const std::function<bool()> &condition) override {
        return turn_until(*loop_, condition);
    }
    void turn() override { loop_->turn(kNsPerMs / 10); }

private:
    Log log_;
    std::unique_ptr<OwnLoop> loop_ = std::move(*OwnLoop::open(0));
    std::unique_ptr<Transport> transport_;
    RendezvousSocket rendezvous_{[this](std::unique_ptr<Channel> came) {
        came->set_sink(there_);
        accepted_ = std::move(came);
    }};
    std::unique_ptr<Listener> listener_;
};

class Simulated final : public Ends {
public:
    Simulated() {
        auto at = parse_uri("tcp://b:1");
        auto listening = far_.listen(*at, 0600, rendezvous_);
        REQUIRE(listening);
        listener_ = std::move(*listening);
        auto dialed = near_.connect(*at, here);
        REQUIRE(dialed);
        channel = std::move(*dialed);
        meet();
    }
    ~Simulated() override {
        part();
        channel.reset();
        accepted_.reset();
    }
    bool until(const std::function<bool()> &condition) override {
        return world_.run_until(condition, 5'000 * kNsPerMs);
    }
    void turn() override {
        world_.run_until([asked = false]() mutable { return std::exchange(asked, true); },
                         kNsPerMs);
    }

private:
    SimWorld world_{1};
    SimNet net_{world_};
    SimLoop loop_{world_}, far_loop_{world_};
    SimTransport near_{net_, loop_}, far_{net_, far_loop_};
    RendezvousSocket rendezvous_{[this](std::unique_ptr<Channel> came) {
        came->set_sink(there_);
        accepted_ = std::move(came);
    }};
    std::unique_ptr<Listener> listener_;
};

}  // namespace

void Ends::meet() {
    REQUIRE(until([&] { return here.up && accepted_; }));
    channel->send_hello(some_hello());
    REQUIRE(until([&] { return there_.hellos.size() == 1; }));
    accepted_->send_hello(some_hello());
    start(*accepted_, there_);
    accepted_->resume();
    REQUIRE(until([&] { return here.hellos.size() == 1; }));
    start(*channel, here);
    channel->resume();
    lend();
}

void Ends::part() {
    for (Channel *end : {channel.get(), &back()})
        end->close({XFER_ECLOSED, 0, 0, "the case is over"});
    until([&] { return here.down && there().down; });
}

bool is_loopback() {
    return way() == "loopback";
}

std::unique_ptr<Ends> make_ends() {
    if (is_loopback()) return std::make_unique<Loopback>();
    if (way() == "sim") return std::make_unique<Simulated>();
    return std::make_unique<OnKernel>();
}

}  // namespace xfer::test
