// SPDX-License-Identifier: Apache-2.0
// Memory that others write, as a loop looks at it: before it sleeps, instead of sleeping, and never
// so eagerly that its descriptors wait.
#include <doctest/doctest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "loop/own_loop.h"
#include "util/fd.h"

using namespace xfer;

namespace {

constexpr uint64_t kMs = kNsPerMs;

// A word that counts up, with a bell for who sleeps, as a ring has.
struct Word final : Poller, WatchSink {
    explicit Word(OwnLoop &on) : loop(on) {
        EngineLoop::Inside inside(loop);
        watch = loop.watch(bell.get(), *this, kReadable);
        REQUIRE(watch);
        loop.look_at(*this);
    }
    void write() {
        written.fetch_add(1);
        if (sleeps.exchange(false)) ring();
    }
    void ring() {
        const uint64_t one = 1;
        REQUIRE(::write(bell.get(), &one, sizeof one) == sizeof one);
    }
    bool poll() override {
        ++polls;
        const uint64_t now = written.load();
        const bool more = now != taken;
        taken = now;
        if (more && hook) hook();
        return more;
    }
    bool doze() override {
        ++dozes;
        sleeps.store(true);
        if (written.load() == taken) return true;
        sleeps.store(false);
        return false;
    }
    void on_ready(uint32_t) override {
        uint64_t rung;
        REQUIRE(::read(bell.get(), &rung, sizeof rung) == sizeof rung);
        ++rings;
        loop.look_at(*this);
    }

    OwnLoop &loop;
    Fd bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::unique_ptr<Watch> watch;
    std::atomic<uint64_t> written{0};
    std::atomic<bool> sleeps{false};
    uint64_t taken = 0;
    int polls = 0, dozes = 0, rings = 0;
    std::function<void()> hook;
};

std::unique_ptr<OwnLoop> own(SpinLimit spin = SpinLimit::fixed(0)) {
    auto loop = OwnLoop::open(spin);
    REQUIRE(loop);
    return std::move(*loop);
}

}  // namespace

TEST_CASE("nothing that is written is missed, whether the loop spins or sleeps") {
    for (const SpinLimit spin :
         {SpinLimit::fixed(0), SpinLimit::fixed(50'000), SpinLimit::adaptive()}) {
        CAPTURE(spin.ns());
        auto loop = own(spin);
        Word word(*loop);
        constexpr uint64_t kWrites = 20'000;
        std::atomic<uint64_t> seen{0};
        word.hook = [&] {
            seen.store(word.taken);
            if (word.taken == kWrites) loop->stop();
        };
        std::thread writer([&] {
            for (uint64_t i = 1; i <= kWrites; ++i) {
                word.write();
                // At times it waits until it was heard: a wake-up that is lost stays lost.
                while (i % 16 == 0 && seen.load() < i)
                    std::this_thread::yield();
            }
        });
        loop->run();
        writer.join();
        CHECK(word.taken == kWrites);
    }
}

TEST_CASE("it is looked at in each turn, until it dozes; then only its bell is heard") {
    auto loop = own();
    Word word(*loop);
    const int before = word.polls;
    for (int i = 0; i < 5; ++i)
        loop->turn(0);
    CHECK(word.polls >= before + 5);
    CHECK(word.dozes == 0);
    loop->turn(5 * kMs);
    CHECK(word.dozes == 1);
    CHECK(loop->wakeups() <= 1);  // by the end of its time
    const int asleep = word.polls;
    word.written.fetch_add(1);  // without a word
    loop->turn(5 * kMs);
    CHECK(word.polls == asleep);
    word.ring();
    loop->turn(1000 * kMs);
    CHECK(word.rings == 1);
    loop->turn(0);
    CHECK(word.taken == 1);
}

TEST_CASE("who finds something on the brink of sleep keeps the loop awake") {
    auto loop = own();
    Word word(*loop);
    struct Late final : Poller {
        explicit Late(Word &to) : word(to) {}
        bool poll() override { return false; }
        bool doze() override {  // the last moment that there is
            if (++asked == 1) word.written.fetch_add(1);
            return true;
        }
        Word &word;
        int asked = 0;
    } late{word};
    word.Poller::unlink();
    {
        EngineLoop::Inside inside(*loop);
        loop->look_at(late);
        loop->look_at(word);
    }
    const uint64_t begin = loop->clock();
    loop->turn(4'000 * kMs);
    CHECK(loop->clock() - begin < 2'000 * kMs);
    CHECK(word.taken == 1);
    CHECK(loop->wakeups() == 0);
    late.unlink();
}

TEST_CASE("descriptors and timers have their turn beside memory that is always new") {
    auto loop = own();
    Word word(*loop), other(*loop);
    word.hook = [&] { word.written.fetch_add(1); };
    word.written.fetch_add(1);
    {
        EngineLoop::Inside inside(*loop);
        other.Poller::unlink();
    }
    other.ring();
    for (int i = 0; i < 10'000 && other.rings == 0; ++i)
        loop->turn(0);
    CHECK(other.rings == 1);
    CHECK(word.dozes == 0);
    word.hook = nullptr;
}

TEST_CASE("one may end itself and others from inside its look") {
    auto loop = own();
    auto first = std::make_unique<Word>(*loop), second = std::make_unique<Word>(*loop),
         third = std::make_unique<Word>(*loop);
    second->hook = [&] {
        first->Poller::unlink();
        third->Poller::unlink();
        second->Poller::unlink();
        third.reset();
    };
    second->written.fetch_add(1);
    loop->turn(0);
    const int polls = first->polls;
    loop->turn(0);
    CHECK(first->polls == polls);
    CHECK(second->taken == 1);
    CHECK(!third);
}
