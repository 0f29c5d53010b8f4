// SPDX-License-Identifier: Apache-2.0
// Which operations a cancel finds, whatever was canceled before it.
#include "core/base/cancel_index.h"

#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <vector>

using namespace xfer;

namespace {

struct Fake final : Cancelable {
    const Endpoint *begun_with() const override { return ep; }
    void cancel() override {
        canceled->push_back(number);
        if (then) then();
    }
    const Endpoint *ep = nullptr;
    int number = 0;
    std::vector<int> *canceled = nullptr;
    std::function<void()> then;
};

struct Canceling {
    Fake &add(uint64_t user, const Endpoint *ep = nullptr) {
        Fake &fake = fakes.emplace_back();
        fake.event.user = user;
        fake.ep = ep;
        fake.number = static_cast<int>(fakes.size());
        fake.canceled = &canceled;
        index.add(fake);
        return fake;
    }
    std::vector<int> cancel(const CancelScope &scope) {
        canceled.clear();
        index.cancel(scope);
        return canceled;
    }
    CancelIndex index;
    std::deque<Fake> fakes;
    std::vector<int> canceled;
};

using Numbers = std::vector<int>;

}  // namespace

TEST_CASE("a word means all that bear it, in the order in which they began, once") {
    Canceling all;
    for (const uint64_t user : {5, 9, 5})
        all.add(user);
    CHECK(all.cancel({.user = 5}) == Numbers{1, 3});
    CHECK(all.cancel({.user = 5}).empty());
    all.add(5);
    all.add(9);
    CHECK(all.cancel({.user = 9}) == Numbers{2, 5});
    CHECK(all.cancel({.user = 5}) == Numbers{4});
}

TEST_CASE("a mask means some from before the last cancel, and some since") {
    Canceling all;
    all.add(0x11);
    all.add(0x21);
    all.add(0x12);
    CHECK(all.cancel({.user = 0x77}).empty());
    all.add(0x13);
    all.add(0x23);
    CHECK(all.cancel({.user = 0x10, .mask = 0xf0}) == Numbers{1, 3, 4});
    CHECK(all.cancel({.user = 0, .mask = 0}) == Numbers{2, 5});
}

TEST_CASE("an endpoint's are found among others of the same word, which stay") {
    Canceling all;
    const auto *one = reinterpret_cast<const Endpoint *>(8);
    const auto *other = reinterpret_cast<const Endpoint *>(16);
    all.add(5, one);
    all.add(5, other);
    CHECK(all.cancel({.ep = one, .user = 5}) == Numbers{1});
    all.add(5, one);
    CHECK(all.cancel({.ep = other, .user = 5}) == Numbers{2});
    CHECK(all.cancel({.user = 5}) == Numbers{3});
}

TEST_CASE("what has ended, or ends by another's end, is not canceled") {
    Canceling all;
    Fake &first = all.add(5), &second = all.add(5), &third = all.add(5);
    CancelIndex::remove(second);
    first.then = [&] { CancelIndex::remove(third); };
    CHECK(all.cancel({.user = 5}) == Numbers{1});
    CHECK(all.cancel({.user = 5}).empty());
}
