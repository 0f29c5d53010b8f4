// SPDX-License-Identifier: Apache-2.0
// Channels over real sockets: two against each other, or one against a peer made of bare bytes. The
// system calls of channels pass through here, to be counted, cut short or failed. For one file of a
// program.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <random>

#include "recording_sink.h"
#include "transport/stream/address.h"
#include "transport/tcp/tcp.h"
#include "transport/unix/unix.h"
#include "util/fd.h"
#include "wire/hello.h"

// ---- between the channels and the system ----

namespace xfer::test {

// Counts system calls, and can make them do less than they were asked.
inline struct Calls {
    int sends = 0, receives = 0;
    std::mt19937 *shorten = nullptr;
    int send_error = 0;
    int accepts = 0, accept_error = 0;
} calls;

inline ssize_t pass(long number, int fd, const msghdr *message, int flags) {
    if (!calls.shorten) return syscall(number, fd, message, flags);
    std::mt19937 &random = *calls.shorten;
    if (random() % 8 == 0) {
        errno = random() % 2 ? EINTR : EAGAIN;
        return -1;
    }
    size_t rest = size_t{1} << (random() % 18);
    std::vector<iovec> some;
    for (size_t i = 0; i < message->msg_iovlen && rest > 0; ++i) {
        some.push_back(message->msg_iov[i]);
        some.back().iov_len = std::min(some.back().iov_len, rest);
        rest -= some.back().iov_len;
    }
    msghdr shortened = *message;
    shortened.msg_iov = some.data();
    shortened.msg_iovlen = some.size();
    return syscall(number, fd, &shortened, flags);
}

}  // namespace xfer::test

extern "C" ssize_t sendmsg(int fd, const msghdr *message, int flags) {
    ++xfer::test::calls.sends;
    CHECK((flags & MSG_NOSIGNAL) != 0);
    if (xfer::test::calls.send_error) {
        errno = xfer::test::calls.send_error;
        return -1;
    }
    return xfer::test::pass(SYS_sendmsg, fd, message, flags);
}

extern "C" ssize_t recvmsg(int fd, msghdr *message, int flags) {
    ++xfer::test::calls.receives;
    return xfer::test::pass(SYS_recvmsg, fd, message, flags);
}

extern "C" int accept4(int fd, sockaddr *address, socklen_t *size, int flags) {
    ++xfer::test::calls.accepts;
    if (xfer::test::calls.accept_error) {
        errno = xfer::test::calls.accept_error;
        return -1;
    }
    return static_cast<int>(syscall(SYS_accept4, fd, address, size, flags));
}

namespace xfer::test {

// ---- fixtures ----

struct Acceptor : AcceptSink {
    bool admits(const Source &) override { return admitting; }
    ConstBytes refusal() const override { return {}; }
    bool under_pressure() override { return !admitting; }
    bool shed() override { return false; }
    void on_accept(std::unique_ptr<Channel> channel, const Source &) override {
        channel->set_sink(sink);
        channels.push_back(std::move(channel));
    }
    RecordingSink &sink;
    std::vector<std::unique_ptr<Channel>> channels;
    bool admitting = true;
    explicit Acceptor(RecordingSink &sink) : sink(sink) {}
};

inline Uri uri(const std::string &text) {
    auto parsed = parse_uri(text);
    REQUIRE(parsed);
    return *parsed;
}

inline std::unique_ptr<OwnLoop> make_loop() {
    auto loop = OwnLoop::open();
    REQUIRE(loop);
    return std::move(*loop);
}

// XFER_TEST_TRANSPORT=unix runs the same cases over UNIX sockets.
inline bool over_unix() {
    const char *wanted = std::getenv("XFER_TEST_TRANSPORT");
    return wanted && std::string_view(wanted) == "unix";
}

inline Uri any_address() {
    static int made = 0;
    return uri(over_unix() ? "unix:///tmp/xfer-unit-" + std::to_string(::getpid()) + "-" +
                                 std::to_string(++made)
                           : "tcp://127.0.0.1:0");
}

struct Listening {
    Log log;
    std::unique_ptr<OwnLoop> loop = make_loop();
    std::unique_ptr<Transport> transport;
    RecordingSink there;  // of the accepted channel
    Acceptor accepting{there};
    std::unique_ptr<Listener> listener;

    Listening() {
        transport = over_unix() ? make_unix(*loop, log) : make_tcp(*loop, log);
        auto listening = transport->listen(any_address(), 0600, accepting);
        REQUIRE(listening);
        listener = std::move(*listening);
    }
    ~Listening() { calls = {}; }
    Channel &accepted() { return *accepting.channels.at(0); }
    Fd dial_raw(int receive_buffer = 0) {
        const Uri at = uri(listener->bound());
        const stream::Address address = over_unix()
                                            ? stream::unix_address(at.path)
                                            : *stream::numeric_address(at.host, at.port_low);
        Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (receive_buffer)
            setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
        REQUIRE(::connect(fd.get(), address.get(), address.size) == 0);
        return fd;
    }
    template <typename Condition>
    bool until(Condition condition) {
        return turn_until(*loop, condition);
    }
};

constexpr uint64_t kRegion = 7;

// Two channels of one loop; `here` puts into and gets from `memory`, which is behind `there`.
struct Pair : Listening {
    RecordingSink here;
    std::unique_ptr<Channel> channel;
    std::vector<uint8_t> memory = std::vector<uint8_t>(8 << 20);

