// SPDX-License-Identifier: Apache-2.0
#include "transport/stream/listener.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "transport/stream/socket.h"
#include "util/memory.h"
#include "util/peer_user.h"

namespace xfer::stream {

namespace {

// Channels made before others have their turn.
constexpr int kAcceptsPerTurn = 32;
// Without descriptors or memory nobody is accepted for so long; those who come meanwhile wait in
// the backlog.
constexpr uint64_t kPauseNs = 100 * kNsPerMs;
// Accept coalescing: under pressure, when nobody else waits, the listener sleeps for this long.
// Those who come meanwhile share one wake-up, which costs as much as turning one of them away.
constexpr uint64_t kCoalesceNs = 2 * kNsPerMs;
// Any user of this host can knock.
constexpr uint32_t kStrangerLines = 10;
constexpr uint64_t kStrangerLogNs = 60'000 * kNsPerMs;

bool exhausted(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

StreamListener::StreamListener(Loop &loop, const Log &log, AcceptSink &sink, Fd fd,
                               std::vector<std::string> dialable, Carry carry)
    : loop_(loop),
      log_(log),
      sink_(sink),
      fd_(std::move(fd)),
      dialable_(std::move(dialable)),
      carry_(std::move(carry)),
      strangers_(kStrangerLines, kStrangerLogNs) {}

// A UNIX socket that is closed closes those that wait to be accepted, with the descriptors that
// were sent to them, whoever made them: so they are accepted, and closed as what they are.
StreamListener::~StreamListener() {
    loop_.disarm(resume_);
    if (!is_unix_ || take_descriptors(fd_.get(), false)) return;
    const bool some_wait = readable(fd_.get());
    ::shutdown(fd_.get(), SHUT_RDWR);
    for (Address peer; accept_from(fd_.get(), peer);) {}
    if (some_wait && exhausted(errno)) fd_.distrust();  // with those that could not be accepted
}

bool StreamListener::begin() {
    takes_words_ = is_stream(fd_.get());
    is_unix_ = local_address(fd_.get()).family() == AF_UNIX;
    fork_guard_.hold(fd_.get());
    watch_ = loop_.watch(fd_.get(), *this, kReadable);
    return watch_ != nullptr;
}

void StreamListener::on_ready(uint32_t) {
    if (!catch_bad_alloc([&] { accept(); })) pause("no memory");
}

void StreamListener::accept() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
        Address peer;
        Fd fd = accept_from(fd_.get(), peer);
        if (!fd) {
            const int error = errno;
            if (exhausted(error) && sink_.shed()) return;  // the next turn finds room
            if (exhausted(error)) pause(std::strerror(error));
            // One that went away before it was accepted says nothing about the next.
            if (error == ECONNABORTED || error == EINTR) continue;
            if (error == EAGAIN && sink_.under_pressure()) sleep(kCoalesceNs);
            return;
        }
        if (fd.distrusted() && closing_is_busy()) return sleep(kPauseNs);
        const Source source = source_of(fd.get(), peer);
        if (!sink_.admits(source)) {
            turn_away(fd);
            continue;
        }
        tune(fd.get(), peer);
        const std::string from = peer.uri();  // who comes to a UNIX socket has no address
        auto channel = carry_(std::move(fd), from.empty() ? dialable_.front() : from);
        if (!channel && channel.error().status == XFER_EACCESS) {
            not_let_in(channel.error());
            continue;
        }
        if (!channel) return pause("no memory");
        sink_.on_accept(std::move(*channel), source);
    }
}

void StreamListener::not_let_in(const Failure &why) {
    const auto left_out = strangers_.admit(loop_.now());
    if (!left_out) return;
    log_.warn("{}: not let in: {}", dialable_.front(), why.message);
    if (*left_out) log_.info("{} more of them were not logged", *left_out);
}

// A socket that was just accepted has room for so few bytes.
void StreamListener::turn_away(const Fd &fd) {
    const ConstBytes words = sink_.refusal();
    if (takes_words_) ::send(fd.get(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void StreamListener::on_timer(Timer &) {
    watch_->want(kReadable);
}

void StreamListener::pause(const char *why) {
    log_.warn("{}: accepting pauses: {}", dialable_.front(), why);
    sleep(kPauseNs);
}

void StreamListener::sleep(uint64_t ns) {
    watch_->want(0);
    loop_.arm(resume_, loop_.now() + ns);
}

}  // namespace xfer::stream
