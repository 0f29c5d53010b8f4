// SPDX-License-Identifier: Apache-2.0
// How the two ends of a path come together, and what becomes of it if they do not: each call that
// fails, each signal that is missing, damaged, repeated or out of turn, an end at each step.
#include "transport/rdma/path.h"

#include <doctest/doctest.h>

#include <random>

#include "rdma_paths.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

// What both fabrics have without any path. Completion queues stay once they are there.
FakeCounts idle(Paths &paths) {
    FakeCounts counts = paths.fabric.live();
    counts.channels = counts.queues = 0;
    return counts;
}

// An attempt that is expected to fail ends on both sides, and leaves nothing; the next comes about.
void check_failed(Paths &paths, const FakeCounts &before) {
    paths.filter = nullptr;
    for (Side *side : {paths.near.get(), paths.far.get()}) {
        if (side->ended) {
            CHECK(side->ended->status != XFER_OK);
            CHECK(std::string_view(side->ended->message) != "");
        }
    }
    paths.close();
    CHECK(idle(paths) == before);
    paths.open();
    paths.close();
    CHECK(idle(paths) == before);
}

Octets bytes_of(Signal::Kind kind) {
    Signal signal;
    signal.kind = kind;
    signal.queue_pair.qpn = 77;
    signal.queue_pair.gid.raw[15] = 9;
    const SignalBytes bytes = encode(signal);
    return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("each call that makes an end fails: it is told, and nothing is left") {
    const FakeCall calls[] = {FakeCall::reg_mr, FakeCall::create_comp_channel, FakeCall::create_cq,
                              FakeCall::create_qp};
    for (const FakeCall call : calls)
        for (unsigned k = 1; k <= 4; ++k)
            for (const int error : {ENOMEM, EINVAL, EPERM}) {
                CAPTURE(static_cast<int>(call));
                CAPTURE(k);
                CAPTURE(error);
                Paths paths;
                const FakeCounts before = idle(paths);
                paths.fabric.fail_call(call, k, error);
                bool failed = paths.begin() != XFER_OK;
                if (failed) {
                    CHECK_FALSE((paths.near->path && paths.far->path));
                } else {
                    REQUIRE(paths.until([&] {
                        return paths.both_ready() || paths.near->ended || paths.far->ended;
                    }));
                    failed = !paths.both_ready();
                }
                if (k == 1 && (call != FakeCall::create_qp || error == ENOMEM))
                    CHECK_MESSAGE(failed, "it is of no use");
                paths.fabric.fail_call(call, 0, 0);
                check_failed(paths, before);
            }
}

// Its table may still be on its way to the device then.
TEST_CASE("a peer that answers before it was offered anything costs the path, and nothing else") {
    for (const auto kind : {Signal::Kind::answer, Signal::Kind::ready, Signal::Kind::offer}) {
        Paths paths;
        Signal early;
        early.kind = kind;
        early.queue_pair.gid.raw[15] = 1;
        early.queue_pair.qpn = 7;
        const SignalBytes bytes = encode(early);
        paths.inside([&] {
            REQUIRE(paths.near->open(true) == XFER_OK);
            paths.near->path->on_signal({bytes.begin(), bytes.size()});
        });
        REQUIRE(paths.until([&] { return paths.near->ended.has_value(); }));
        CHECK(paths.near->ended->status == XFER_EPROTO);
    }
}

TEST_CASE("each transition of a queue pair fails: it is told, and nothing is left") {
    for (const ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        for (unsigned k = 1; k <= 2; ++k) {
            CAPTURE(static_cast<int>(to));
            CAPTURE(k);
            Paths paths;
            const FakeCounts before = idle(paths);
            paths.fabric.fail_modify(to, k, EINVAL);
            if (paths.begin() == XFER_OK) {
                REQUIRE(paths.until([&] { return paths.near->ended || paths.far->ended; }));
                CHECK_FALSE(paths.both_ready());
            }
            check_failed(paths, before);
        }
}

TEST_CASE("a post that fails, and a request that fails, while the two ends probe") {
    for (unsigned k = 1; k <= 2; ++k)
        for (const bool posts : {true, false}) {
            CAPTURE(k);
            CAPTURE(posts);
            Paths paths;
            const FakeCounts before = idle(paths);
            if (posts)
                paths.fabric.fail_post(k, 0, ENOMEM);
            else
                paths.fabric.fail_request(nullptr, k, IBV_WC_RETRY_EXC_ERR);
            REQUIRE(paths.begin() == XFER_OK);
            REQUIRE(paths.until([&] { return paths.near->ended || paths.far->ended; }));
            CHECK_FALSE(paths.both_ready());
            check_failed(paths, before);
        }
}

TEST_CASE("adapters of networks that do not meet: neither end is ever ready") {
    for (const FakeCut cut : {FakeCut::requests, FakeCut::answers}) {
        Paths paths;
        const FakeCounts before = idle(paths);
        paths.fabric.cut(paths.near->adapter, paths.far->adapter, cut);
        REQUIRE(paths.begin() == XFER_OK);
        REQUIRE(paths.until([&] { return paths.near->ended.has_value(); }));
        CHECK_FALSE(paths.near->ready);
        CHECK_FALSE(paths.far->ready);
        paths.fabric.mend(paths.near->adapter, paths.far->adapter);
        check_failed(paths, before);
    }
}

TEST_CASE("the deepest queue pairs that a user may ask for come together") {
    QueuePairOptions deep;
    deep.send_requests = 32'768;
    FakeAdapterOptions options;
    options.limits.send_requests = 40'000;
    Paths paths({}, options, options, deep);
    paths.open();
    CHECK(paths.both_ready());
}

TEST_CASE("link layers that differ do not come together") {
    FakeAdapterOptions infiniband;
    infiniband.layer = LinkLayer::infiniband;
    Paths paths({}, infiniband, {});
    REQUIRE(paths.begin() == XFER_OK);
    REQUIRE(paths.until([&] { return paths.near->ended || paths.far->ended; }));
    CHECK_FALSE(paths.near->ready);
    CHECK_FALSE(paths.far->ready);
}

TEST_CASE("a signal that is lost ends both, in time") {
    for (size_t lost = 1; lost <= 4; ++lost) {
        CAPTURE(lost);
        Paths paths;
        const FakeCounts before = idle(paths);
        size_t count = 0;
        paths.filter = [&](Side &, Octets &) { return ++count != lost; };
        REQUIRE(paths.begin() == XFER_OK);
        REQUIRE(paths.until([&] { return count == lost; }));
        paths.settle(20);
        CHECK_FALSE(paths.both_ready());
        paths.skip(5'001);
        REQUIRE(paths.until([&] { return paths.near->ended || paths.far->ended; }));
        CHECK_FALSE(paths.both_ready());
        check_failed(paths, before);
    }
}

TEST_CASE("an end that hears nothing at all gives up, and not sooner than it says") {
    Paths paths;
    REQUIRE(paths.inside([&] { return paths.near->open(true); }) == XFER_OK);
    REQUIRE(paths.until([&] { return paths.near->signals == 1; }));
    paths.skip(4'000);
    paths.settle();
    CHECK_FALSE(paths.near->ended);
    paths.skip(1'100);
    REQUIRE(paths.until([&] { return paths.near->ended.has_value(); }));
    CHECK(paths.near->ended->status == XFER_ETIMEDOUT);
    paths.release();
}

TEST_CASE("each signal in each end's place: one that is not awaited ends it, and no other") {
    // Which is said in place of, before or behind the n-th of the three.
    const Signal::Kind kinds[] = {Signal::Kind::offer, Signal::Kind::answer, Signal::Kind::done,
                                  Signal::Kind::ready};
    for (size_t at = 1; at <= 3; ++at)
        for (const Signal::Kind said : kinds)
            for (const bool behind : {false, true}) {
                CAPTURE(at);
                CAPTURE(static_cast<int>(said));
                CAPTURE(behind);
                Paths paths;
                const FakeCounts before = idle(paths);
                size_t count = 0;
                paths.filter = [&](Side &from, Octets &bytes) {
                    if (++count != at) return true;
                    Side &to = &from == paths.near.get() ? *paths.far : *paths.near;
                    if (behind) to.path->on_signal(bytes);
                    to.path->on_signal(bytes_of(said));
                    if (!behind) to.path->on_signal(bytes);
                    return false;
                };
                REQUIRE(paths.begin() == XFER_OK);
                REQUIRE(paths.until(
                    [&] { return paths.near->ended || paths.far->ended || paths.both_ready(); }));
                // Said too soon, it is believed, and found out by the probe if it is not so.
                const bool early = at == 1 && behind && said == Signal::Kind::done;
                if (!early) CHECK_FALSE(paths.both_ready());
                check_failed(paths, before);
            }
}

TEST_CASE("a signal said twice ends the path, unless it is ready by then") {
    for (size_t at = 1; at <= 3; ++at) {
        CAPTURE(at);
        Paths paths;
        const FakeCounts before = idle(paths);
        size_t count = 0;
        paths.filter = [&](Side &from, Octets &bytes) {
            if (++count != at) return true;
            Side &to = &from == paths.near.get() ? *paths.far : *paths.near;
            to.path->on_signal(bytes);
            return true;
        };
        REQUIRE(paths.begin() == XFER_OK);
        REQUIRE(paths.until([&] { return paths.near->ended || paths.far->ended; }));
        CHECK_FALSE(paths.both_ready());
        check_failed(paths, before);
    }
    Paths paths;
    paths.open();
    for (const Signal::Kind kind :
         {Signal::Kind::offer, Signal::Kind::answer, Signal::Kind::done, Signal::Kind::ready})
        paths.inside([&] {
            paths.near->path->on_signal(bytes_of(kind));
            paths.far->path->on_signal(bytes_of(kind));
        });
    paths.settle();
    CHECK_FALSE(paths.near->ended);  // what comes too late is nobody's
    CHECK_FALSE(paths.far->ended);
}

TEST_CASE(
    "damaged signals end in a failure or in a path, and no adapter is asked what is forbidden") {
    std::mt19937 random(7);
    int came_about = 0;
    for (int round = 0; round < 300; ++round) {
        CAPTURE(round);
        Paths paths;
        const FakeCounts before = idle(paths);
        const size_t at = 1 + random() % 3;
        size_t count = 0;
        paths.filter = [&](Side &, Octets &bytes) {
            if (++count != at) return true;
            const unsigned how = random() % 8;
            if (how == 0)
                bytes.resize(random() % (2 * bytes.size()));
            else
                bytes[random() % bytes.size()] ^= static_cast<uint8_t>(1 + random() % 255);
            return !bytes.empty();
        };
        REQUIRE(paths.begin() == XFER_OK);
        REQUIRE(paths.until([&] { return count >= at; }));
        paths.settle(20);
        if (paths.both_ready()) {
            ++came_about;
            paths.close();
            continue;
        }
        if (!paths.near->ended || !paths.far->ended) {
            paths.skip(5'001);
            REQUIRE(paths.until([&] { return paths.near->ended || paths.far->ended; }));
        }
        // A peer may name any queue pair and key, and its own are at risk.
        paths.fabric.took(Violation::crossed);
        check_failed(paths, before);
    }
    MESSAGE(came_about, " of 300 came about all the same");
}

TEST_CASE("closed at each step by either end, or by both: each ends once, and nothing is left") {
    for (int steps = 0; steps < 14; ++steps)
        for (int who = 1; who <= 3; ++who) {
            CAPTURE(steps);
            CAPTURE(who);
            Paths paths;
            const FakeCounts before = idle(paths);
            REQUIRE(paths.begin(steps % 2) == XFER_OK);
            for (int i = 0; i < steps; ++i)
                paths.step();
            if (who & 1) paths.close(*paths.near);
            if (who & 2) paths.close(*paths.far);
            for (Side *side : {paths.near.get(), paths.far.get()})
                if (side->closed) {
                    REQUIRE(paths.until([&] { return side->ended.has_value(); }));
                    CHECK(side->ended->status == XFER_ECLOSED);
                }
            check_failed(paths, before);
        }
}

TEST_CASE("closed again, and after its end: once is enough") {
    Paths paths;
    paths.open();
    for (int i = 0; i < 3; ++i)
        paths.inside([&] { paths.near->close(i == 0 ? XFER_EIO : XFER_ECLOSED); });
    REQUIRE(paths.until([&] { return paths.near->ended.has_value(); }));
    CHECK(paths.near->ended->status == XFER_EIO);
    CHECK(paths.near->down_why->status == XFER_EIO);
    paths.inside([&] { paths.near->close(); });
    paths.settle();
}

TEST_CASE("1,000 paths leave nothing behind") {
    FakePersonality personality;
    SUBCASE("numbers that go on") {}
    SUBCASE("numbers that are used again at once") {
        personality.reuse_numbers = true;
    }
    Paths paths(personality);
    paths.open();
    paths.close();
    const FakeCounts before = paths.fabric.live();
    for (int i = 0; i < 1'000; ++i) {
        REQUIRE(paths.begin(i % 2) == XFER_OK);
        REQUIRE(paths.until([&] { return paths.both_ready(); }));
        paths.close();
        REQUIRE(paths.fabric.live() == before);
    }
}

TEST_CASE("a port that is down opens nothing, and is taken again when it is up") {
    Paths paths;
    ibv_async_event event{};
    event.element.port_num = 1;
    event.event_type = IBV_EVENT_PORT_ERR;
    paths.near->adapter.raise_async(event);
    paths.settle();
    CHECK(paths.inside([&] { return paths.near->open(true); }) == XFER_EUNREACHABLE);
    event.event_type = IBV_EVENT_PORT_ACTIVE;
    paths.near->adapter.raise_async(event);
    paths.settle();
    paths.open();
}
