// SPDX-License-Identifier: Apache-2.0
// What a path exports by memory windows: grants and regions, whom their keys serve, and until when.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "fake_verbs_ends.h"
#include "rdma_paths.h"
#include "transport/rdma/export_key.h"
#include "transport/rdma/registration.h"

using namespace xfer;
using namespace xfer::rdma;
using test::address;

namespace {

constexpr uint64_t kRegion = 7, kGrant = kGrantBit | 8;
constexpr uint64_t kAt = 512, kLength = 256;  // of the grant

std::atomic<ibv_mr *> noted{nullptr};  // the last one, by the worker
ibv_mr *register_and_note(ibv_pd *domain, void *at, size_t length, int access) {
    return noted = FakeFabric::verbs().reg_mr(domain, at, length, access);
}

// Registrations begin when they are let go, and note how many windows there are then.
std::atomic<FakeFabric *> counted{nullptr};
std::atomic<bool> let_go{false};
std::vector<size_t> windows_at_begin;  // the worker's
ibv_mr *register_when_let_go(ibv_pd *domain, void *at, size_t length, int access) {
    while (!let_go)
        std::this_thread::yield();
    windows_at_begin.push_back(counted.load()->live().windows);
    return FakeFabric::verbs().reg_mr(domain, at, length, access);
}

// The far side lends a part of memory that it allows nobody as a whole.
struct Lent {
    explicit Lent(const FakeAdapterOptions &far = {}, const QueuePairOptions &pair = {},
                  FakePersonality personality = {})
        : paths(personality, {}, far, pair) {
        paths.open();
        paths.inside([&] {
            paths.far->add_region(kRegion, remote, 0);
            paths.far->add_grant(kGrant, kRegion, kAt, kLength);
        });
    }

    // The answer that is not XFER_EAGAIN.
    Result<ExportKey> key(uint64_t number = kGrant) {
        std::optional<Result<ExportKey>> key;
        REQUIRE(paths.until([&] {
            return paths.inside([&] {
                key.emplace(paths.far->key_of(number));
                return *key || key->error().status != XFER_EAGAIN;
            });
        }));
        return *key;
    }
    RegionKeys keys(uint64_t number = kGrant) {
        auto bytes = key(number);
        REQUIRE(bytes);
        const auto keys = decode_region_keys({bytes->begin(), bytes->size()});
        REQUIRE(keys);
        return *keys;
    }
    void take(const RegionKeys &keys, uint64_t number = kGrant) {
        const ExportKey key = encode(keys);
        paths.inside([&] {
            auto import = paths.near->path->import({key.begin(), key.size()});
            REQUIRE(import);
            import->region = {number};
            paths.near->imports[number] = std::move(import);
        });
    }
    // Again, as long as the path has no bounce buffers yet.
    Status move(Dir dir, uint64_t offset, uint64_t length, uint64_t number = kGrant) {
        for (int i = 0; i < 2'000; ++i) {
            ops.emplace_back(dir, number,
                             std::vector<Piece>{{address(local.data()), offset, length}});
            REQUIRE(paths.post(*paths.near, ops.back()));
            REQUIRE(paths.until([&] { return paths.near->posted.empty(); }));
            if (paths.near->times_done(ops.back())) return paths.near->status_of(ops.back());
            paths.own->turn(kNsPerMs);
        }
        FAIL("it is declined");
        return XFER_OK;
    }
    Status put(uint64_t offset, uint64_t length) { return move(Dir::put, offset, length); }
    bool remove(uint64_t number) {
        return paths.inside([&] { return paths.far->fabric->remove_region({number}); });
    }
    void end(uint64_t number) {
        if (remove(number)) return;
        REQUIRE(paths.until([&] { return was_released(number); }));
    }
    bool was_released(uint64_t number) const {
        const auto &released = paths.far->released;
        return std::count(released.begin(), released.end(), number) == 1;
    }
    ibv_qp *far_pair() {
        for (ibv_qp *pair : paths.fabric.pairs())
            if (std::string(pair->context->device->name) == "fake1") return pair;
        return nullptr;
    }
    // A write of another peer, which is connected with the same device of the far side.
    ibv_wc_status write_as_another(uint64_t to, uint32_t rkey) {
        FakeEnd other(paths.near->adapter), target(paths.far->adapter);
        ibv_qp *const of = far_pair();
        const Verbs &verbs = FakeFabric::verbs();
        verbs.destroy_qp(target.pair);
        verbs.destroy_cq(target.queue);
        target.queue = verbs.create_cq(of->context, 16, nullptr, nullptr, 0);
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = target.queue;
        attributes.qp_type = IBV_QPT_RC;
        attributes.cap = {1, 1, 1, 1, 0};
        target.pair = verbs.create_qp(of->pd, &attributes);
        other.connect(target), target.connect(other);
        other.bytes[0] = 9;
        ibv_sge piece = other.piece(0, 1);
        ibv_send_wr request = other.request(IBV_WR_RDMA_WRITE, &piece, target, 0);
        request.wr.rdma.remote_addr = to, request.wr.rdma.rkey = rkey;
        REQUIRE(other.post(request) == 0);
        paths.settle();  // also the event
        const ibv_wc_status status = other.poll().at(0).status;
        verbs.destroy_qp(std::exchange(target.pair, nullptr));
        verbs.destroy_cq(std::exchange(target.queue, nullptr));
        return status;
    }
    size_t told(const char *words) const {
        const auto &lines = paths.far->lines;
        return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto &line) {
            return line.find(words) != std::string::npos;
        }));
    }

    Octets local = Octets(4096, 5), remote = Octets(4096), mine = Octets(4096),
           zeros = Octets(4096);
    std::deque<TestOp> ops;
    Paths paths;
};

}  // namespace

