// SPDX-License-Identifier: Apache-2.0
// Two agents in two processes, over the back end: register, exchange, write with a notification,
// read, cancel in flight, disconnect and come back, an owner that takes its memory back or is
// killed. Usage: driver [near]
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "back_end.h"

using namespace nixl_mock;

#define EXPECT(condition)                                                        \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPages = 4096;
constexpr size_t kSize = kPage * kPages;
constexpr unsigned kPatience = 30;  // seconds, for the whole program

using Memories = std::vector<std::vector<unsigned char>>;

// The side channel of the agents, which NIXL brings: texts, each behind its length.
class SideChannel {
public:
    explicit SideChannel(int fd) : fd_(fd) {}

    void say(const std::string &text) const {
        size_t length = text.size();
        EXPECT(write(fd_, &length, sizeof length) == sizeof length);
        EXPECT(write(fd_, text.data(), length) == static_cast<ssize_t>(length));
    }

    // Empty at its end.
    std::string hear() const {
        size_t length = 0;
        std::string text;
        if (recv(fd_, &length, sizeof length, MSG_WAITALL) != sizeof length) return text;
        text.resize(length);
        EXPECT(recv(fd_, text.data(), length, MSG_WAITALL) == static_cast<ssize_t>(length));
        return text;
    }

private:
    int fd_;
};

std::map<std::string, std::string> parameters(bool near) {
    return {{"transports", near ? "tcp,shm,loopback" : "tcp,loopback"}};
}

std::string next_notification(BackEnd &back_end, const std::string &from) {
    for (Notifications came;; usleep(200)) {
        EXPECT(back_end.take_notifications(&came) == Status::success);
        if (came.empty()) continue;
        EXPECT(came.size() == 1 && came[0].first == from);
        return came[0].second;
    }
}

Status finish(BackEnd &back_end, Request *request) {
    Status status;
    while ((status = back_end.check(request)) == Status::in_progress)
        usleep(200);
    return status;
}

// The agent whose memory is written and read.
void serve(const SideChannel &side, bool near) {
    XferBackEnd back_end("prefill", parameters(near));
    Memories memory(2, std::vector<unsigned char>(kSize));
    std::string text;
    EXPECT(back_end.connection_info(&text) == Status::success);
    side.say(text);
    std::vector<Metadata *> registered(memory.size());
    for (size_t i = 0; i < memory.size(); i++) {
        uintptr_t address = reinterpret_cast<uintptr_t>(memory[i].data());
        EXPECT(back_end.register_memory(address, kSize, Memory::dram, &registered[i]) ==
               Status::success);
        EXPECT(back_end.public_data(registered[i], &text) == Status::success);
        side.say(std::to_string(address));
        side.say(text);
    }
    EXPECT(back_end.load_connection_info("decode", side.hear()) == Status::success);
    EXPECT(back_end.connect("decode") == Status::success);
    for (std::string asked = side.hear(); !asked.empty(); asked = side.hear()) {
        if (asked == "written") {
            EXPECT(next_notification(back_end, "decode") == "layer 0");
            for (size_t i = 0; i < kSize; i++)
                EXPECT(memory[0][i] == static_cast<unsigned char>(i / kPage * 31 + i));
            EXPECT(back_end.notify("decode", "seen") == Status::success);
        } else if (asked == "again") {
            EXPECT(next_notification(back_end, "decode") == "layer 1");
        } else if (asked == "close") {
            EXPECT(back_end.deregister_memory(registered[1]) == Status::success);
            std::fill(memory[1].begin(), memory[1].end(), 0xee);
        }
        side.say("done");
    }
    EXPECT(back_end.deregister_memory(registered[0]) == Status::success);
}

void ask(const SideChannel &side, const char *what) {
    side.say(what);
    EXPECT(side.hear() == "done");
}

