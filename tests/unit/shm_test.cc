// SPDX-License-Identifier: Apache-2.0
// Channels between neighbours: how they meet, what is copied without the other, what a neighbour
// that means ill can do, and how it ends.
#include "transport/shm/shm.h"
#include "transport/shm/streaming.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "recording_sink.h"
#include "transport/shm/region_key.h"
#include "transport/shm/rendezvous.h"
#include "transport/shm/segment.h"
#include "wire/hello.h"

using namespace xfer;
using namespace xfer::test;
using shm::Packet;
using shm::RegionKey;
using shm::RendezvousSocket;
using shm::Segment;

namespace {

constexpr uint64_t kRegion = 7;

struct Acceptor : AcceptSink {
    explicit Acceptor(RecordingSink &sink) : sink(sink) {}
    bool admits(const Source &) override { return true; }
    ConstBytes refusal() const override { return {}; }
    bool under_pressure() override { return false; }
    bool shed() override { return false; }
    void on_accept(std::unique_ptr<Channel> channel, const Source &) override {
        channel->set_sink(sink);
        channels.push_back(std::move(channel));
    }
    RecordingSink &sink;
    std::vector<std::unique_ptr<Channel>> channels;
};

std::vector<uint8_t> words(HelloKind kind = HelloKind::lane_ready) {
    Hello hello;
    hello.kind = kind;
    hello.status = XFER_EAUTH;
    hello.identity.sequence = 1;
    hello.lane = 1;
    std::vector<uint8_t> bytes = encode_hello(hello);
    auto header = decode_hello_header(bytes.data());
    if (kHelloHeader + header->length > bytes.size()) append_proof(bytes, {});
    return bytes;
}

struct Neighbours {
    Log log;
    std::unique_ptr<OwnLoop> loop = std::move(*OwnLoop::open());
    std::unique_ptr<Transport> transport = make_shm(*loop, log);
    Uri at{.scheme = "shm", .host = "test-" + std::to_string(::getpid()), .path = {}};
    RecordingSink here, there;
    Acceptor accepting{there};
    std::unique_ptr<Listener> listener;
    std::unique_ptr<Channel> channel;
    std::vector<uint8_t> memory = std::vector<uint8_t>(8 << 20);

