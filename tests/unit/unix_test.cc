// SPDX-License-Identifier: Apache-2.0
// A listener's place in the file system: whose it is, and what a process that was killed leaves.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "stream_fixture.h"
#include "transport/stream/address.h"
#include "transport/stream/socket.h"
#include "transport/unix/path.h"

using namespace xfer;
using namespace xfer::test;

// A kernel that can't refuse descriptors (before Linux 6.16).
extern "C" int setsockopt(int fd, int level, int name, const void *value, socklen_t size) noexcept {
    constexpr int kPassRights = 83;
    if (level == SOL_SOCKET && name == kPassRights) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_setsockopt, fd, level, name, value, size));
}

namespace {

struct Folder {
    std::string name = "/tmp/xfer-unix-XXXXXX";
    Folder() { REQUIRE(::mkdtemp(name.data())); }
    ~Folder() { std::filesystem::remove_all(name); }
    std::string operator/(const char *file) const { return name + "/" + file; }
};

bool there(const std::string &path) {
    struct stat file;
    return ::lstat(path.c_str(), &file) == 0;
}

bool answers(const std::string &path) {
    return static_cast<bool>(stream::start_connect(stream::unix_address(path)));
}

}  // namespace

TEST_CASE("a path is taken while somebody listens, and free when he ends well") {
    Folder folder;
    const std::string path = folder / "engine";
    unix_path::File file, other;
    auto first = unix_path::listen(path, 0600, file);
    REQUIRE(first);
    CHECK(file.path == path);
    CHECK(answers(path));
    auto second = unix_path::listen(path, 0600, other);
    REQUIRE(!second);
    CHECK(second.error().status == XFER_EADDRINUSE);
    CHECK(second.error().native == EADDRINUSE);
    CHECK(other.path.empty());
    CHECK(answers(path));
    unix_path::remove(file);
    CHECK(!there(path));
    CHECK(unix_path::listen(path, 0600, other));
}

TEST_CASE("what a killed process left is replaced") {
    Folder folder;
    const std::string path = folder / "engine";
    unix_path::File left, file;
    unix_path::listen(path, 0600, left)->reset();
    REQUIRE(there(path));
    CHECK(!answers(path));
    auto again = unix_path::listen(path, 0600, file);
    REQUIRE(again);
    CHECK(answers(path));
}

TEST_CASE("somebody else's file is left alone, though it has our name") {
    Folder folder;
    const std::string path = folder / "engine";
    unix_path::File ours, theirs;
    auto first = unix_path::listen(path, 0600, ours);
    REQUIRE(first);
    REQUIRE(::unlink(path.c_str()) == 0);
    auto second = unix_path::listen(path, 0600, theirs);
    REQUIRE(second);
    unix_path::remove(ours);
    CHECK(there(path));
    CHECK(answers(path));
}

TEST_CASE("a file that is no socket is left alone") {
    Folder folder;
    const std::string path = folder / "data";
    std::ofstream(path) << "precious";
    unix_path::File file;
    auto fd = unix_path::listen(path, 0600, file);
    REQUIRE(!fd);
    CHECK(fd.error().status == XFER_EADDRINUSE);
    std::string content;
    std::ifstream(path) >> content;
    CHECK(content == "precious");
    // Nor is what a channel leads to.
    std::filesystem::create_symlink(path, folder / "channel");
    CHECK(!unix_path::listen(folder / "channel", 0600, file));
    CHECK(there(folder / "channel"));
}

TEST_CASE("a path that can't be is an address that can't be") {
    Folder folder;
    unix_path::File file;
    for (const std::string &path : {folder / "no/such", std::string("/proc/engine")}) {
        CAPTURE(path);
        auto fd = unix_path::listen(path, 0600, file);
        REQUIRE(!fd);
        CHECK(fd.error().status == XFER_EADDR);
        CHECK(fd.error().origin == XFER_ORIGIN_OS);
    }
}

