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

// Which ends there are, and of which of their paths the cases of paths are: CMakeLists.txt says
// what each must pass.
struct Way {
    std::string_view name, scheme;
    bool one_sided = false, simulated = false;
};
constexpr Way kWays[] = {
    {"loopback", ""},
    {"tcp", "tcp"},
    {"unix", "unix"},
    {"shm", "shm"},
    {"shm-shown", "shm", true},
    {"sim", "tcp", false, true},
    {"sim-shown", "shm", true, true},
    {"adapter", "rdma"},
};

const Way &way() {
    const char *wanted = std::getenv("XFER_TEST_ENDS");
    for (const Way &each : kWays)
        if (each.name == (wanted ? wanted : "tcp")) return each;
    FAIL("no ends of that name");
    return kWays[0];
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
    uint64_t now() override { return loop_->now(); }
    RecordingSink &there() override { return here; }
    Channel &back() override { return *channel; }

private:
    std::unique_ptr<OwnLoop> loop_ = std::move(*OwnLoop::open());
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
    explicit OnKernel(bool met) : Ends(way().one_sided) {
        static int made = 0;
        const std::string name =
            "xfer-suite-" + std::to_string(::getpid()) + "-" + std::to_string(++made);
        const bool shm = way().scheme == "shm", is_unix = way().scheme == "unix";
        transport_ = shm       ? make_shm(*loop_, log_)
                     : is_unix ? make_unix(*loop_, log_)
                               : make_tcp(*loop_, log_);
        auto at = parse_uri(shm       ? "shm://" + name
                            : is_unix ? "unix:///tmp/" + name
                                      : "tcp://127.0.0.1:0");
        REQUIRE(at);
        auto listening = transport_->listen(*at, 0600, rendezvous_);
        REQUIRE(listening);
        listener_ = std::move(*listening);
        auto dialed = transport_->connect(*parse_uri(listener_->bound()), here);
        REQUIRE(dialed);
        channel = std::move(*dialed);
        meet();
        if (met) get_to_know();
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
    uint64_t now() override { return loop_->now(); }
    Transport *transport() override { return transport_.get(); }

private:
    Log log_;
    std::unique_ptr<OwnLoop> loop_ = std::move(*OwnLoop::open());
    std::unique_ptr<Transport> transport_;
    RendezvousSocket rendezvous_{[this](std::unique_ptr<Channel> came) {
        came->set_sink(there_);
        accepted_ = std::move(came);
    }};
    std::unique_ptr<Listener> listener_;
};

class Simulated final : public Ends {
public:
    explicit Simulated(bool met) : Ends(way().one_sided) {
        net_.neighbours = way().scheme == "shm";
        net_.copies = one_sided;
        auto at = parse_uri(net_.neighbours ? "shm://b" : "tcp://b:1");
        auto listening = far_.listen(*at, 0600, rendezvous_);
        REQUIRE(listening);
        listener_ = std::move(*listening);
        auto dialed = near_.connect(*at, here);
        REQUIRE(dialed);
        channel = std::move(*dialed);
        meet();
        if (met) get_to_know();
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
    uint64_t now() override { return world_.now(); }
    Transport *transport() override { return &far_; }

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
}

void Ends::get_to_know(bool listens) {
    const size_t heard = there_.hellos.size();
    channel->send_hello(some_hello());
    REQUIRE(until([&] { return there_.hellos.size() == heard + 1; }));
    accepted_->send_hello(some_hello());
    start(*accepted_, there_);
    if (listens) accepted_->resume();
    REQUIRE(until([&] { return here.hellos.size() == 1; }));
    start(*channel, here);
    channel->resume();
    lend();
}

void Ends::adopt(DetachedChannel ticket) {
    accepted_ = transport()->adopt(std::move(ticket));
    accepted_->set_sink(there_);
}

void Ends::lend() {
    there().regions[kRegion] = &memory;
    here.declined_hook = [this](Op &op) { declined.push_back(&op); };
    if (!one_sided) return;
    const ExportKey key = key_of(kRegion);
    imported = import({key.begin(), key.size()});
    REQUIRE(imported);
}

ExportKey Ends::key_of(uint64_t region) {
    auto key =
        inside([&] { return owner_side().export_region({region}, there().memory_of(region)); });
    REQUIRE(key);
    return *key;
}

void Ends::part() {
    for (Channel *end : {channel.get(), &back()})
        end->close({XFER_ECLOSED, 0, 0, "the case is over"});
    until([&] { return here.down && there().down; });
}

bool is_loopback() {
    return way().name == "loopback";
}

namespace {

std::unique_ptr<Ends> make(bool met) {
    if (is_loopback()) return std::make_unique<Loopback>();
#ifdef WITH_RDMA
    if (way().scheme == "rdma") return make_adapter_ends();
#endif
    if (way().simulated) return std::make_unique<Simulated>(met);
    return std::make_unique<OnKernel>(met);
}

}  // namespace

std::unique_ptr<Ends> make_ends() {
    return make(true);
}

std::unique_ptr<Ends> make_strangers() {
    return make(false);
}

}  // namespace xfer::test