    Neighbours() {
        auto listening = transport->listen(at, 0600, accepting);
        REQUIRE(listening);
        listener = std::move(*listening);
        there.regions[kRegion] = &memory;
    }
    Channel &accepted() { return *accepting.channels.at(0); }
    template <typename Condition>
    bool until(Condition condition) {
        return turn_until(*loop, condition);
    }
    void dial() {
        auto made = transport->connect(at, here);
        REQUIRE(made);
        channel = std::move(*made);
        REQUIRE(until([&] { return here.up && !accepting.channels.empty(); }));
    }
    void meet() {
        dial();
        channel->send_hello(words());
        REQUIRE(until([&] { return there.hellos.size() == 1; }));
        accepted().send_hello(words());
        start(accepted(), there);
        accepted().resume();
        REQUIRE(until([&] { return here.hellos.size() == 1; }));
        start(*channel, here);
        channel->resume();
    }
    // With what was imported, as core would.
    bool post(TestOp &op) {
        op.import = op.remote.region == kRegion && op.remote.key == kKey ? imported.get() : nullptr;
        return path_of(*channel, op).post(op);
    }
    // Runs the operation; its status.
    Status now(TestOp &op) {
        const size_t before = here.done.size();
        REQUIRE(post(op));
        flush(*channel);
        REQUIRE(until([&] { return here.done.size() > before; }));
        return here.done.back().status;
    }
    // What names the region is copied from here on.
    void get_near() {
        imported = share(accepted(), there, *channel, kRegion);
        REQUIRE(imported);
    }
    std::unique_ptr<Import> imported;
};

// Whose sockets we have: to the channel they live as long as these processes do.
struct Children {
    ~Children() { end(); }
    void end() {
        for (const pid_t child : pids) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
        pids.clear();
    }
    std::vector<pid_t> pids;
} children;

Fd from_child(const std::function<Result<Fd>()> &make, uid_t user) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    RendezvousSocket ours{Fd(ends[0])}, theirs{Fd(ends[1])};
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setuid(user) != 0) ::_exit(1);
        ::alarm(120);
        auto fd = make();
        const uint8_t word[] = "it";
        if (fd) theirs.send(word, std::array{fd->get()});
        ::close_range(3, ~0u, 0);
        for (;;)
            ::pause();
    }
    REQUIRE(child > 0);
    children.pids.push_back(child);
    pollfd said{ours.fd(), POLLIN, 0};
    REQUIRE(::poll(&said, 1, 20'000) == 1);
    Packet packet;
    REQUIRE(ours.receive(packet) == 0);
    REQUIRE(packet.fds.size() == 1);
    return std::move(packet.fds[0]);
}

Result<Fd> connect_elsewhere(const std::string &name, uid_t user = ::geteuid()) {
    return from_child([&] { return shm::connect_to(name); }, user);
}

Fd listen_elsewhere(const std::string &name) {
    return from_child([&] { return shm::listen_at(name); }, ::geteuid());
}

// A neighbour that says what it is told to.
struct Raw : Neighbours {
    std::unique_ptr<RendezvousSocket> door;
    std::unique_ptr<Segment> segment;

    // `elsewhere`: it is another process, which has handed us its door.
    ~Raw() { children.end(); }
    explicit Raw(bool elsewhere = false) {
        const std::string name = "xfer-" + at.host;
        auto fd = elsewhere ? connect_elsewhere(name) : shm::connect_to(name);
        REQUIRE(fd);
        door = std::make_unique<RendezvousSocket>(std::move(*fd));
        REQUIRE(door->meet().status == XFER_OK);
        REQUIRE(until([&] { return !accepting.channels.empty(); }));
    }
    void join() {
        REQUIRE(door->send(words()) == 0);
        REQUIRE(until([&] { return there.hellos.size() == 1; }));
        accepted().send_hello(words());
        start(accepted(), there);
        accepted().resume();
        turn_some(*loop);
        Packet packet;
        REQUIRE(door->receive(packet) == 0);
        auto taken = Segment::take(std::move(packet.fds));
        REQUIRE(taken);
        segment = std::move(*taken);
    }
    OneSidedPath &owner() { return *accepted().one_sided(); }
    RegionKey exported() {
        auto key = owner().export_region({kRegion}, there.memory_of(kRegion));
        REQUIRE(key);
        auto decoded = shm::decode_region_key({(*key).begin(), (*key).size()});
        REQUIRE(decoded);
        return *decoded;
    }
    bool ends() {
        return until([&] { return there.down.has_value(); });
    }
};

// A neighbour that owns: it is dialed, by our channel, at a socket that another process made, so
// that what it shows is mapped.
struct RawOwner {
    Log log;
    std::unique_ptr<OwnLoop> loop = std::move(*OwnLoop::open());
    std::unique_ptr<Transport> transport = make_shm(*loop, log);
    RecordingSink here;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<RendezvousSocket> door;
    std::unique_ptr<Segment> segment = std::move(*Segment::make());

    ~RawOwner() { children.end(); }
    // `last`: the kind of the message that brings the segment.
    explicit RawOwner(bool starts = true, HelloKind last = HelloKind::lane_ready) {
        const Uri at{.scheme = "shm", .host = "owner-" + std::to_string(::getpid()), .path = {}};
        Fd listener = listen_elsewhere("xfer-" + at.host);
        auto made = transport->connect(at, here);
        REQUIRE(made);
        channel = std::move(*made);
        door = std::make_unique<RendezvousSocket>(shm::accept_from(listener.get()));
        REQUIRE(door->meet().status == XFER_OK);
        channel->send_hello(words());
        REQUIRE(turn_until(*loop, [&] { return here.up; }));
        REQUIRE(hears().bytes == words());
        REQUIRE(door->send(words(last), std::array{segment->descriptor()}) == 0);
        REQUIRE(turn_until(*loop, [&] { return here.hellos.size() == 1 || here.down; }));
        if (!starts) return;
        start(*channel, here);
        channel->resume();
    }
    Packet hears() {
        Packet packet;
        do
            REQUIRE(turn_until(*loop, [&] { return door->receive(packet) == 0; }));
        while (packet.is_bell());
        return packet;
    }
    void sends(uint64_t mapping, const Fd &memory) {
        const ConstBytes bytes{reinterpret_cast<const uint8_t *>(&mapping), sizeof mapping};
        REQUIRE(door->send(bytes, std::array{memory.get()}) == 0);
    }
    std::unique_ptr<Import> imports(uint64_t mapping, uint64_t length) {
        segment->end(shm::Side::acceptor).slots[1].store(77);
        const ExportKey key = encode(RegionKey{.slot = 1,
                                               .stamp = 77,
                                               .length = length,
                                               .access = XFER_READ | XFER_WRITE,
                                               .mapping = mapping});
        return channel->one_sided()->import({key.begin(), key.size()});
    }
};

Fd memfd(size_t size, unsigned seals) {
    Fd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(size)) == 0);
    if (seals) REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
    return fd;
}

}  // namespace

TEST_CASE("neighbours meet, and frames go both ways") {
    Neighbours pair;
    pair.meet();
    Frame ping;
    ping.type = FrameType::ping;
    ping.seq = 9;
    REQUIRE(pair.channel->send(ping, {}));
    REQUIRE(pair.accepted().send(ping, {}));
    CHECK(pair.until([&] { return !pair.here.controls.empty() && !pair.there.controls.empty(); }));
    CHECK(pair.channel->remote() == "shm://" + pair.at.host);
}

// Its answer without them would break the protocol, and so end the connection that it joins.
TEST_CASE("an end that lacks descriptors for what is to be shared hangs up without a word") {
    Neighbours pair;
    pair.dial();
    pair.channel->send_hello(words());
    REQUIRE(pair.until([&] { return pair.there.hellos.size() == 1; }));
    rlimit was{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &was) == 0);
    const rlimit none{0, was.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    pair.accepted().send_hello(words());
    start(pair.accepted(), pair.there);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &was) == 0);
    REQUIRE(pair.until([&] { return pair.here.down && pair.there.down; }));
    CHECK(pair.here.hellos.empty());
    CHECK(pair.here.down->status == XFER_EPEERLOST);
    CHECK(pair.there.down->status == XFER_ENOFILES);
}

TEST_CASE("who is deaf hears later, all of it and in order") {
    Neighbours pair;
    pair.dial();
    pair.channel->send_hello(words());
    REQUIRE(pair.until([&] { return pair.there.hellos.size() == 1; }));
    pair.accepted().send_hello(words());
    start(pair.accepted(), pair.there);
    REQUIRE(pair.until([&] { return pair.here.hellos.size() == 1; }));
    start(*pair.channel, pair.here);
    Frame ping;
    ping.type = FrameType::ping;
    for (ping.seq = 1; ping.seq <= 100; ++ping.seq)
        REQUIRE(pair.channel->send(ping, {}));
    turn_some(*pair.loop);
    CHECK(pair.there.controls.empty());
    pair.accepted().resume();
    REQUIRE(pair.until([&] { return pair.there.controls.size() == 100; }));
    for (size_t i = 0; i < 100; ++i)
        CHECK(pair.there.controls[i].frame.seq == i + 1);
}

