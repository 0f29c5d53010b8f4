// SPDX-License-Identifier: Apache-2.0
// A process that was given the number of a neighbour that has died is not the neighbour.
#include <doctest/doctest.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "recording_sink.h"
#include "transport/shm/importer.h"
#include "transport/shm/rendezvous.h"

using namespace xfer;
using namespace xfer::test;
using shm::End;
using shm::Importer;
using shm::RegionKey;
using shm::RendezvousSocket;

namespace {

constexpr uint64_t kRegion = 7;
const std::array<uint8_t, 16> kNonce = {1, 2, 3};
uint8_t target[16];  // at the same place in every child

[[noreturn]] void stay() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        ::pause();
}

pid_t start_neighbour(const std::string &name) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    const auto door = shm::connect_to(name);
    stay();
}

// -1: not allowed.
pid_t start_stranger(pid_t wanted) {
    clone_args how{};
    how.exit_signal = SIGCHLD;
    how.set_tid = reinterpret_cast<uint64_t>(&wanted);
    how.set_tid_size = 1;
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
    if (pid != 0) return pid;
    stay();
}

void kill_child(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
}

std::array<uint8_t, 16> target_of(pid_t pid) {
    std::array<uint8_t, 16> found{};
    iovec local{found.data(), found.size()}, remote{target, sizeof target};
    REQUIRE(::process_vm_readv(pid, &local, 1, &remote, 1, 0) == sizeof target);
    return found;
}

// What is shared, as the neighbour would have filled it.
struct Ends {
    End *mine, *theirs;
    Ends() {
        void *at = ::mmap(nullptr, 2 * sizeof(End), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        REQUIRE(at != MAP_FAILED);
        mine = static_cast<End *>(at);
        theirs = mine + 1;
        theirs->nonce = kNonce;
        theirs->nonce_at = reinterpret_cast<uint64_t>(kNonce.data());
        theirs->slots[0] = 1;
    }
    ~Ends() { ::munmap(mine, 2 * sizeof(End)); }
};

}  // namespace

TEST_CASE("who got the pid of a dead neighbour is left alone") {
    const std::string name = "xfer-test-pid-" + std::to_string(::getpid());
    auto listener = shm::listen_at(name);
    REQUIRE(listener);
    const pid_t neighbour = start_neighbour(name);
    REQUIRE(neighbour > 0);
    pollfd knocks{listener->get(), POLLIN, 0};
    REQUIRE(::poll(&knocks, 1, 10'000) == 1);
    RendezvousSocket door(shm::accept_from(listener->get()));
    REQUIRE(door.meet().status == XFER_OK);
    CHECK(door.pid() == neighbour);

    Ends ends;
    Importer reached(door, *ends.mine, *ends.theirs);
    const auto region = reached.import({.slot = 0,
                                        .stamp = 1,
                                        .base = reinterpret_cast<uint64_t>(target),
                                        .length = sizeof target,
                                        .access = XFER_READ | XFER_WRITE});
    REQUIRE(region);
    std::vector<Piece> pieces;
    std::vector<uint8_t> local(16, 0xee);
    TestOp put(Dir::put, kRegion, {{address(local.data()), 0, 16}});
    put.import = region.get();
    CHECK(reached.copy(put, pieces));
    CHECK(target_of(neighbour)[15] == 0xee);

    kill_child(neighbour);
    const pid_t stranger = start_stranger(neighbour);
    if (stranger < 0) {
        MESSAGE("skipped: a process may not choose its pid here");
        return;
    }
    REQUIRE(stranger == neighbour);
    CHECK_FALSE(door.there());
    CHECK(door.gone());
    CHECK_FALSE(reached.copy(put, pieces));
    CHECK(target_of(stranger)[15] == 0);
    kill_child(stranger);
}