TEST_CASE("a grant goes by the adapter, to its range and as it allows") {
    Lent lent;
    RegionKeys keys = lent.keys();
    CHECK(keys.base == address(lent.remote.data()) + kAt);
    CHECK(keys.length == kLength);
    lent.take(keys);
    CHECK(lent.put(0, kLength) == XFER_OK);
    Octets expected(4096);
    std::fill_n(expected.begin() + kAt, kLength, uint8_t{5});
    CHECK(lent.remote == expected);
    std::fill_n(lent.local.begin(), 16, uint8_t{1});
    CHECK(lent.move(Dir::get, kLength - 16, 16) == XFER_OK);
    CHECK(lent.local[0] == 5);
    // An initiator that does not look.
    keys.base -= 1, keys.length += 1, keys.part_bytes += 1;
    lent.take(keys);
    CHECK(lent.put(0, 1) == XFER_EREVOKED);
    CHECK(lent.remote == expected);
}

TEST_CASE("what a grant does not allow the adapter refuses") {
    Lent lent;
    uint32_t access = XFER_READ;
    SUBCASE("to write") {}
    SUBCASE("to read") {
        access = XFER_WRITE;
    }
    lent.paths.far->add_grant(kGrant, kRegion, kAt, kLength, access);
    RegionKeys keys = lent.keys();
    keys.access = XFER_READ | XFER_WRITE;
    lent.take(keys);
    const Dir dir = access == XFER_READ ? Dir::put : Dir::get;
    CHECK(lent.move(dir, 0, 8) == XFER_EREVOKED);
    CHECK(lent.remote == lent.zeros);
}

TEST_CASE("a key is dead when the end of its grant is told, whoever goes on using it") {
    Lent lent;
    lent.take(lent.keys());
    CHECK(lent.put(0, 8) == XFER_OK);
    CHECK_FALSE(lent.remove(kGrant));
    REQUIRE(lent.paths.until([&] { return lent.was_released(kGrant); }));
    CHECK(lent.paths.fabric.live().windows == 0);
    const Octets before = lent.remote;
    std::fill(lent.local.begin(), lent.local.end(), uint8_t{6});
    CHECK(lent.put(0, 8) == XFER_EREVOKED);
    CHECK(lent.remote == before);
    lent.paths.settle();
    CHECK(lent.was_released(kGrant));
}

TEST_CASE("a key works on the queue pair of its peer alone") {
    uint64_t number = kGrant;
    FakeAdapterOptions options;
    ibv_wc_status outcome = IBV_WC_REM_ACCESS_ERR;
    SUBCASE("of a grant") {}
    SUBCASE("of a region") {
        number = kRegion;
    }
    SUBCASE("but of a region without windows: on all of the device") {
        number = kRegion, options.windows = false, outcome = IBV_WC_SUCCESS;
    }
    Lent lent(options);
    if (number == kRegion) {
        CHECK(lent.remove(kRegion));
        lent.paths.inside([&] { lent.paths.far->add_region(kRegion, lent.remote); });
    }
    const RegionKeys keys = lent.keys(number);
    CHECK(lent.write_as_another(keys.base, keys.keys[0]) == outcome);
    CHECK(lent.remote[keys.base - address(lent.remote.data())] ==
          (outcome == IBV_WC_SUCCESS ? 9 : 0));
    lent.take(keys, number);
    CHECK(lent.move(Dir::put, 1, 8, number) == XFER_OK);
}

