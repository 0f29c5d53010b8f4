// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/base/mailbox.h"

using namespace xfer;

namespace {

struct Letter final : Message {
    void arrive(ShardCore &) override {}
};

}  // namespace

TEST_CASE("what is done with a post is done before the message can be taken") {
    Mailbox mailbox;
    std::atomic<bool> done{false};
    Letter letter;
    std::thread loop([&] {
        MessageList taken;
        while (taken.empty())
            mailbox.take(taken);
        CHECK(done.load());
        CHECK(taken.pop_front() == &letter);
    });
    CHECK(mailbox.post(letter, [&] {
        usleep(20'000);  // the loop looks all the while
        done.store(true);
    }) == Mailbox::Posted::first);
    loop.join();
}

TEST_CASE("a closed mailbox takes nothing, and nothing is done with the post") {
    Mailbox mailbox;
    Letter letter;
    REQUIRE(mailbox.close());
    CHECK(mailbox.post(letter, [] { CHECK(false); }) == Mailbox::Posted::closed);
    CHECK(!letter.linked());
}