TEST_CASE("only one of two takes the place of a third") {
    Folder folder;
    const std::string path = folder / "engine";
    unix_path::File file;
    for (int round = 0; round < 50; ++round) {
        unix_path::listen(path, 0600, file)->reset();
        std::atomic<int> begun{0};
        std::array<std::optional<Fd>, 4> fds;
        std::array<std::thread, 4> threads;
        for (size_t i = 0; i < threads.size(); ++i)
            threads[i] = std::thread([&, i] {
                unix_path::File mine;
                ++begun;
                while (begun < 4) {}
                if (auto fd = unix_path::listen(path, 0600, mine)) fds[i] = std::move(*fd);
            });
        for (auto &thread : threads)
            thread.join();
        CHECK(std::count_if(fds.begin(), fds.end(), [](auto &fd) { return fd.has_value(); }) == 1);
        CHECK(answers(path));
    }
}

namespace {

constexpr uid_t kNobody = 65534;
constexpr int kLingerSeconds = 50;

// A TCP connection of which a close waits: the other end does not read.
struct Lingering {
    Fd listener{::socket(AF_INET, SOCK_STREAM, 0)}, socket{::socket(AF_INET, SOCK_STREAM, 0)};
    Lingering() {
        sockaddr_in at{};
        socklen_t size = sizeof at;
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto *address = reinterpret_cast<sockaddr *>(&at);
        const linger wait{1, kLingerSeconds};
        ok = ::bind(listener.get(), address, size) == 0 && ::listen(listener.get(), 1) == 0 &&
             ::getsockname(listener.get(), address, &size) == 0 &&
             ::connect(socket.get(), address, size) == 0 &&
             ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait) == 0;
        const std::vector<uint8_t> bytes(1 << 20);
        while (ok && ::send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {}
    }
    bool ok;
};

bool send_along(int to, int descriptor, int flags) {
    uint8_t byte = 'X';
    iovec vector{&byte, 1};
    alignas(cmsghdr) uint8_t control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    return ::sendmsg(to, &message, MSG_NOSIGNAL | flags) == 1;
}

// In a process of another user, which says so when it is sent, and lives until it is killed.
[[noreturn]] void attack(const std::string &path, int said, bool urgent) {
    ::alarm(120);
    Lingering lingering;
    Fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    const stream::Address at = stream::unix_address(path);
    if (!lingering.ok || ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(1);
    if (::connect(socket.get(), at.get(), at.size) != 0) ::_exit(2);
    if (::send(socket.get(), "XF", 2, MSG_NOSIGNAL) != 2) ::_exit(3);
    if (!send_along(socket.get(), lingering.socket.get(), urgent ? MSG_OOB : 0)) ::_exit(4);
    if (urgent && ::send(socket.get(), "ER", 2, MSG_NOSIGNAL) != 2) ::_exit(5);
    lingering.socket.reset();
    if (::write(said, "!", 1) != 1) ::_exit(6);
    for (;;)
        ::pause();
}

}  // namespace

TEST_CASE("descriptors that another user sends along do not hold up the loop") {
    if (::geteuid() != 0) {
        std::puts("skip: only root can run a process of another user");
        return;
    }
    ::setenv("XFER_TEST_TRANSPORT", "unix", 1);
    Listening server;
    const std::string path = uri(server.listener->bound()).path;
    REQUIRE(::chmod(path.c_str(), 0666) == 0);
    bool urgent = false, accepts = true;
    SUBCASE("read") {}
    SUBCASE("urgent") {
        urgent = true;
    }
    SUBCASE("not accepted") {
        accepts = false;
    }
    SUBCASE("unread") {
        server.accepting.admitting = false;
    }
    int said[2];
    REQUIRE(::pipe2(said, O_CLOEXEC) == 0);
    const Fd hears(said[0]);
    Fd says(said[1]);
    const pid_t child = ::fork();
    if (child == 0) attack(path, says.get(), urgent);
    says.reset();
    char byte = 0;
    CHECK(::read(hears.get(), &byte, 1) == 1);
    const uint64_t began = server.loop->now();
    if (!accepts)
        server.listener.reset();
    else if (server.accepting.admitting)
        CHECK(server.until([&] { return server.there.down.has_value(); }));
    server.accepting.channels.clear();
    turn_some(*server.loop);
    CHECK(server.loop->now() - began < kLingerSeconds * 1000 * kNsPerMs / 2);
    ::kill(child, SIGKILL);
    CHECK(::waitpid(child, nullptr, 0) == child);
}