TEST_CASE("once a region is imported, its owner is not asked any more") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    const uint64_t asked = pair.there.accesses;
    std::vector<uint8_t> local = pattern(100'000, 3);
    TestOp put(Dir::put, kRegion,
               {{address(local.data()), 5, 50'000}, {address(&local[50'000]), 90'000, 50'000}});
    CHECK(pair.now(put) == XFER_OK);
    CHECK(pair.there.accesses == asked);
    CHECK(std::equal(local.begin(), local.begin() + 50'000, pair.memory.begin() + 5));
    CHECK(std::equal(local.begin() + 50'000, local.end(), pair.memory.begin() + 90'000));
}

TEST_CASE("what is not allowed is refused by the owner") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    uint8_t local[16] = {};
    TestOp beyond(Dir::put, kRegion, {{address(local), (8 << 20) - 15, 16}});
    CHECK(pair.now(beyond) == XFER_ERANGE);
    TestOp stranger(Dir::put, kRegion, {{address(local), 0, 16}}, kKey + 1);
    CHECK(pair.now(stranger) == XFER_EACCESS);
}

TEST_CASE("an atomic needs no owner where the word is ours to reach, and is not torn") {
    Neighbours n;
    n.meet();
    n.get_near();
    const uint64_t asked = n.there.accesses;
    TestAtomic add(AtomicOp::add, 8, 3), swap(AtomicOp::cas, 8, 9, 3);
    CHECK(n.now(add) == XFER_OK);
    CHECK(n.now(swap) == XFER_OK);
    CHECK(add.moved == Moved::process);
    CHECK(swap.before == 3);
    CHECK(load<uint64_t>(n.memory.data() + 8) == 9);
    CHECK(n.there.accesses == asked);
    TestAtomic across(AtomicOp::add, 12, 1), past(AtomicOp::add, 8 << 20, 1);
    CHECK(n.now(across) == XFER_EINVAL);  // by the owner
    CHECK(n.now(past) == XFER_ERANGE);
    CHECK(n.there.accesses == asked + 2);
    CHECK(load<uint64_t>(n.memory.data() + 8) == 9);
}

TEST_CASE("an atomic that was posted when the region ended is refused, and not done") {
    Neighbours n;
    n.meet();
    n.get_near();
    TestAtomic late(AtomicOp::add, 8, 3);
    REQUIRE(n.post(late));
    n.there.regions.clear();
    CHECK(retire(n.accepted(), RegionId{kRegion}, XFER_ESTALE));
    flush(*n.channel);
    REQUIRE(n.until([&] { return !n.here.done.empty() && n.here.done.back().op == &late; }));
    CHECK(n.here.done.back().status == XFER_ESTALE);
    CHECK(!late.canceled);
    CHECK(load<uint64_t>(n.memory.data() + 8) == 0);
}

