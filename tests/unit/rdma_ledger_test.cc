// SPDX-License-Identifier: Apache-2.0
// The slots of a send queue: whatever a queue pair does with what is posted, each chain ends once,
// as what was told of it, and all slots come back.
#include "transport/rdma/ledger.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "transport/rdma/request_id.h"

using namespace xfer::rdma;
using How = ChainEnd::How;

namespace {

constexpr int kFlushed = 5, kAccess = 10;

std::vector<ChainEnd> pop_all(Ledger &ledger) {
    std::vector<ChainEnd> ends;
    while (const auto end = ledger.pop_ended())
        ends.push_back(*end);
    return ends;
}

// The number of the first request.
uint32_t post(Ledger &ledger, uint64_t cookie, uint32_t requests) {
    REQUIRE(ledger.reserve(requests) == Admitted::granted);
    const uint32_t first = ledger.next();
    ledger.posted(cookie, requests);
    return first;
}

// A send queue of an adapter, as strict as the specification permits: what is not signaled raises
// nothing unless it fails, and of what is flushed it may tell only where it was signaled.
class Device {
public:
    struct Completion {
        uint32_t sequence;
        int status;
    };

    explicit Device(bool tells_all) : tells_all_(tells_all) {}

    void take(uint32_t first, uint32_t taken, uint32_t requests) {
        for (uint32_t i = 0; i < taken; ++i)
            queue_.push_back({first + i, i + 1 == requests});
    }
    bool step(int status) {
        if (queue_.empty()) return false;
        const Request request = queue_.front();
        queue_.pop_front();
        if (in_error_) {
            if (request.signaled || tells_all_) told.push_back({request.sequence, kFlushed});
        } else if (status) {
            in_error_ = true;
            told.push_back({request.sequence, status});
        } else {
            ++executed[request.sequence];
            if (request.signaled) told.push_back({request.sequence, 0});
        }
        return true;
    }
    void fail() { in_error_ = true; }
    bool in_error() const { return in_error_; }

    std::deque<Completion> told;
    std::map<uint32_t, int> executed;

private:
    struct Request {
        uint32_t sequence;
        bool signaled;
    };
    const bool tells_all_;
    bool in_error_ = false;
    std::deque<Request> queue_;
};

// One life of a queue pair: random chains, refused at any place, until it fails.
class Life {
public:
    Life(uint32_t seed, uint32_t slots)
        : random_(seed), ledger_(slots), device_(seed % 2 == 0), slots_(slots) {}

    void run() {
        for (int step = 0; step < 400; ++step) {
            switch (random_() % 8) {
            case 0:
            case 1:
            case 2:
                post_some();
                break;
            case 3:
            case 4:
                device_.step(random_() % 60 == 0 ? kAccess : 0);
                break;
            case 5:
            case 6:
                hear();
                break;
            default:
                if (random_() % 40 == 0) device_.fail();
            }
            check();
        }
        finish();
    }
    uint64_t chains() const { return ended_; }
    uint32_t orphans() const { return orphans_; }

private:
    struct Posted {
        uint32_t first, taken;
        bool ended = false;
    };

    void post_some() {
        const uint32_t requests = 1 + random_() % (slots_ + 1);
        const uint32_t before = ledger_.outstanding();
        const Admitted verdict = ledger_.reserve(requests);
        const Admitted expected = degraded_                    ? Admitted::degraded
                                  : requests > slots_          ? Admitted::too_large
                                  : requests + before > slots_ ? Admitted::full
                                                               : Admitted::granted;
        REQUIRE(verdict == expected);
        if (verdict != Admitted::granted) return;
        const bool refused = random_() % 25 == 0;
        const uint32_t taken = refused ? random_() % (requests + 1) : requests;
        // A driver that does not say how many it took.
        const uint32_t told = refused && random_() % 2 == 0 ? requests : taken;
        uint32_t at = 0;
        do {  // chain by chain
            const uint32_t size = 1 + random_() % (requests - at);
            const uint32_t last = at + size;
            const bool signals = last == requests || random_() % 2;
            device_.take(ledger_.next(), std::clamp(taken, at, last) - at, signals ? size : 0);
            const uint32_t counted = std::clamp(told, at, last) - at;
            if (counted > 0) posted_.push_back({ledger_.next(), counted});
            if (counted < size || (refused && last == requests))
                ledger_.refused(posted_.size() - (counted > 0), counted);
            else
                ledger_.posted(posted_.size() - 1, size);
            at = last;
        } while (at < told);
        if (told < requests && at == told) ledger_.refused(posted_.size(), 0);
        if (told == 0) {
            REQUIRE(ledger_.outstanding() == before);
            return;
        }
        degraded_ |= refused;
        orphans_ += refused;
    }