TEST_CASE("what is reached by windows is open by no key of its registration") {
    Lent lent;
    lent.paths.verbs.reg_mr = register_and_note;
    lent.paths.inside([&] { lent.paths.far->add_region(1, lent.mine); });
    lent.keys(1);
    REQUIRE(noted.load()->addr == lent.mine.data());
    CHECK(lent.write_as_another(address(lent.mine.data()), noted.load()->rkey) ==
          IBV_WC_REM_ACCESS_ERR);
    CHECK(lent.mine == lent.zeros);
}

TEST_CASE("a grant that ends at any moment of its beginning") {
    bool any_bound = false;
    for (int turns = 0; turns < 12; ++turns) {
        Lent lent;
        for (int i = 0; i < turns; ++i) {
            lent.paths.inside([&] { any_bound |= bool(lent.paths.far->key_of(kGrant)); });
            lent.paths.own->turn(kNsPerMs);
            if (i % 2) lent.paths.fabric.run();
        }
        const bool gone = lent.remove(kGrant);
        REQUIRE(lent.paths.until([&] { return gone != lent.was_released(kGrant); }));
        CHECK(lent.paths.fabric.live().windows == 0);
        lent.end(kRegion);
    }
    CHECK(any_bound);
}

TEST_CASE("the end of a grant does not wait for registrations that have not begun") {
    Lent lent;
    Paths &paths = lent.paths;
    lent.keys();
    counted = &paths.fabric, let_go = false;
    paths.verbs.reg_mr = register_when_let_go;
    Octets others[3] = {Octets(4096), Octets(4096), Octets(4096)};
    paths.inside([&] {
        for (uint64_t i = 0; i < 3; ++i) {
            paths.far->add_region(i + 1, others[i]);
            CHECK_FALSE(paths.far->key_of(i + 1));
        }
    });
    CHECK_FALSE(lent.remove(kGrant));
    let_go = true;
    REQUIRE(paths.until([&] { return lent.was_released(kGrant); }));
    for (uint64_t i = 0; i < 3; ++i)
        lent.end(i + 1);
    CHECK(windows_at_begin.at(0) <= 1);  // it may have begun by then
    for (size_t i = 1; i < windows_at_begin.size(); ++i)
        CHECK(windows_at_begin[i] == 0);
}

TEST_CASE("a grant that ends under the request that binds its window waits for that") {
    Lent lent;
    Paths &paths = lent.paths;
    paths.stalled = true;
    const uint64_t before = paths.fabric.posts().requests;
    REQUIRE(paths.until([&] {
        paths.inside([&] { CHECK_FALSE(paths.far->key_of(kGrant)); });
        return paths.fabric.posts().requests > before;
    }));
    CHECK_FALSE(lent.remove(kGrant));
    for (int i = 0; i < 20; ++i)
        paths.own->turn(kNsPerMs);
    CHECK(paths.fabric.live().windows == 1);
    CHECK_FALSE(lent.was_released(kGrant));
    paths.stalled = false;
    REQUIRE(paths.until([&] { return lent.was_released(kGrant); }));
    CHECK(paths.fabric.live().windows == 0);
}

TEST_CASE("a region that ends before the grants of it do") {
    Lent lent;
    lent.keys();
    CHECK_FALSE(lent.remove(kRegion));
    lent.paths.settle(20);
    CHECK_FALSE(lent.was_released(kRegion));  // its window is bound
    lent.end(kGrant);
    REQUIRE(lent.paths.until([&] { return lent.was_released(kRegion); }));
}