class Initiator {
public:
    Initiator(int fd, pid_t peer, bool near)
        : side_(fd), peer_(peer), back_end_("decode", parameters(near)) {
        std::string text;
        EXPECT(back_end_.load_connection_info("prefill", side_.hear()) == Status::success);
        for (auto &remote : remote_) {
            remote_address_ = std::stoull(side_.hear());
            EXPECT(back_end_.load_remote(remote_address_, kSize, Memory::dram, side_.hear(),
                                         "prefill", &remote.md) == Status::success);
            remote.address = remote_address_;
        }
        EXPECT(back_end_.connection_info(&text) == Status::success);
        side_.say(text);
        EXPECT(back_end_.connect("prefill") == Status::success);
        address_ = reinterpret_cast<uintptr_t>(memory_.data());
        EXPECT(back_end_.register_memory(address_, kSize, Memory::dram, &local_) ==
               Status::success);
        fill();
    }

    void run(bool near) {
        write_and_read();
        to_ourselves();
        refused();
        disconnect_and_return();
        if (!near) cancel_in_flight();  // a local peer's CPU is not needed: the write would succeed
        owner_takes_back();
        if (!near) owner_is_killed();
        for (auto &remote : remote_)
            EXPECT(back_end_.unload(remote.md) == Status::success);
        EXPECT(back_end_.deregister_memory(local_) == Status::success);
    }

private:
    struct Loaded {
        uintptr_t address = 0;
        Metadata *md = nullptr;
    };

    void fill() {
        for (size_t i = 0; i < kSize; i++)
            memory_[i] = static_cast<unsigned char>(i / kPage * 31 + i);
    }

    // Each page of our memory to or from the same page of the peer's, in any order.
    Request *all_pages(Operation operation, const Loaded &remote, const char *agent = "prefill") {
        std::vector<size_t> pages(kPages);
        std::iota(pages.begin(), pages.end(), 0);
        std::shuffle(pages.begin(), pages.end(), std::mt19937{7});
        Descriptors ours, theirs;
        for (size_t page : pages) {
            ours.push_back({address_ + page * kPage, kPage, local_});
            theirs.push_back({remote.address + page * kPage, kPage, remote.md});
        }
        Request *request = nullptr;
        EXPECT(back_end_.prepare(operation, ours, theirs, agent, &request) == Status::success);
        return request;
    }

    void write_and_read() {
        Request *write = all_pages(Operation::write, remote_[0]);
        std::string told = "layer 0";
        EXPECT(back_end_.post(write, &told) == Status::in_progress);
        EXPECT(finish(back_end_, write) == Status::success);
        ask(side_, "written");
        EXPECT(next_notification(back_end_, "prefill") == "seen");
        told = "layer 1";
        EXPECT(back_end_.post(write, &told) == Status::in_progress);
        EXPECT(finish(back_end_, write) == Status::success);
        ask(side_, "again");
        EXPECT(back_end_.release(write) == Status::success);

        std::fill(memory_.begin(), memory_.end(), 0);
        Request *read = all_pages(Operation::read, remote_[0]);
        EXPECT(back_end_.post(read, nullptr) == Status::in_progress);
        EXPECT(finish(back_end_, read) == Status::success);
        EXPECT(back_end_.release(read) == Status::success);
        for (size_t i = 0; i < kSize; i++)
            EXPECT(memory_[i] == static_cast<unsigned char>(i / kPage * 31 + i));
    }

    void to_ourselves() {
        std::vector<unsigned char> other(kSize);
        Metadata *registered = nullptr;
        Loaded loaded{reinterpret_cast<uintptr_t>(other.data()), nullptr};
        EXPECT(back_end_.register_memory(loaded.address, kSize, Memory::dram, &registered) ==
               Status::success);
        EXPECT(back_end_.load_local(registered, &loaded.md) == Status::success);
        EXPECT(back_end_.connect("decode") == Status::success);
        Request *write = all_pages(Operation::write, loaded, "decode");
        EXPECT(back_end_.post(write, nullptr) == Status::in_progress);
        EXPECT(finish(back_end_, write) == Status::success);
        EXPECT(back_end_.release(write) == Status::success);
        EXPECT(back_end_.unload(loaded.md) == Status::success);
        EXPECT(back_end_.deregister_memory(registered) == Status::success);
        EXPECT(other == memory_);
    }