TEST_CASE("a region that has ended is not touched, and what comes later is refused") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    CHECK(retire(pair.accepted(), RegionId{kRegion}, XFER_ESTALE));
    pair.there.regions.clear();
    std::vector<uint8_t> local = pattern(1'000, 1);
    for (int i = 0; i < 3; ++i) {  // before its end is heard of, and after
        TestOp put(Dir::put, kRegion, {{address(local.data()), 0, 1'000}});
        CHECK(pair.now(put) == XFER_ESTALE);
        pair.channel->one_sided()->withdrawn({kRegion});
        pair.channel->one_sided()->drop(std::move(pair.imported));
    }
    CHECK(std::count(pair.memory.begin(), pair.memory.end(), 0) == 8 << 20);
}

TEST_CASE("a put that was posted when the region ended is refused") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    std::vector<uint8_t> local = pattern(1'000, 1);
    TestOp put(Dir::put, kRegion, {{address(local.data()), 0, 1'000}});
    REQUIRE(pair.post(put));
    CHECK(retire(pair.accepted(), RegionId{kRegion}, XFER_ESTALE));
    pair.there.regions.clear();
    flush(*pair.channel);
    const size_t before = pair.here.done.size();
    REQUIRE(pair.until([&] { return pair.here.done.size() > before; }));
    CHECK(pair.here.done.back().status == XFER_ESTALE);
    CHECK(pair.memory[0] == 0);
}

TEST_CASE("a put that was posted when its import is dropped goes as a request") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    std::vector<uint8_t> local = pattern(1'000, 1);
    TestOp put(Dir::put, kRegion, {{address(local.data()), 0, 1'000}});
    REQUIRE(pair.post(put));
    pair.channel->one_sided()->drop(std::move(pair.imported));
    CHECK(!put.import);
    const uint64_t asked = pair.there.accesses;
    flush(*pair.channel);
    REQUIRE(pair.until([&] { return !pair.here.done.empty(); }));
    CHECK(pair.here.done.back().status == XFER_OK);
    CHECK(pair.there.accesses == asked + 1);
    CHECK(std::equal(local.begin(), local.end(), pair.memory.begin()));
}

TEST_CASE("a canceled operation that was not copied is not copied any more") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    std::vector<uint8_t> local = pattern(1'000, 1);
    TestOp put(Dir::put, kRegion, {{address(local.data()), 0, 1'000}});
    REQUIRE(pair.post(put));
    CHECK(path_of(*pair.channel, put).cancel(put));
    flush(*pair.channel);
    const size_t before = pair.here.done.size();
    REQUIRE(pair.until([&] { return pair.here.done.size() > before; }));
    CHECK(pair.here.done.back().status == XFER_ECANCELED);
    CHECK(pair.memory[0] == 0);
}

TEST_CASE("an owner whose neighbour ends hears of the notifications whose puts were copied") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    std::vector<uint8_t> local(16);
    TestOp notified(Dir::put, kRegion, {{address(local.data()), 0, 16}});
    for (const uint64_t number : {1, 4'097, 2, 3, 3}) {  // 1 is long over, and in the way
        notified.remote.notification = number;
        notified.remote.notification_key = 100 + number;
        CHECK(pair.now(notified) == XFER_OK);
    }
    TestOp get(Dir::get, kRegion, {{address(local.data()), 0, 16}});
    get.remote.notification = 9;
    CHECK(pair.now(get) == XFER_OK);
    CHECK(pair.there.unseen.empty());
    SUBCASE("by itself") {
        pair.channel->close({XFER_EPEERLOST, 0, 0, "enough"});
    }
    SUBCASE("for its owner, who does not look at the rings any more") {
        pair.accepted().close({XFER_EPEERLOST, 0, 0, "enough"});
    }
    REQUIRE(pair.until([&] { return pair.there.down.has_value(); }));
    const std::vector<std::pair<uint64_t, uint64_t>> all = {
        {4'097, 100 + 4'097}, {2, 102}, {3, 103}};
    CHECK(pair.there.unseen == all);
    CHECK(pair.here.unseen.empty());
}

TEST_CASE("what was noted counts as sent, though it takes the rings and never leaves") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    std::vector<uint8_t> local(1 << 20);
    TestOp fills(Dir::put, kRegion + 1, {{address(local.data()), 0, 1 << 20}});
    REQUIRE(pair.post(fills));
    flush(*pair.channel);  // the ring is full now: nobody reads before the loop turns
    TestOp notified(Dir::put, kRegion, {{address(local.data()), 0, 16}});
    notified.remote.notification = 1;
    REQUIRE(pair.post(notified));
    CHECK(retire(pair.accepted(), RegionId{kRegion}, XFER_ESTALE));
    flush(*pair.channel);
    CHECK(notified.sent);
    const size_t before = pair.here.done.size();
    pair.channel->close({XFER_EPEERLOST, 0, 0, "enough"});
    REQUIRE(pair.until([&] { return pair.here.done.size() == before + 2; }));
    CHECK(notified.sent);
}

TEST_CASE("a channel that could not start takes no operations, and its path ends before it") {
    Neighbours pair;
    pair.dial();
    start(*pair.channel, pair.here);  // no rings have come
    std::vector<uint8_t> local(16);
    TestOp op(Dir::put, kRegion, {{address(local.data()), 0, 16}});
    CHECK_FALSE(pair.post(op));
    flush(*pair.channel);
    CHECK(retire(*pair.channel, RegionId{kRegion}, XFER_ESTALE));
    REQUIRE(pair.until([&] { return pair.here.down.has_value(); }));
    CHECK(pair.here.done.empty());
    CHECK(pair.here.paths_down == 1);
}

TEST_CASE("every operation ends with the channel, and both ends are told") {
    Neighbours pair;
    pair.meet();
    pair.get_near();
    std::vector<uint8_t> local(1'000);
    TestOp near(Dir::put, kRegion, {{address(local.data()), 0, 1'000}});
    TestOp far(Dir::put, kRegion + 1, {{address(local.data()), 0, 1'000}});
    const size_t before = pair.here.done.size();
    REQUIRE(pair.post(near));
    REQUIRE(pair.post(far));
    pair.channel->close({XFER_ECLOSED, 0, 0, "enough"});
    REQUIRE(pair.until([&] { return pair.here.down && pair.there.down; }));
    CHECK(pair.here.done.size() == before + 2);
    CHECK(pair.here.down->status == XFER_ECLOSED);
    CHECK(pair.there.down->status == XFER_EPEERLOST);
    CHECK(pair.here.paths_down == 2);
    CHECK(pair.there.paths_down == 2);
}

TEST_CASE("a copy past the caches is a copy, wherever it begins and ends") {
    const std::vector<uint8_t> from = pattern(400, 3);
    for (size_t to_at = 0; to_at < 33; ++to_at)
        for (const size_t from_at : {0, 1, 8, 16, 31})
            for (const size_t length : {0, 1, 15, 63, 64, 65, 79, 80, 128, 200, 300}) {
                std::vector<uint8_t> to(400, 0xee), wanted(400, 0xee);
                std::copy_n(from.begin() + from_at, length, wanted.begin() + to_at);
                shm::streaming_copy(&to[to_at], &from[from_at], length);
                CHECK(to == wanted);
            }
}

TEST_CASE("last words are heard before the end") {
    Neighbours pair;
    pair.meet();
    Frame bye;
    bye.type = FrameType::bye;
    bye.status = XFER_ECLOSED;
    REQUIRE(pair.channel->send(bye, {}));
    pair.channel->close({XFER_ECLOSED, 0, 0, "enough"});
    REQUIRE(pair.until([&] { return pair.there.down.has_value(); }));
    REQUIRE(pair.there.controls.size() == 1);
    CHECK(pair.there.controls[0].frame.type == FrameType::bye);
}

TEST_CASE("memory that a neighbour made can be mapped, and only as far as it was let") {
    for (const bool writable : {true, false}) {
        CAPTURE(writable);
        Raw raw(true);
        Fd made = memfd(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW);
        raw.there.lies_in = {.memory = {3}, .fd = made.get(), .offset = 4096};
        raw.there.export_access = XFER_READ | (writable ? uint32_t{XFER_WRITE} : 0u);
        raw.join();
        const RegionKey key = raw.exported();
        CHECK(key.mapping == (3u << 1 | (writable ? 1u : 0u)));
        CHECK(key.offset == 4096);
        Packet packet;
        REQUIRE(raw.door->receive(packet) == 0);  // it was sent before the key is
        REQUIRE(packet.fds.size() == 1);
        CHECK(shm::decode_mapping(packet.bytes)->value == key.mapping);
        void *at =
            ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, packet.fds[0].get(), 0);
        CHECK((at != MAP_FAILED) == writable);
        if (at != MAP_FAILED) ::munmap(at, 1 << 20);
        // The second time it has it already.
        CHECK(raw.exported().mapping == key.mapping);
        CHECK(raw.door->receive(packet) == EAGAIN);
    }
}

TEST_CASE("a region is not exported while its descriptor can't leave") {
    Raw raw(true);
    Fd made = memfd(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW);
    raw.join();
    raw.there.lies_in.fd = made.get();
    std::optional<Status> refused;
    for (uint64_t memory = 100; !refused && memory < 10'000; ++memory) {
        raw.there.lies_in.memory = {memory};
        auto key = raw.owner().export_region({kRegion}, raw.there.memory_of(kRegion));
        if (!key) refused = key.error().status;
    }
    REQUIRE(refused);
    CHECK(*refused == XFER_EAGAIN);
    Packet packet;
    while (raw.door->receive(packet) == 0) {}
    const RegionKey key = raw.exported();
    REQUIRE(raw.door->receive(packet) == 0);
    CHECK(shm::decode_mapping(packet.bytes)->value == key.mapping);
}

TEST_CASE("a key finds its descriptor, though the socket was not read yet") {
    constexpr uint64_t kSize = 1 << 20, kMapping = 15;
    RawOwner owner;
    Fd memory = memfd(kSize, F_SEAL_SHRINK | F_SEAL_GROW);
    owner.door->ring();
    owner.sends(kMapping + 2, memory);
    owner.sends(kMapping, memory);
    SUBCASE("and something else waits behind it") {
        uint8_t bye[Frame::kSize];
        Frame frame;
        frame.type = FrameType::bye;
        frame.status = XFER_ECLOSED;
        encode(frame, bye);
        REQUIRE(owner.door->send(bye) == 0);
        CHECK(owner.imports(kMapping, kSize));
        CHECK(owner.here.controls.empty());
        CHECK(turn_until(*owner.loop, [&] { return owner.here.controls.size() == 1; }));
    }
    SUBCASE("alone") {
        CHECK(owner.imports(kMapping, kSize));
        turn_some(*owner.loop);
        CHECK_FALSE(owner.here.down);
    }
}

TEST_CASE("an end waits for who copies, and no longer") {
    Raw raw;
    raw.join();
    const RegionKey shown = raw.exported();
    auto &hazard = raw.segment->end(shm::Side::initiator).hazard;
    hazard.store(shown.stamp);
    CHECK_FALSE(retire(raw.accepted(), RegionId{kRegion}, XFER_ESTALE));
    CHECK(raw.segment->end(shm::Side::acceptor).slots[shown.slot].load() == 0);
    turn_some(*raw.loop, 20);
    CHECK(raw.there.quiet.empty());
    hazard.store(0);
    REQUIRE(raw.until([&] { return raw.there.quiet.size() == 1; }));
    CHECK(raw.there.quiet[0] == kRegion);
}

TEST_CASE("the end of the channel waits for who copies, or for its death") {
    for (const bool dies : {false, true}) {
        CAPTURE(dies);
        Raw raw;
        raw.join();
        const RegionKey shown = raw.exported();
        auto &hazard = raw.segment->end(shm::Side::initiator).hazard;
        hazard.store(shown.stamp);
        raw.accepted().close({XFER_ECLOSED, 0, 0, "enough"});
        turn_some(*raw.loop, 20);
        CHECK_FALSE(raw.there.down);
        if (dies)
            raw.door.reset();
        else
            hazard.store(0);
        CHECK(raw.ends());
    }
}

TEST_CASE("stamps do not return") {
    Raw raw;
    raw.join();
    const RegionKey first = raw.exported();
    CHECK(raw.exported().stamp == first.stamp);  // until it ends
    CHECK(retire(raw.accepted(), RegionId{kRegion}, XFER_ESTALE));
    const RegionKey second = raw.exported();
    CHECK(second.slot == first.slot);
    CHECK(second.stamp > first.stamp);
}

TEST_CASE("frames keep their order where the rings are full, and room comes between two of them") {
    Raw raw;
    raw.join();
    shm::End &end = raw.segment->end(shm::Side::acceptor);
    shm::RingReader<> reader(end.ring, end.data, shm::kRingBytes);
    std::vector<uint8_t> heard;
    const auto read = [&](size_t most) {
        std::vector<uint8_t> bytes(most);
        const iovec into{bytes.data(), most};
        bytes.resize(reader.read({&into, 1}, reader.there()));
        heard.insert(heard.end(), bytes.begin(), bytes.end());
    };
    const std::vector<uint8_t> body(kMaxControl);
    Frame frame;
    frame.type = FrameType::message;
    frame.length = kMaxControl;
    const auto send = [&] {
        ++frame.seq;
        REQUIRE(raw.accepted().send(frame, body));
    };
    for (uint64_t sent = 0; sent < 2 * shm::kRingBytes; sent += kMaxControl)
        send();
    read(100'000);
    send();
    const size_t all = frame.seq * (Frame::kSize + kMaxControl);
    REQUIRE(raw.until([&] {
        read(shm::kRingBytes);
        return heard.size() >= all;
    }));
    for (uint64_t i = 0; i < frame.seq; ++i) {
        const auto each = decode_frame(heard.data() + i * (Frame::kSize + kMaxControl));
        REQUIRE(each);
        REQUIRE(each->seq == i + 1);
    }
}

TEST_CASE("a neighbour that says nonsense is left, and nothing worse") {
    SUBCASE("before it said who it is") {
        Raw raw;
        const uint8_t noise[] = "this is no handshake at all";
        CHECK(raw.door->send(noise) == 0);
        CHECK(raw.ends());
    }
    SUBCASE("an empty packet") {
        Raw raw;
        CHECK(raw.door->send(ConstBytes()) == 0);
        CHECK(raw.ends());
    }
    SUBCASE("more than a packet holds") {
        Raw raw;
        CHECK(raw.door->send(std::vector<uint8_t>(shm::kMaxPacket + 1)) == 0);
        CHECK(raw.ends());
    }
    SUBCASE("a packet of a length that there is not") {
        Raw raw;
        raw.join();
        CHECK(raw.door->send(std::vector<uint8_t>(96)) == 0);
        CHECK(raw.ends());
    }
    SUBCASE("a packet cut short") {
        Raw raw;
        raw.join();
        CHECK(raw.door->send(std::vector<uint8_t>(sizeof(uint64_t) - 1)) == 0);
        CHECK(raw.ends());
    }
    SUBCASE("an index past the ring") {
        Raw raw;
        raw.join();
        raw.segment->end(shm::Side::initiator).ring.written.store(shm::kRingBytes + 1);
        raw.door->ring();
        CHECK(raw.ends());
    }
    SUBCASE("a reader that took what was never written") {
        Raw raw;
        raw.join();
        raw.segment->end(shm::Side::acceptor).ring.read.store(1'000'000);
        // Its index is looked at where the room that was there before does not suffice.
        const std::vector<uint8_t> body(kMaxControl);
        Frame message;
        message.type = FrameType::message;
        message.length = kMaxControl;
        for (uint64_t sent = 0; sent <= shm::kRingBytes; sent += kMaxControl)
            raw.accepted().send(message, body);
        CHECK(raw.ends());
    }
    SUBCASE("a descriptor's packet without one") {
        Raw raw;
        raw.join();
        CHECK(raw.door->send(std::vector<uint8_t>(sizeof(uint64_t))) == 0);
        turn_some(*raw.loop);
        CHECK_FALSE(raw.there.down);
    }
}

TEST_CASE("a key that is wild reaches nothing") {
    constexpr uint64_t kSize = 1 << 20, kMapping = 15;
    RawOwner owner;
    Fd memory = memfd(kSize, F_SEAL_SHRINK | F_SEAL_GROW);
    owner.sends(kMapping, memory);
    OneSidedPath &path = *owner.channel->one_sided();
    const auto imports = [&](RegionKey key) {
        const ExportKey bytes = encode(key);
        return path.import({bytes.begin(), bytes.size()}) != nullptr;
    };
    const RegionKey good{.slot = 1,
                         .stamp = 77,
                         .length = kSize,
                         .access = XFER_READ | XFER_WRITE,
                         .mapping = kMapping};
    CHECK(imports(good));
    RegionKey wild = good;
    wild.slot = shm::kSlots;
    CHECK_FALSE(imports(wild));
    const std::vector<uint8_t> bytes(kMaxExportKey);
    for (size_t length = 0; length < bytes.size(); ++length)
        if (length != sizeof(RegionKey)) CHECK_FALSE(path.import({bytes.data(), length}));
    CHECK_FALSE(owner.here.down);
}

TEST_CASE("who has not been answered yet brings no memory along") {
    Raw raw;
    auto made = Segment::make();
    REQUIRE(made);
    REQUIRE(raw.door->send(words(), std::array{(*made)->descriptor()}) == 0);
    REQUIRE(raw.until([&] { return raw.there.hellos.size() == 1; }));
    raw.accepted().send_hello(words());
    SUBCASE("it is given rings of ours") {
        start(raw.accepted(), raw.there);
        turn_some(*raw.loop);
        Packet packet;
        REQUIRE(raw.door->receive(packet) == 0);
        CHECK(packet.fds.size() == 1);
        CHECK_FALSE(raw.there.down);
    }
    SUBCASE("nor does who has no last word") {
        turn_some(*raw.loop);
        REQUIRE(raw.door->send(words(), std::array{(*made)->descriptor()}) == 0);
        REQUIRE(raw.until([&] { return raw.there.hellos.size() == 2; }));
        raw.accepted().send_hello(words());
        start(raw.accepted(), raw.there);
        CHECK(raw.ends());
    }
}

TEST_CASE("a segment that comes with another message than the last ends the channel") {
    for (const HelloKind kind : {HelloKind::hello, HelloKind::reply, HelloKind::proof,
                                 HelloKind::refuse, HelloKind::lane}) {
        CAPTURE(static_cast<int>(kind));
        RawOwner raw(false, kind);
        REQUIRE(raw.here.down);
        CHECK(raw.here.down->status == XFER_EPROTO);
        CHECK(std::string_view(raw.here.down->message).ends_with("not with the last message"));
        CHECK(raw.here.hellos.empty());
    }
    for (const HelloKind kind : {HelloKind::ready, HelloKind::lane_ready}) {
        CAPTURE(static_cast<int>(kind));
        RawOwner raw(true, kind);
        CHECK(!raw.here.down);
    }
}

TEST_CASE("a second segment ends the channel") {
    RawOwner raw(false);
    REQUIRE(raw.door->send(words(), std::array{raw.segment->descriptor()}) == 0);
    REQUIRE(turn_until(*raw.loop, [&] { return raw.here.down.has_value(); }));
    CHECK(raw.here.down->status == XFER_EPROTO);
    CHECK(raw.here.hellos.size() == 1);
}

TEST_CASE("who hangs up before anybody listened is gone") {
    Raw raw;
    REQUIRE(raw.door->send(words()) == 0);
    REQUIRE(raw.until([&] { return raw.there.hellos.size() == 1; }));
    raw.accepted().send_hello(words());
    start(raw.accepted(), raw.there);
    turn_some(*raw.loop);
    CHECK_FALSE(raw.there.down);
    raw.door.reset();
    CHECK(raw.ends());
}

TEST_CASE("who hangs up while much waits for it is gone") {
    Raw raw;
    raw.join();
    raw.accepted().resume();
    Frame frame;
    frame.type = FrameType::found;
    frame.length = 1'000;
    const std::vector<uint8_t> body(frame.length, 1);
    for (int i = 0; i < 1'000; ++i)  // more than the ring holds, and than may wait while it hears
        CHECK(raw.accepted().send(frame, body));
    turn_some(*raw.loop);
    CHECK_FALSE(raw.there.down);
    raw.door.reset();
    REQUIRE(raw.ends());
    const std::string_view why = raw.there.down->message;
    CHECK(why.find("does not read") == why.npos);  // it is seen at once
}

TEST_CASE("another user is not let in, and holds up nobody") {
    if (::geteuid() != 0) {
        MESSAGE("skipped: only root can be another user");
        return;
    }
    Neighbours pair;
    std::vector<Fd> strangers;
    for (int i = 0; i < 64; ++i) {
        auto fd = connect_elsewhere("xfer-" + pair.at.host, 65534);
        REQUIRE(fd);
        strangers.push_back(std::move(*fd));
    }
    pair.dial();  // within five seconds
    CHECK(pair.accepting.channels.size() == 1);
}

TEST_CASE("a segment that a neighbour made up is not mapped") {
    const auto refused = [&](Fd memory) {
        std::vector<Fd> fds;
        fds.push_back(std::move(memory));
        return !Segment::take(std::move(fds));
    };
    CHECK(refused(memfd(sizeof(shm::Shared), 0)));  // could be cut short
    CHECK(refused(memfd(sizeof(shm::Shared) - 1, F_SEAL_SHRINK)));
    CHECK(refused(memfd(sizeof(shm::Shared), F_SEAL_SHRINK)));  // all zero: no magic
    CHECK(refused(Fd(::eventfd(0, EFD_CLOEXEC))));
    CHECK(refused(Fd(::open("/dev/null", O_RDWR | O_CLOEXEC))));
    CHECK_FALSE(Segment::take({}));
}

// ---- numbers, and mappings under those who point into them

TEST_CASE("the end of a message leaves the region of its number alone") {
    Raw raw(true);
    Fd made = memfd(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW);
    raw.there.lies_in = {.memory = memory_of({kRegion}), .fd = made.get()};
    raw.join();
    const RegionKey key = raw.exported();
    CHECK(key.mapping != 0);
    Packet packet;
    REQUIRE(raw.door->receive(packet) == 0);
    CHECK(retire(raw.accepted(), MessageId{kRegion}, XFER_ESTALE));
    const RegionKey again = raw.exported();
    CHECK(again.stamp == key.stamp);
    CHECK(raw.door->receive(packet) == EAGAIN);  // its descriptor is known
    CHECK(retire(raw.accepted(), RegionId{kRegion}, XFER_ESTALE));
    CHECK(raw.exported().stamp > key.stamp);
    CHECK(raw.door->receive(packet) == 0);  // and has come anew
}

TEST_CASE("memory stays mapped as long as a region points into it, whatever its owner says") {
    constexpr uint64_t kSize = 1 << 20, kMapping = 15;
    const auto mapped = [] {
        std::ifstream maps("/proc/self/maps");
        const std::string all((std::istreambuf_iterator<char>(maps)), {});
        return all.find("/memfd:test ") != std::string::npos;
    };
    RawOwner owner;
    Fd memory = memfd(kSize, F_SEAL_SHRINK | F_SEAL_GROW);
    std::vector<uint8_t> local = pattern(4'096, 3), found(local.size());
    owner.sends(kMapping, memory);
    std::unique_ptr<Import> imported = owner.imports(kMapping, kSize);
    REQUIRE(imported);
    OneSidedPath &path = *owner.channel->one_sided();
    const auto put = [&](uint64_t offset) {
        TestOp op(Dir::put, kRegion, {{address(local.data()), offset, local.size()}});
        op.import = imported.get();
        const size_t before = owner.here.done.size();
        REQUIRE(path_of(*owner.channel, op).post(op));
        flush(*owner.channel);
        REQUIRE(turn_until(*owner.loop, [&] { return owner.here.done.size() > before; }));
        CHECK(owner.here.done.back().status == XFER_OK);
        REQUIRE(::pread(memory.get(), found.data(), found.size(), static_cast<off_t>(offset)) ==
                static_cast<ssize_t>(found.size()));
        CHECK(found == local);
    };
    put(0);
    path.withdrawn({kMapping >> 1});  // of which it was made
    put(8'192);
    CHECK(mapped());
    path.drop(std::move(imported));
    CHECK_FALSE(mapped());
    owner.channel->close({XFER_ECLOSED, 0, 0, "enough"});
    owner.door.reset();
    CHECK(turn_until(*owner.loop, [&] { return owner.here.down.has_value(); }));
}

// ---- what a neighbour can do to what it shares (lib/design/0020-what-neighbours-share.md)

TEST_CASE("what is handed over is memory alone, which nobody can cut or make wait") {
    Raw raw;
    REQUIRE(raw.door->send(words()) == 0);
    REQUIRE(raw.until([&] { return raw.there.hellos.size() == 1; }));
    raw.accepted().send_hello(words());
    start(raw.accepted(), raw.there);
    turn_some(*raw.loop);
    Packet packet;
    REQUIRE(raw.door->receive(packet) == 0);
    REQUIRE(packet.fds.size() == 1);
    CHECK(::fcntl(packet.fds[0].get(), F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
    CHECK(::ftruncate(packet.fds[0].get(), 0) != 0);
    CHECK(::fcntl(packet.fds[0].get(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("who is rung for without end, and never reads it, makes nobody wait") {
    Raw raw;
    raw.join();
    raw.accepted().resume();
    // All that it may do to its own socket.
    CHECK(::fcntl(raw.door->fd(), F_SETFL, 0) == 0);
    const int small = 1;
    ::setsockopt(raw.door->fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    auto &ring = raw.segment->end(shm::Side::acceptor).ring;
    Frame ping;
    ping.type = FrameType::ping;
    uint64_t before = 0;
    for (int i = 0; i < 5'000; ++i) {
        ring.reader_sleeps.store(1);
        REQUIRE(raw.accepted().send(ping, {}));
        REQUIRE(raw.until([&] { return ring.written.load() > before; }));
        before = ring.written.load();
        ring.read.store(before);
    }
    CHECK_FALSE(raw.there.down);
}

TEST_CASE("a flood of wake-ups holds up nobody else") {
    Neighbours pair;
    pair.meet();
    auto fd = shm::connect_to("xfer-" + pair.at.host);
    REQUIRE(fd);
    RendezvousSocket door(std::move(*fd));
    REQUIRE(door.send(words()) == 0);
    REQUIRE(pair.until([&] { return pair.accepting.channels.size() == 2; }));
    Channel &flooded = *pair.accepting.channels[1];
    REQUIRE(pair.until([&] { return pair.there.hellos.size() == 2; }));
    flooded.send_hello(words());
    start(flooded, pair.there);
    Frame ping;
    ping.type = FrameType::ping;
    for (size_t i = 1; i <= 50; ++i) {
        for (int rings = 0; rings < 1'000; ++rings)
            door.ring();
        REQUIRE(pair.channel->send(ping, {}));
        REQUIRE(pair.until([&] { return pair.there.controls.size() == i; }));
    }
    flooded.close({XFER_ECLOSED, 0, 0, "enough"});
    turn_some(*pair.loop);
}

TEST_CASE("descriptors that no key names are few, and end with the channel") {
    const auto open_files = [] {
        const std::filesystem::directory_iterator all("/proc/self/fd");
        return std::distance(begin(all), end(all));
    };
    Raw raw;
    raw.join();
    turn_some(*raw.loop);
    const auto before = open_files();
    Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (uint64_t mapping = 0; mapping < 200; ++mapping) {
        const ConstBytes bytes{reinterpret_cast<const uint8_t *>(&mapping), sizeof mapping};
        REQUIRE(raw.door->send(bytes, std::array{null.get()}) == 0);
        turn_some(*raw.loop, 1);
    }
    null.reset();
    turn_some(*raw.loop);
    CHECK(open_files() <= before + 64);
    CHECK_FALSE(raw.there.down);
    raw.door.reset();
    REQUIRE(raw.ends());
    raw.accepting.channels.clear();
    CHECK(open_files() < before);
}

TEST_CASE("holes punched into the rings end the channel, and nothing worse") {
    Raw raw;
    REQUIRE(raw.door->send(words()) == 0);
    REQUIRE(raw.until([&] { return raw.there.hellos.size() == 1; }));
    raw.accepted().send_hello(words());
    start(raw.accepted(), raw.there);
    raw.accepted().resume();
    turn_some(*raw.loop);
    Packet packet;
    REQUIRE(raw.door->receive(packet) == 0);
    Frame ping;
    ping.type = FrameType::ping;
    REQUIRE(raw.accepted().send(ping, {}));
    turn_some(*raw.loop);
    REQUIRE(::fallocate(packet.fds.at(0).get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        sizeof(shm::Shared)) == 0);
    REQUIRE(raw.accepted().send(ping, {}));
    turn_some(*raw.loop);
    raw.door.reset();
    CHECK(raw.ends());
}

TEST_CASE("who copies for ever is looked at less and less often") {
    Raw raw;
    raw.join();
    const RegionKey shown = raw.exported();
    raw.segment->end(shm::Side::initiator).hazard.store(shown.stamp);
    CHECK_FALSE(retire(raw.accepted(), RegionId{kRegion}, XFER_ESTALE));
    // In 300 ms: some ten looks and the thirty turns that nothing ends; never doubled, one look
    // each time that the timer can fire, which is hundreds.
    int turns = 0;
    for (const uint64_t begin = raw.loop->now(); raw.loop->now() - begin < 300 * kNsPerMs; ++turns)
        raw.loop->turn(10 * kNsPerMs);
    CHECK(turns < 80);
    CHECK(raw.there.quiet.empty());
    raw.segment->end(shm::Side::initiator).hazard.store(0);
    CHECK(raw.until([&] { return raw.there.quiet.size() == 1; }));
}