TEST_CASE("the end of a grant waits for the windows of all paths, and is told once") {
    Lent lent;
    Paths &paths = lent.paths;
    lent.keys();
    std::unique_ptr<AttachedPath> near = std::move(paths.near->path),
                                  far = std::move(paths.far->path);
    paths.open();
    lent.keys();
    CHECK(paths.fabric.live().windows == 2);
    paths.fabric.fail_call(FakeCall::dealloc_mw, 2, EBUSY);  // so that one goes before the other
    CHECK_FALSE(lent.remove(kGrant));
    REQUIRE(paths.until([&] { return !paths.far->released.empty(); }));
    CHECK(paths.fabric.live().windows == 0);
    paths.settle();
    CHECK(lent.was_released(kGrant));
    paths.close();
    for (Side *side : {paths.near.get(), paths.far.get()}) {
        side->path = std::move(side == paths.near.get() ? near : far);
        side->down = side->closed = false, side->ended.reset();
    }
}

TEST_CASE("a path that ends takes its windows along, before its queue pair") {
    Lent lent;
    lent.keys();
    bool by_its_peer = false, removed = false;
    SUBCASE("by itself") {}
    SUBCASE("by its peer") {
        by_its_peer = true;
    }
    SUBCASE("in the middle of the end of the grant") {
        removed = true;
        CHECK_FALSE(lent.remove(kGrant));
    }
    Side &side = by_its_peer ? *lent.paths.near : *lent.paths.far;
    lent.paths.close(side);
    lent.paths.close();
    CHECK(lent.paths.fabric.live().windows == 0);
    CHECK(lent.was_released(kGrant) == removed);
    if (!removed) CHECK(lent.remove(kGrant));
    lent.end(kRegion);
}

TEST_CASE("a path that ends while windows are being made or bound") {
    for (int turns = 0; turns < 8; ++turns) {
        Lent lent;
        lent.paths.inside([&] { CHECK_FALSE(lent.paths.far->key_of(kGrant)); });
        REQUIRE(lent.paths.until([&] { return lent.paths.fabric.live().regions == 3; }));
        for (int i = 0; i < turns; ++i) {
            lent.paths.inside([&] { (void)lent.paths.far->key_of(kGrant); });
            lent.paths.own->turn(kNsPerMs);
        }
        lent.paths.close();
        CHECK(lent.paths.fabric.live().windows == 0);
    }
}

TEST_CASE("binds wait for slots that operations have, and operations for those that binds have") {
    FakeAdapterOptions options;
    options.granted_sends = 2;  // one is for drains
    Octets mine(4096, 3), theirs(4096);
    Lent lent(options);
    Paths &paths = lent.paths;
    paths.inside([&] { paths.far->add_region(1, mine); });
    paths.share(*paths.near, 9, theirs);
    paths.warm_up(*paths.far, 9, mine);
    paths.stalled = true;
    TestOp first(Dir::put, 9, {{address(mine.data()), 0, 8}, {address(mine.data()) + 64, 64, 8}});
    TestOp other(Dir::put, 9, {{address(mine.data()) + 16, 16, 8}});
    REQUIRE(paths.post(*paths.far, first));
    REQUIRE(paths.post(*paths.far, other));
    for (int i = 0; i < 20; ++i) {
        paths.inside([&] { CHECK_FALSE(paths.far->key_of(kGrant)); });
        paths.own->turn(kNsPerMs);
    }
    paths.stalled = false;
    lent.take(lent.keys());
    CHECK(lent.put(0, 8) == XFER_OK);
    REQUIRE(paths.until([&] { return paths.far->posted.empty(); }));
    CHECK(paths.far->status_of(first) == XFER_OK);
    CHECK(paths.far->status_of(other) == XFER_OK);
}

TEST_CASE("regions and grants of several registrations") {
    FakeAdapterOptions options;
    options.limits.region_bytes = 1 << 20;
    Octets large((3 << 20) + 5);
    Lent lent(options);
    lent.paths.inside([&] { lent.paths.far->add_region(1, large); });
    const RegionKeys keys = lent.keys(1);
    CHECK(keys.keys.size() == 4);
    CHECK(lent.paths.fabric.live().windows == 4);
    lent.take(keys, 1);
    for (const uint64_t at : {(1 << 20) - 4, (3 << 20) - 3})
        CHECK(lent.move(Dir::put, at, 8, 1) == XFER_OK);
    CHECK(large[(3 << 20) + 4] == 5);
    lent.paths.far->add_grant(kGrant, 1, (1 << 20) - 8, 16);
    CHECK(lent.key().error().status == XFER_EUNSUPPORTED);
    lent.paths.far->add_grant(kGrant, 1, (1 << 20), 16);
    lent.take(lent.keys());
    CHECK(lent.put(0, 16) == XFER_OK);
}

