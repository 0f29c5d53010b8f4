// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/ring_stream.h"

#include <cerrno>

#include "util/mapped.h"
#include "util/tsan_ignore.h"

namespace xfer::shm {

namespace {

// A loop that never sleeps would look at idle rings for ever.
constexpr uint32_t kFruitless = 1'000;

}  // namespace

RingStream::RingStream(Loop &loop, RendezvousSocket &door, Segment &segment, Side side,
                       WatchSink &sink)
    : loop_(loop),
      rendezvous_(door),
      sink_(sink),
      writer_(segment.end(side).ring, segment.end(side).data, kRingBytes),
      reader_(segment.end(other(side)).ring, segment.end(other(side)).data, kRingBytes) {}

void RingStream::hang_up() {
    hung_up_ = true;
    loop_.look_at(*this);
}

ssize_t RingStream::write(std::span<const iovec> from) {
    const TsanIgnore copies;
    const uint64_t room = writer_.room_for(from);
    if (room == 0 || !writer_.sane(room)) {
        errno = room ? EBADMSG : hung_up_ ? EPIPE : EAGAIN;
        return -1;
    }
    if (!are_mapped(from)) {  // as the kernel tells it of a socket
        errno = EFAULT;
        return -1;
    }
    const uint64_t bytes = writer_.write(from, room);
    if (writer_.must_ring()) ring();
    return static_cast<ssize_t>(bytes);
}

ssize_t RingStream::read(std::span<const iovec> into) {
    const TsanIgnore copies;
    const bool last = hung_up_;  // asked first: what it wrote before is there now
    const uint64_t there = reader_.there();
    if (there == 0 && last) return 0;
    if (there == 0 || !reader_.sane(there)) {
        errno = there == 0 ? EAGAIN : EBADMSG;
        return -1;
    }
    if (!are_mapped(into)) {
        errno = EFAULT;
        return -1;
    }
    const uint64_t bytes = reader_.read(into, there);
    if (reader_.must_ring()) ring();
    return static_cast<ssize_t>(bytes);
}

void RingStream::want(uint32_t readiness) {
    wanted_ = readiness;
    fruitless_ = 0;
    if (!ended_) loop_.look_at(*this);
}

void RingStream::end() {
    ended_ = true;
    Poller::unlink();
}

void RingStream::rung() {
    if (ended_) return;
    fruitless_ = 0;
    loop_.look_at(*this);
}

// The neighbour sleeps until it is rung for: when that fails it is tried again before this end
// sleeps.
void RingStream::ring() {
    unrung_ = !rendezvous_.ring();
    if (unrung_ && !ended_) loop_.look_at(*this);
}

uint32_t RingStream::ready() {
    uint32_t ready = 0;
    if (wanted_ & kReadable && (hung_up_ || reader_.there())) ready |= kReadable;
    if (wanted_ & kWritable && (hung_up_ || writer_.room(1))) ready |= kWritable;
    return ready;
}

bool RingStream::poll() {
    if (const uint32_t now = ready()) {
        reader_.awake();
        fruitless_ = 0;
        sink_.on_ready(now);  // may end this
        return true;
    }
    if (++fruitless_ > kFruitless && doze()) Poller::unlink();
    return false;
}

// Either may fail to: then there is something to do.
bool RingStream::doze() {
    if (unrung_) ring();
    if (unrung_) return false;
    if (hung_up_ && wanted_ & kReadable) return false;
    if (wanted_ & kReadable && !reader_.sleep()) return false;
    return !(wanted_ & kWritable) || writer_.wait();
}

}  // namespace xfer::shm