    void hear() {
        if (device_.told.empty()) return;
        const Device::Completion completion = device_.told.front();
        device_.told.pop_front();
        const auto tell = [&] {
            return completion.status ? ledger_.failed(completion.sequence, completion.status)
                                     : ledger_.completed(completion.sequence);
        };
        REQUIRE(tell());
        degraded_ |= completion.status != 0;
        statuses_[completion.sequence] = completion.status;
        CHECK_FALSE(tell());  // a doubled one
    }

    // What has ended gives back its slots, in order, and is what happened.
    void check() {
        while (const auto end = ledger_.pop_ended()) {
            REQUIRE(end->cookie == ended_);
            Posted &chain = posted_[end->cookie];
            REQUIRE_FALSE(chain.ended);
            chain.ended = true;
            ++ended_;
            CHECK(end->requests == chain.taken);
            check_how(chain, *end);
        }
        uint32_t outstanding = 0;
        for (const Posted &chain : posted_)
            outstanding += chain.ended ? 0 : chain.taken;
        REQUIRE(ledger_.outstanding() == outstanding);
        CHECK(ledger_.degraded() == degraded_);
    }

    void check_how(const Posted &chain, const ChainEnd &end) {
        int first_error = 0;
        for (uint32_t i = 0; i < chain.taken && !first_error; ++i)
            if (const auto at = statuses_.find(chain.first + i); at != statuses_.end())
                first_error = at->second;
        CHECK(end.native == first_error);
        CHECK((end.how == How::failed) == (first_error != 0));
        if (end.how != How::done) return;
        for (uint32_t i = 0; i < chain.taken; ++i)
            CHECK(device_.executed[chain.first + i] == 1);
    }

    // To ERR, flushed; then drained, or destroyed before all was heard.
    void finish() {
        device_.fail();
        while (device_.step(0)) {}
        const bool hears = random_() % 2 == 0;
        while (hears && !device_.told.empty()) {
            hear();
            check();
        }
        ledger_.drained();
        degraded_ = true;
        check();
        CHECK(ledger_.outstanding() == 0);
        CHECK(ended_ == posted_.size());
        CHECK(ledger_.reserve(1) == Admitted::degraded);
    }

    std::mt19937 random_;
    Ledger ledger_;
    Device device_;
    const uint32_t slots_;
    std::vector<Posted> posted_;
    std::map<uint32_t, int> statuses_;
    uint64_t ended_ = 0;
    uint32_t orphans_ = 0;
    bool degraded_ = false;
};

}  // namespace