    explicit Pair(int buffer = 0, uint32_t max_ops = 64, uint32_t serve_ops = 64) {
        auto made = transport->connect(uri(listener->bound()), here);
        REQUIRE(made);
        channel = std::move(*made);
        REQUIRE(until([&] { return here.up && !accepting.channels.empty(); }));
        if (buffer > 0) {
            channel = shrink(std::move(channel), here, buffer);
            accepting.channels[0] = shrink(std::move(accepting.channels[0]), there, buffer);
        }
        channel->start(here, max_ops, serve_ops);
        accepted().start(there, max_ops, serve_ops);
        channel->resume();
        accepted().resume();
        there.regions[kRegion] = &memory;
    }
    std::unique_ptr<Channel> shrink(std::unique_ptr<Channel> old, RecordingSink &sink, int buffer) {
        DetachedChannel ticket = old->detach();
        REQUIRE(setsockopt(ticket.fd.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) == 0);
        REQUIRE(setsockopt(ticket.fd.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) == 0);
        auto adopted = transport->adopt(std::move(ticket));
        REQUIRE(adopted);
        adopted->set_sink(sink);
        return adopted;
    }
    void post(Op &op) { REQUIRE(channel->path().post(op)); }
    bool all_done(size_t count) {
        return until([&] { return here.done.size() >= count; });
    }
};

// A peer that says what it is told to, on the other end of an accepted channel.
struct Raw : Listening {
    Fd fd;
    std::vector<uint8_t> memory = std::vector<uint8_t>(4 << 20);

    explicit Raw(bool started = true, int send_buffer = 0) {
        connect(0);
        REQUIRE(until([&] { return !accepting.channels.empty(); }));
        if (send_buffer > 0) {
            DetachedChannel ticket = accepted().detach();
            REQUIRE(setsockopt(ticket.fd.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer,
                               sizeof send_buffer) == 0);
            accepting.channels[0] = transport->adopt(std::move(ticket));
            accepted().set_sink(there);
        }
        there.regions[kRegion] = &memory;
        if (!started) return;
        accepted().start(there, 64, 64);
        accepted().resume();
    }
    void connect(int receive_buffer) { fd = dial_raw(receive_buffer); }
    void say(const std::vector<uint8_t> &bytes) {
        REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }
    // Reads so many bytes, turning the loop meanwhile.
    std::vector<uint8_t> hear(size_t size) {
        std::vector<uint8_t> bytes(size);
        size_t have = 0;
        REQUIRE(until([&] {
            ssize_t more = ::recv(fd.get(), bytes.data() + have, size - have, MSG_DONTWAIT);
            if (more > 0) have += static_cast<size_t>(more);
            return have == size;
        }));
        return bytes;
    }
    Frame hear_frame() {
        auto frame = decode_frame(hear(Frame::kSize).data());
        REQUIRE(frame);
        return *frame;
    }
    bool silent() {
        turn_some(*loop);
        uint8_t byte;
        return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
    }
    // The channel must end for this reason, and say so to the peer.
    void expect_broken(Status status) {
        REQUIRE(until([&] { return there.down.has_value(); }));
        CHECK(there.down->status == status);
        CHECK(!there.down->message.empty());
        CHECK(hear_frame().type == FrameType::bye);
    }
};

inline std::vector<uint8_t> request(FrameType type, uint64_t seq,
                                    const std::vector<WirePiece> &pieces,
                                    const std::vector<uint8_t> &payload = {}, uint64_t key = kKey,
                                    uint8_t flags = 0) {
    Frame frame;
    frame.type = type;
    frame.flags = flags;
    frame.pieces = static_cast<uint16_t>(pieces.size());
    frame.length = static_cast<uint32_t>(access_length(frame.pieces) + payload.size());
    frame.seq = seq;
    frame.region = kRegion;
    frame.generation = 1;
    std::vector<uint8_t> bytes(Frame::kSize + access_length(frame.pieces));
    encode(frame, bytes.data());
    store<uint64_t>(bytes.data() + Frame::kSize, key);
    for (size_t i = 0; i < pieces.size(); ++i)
        encode(pieces[i], bytes.data() + Frame::kSize + 8 + i * WirePiece::kSize);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
}

inline std::vector<uint8_t> put_of(uint64_t seq, const std::vector<uint8_t> &payload,
                                   uint8_t flags = 0) {
    return request(FrameType::put, seq, {{0, static_cast<uint32_t>(payload.size())}}, payload, kKey,
                   flags);
}

inline std::vector<uint8_t> atomic_of(uint64_t seq, uint64_t offset, uint64_t operand,
                                      uint8_t op = 1, uint64_t region = kRegion,
                                      uint64_t key = kKey) {
    Frame frame;
    frame.type = FrameType::atomic;
    frame.flags = op;
    frame.length = kAtomicBody;
    frame.seq = seq;
    frame.region = region;
    frame.generation = 1;
    std::vector<uint8_t> bytes(Frame::kSize + kAtomicBody);
    encode(frame, bytes.data());
    store<uint64_t>(bytes.data() + Frame::kSize, key);
    encode(Atomic{static_cast<AtomicOp>(op), operand, 0}, offset, bytes.data() + Frame::kSize + 8);
    return bytes;
}

inline std::vector<uint8_t> answer(FrameType type, uint64_t seq, Status status = XFER_OK,
                                   const std::vector<uint8_t> &payload = {}) {
    Frame frame;
    frame.type = type;
    frame.seq = seq;
    frame.status = status;
    frame.length = static_cast<uint32_t>(payload.size());
    std::vector<uint8_t> bytes(Frame::kSize);
    encode(frame, bytes.data());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
}

inline Frame ping(uint64_t seq) {
    Frame frame;
    frame.type = FrameType::ping;
    frame.seq = seq;
    return frame;
}

}  // namespace xfer::test
