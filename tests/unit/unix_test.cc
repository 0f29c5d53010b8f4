// SPDX-License-Identifier: Apache-2.0
// A listener's place in the file system: whose it is, and what a process that was killed leaves.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "transport/stream/address.h"
#include "transport/stream/socket.h"
#include "transport/unix/path.h"

using namespace xfer;

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