TEST_CASE("whatever happens, each chain ends once and the ledger is empty at the end") {
    uint64_t chains = 0;
    uint32_t orphans = 0;
    for (uint32_t seed = 0; seed < 3'000; ++seed) {
        CAPTURE(seed);
        Life life(seed, 1 + seed % 26);
        life.run();
        chains += life.chains();
        orphans += life.orphans();
    }
    CHECK(chains > 20'000);  // it does come to that
    CHECK(orphans > 500);
}

TEST_CASE("a chain is granted whole or not at all") {
    Ledger ledger(25);
    post(ledger, 1, 10);
    post(ledger, 2, 10);
    CHECK(ledger.reserve(6) == Admitted::full);
    CHECK(ledger.outstanding() == 20);
    post(ledger, 3, 5);
    CHECK(ledger.reserve(1) == Admitted::full);
    CHECK(ledger.reserve(26) == Admitted::too_large);
}

TEST_CASE("a completion stands for all that was posted before") {
    Ledger ledger(16);
    const uint32_t first = post(ledger, 1, 4);
    const uint32_t second = post(ledger, 2, 3);
    post(ledger, 3, 2);
    CHECK(ledger.completed(second + 2));
    CHECK(pop_all(ledger) == std::vector<ChainEnd>{{1, 4, How::done, 0}, {2, 3, How::done, 0}});
    CHECK(ledger.outstanding() == 2);
    CHECK_FALSE(ledger.completed(first + 3));
    CHECK_FALSE(ledger.completed(second + 2));
    CHECK_FALSE(ledger.completed(second + 5));  // not yet posted
    CHECK(pop_all(ledger).empty());
}

TEST_CASE("after an error, what nothing was told of is unknown, and the cause is the first") {
    Ledger ledger(16);
    post(ledger, 1, 2);
    const uint32_t failing = post(ledger, 2, 4);
    const uint32_t behind = post(ledger, 3, 2);
    CHECK(ledger.failed(failing + 1, kAccess));
    CHECK(pop_all(ledger) == std::vector<ChainEnd>{{1, 2, How::unknown, 0}});
    CHECK(ledger.reserve(1) == Admitted::degraded);
    for (uint32_t i = 2; i < 4; ++i)
        CHECK(ledger.failed(failing + i, kFlushed));
    CHECK(ledger.failed(behind, kFlushed));
    CHECK(pop_all(ledger) == std::vector<ChainEnd>{{2, 4, How::failed, kAccess}});
    CHECK(ledger.failed(behind + 1, kFlushed));
    CHECK(pop_all(ledger) == std::vector<ChainEnd>{{3, 2, How::failed, kFlushed}});
    CHECK(ledger.outstanding() == 0);
}

TEST_CASE("leak 1: what was posted before a reservation fails comes back") {
    // A call of three chains of 10 on depth 25: the third is not granted.
    Ledger ledger(25);
    post(ledger, 1, 10);
    const uint32_t second = post(ledger, 2, 10);
    CHECK(ledger.reserve(10) == Admitted::full);
    CHECK(ledger.completed(second + 9));
    CHECK(pop_all(ledger).size() == 2);
    CHECK(ledger.outstanding() == 0);
}

TEST_CASE("leak 2: a post list of which nothing was taken forgets nothing of before") {
    Ledger ledger(25);
    const uint32_t first = post(ledger, 1, 10);
    REQUIRE(ledger.reserve(10) == Admitted::granted);
    ledger.refused(2, 0);
    CHECK(ledger.outstanding() == 10);
    CHECK_FALSE(ledger.degraded());
    CHECK(ledger.completed(first + 9));
    CHECK(pop_all(ledger) == std::vector<ChainEnd>{{1, 10, How::done, 0}});
    CHECK(ledger.outstanding() == 0);
    post(ledger, 3, 25);
}

TEST_CASE("leak 6: what a driver does not tell counts as taken") {
    Ledger ledger(8);
    REQUIRE(ledger.reserve(4) == Admitted::granted);
    const uint32_t first = ledger.next();
    ledger.refused(1, 4);
    CHECK(ledger.outstanding() == 4);
    CHECK(ledger.reserve(1) == Admitted::degraded);
    SUBCASE("it was") {
        CHECK(ledger.completed(first + 3));
    }
    SUBCASE("it was in part") {
        CHECK(ledger.failed(first + 1, kFlushed));
        CHECK(pop_all(ledger).empty());
        ledger.drained();
    }
    SUBCASE("it was not") {
        ledger.drained();
    }
    CHECK(pop_all(ledger).size() == 1);
    CHECK(ledger.outstanding() == 0);
}

TEST_CASE("post lists that are taken in part, at every place and behind any number of others") {
    for (uint32_t requests = 1; requests <= 6; ++requests)
        for (uint32_t taken = 0; taken <= requests; ++taken)
            for (uint32_t others = 0; others < 3; ++others) {
                CAPTURE(requests);
                CAPTURE(taken);
                CAPTURE(others);
                Ledger ledger(8);
                uint32_t last = 0;
                for (uint32_t i = 0; i < others; ++i)
                    last = post(ledger, i, 1);
                REQUIRE(ledger.reserve(requests) == Admitted::granted);
                ledger.refused(7, taken);
                CHECK(ledger.outstanding() == others + taken);
                CHECK(ledger.degraded() == (taken > 0));
                if (others) CHECK(ledger.completed(last));
                CHECK(pop_all(ledger).size() == others);
                CHECK(ledger.outstanding() == taken);
                ledger.drained();
                const auto ends = pop_all(ledger);
                REQUIRE(ends.size() == (taken ? 1 : 0));
                if (taken) CHECK(ends[0] == ChainEnd{7, taken, How::unknown, 0});
                CHECK(ledger.outstanding() == 0);
            }
}

TEST_CASE("leak 8: no wr_id of ours is that of another kind, queue or request, or 0") {
    using Kind = RequestId::Kind;
    std::map<uint64_t, RequestId> seen;
    for (const Kind kind : {Kind::send, Kind::drain, Kind::receive})
        for (const uint32_t queue : {uint32_t{1}, uint32_t{2}, RequestId::kQueues - 1})
            for (const uint32_t sequence : {uint32_t{0}, uint32_t{1}, UINT32_MAX}) {
                const RequestId id{kind, queue, sequence};
                CHECK(decode_request_id(encode(id)) == id);
                CHECK(seen.emplace(encode(id), id).second);
            }
    CHECK_FALSE(decode_request_id(0));
    CHECK_FALSE(decode_request_id(1));
    CHECK_FALSE(decode_request_id(UINT64_MAX));
    CHECK_FALSE(decode_request_id(encode({Kind::send, 0, 1})));
    CHECK_FALSE(decode_request_id(encode({Kind{}, 1, 1})));
    CHECK_FALSE(decode_request_id(encode({Kind{4}, 1, 1})));
}