TEST_CASE("regions that are longer than a window, and than all of them") {
    uint64_t length = 5 * Registration::kWindowBytes / 2;
    size_t windows = 3;
    SUBCASE("three windows") {}
    SUBCASE("none, as they would be too many") {
        length = 25 * Registration::kWindowBytes, windows = 0;
    }
    void *const at = ::mmap(nullptr, length, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(at != MAP_FAILED);
    {
        Lent lent;
        ExportedMemory memory;
        memory.base = static_cast<uint8_t *>(at), memory.length = length;
        memory.access = XFER_READ | XFER_WRITE;
        lent.paths.inside([&] {
            lent.paths.far->regions[1] = memory;
            lent.paths.far->fabric->add_region({1}, memory);
        });
        const RegionKeys keys = lent.keys(1);
        CHECK(lent.paths.fabric.live().windows == windows);
        lent.take(keys, 1);
        const uint64_t edge = Registration::kWindowBytes - 4;
        CHECK(lent.move(Dir::put, edge, 8, 1) == XFER_OK);
        CHECK(memory.base[edge + 7] == 5);
        // A grant of it has a window however long the whole is.
        lent.paths.far->add_grant(kGrant, 1, edge, 64);
        lent.take(lent.keys());
        CHECK(lent.paths.fabric.live().windows == windows + 1);
        CHECK(lent.put(8, 8) == XFER_OK);
    }
    ::munmap(at, length);
}

TEST_CASE("devices without windows, and that only say that they have them") {
    FakeAdapterOptions options;
    options.windows = false;
    SUBCASE("none") {}
    SUBCASE("claimed") {
        options.claims_windows = true;
    }
    Lent lent(options);
    CHECK(lent.key().error().status == XFER_EUNSUPPORTED);
    CHECK(lent.remove(kGrant));
    Octets whole(64);
    lent.paths.inside([&] { lent.paths.far->add_region(1, whole); });
    lent.take(lent.keys(1), 1);
    CHECK(lent.move(Dir::put, 0, 8, 1) == XFER_OK);
}

TEST_CASE("a device that does not hold windows to their range has them for whole regions") {
    FakeAdapterOptions options;
    options.loose_windows = true;
    Lent lent(options);
    CHECK(lent.key().error().status == XFER_EUNSUPPORTED);
    CHECK(lent.paths.fabric.live().windows == 0);
    CHECK(lent.remove(kGrant));
    lent.paths.inside([&] { lent.paths.far->add_region(1, lent.mine); });
    const RegionKeys keys = lent.keys(1);
    CHECK(lent.paths.fabric.live().windows == 1);
    CHECK(lent.write_as_another(keys.base, keys.keys[0]) == IBV_WC_REM_ACCESS_ERR);
    lent.take(keys, 1);
    CHECK(lent.move(Dir::put, 0, 8, 1) == XFER_OK);
}

TEST_CASE("windows that fail are told once, and what they were for goes by its owner") {
    Lent lent;
    lent.paths.inside([&] { lent.paths.far->add_grant(kGrant + 1, kRegion, 0, 8); });
    SUBCASE("none can be made") {
        lent.paths.fabric.fail_call(FakeCall::alloc_mw, 1, ENOMEM);
        CHECK(lent.key().error().status == XFER_EUNSUPPORTED);
        CHECK(lent.key(kGrant + 1));  // another time
    }
    SUBCASE("the queue pair does not take the request") {
        CHECK(lent.key(kGrant + 1));
        lent.end(kGrant + 1);
        lent.paths.fabric.fail_post(1, 0, EOPNOTSUPP);
        CHECK(lent.key().error().status == XFER_EUNSUPPORTED);
        CHECK(lent.key(kGrant + 1));
    }
    CHECK(lent.told("memory windows") == 1);
    lent.end(kGrant);
    lent.end(kGrant + 1);
    lent.end(kRegion);
}

TEST_CASE("binds that fail cost their paths, and after three in a row no more is bound") {
    bool posted = true;
    SUBCASE("when they are executed") {}
    SUBCASE("when they are posted, by a driver that does not say so") {
        posted = false;
    }
    Lent lent({}, {}, {.null_bad_wr = true});
    const auto fail = [&] {
        if (posted)
            lent.paths.fabric.fail_request(lent.far_pair(), 1, IBV_WC_MW_BIND_ERR);
        else
            lent.paths.fabric.fail_post(1, 0, EIO);
        REQUIRE(lent.paths.until([&] {
            return lent.paths.inside([&] {
                if (!lent.paths.far->ended) CHECK_FALSE(lent.paths.far->key_of(kGrant));
                return lent.paths.far->ended.has_value();
            });
        }));
        lent.paths.close();
        CHECK(lent.paths.fabric.live().windows == 0);
        lent.paths.open();
    };
    fail();
    fail();
    lent.take(lent.keys());
    CHECK(lent.put(0, 8) == XFER_OK);
    lent.end(kGrant);
    for (int i = 0; i < 3; ++i)
        fail();
    CHECK(lent.key().error().status == XFER_EUNSUPPORTED);
    CHECK(lent.told("memory windows") == 1);
    lent.end(kGrant);
    lent.end(kRegion);
}

TEST_CASE("a device that keeps a window is asked again") {
    Lent lent;
    lent.keys();
    lent.paths.fabric.fail_call(FakeCall::dealloc_mw, 1, EBUSY);
    lent.end(kGrant);
    CHECK(lent.told("stay") == 0);
    CHECK(lent.paths.fabric.live().windows == 0);
    lent.paths.settle();
    CHECK_FALSE(lent.paths.far->ended);
}

TEST_CASE("what a device keeps for good is dead before its end is told, and takes no more along") {
    uint64_t number = kGrant;
    bool region_first = false;
    SUBCASE("a grant") {}
    SUBCASE("a grant whose region ends before it does") {
        region_first = true;
    }
    SUBCASE("a region") {
        number = 1;
    }
    Lent lent;
    Octets &bytes = number == 1 ? lent.mine : lent.remote;
    lent.paths.inside([&] { lent.paths.far->add_region(1, lent.mine); });
    lent.take(lent.keys(number), number);
    lent.keys(number == 1 ? kGrant : 1);  // a window that nobody ends
    CHECK(lent.move(Dir::put, 0, 8, number) == XFER_OK);
    const Octets before = bytes;
    std::fill(lent.local.begin(), lent.local.end(), uint8_t{6});
    lent.paths.fabric.fail_calls(FakeCall::dealloc_mw, EBUSY);
    if (region_first) CHECK_FALSE(lent.remove(kRegion));
    CHECK_FALSE(lent.remove(number));
    REQUIRE(lent.paths.until([&] { return lent.was_released(number); }));
    CHECK(lent.move(Dir::put, 0, 8, number) == XFER_EPEERLOST);  // a peer that goes on
    CHECK(bytes == before);
    REQUIRE(lent.paths.until([&] { return lent.paths.far->ended.has_value(); }));
    CHECK(lent.paths.fabric.took(Violation::busy_pair));  // its queue pair is destroyed under them
    CHECK(lent.paths.fabric.live().windows == 2);
    CHECK(lent.told("stay") == 2);
    CHECK(lent.was_released(number == 1 ? kGrant : 1) == false);
    lent.end(kRegion);
    if (number == kGrant) lent.end(1);
    CHECK(lent.told("registered") == 0);
    // What comes after it goes by the adapter again.
    lent.paths.close();
    lent.paths.open();
    lent.paths.inside([&] { lent.paths.far->add_region(2, lent.mine); });
    lent.take(lent.keys(2), 2);
    CHECK(lent.move(Dir::put, 0, 8, 2) == XFER_OK);
    lent.paths.fabric.fail_call(FakeCall::dealloc_mw, 0, 0);
    lent.paths.close();
    CHECK(lent.paths.fabric.live().windows == 2);
    lent.paths.fabric.free_windows();
}

TEST_CASE("a path whose device keeps its windows ends all the same, and soon") {
    Lent lent;
    lent.keys();
    constexpr uint64_t kMore = 200;
    lent.paths.inside([&] {
        for (uint64_t i = 1; i <= kMore; ++i)
            lent.paths.far->add_grant(kGrant + i, kRegion, i, 1);
    });
    for (uint64_t i = 1; i <= kMore; ++i)
        lent.keys(kGrant + i);
    lent.paths.fabric.fail_calls(FakeCall::dealloc_mw, EBUSY);
    const auto begin = std::chrono::steady_clock::now();
    lent.paths.close();
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
    CHECK(lent.paths.fabric.took(Violation::busy_pair));
    CHECK(lent.remove(kGrant));
    lent.end(kRegion);
    lent.paths.fabric.free_windows();
}