    void refused() {
        Request *request = nullptr;
        Descriptors ours{{address_, kPage, local_}},
            theirs{{remote_[0].address + kSize - 1, kPage, remote_[0].md}};
        EXPECT(back_end_.prepare(Operation::write, ours, theirs, "prefill", &request) ==
               Status::invalid);
        EXPECT(back_end_.prepare(Operation::write, ours, theirs, "nobody", &request) ==
               Status::not_found);
        EXPECT(back_end_.notify("prefill", std::string(2000, 'x')) == Status::not_supported);
        Metadata *loaded = nullptr;
        EXPECT(back_end_.load_remote(1, 1, Memory::dram, "no ref", "prefill", &loaded) ==
               Status::invalid);
        EXPECT(back_end_.register_memory(address_, kSize, Memory::vram, &loaded) ==
               Status::not_supported);
        EXPECT(back_end_.supported_memory() == std::vector{Memory::dram});
    }

    void disconnect_and_return() {
        for (int i = 0; i < 3; i++) {
            EXPECT(back_end_.disconnect("prefill") == Status::success);
            EXPECT(back_end_.connect("prefill") == Status::success);
            Request *write = all_pages(Operation::write, remote_[1]);
            EXPECT(back_end_.post(write, nullptr) == Status::in_progress);
            EXPECT(finish(back_end_, write) == Status::success);
            EXPECT(back_end_.release(write) == Status::success);
        }
    }

    void cancel_in_flight() {
        EXPECT(kill(peer_, SIGSTOP) == 0);
        Request *write = all_pages(Operation::write, remote_[0]);
        EXPECT(back_end_.post(write, nullptr) == Status::in_progress);
        usleep(20000);
        EXPECT(back_end_.check(write) == Status::in_progress);
        EXPECT(back_end_.release(write) == Status::success);
        std::fill(memory_.begin(), memory_.end(), 0xff);  // ours again: none of this arrives
        EXPECT(kill(peer_, SIGCONT) == 0);
        Request *read = all_pages(Operation::read, remote_[0]);
        EXPECT(back_end_.post(read, nullptr) == Status::in_progress);
        EXPECT(finish(back_end_, read) == Status::success);
        EXPECT(back_end_.release(read) == Status::success);
        for (size_t i = 0; i < kSize; i++)
            EXPECT(memory_[i] == 0 || memory_[i] == static_cast<unsigned char>(i / kPage * 31 + i));
        fill();
    }

    void owner_takes_back() {
        Request *write = all_pages(Operation::write, remote_[1]);
        ask(side_, "close");
        EXPECT(back_end_.post(write, nullptr) == Status::in_progress);
        EXPECT(finish(back_end_, write) == Status::not_found);
        EXPECT(back_end_.release(write) == Status::success);
    }

    void owner_is_killed() {
        EXPECT(kill(peer_, SIGSTOP) == 0);
        Request *write = all_pages(Operation::write, remote_[0]);
        EXPECT(back_end_.post(write, nullptr) == Status::in_progress);
        usleep(20000);
        EXPECT(kill(peer_, SIGKILL) == 0);
        EXPECT(finish(back_end_, write) == Status::disconnected);
        EXPECT(back_end_.release(write) == Status::success);
    }

    SideChannel side_;
    pid_t peer_;
    XferBackEnd back_end_;
    std::vector<unsigned char> memory_ = std::vector<unsigned char>(kSize);
    uintptr_t address_ = 0, remote_address_ = 0;
    Metadata *local_ = nullptr;
    Loaded remote_[2];
};

}  // namespace

int main(int argc, char **argv) {
    bool near = argc > 1 && std::strcmp(argv[1], "near") == 0;
    int ends[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t peer = fork();  // before there is an engine
    alarm(kPatience);
    if (peer == 0) {
        close(ends[0]);
        serve(SideChannel(ends[1]), near);
        return 0;
    }
    close(ends[1]);
    { Initiator(ends[0], peer, near).run(near); }
    close(ends[0]);
    int status = 0;
    EXPECT(waitpid(peer, &status, 0) == peer);
    EXPECT(near ? WIFEXITED(status) && WEXITSTATUS(status) == 0
                : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    std::puts("ok");
    return 0;
}
