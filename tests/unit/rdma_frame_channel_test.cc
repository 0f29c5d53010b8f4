// SPDX-License-Identifier: Apache-2.0
// A channel whose frames go by queue pairs that break at any time, on adapters that are stricter
// than any device: each frame comes once, in order, whatever carries it.
#include <doctest/doctest.h>

#include <deque>
#include <random>

#include "rdma_channels.h"
#include "transport/rdma/packet_signal.h"

using namespace xfer;
using namespace xfer::rdma;
using test::pattern;

namespace {

Frame numbered(uint64_t seq, size_t length) {
    Frame frame;
    frame.type = FrameType::found;
    frame.seq = seq;
    frame.length = static_cast<uint32_t>(length);
    return frame;
}

// Of a channel with more to say neither end reads before that has left, as of any stream.
constexpr uint64_t kUnderWay = 150;
// What waits for the window leaves by one doorbell, in several packets.
constexpr uint64_t kBeyondWindow = 400;

constexpr FakePost kPosts[] = {FakePost::no_room, FakePost::none, FakePost::some, FakePost::all};

// Frames of one end to the other, each of a length that its number tells.
struct Talk {
    explicit Talk(Channels &channels) : channels(channels) {}
    static size_t length_of(uint64_t seq) { return seq * 37 % 700 + (seq % 7 ? 0 : 2'500); }

    void say(bool from_near, uint64_t count = 1) {
        EngineLoop::Inside inside(*channels.own);
        ChannelEnd &from = from_near ? *channels.near : *channels.far;
        uint64_t &said = from_near ? said_near : said_far;
        for (uint64_t i = 0; i < count; ++i, ++said) {
            const size_t length = length_of(said);
            REQUIRE(from.channel->send(numbered(said, length),
                                       pattern(length, static_cast<uint32_t>(said))));
        }
    }
    uint64_t under_way() const {
        return said_near + said_far - channels.there.controls.size() -
               channels.here.controls.size();
    }
    bool all_heard() const {
        return channels.there.controls.size() == said_near &&
               channels.here.controls.size() == said_far;
    }
    void check() const {
        for (const test::RecordingSink *sink : {&channels.here, &channels.there})
            for (size_t i = 0; i < sink->controls.size(); ++i) {
                REQUIRE(sink->controls[i].frame.seq == i);
                REQUIRE(sink->controls[i].body == pattern(length_of(i), static_cast<uint32_t>(i)));
            }
    }

    Channels &channels;
    uint64_t said_near = 0, said_far = 0;
};

ibv_qp *far_pair(Channels &channels) {
    for (ibv_qp *pair : channels.fabric.pairs())
        if (std::string_view(pair->context->device->name) == "fake1") return pair;
    return nullptr;
}

size_t count_parts(const Channels &channels) {
    return channels.near->signals + channels.far->signals;
}

}  // namespace

TEST_CASE("frames go by sends, and nothing by signals") {
    Channels channels;
    channels.open();
    Talk talk(channels);
    const size_t signals = count_parts(channels);
    const FakePosts before = channels.fabric.posts();
    for (int round = 0; round < 20; ++round) {
        talk.say(true, 10);
        talk.say(false, 7);
        REQUIRE(channels.until([&] { return talk.all_heard(); }));
    }
    talk.check();
    CHECK(count_parts(channels) == signals);
    CHECK(channels.fabric.posts().requests > before.requests + 40);
    CHECK(channels.near->channel->local() == "fake0:1");
    CHECK(channels.near->channel->remote().find("queue pair") != std::string::npos);
}

TEST_CASE("a reader that takes nothing stops the writer at the window, and nothing is lost") {
    Channels channels;
    REQUIRE(channels.begin() == XFER_OK);
    REQUIRE(channels.until([&] { return channels.near->ready; }));
    {
        EngineLoop::Inside inside(*channels.own);
        test::start(*channels.far->channel, channels.there);  // and does not listen yet
        test::start(*channels.near->channel, channels.here);
        channels.near->channel->resume();
    }
    Talk talk(channels);
    const FakePosts before = channels.fabric.posts();
    talk.say(true, 500);
    channels.settle(50);
    CHECK(channels.there.controls.empty());
    CHECK(channels.fabric.posts().requests == before.requests + kPacketWindow);
    {
        EngineLoop::Inside inside(*channels.own);
        channels.far->channel->resume();
    }
    REQUIRE(channels.until([&] { return talk.all_heard(); }));
    talk.check();
}

TEST_CASE("two ends that both have more to say than a window read each other") {
    for (const bool broken : {false, true}) {
        CAPTURE(broken);
        Channels channels;
        channels.open();
        Talk talk(channels);
        talk.say(true, 600);
        talk.say(false, 600);
        if (broken) channels.break_pairs(*channels.near);
        REQUIRE(channels.until([&] { return talk.all_heard(); }));
        talk.check();
    }
}

TEST_CASE(
    "readers that stop and go on, and adapters that do nothing for a while: no packet meets a "
    "queue pair without a receive") {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        Channels channels({}, {}, {}, {.send_requests = seed % 2 ? 8u : 128u});
        channels.open();
        Talk talk(channels);
        const size_t signals = count_parts(channels);
        for (int turn = 0; turn < 200; ++turn) {
            channels.stalled = random() % 4 == 0;
            channels.fabric.hold_completions(random() % 3 == 0);
            if (turn < 150) talk.say(true, random() % 30);
            if (turn < 150 && seed % 3) talk.say(false, random() % 30);
            channels.step();
        }
        channels.stalled = false;
        channels.fabric.hold_completions(false);
        REQUIRE(channels.until([&] { return talk.all_heard(); }));
        talk.check();
        CHECK(count_parts(channels) <= signals + 40);  // words that found no room
        CHECK(channels.fabric.pairs().size() == 2);
    }
}

TEST_CASE(
    "what a queue pair that broke had not brought goes by signals, and the next one carries "
    "what follows") {
    for (const bool at_near : {true, false}) {
        CAPTURE(at_near);
        Channels channels;
        channels.open();
        Talk talk(channels);
        channels.stalled = true;
        talk.say(true, 60);
        talk.say(false, 60);
        channels.settle(3);
        const size_t signals = count_parts(channels);
        channels.break_pairs(at_near ? *channels.near : *channels.far);
        channels.settle(3);
        channels.stalled = false;
        REQUIRE(channels.until([&] { return talk.all_heard(); }));
        talk.check();
        CHECK(count_parts(channels) > signals + 60);
        // The next one is made after a pause, of a port that is up again.
        ibv_async_event event{};
        event.event_type = IBV_EVENT_PORT_ACTIVE;
        event.element.port_num = 1;
        (at_near ? channels.near : channels.far)->adapter.raise_async(event);
        const size_t pairs = channels.fabric.pairs().size();
        REQUIRE(channels.until([&] {
            channels.skip(50);
            return channels.fabric.pairs().size() == 2 && pairs != 1;
        }));
        size_t before;
        REQUIRE(channels.until([&] {
            before = count_parts(channels);
            talk.say(true, 20);
            talk.say(false, 20);
            REQUIRE(channels.until([&] { return talk.all_heard(); }));
            return count_parts(channels) == before;
        }));
        talk.check();
        CHECK_FALSE(channels.here.down);
        CHECK_FALSE(channels.there.down);
    }
}

TEST_CASE("a word that a queue pair did not bring is said again: the writer goes on") {
    for (unsigned k = 1; k <= 6; ++k) {
        CAPTURE(k);
        Channels channels;
        channels.open();
        Talk talk(channels);
        channels.fabric.fail_request(far_pair(channels), k, IBV_WC_RETRY_EXC_ERR);
        talk.say(true, 300);
        REQUIRE(channels.until([&] { return talk.all_heard(); }));
        talk.check();
    }
}

TEST_CASE("what has come and is not read stays as it is under the next queue pair") {
    Channels channels;
    channels.meet();
    {
        EngineLoop::Inside inside(*channels.own);
        test::start(*channels.far->channel, channels.there);  // and does not listen yet
        test::start(*channels.near->channel, channels.here);
        channels.near->channel->resume();
    }
    Talk talk(channels);
    talk.say(true, 10);
    channels.settle(10);
    channels.fabric.fail_request(far_pair(channels), 1, IBV_WC_RETRY_EXC_ERR);
    talk.say(false, 1);
    const auto before = channels.fabric.pairs();
    REQUIRE(channels.until([&] {
        channels.skip(20);
        const auto now = channels.fabric.pairs();
        return now.size() == 2 && now != before;
    }));
    channels.settle(20);
    talk.say(true, 15);
    channels.settle(10);
    CHECK(channels.there.controls.empty());
    {
        EngineLoop::Inside inside(*channels.own);
        channels.far->channel->resume();
    }
    REQUIRE(channels.until([&] { return talk.all_heard(); }));
    talk.check();
}

TEST_CASE("the end that offered is ready when it has heard that the other one is") {
    Channels channels;
    bool said = false;
    channels.filter = [&](ChannelEnd &from, Octets &bytes) {
        const auto kind = static_cast<PacketSignal::Kind>(bytes[1]);
        said |= &from == channels.far.get() && kind == PacketSignal::Kind::ready;
        return !said;
    };
    REQUIRE(channels.begin() == XFER_OK);
    REQUIRE(channels.until([&] { return said; }));
    channels.settle(20);
    CHECK(channels.far->ready);
    CHECK_FALSE(channels.near->ready);
}

TEST_CASE("the k-th request ends in an error: each frame comes once, in order") {
    for (const ibv_wc_status error :
         {IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_GENERAL_ERR})
        for (unsigned k = 1; k <= 40; ++k) {
            CAPTURE(static_cast<int>(error));
            CAPTURE(k);
            Channels channels;
            channels.open();
            Talk talk(channels);
            channels.fabric.fail_request(nullptr, k, error);
            for (int round = 0; round < 8; ++round) {
                talk.say(true, 4);
                talk.say(false, 3);
                channels.step();
            }
            REQUIRE(channels.until([&] { return talk.all_heard(); }));
            talk.check();
            CHECK_FALSE(channels.here.down);
            CHECK_FALSE(channels.there.down);
        }
}

TEST_CASE("the k-th post is taken in part, or not at all") {
    MetFaults met;
    for (const int error : {ENOMEM, EINVAL})
        for (unsigned k = 1; k <= 6; ++k)
            for (unsigned taken = 0; taken <= 4; ++taken) {
                CAPTURE(error);
                CAPTURE(k);
                CAPTURE(taken);
                Channels channels;
                channels.open();
                Talk talk(channels);
                talk.say(true, taken % 2 ? kBeyondWindow : 0);
                channels.fabric.fail_post(k, taken, error);
                for (int round = 0; round < 4; ++round) {
                    talk.say(true, 6);
                    talk.say(false, taken % 2 ? 0 : 6);
                    channels.step();
                }
                REQUIRE(channels.until([&] { return talk.all_heard(); }));
                talk.check();
                CHECK_FALSE(channels.here.down);
                add_met(met, channels.fabric);
            }
    check_met(met, "post", kPosts);
}

TEST_CASE("queue pairs that break all the time: each frame comes once, in order") {
    static constexpr ibv_wc_status kErrors[] = {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_OP_ERR,
                                                IBV_WC_GENERAL_ERR};
    // Some of several packets: above, as few lists have several.
    static constexpr FakePost kWholePosts[] = {FakePost::no_room, FakePost::none, FakePost::all};
    static constexpr FakeCall kCalls[] = {FakeCall::post_recv, FakeCall::create_qp,
                                          FakeCall::reg_mr};
    static constexpr FakeHold kHolds[] = {FakeHold::completion};
    static constexpr ibv_qp_state kStates[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
    static constexpr FakeCut kCuts[] = {FakeCut::requests, FakeCut::answers};
    static constexpr ibv_event_type kEvents[] = {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE,
                                                 IBV_EVENT_QP_FATAL, IBV_EVENT_QP_ACCESS_ERR,
                                                 IBV_EVENT_CQ_ERR};
    MetFaults met;
    for (uint32_t seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        std::mt19937 random(seed);
        const FakePersonality personalities[] = {FakePersonality::strict(),
                                                 FakePersonality::erdma(),
                                                 FakePersonality::reuses_numbers(),
                                                 {.late_completions = true}};
        FakeAdapterOptions options;
        options.inline_bytes = random() % 2 ? 220 : 0;
        Channels channels(personalities[random() % 4], options, options,
                          {.send_requests = random() % 2 ? 8u : 128u});
        channels.open();
        Talk talk(channels);
        FakeAdapter &near = channels.near->adapter, &far = channels.far->adapter;
        // Past the pauses between queue pairs, and not past the limit of a drain.
        const auto recover = [&] {
            channels.stalled = false;
            channels.fabric.hold_completions(false);
            for (int i = 0; i < 4; ++i) {
                channels.settle(3);
                channels.skip(500);
            }
        };
        for (int turn = 0; turn < 300; ++turn) {
            switch (random() % 24) {
            default:
                if (talk.under_way() < kUnderWay) talk.say(true, random() % 30);
                break;
            case 3:
            case 4:
            case 5:
                if (talk.under_way() < kUnderWay) talk.say(false, random() % 30);
                break;
            case 6:
                channels.fabric.fail_request(nullptr, 1 + random() % 20, kErrors[random() % 3]);
                break;
            case 7:
                if (talk.under_way() < kUnderWay && random() % 2) {
                    recover();
                    talk.say(random() % 2, kBeyondWindow);
                }
                channels.fabric.fail_post(1 + random() % 4, random() % 4,
                                          random() % 2 ? ENOMEM : EINVAL);
                break;
            case 8:
                channels.skip(random() % 30);
                break;
            case 9:
                channels.stalled = random() % 2;
                break;
            case 16:
            case 17:
            case 18:
                recover();
                break;
            case 10:
                channels.fabric.fail_call(FakeCall::post_recv, 1 + random() % 40, ENOMEM);
                break;
            case 11:
                if (random() % 4 == 0)
                    channels.fabric.fail_call(FakeCall::create_qp, 1, ENOMEM);
                else if (random() % 4 == 0)
                    channels.fabric.fail_call(FakeCall::reg_mr, 1, ENOMEM);
                break;
            case 12:
                channels.fabric.hold_completions(random() % 2);
                break;
            case 13:
                channels.fabric.fail_modify(kStates[random() % 3], 1 + random() % 2, EINVAL);
                break;
            case 14:
                talk.say(random() % 2);
                channels.fabric.cut(near, far, kCuts[random() % 2]);
                channels.step();
                channels.fabric.mend(near, far);
                break;
            case 15: {
                FakeAdapter &at = random() % 2 ? near : far;
                raise_event(channels.fabric, at, kEvents[random() % 5]);
                channels.step();
                raise_event(channels.fabric, at, IBV_EVENT_PORT_ACTIVE);
                break;
            }
            }
            channels.step();
            for (const auto *sink : {&channels.here, &channels.there})
                if (sink->down) FAIL(std::string_view(sink->down->message));
        }
        recover();
        REQUIRE(channels.until([&] {
            channels.skip(5);
            return talk.all_heard();
        }));
        talk.check();
        add_met(met, channels.fabric);
    }
    check_met(met, "status", kErrors);
    check_met(met, "post", kWholePosts);
    check_met(met, "call", kCalls);
    check_met(met, "hold", kHolds);
    check_met(met, "transition to", kStates);
    check_met(met, "cut", kCuts);
    check_met(met, "event", kEvents);
}

TEST_CASE("before it was up once, what fails ends it, at both ends, whichever step that is") {
    for (const bool cut : {false, true})
        for (unsigned k = 1; k <= 2 * kPacketReceives; ++k)
            for (const FakeCall call :
                 {FakeCall::create_qp, FakeCall::reg_mr, FakeCall::post_recv, FakeCall::create_cq,
                  FakeCall::create_comp_channel, FakeCall::req_notify_cq}) {
                if (cut && (k > 1 || call != FakeCall::create_qp)) continue;
                if (k > 3 && (call != FakeCall::post_recv || k % 6)) continue;
                CAPTURE(cut);
                CAPTURE(k);
                CAPTURE(static_cast<int>(call));
                Channels channels;
                // A completion queue that can't be armed is not polled any more.
                if (call == FakeCall::req_notify_cq) channels.fabric.allow(Violation::unpolled);
                if (cut)
                    channels.fabric.cut(channels.near->adapter, channels.far->adapter);
                else
                    channels.fabric.fail_call(call, k, ENOMEM);
                if (channels.begin() != XFER_OK) continue;
                REQUIRE(channels.until([&] {
                    channels.skip(200);
                    return channels.far->ready || channels.here.down || channels.there.down ||
                           !channels.far->channel;
                }));
                channels.settle(20);
                CHECK(channels.near->ready == channels.far->ready);
            }
}

TEST_CASE("signals that are nonsense, or of nobody, end it") {
    const auto make = [](PacketSignal::Kind kind, uint32_t generation, uint64_t number = 0,
                         ConstBytes bytes = {}) {
        PacketSignal signal;
        signal.kind = kind;
        signal.generation = generation;
        signal.number = number;
        signal.bytes = bytes;
        signal.length = static_cast<uint16_t>(bytes.size());
        const PacketSignalBytes encoded = encode(signal);
        return Octets(encoded.begin(), encoded.end());
    };
    using Kind = PacketSignal::Kind;
    const Octets data(10, 1);
    const Octets wrong[] = {
        {},
        {1},
        {2, 1, 0, 0, 0, 0, 0, 0},
        make(Kind::ready, 2),
        make(Kind::ready, 1),  // a second one
        make(Kind::lost, 2),
        make(Kind::word, 0, 1),  // nothing was sent
        make(Kind::part, 0, kPacketWindow, data),
    };
    for (const Octets &bytes : wrong) {
        CAPTURE(bytes.size());
        Channels channels;
        channels.open();
        channels.near->to_peer.push_back({});  // nothing, to be replaced
        channels.near->to_peer.back() = bytes;
        if (bytes.empty()) channels.near->to_peer.back() = Octets{9};
        REQUIRE(channels.until([&] { return channels.there.down.has_value(); }));
        CHECK(channels.there.down->status != XFER_OK);
    }
}

TEST_CASE("a bye arrives by what carries frames then") {
    Channels channels;
    channels.open();
    Talk talk(channels);
    talk.say(true, 3);
    Frame bye;
    bye.type = FrameType::bye;
    bye.status = XFER_ECLOSED;
    {
        EngineLoop::Inside inside(*channels.own);
        CHECK(channels.near->channel->send(bye, {}));
        channels.near->channel->close({XFER_ECLOSED, 0, 0, "enough"});
    }
    REQUIRE(channels.until([&] { return channels.there.controls.size() == 4; }));
    CHECK(channels.there.controls.back().frame.type == FrameType::bye);
    REQUIRE(channels.until([&] { return channels.here.down.has_value(); }));
}

// It has more to say than it may while it reads, and the other end takes nothing of it.
TEST_CASE("a bye reaches an end that has stopped to read, by queue pairs or signals") {
    for (const bool broken : {false, true}) {
        CAPTURE(broken);
        Channels channels;
        channels.meet();
        {
            EngineLoop::Inside inside(*channels.own);
            test::start(*channels.far->channel, channels.there);
            channels.far->channel->resume();
            test::start(*channels.near->channel, channels.here);  // and does not listen
        }
        Talk talk(channels);
        talk.say(false, 6'000);
        channels.settle(10);
        if (broken) channels.break_pairs(*channels.near);
        talk.say(true, 3);
        Frame bye;
        bye.type = FrameType::bye;
        bye.status = XFER_ECLOSED;
        {
            EngineLoop::Inside inside(*channels.own);
            CHECK(channels.near->channel->send(bye, {}));
            channels.near->channel->close({XFER_ECLOSED, 0, 0, "enough"});
        }
        REQUIRE(channels.until([&] { return channels.there.down.has_value(); }));
        REQUIRE(channels.there.controls.size() == 4);
        CHECK(channels.there.controls.back().frame.type == FrameType::bye);
        CHECK(channels.there.down->status == XFER_EPEERLOST);
        REQUIRE(channels.until([&] { return channels.here.down.has_value(); }));
    }
}

// As one that sends a packet again and again, for longer than who waits for an answer can.
TEST_CASE("an adapter that brings nothing is not waited for: frames go by signals, both ways") {
    constexpr uint64_t kLookMs = 100;
    for (const bool from_near : {true, false}) {
        CAPTURE(from_near);
        Channels channels;
        channels.near->stall_ns = channels.far->stall_ns = 2 * kLookMs * kNsPerMs;
        channels.open();
        Talk talk(channels);
        talk.say(true, 10);
        REQUIRE(channels.until([&] { return talk.all_heard(); }));
        for (int i = 0; i < 20; ++i)  // nothing waits
            channels.skip(kLookMs), channels.settle(2);
        const size_t signals = count_parts(channels);
        channels.stalled = true;
        talk.say(from_near);
        const auto wait = [&] { channels.skip(kLookMs), channels.settle(4); };
        wait();
        CHECK(count_parts(channels) == signals);
        wait();
        CHECK(talk.all_heard());
        talk.say(!from_near);
        channels.settle(4);
        CHECK(talk.all_heard());
        channels.stalled = false;
        channels.settle(20);
        talk.check();
    }
}

TEST_CASE("a loop that was kept from its work does not take its adapter for stalled") {
    constexpr uint64_t kLookMs = 100;
    Channels channels;
    channels.near->stall_ns = channels.far->stall_ns = 2 * kLookMs * kNsPerMs;
    channels.open();
    Talk talk(channels);
    const size_t signals = count_parts(channels);
    channels.stalled = true;
    talk.say(true);
    for (int i = 0; i < 20; ++i)
        channels.skip(3 * kLookMs), channels.settle(2);
    channels.stalled = false;
    REQUIRE(channels.until([&] { return talk.all_heard(); }));
    CHECK(count_parts(channels) == signals);
}
