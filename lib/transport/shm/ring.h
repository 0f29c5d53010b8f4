// SPDX-License-Identifier: Apache-2.0
// A stream of bytes through shared memory, from one process to another. The indexes count bytes
// from the start and never return; each is written by one end, which believes its own copy alone.
//
// No wake-up is lost. The reader announces that it sleeps, then looks at what was written; the
// writer publishes what it wrote, then looks at whether the reader sleeps. All four accesses are
// sequentially consistent, so that in their total order one of the two sees the other: either the
// reader finds the bytes and stays awake, or the writer finds it asleep and rings. Who rings takes
// the announcement away, so that it rings once. Room for a writer that waits is told the same way.
// (tests/unit/ring_test.cc goes through all interleavings, with stores that are delayed.)
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace xfer::shm {

template <template <typename> typename Atomic = std::atomic>
struct RingShared {
    alignas(64) Atomic<uint64_t> written;
    alignas(64) Atomic<uint64_t> read;
    alignas(64) Atomic<uint32_t> reader_sleeps;
    alignas(64) Atomic<uint32_t> writer_waits;
};

// What both ends have: bytes go by at their index modulo the size, a power of two.
template <template <typename> typename Atomic>
class RingEnd {
public:
    RingEnd(RingShared<Atomic> &shared, uint8_t *data, uint64_t size)
        : shared_(shared), data_(data), size_(size) {}

protected:
    template <typename Copy>
    void pass(std::span<const iovec> vectors, uint64_t index, uint64_t bytes, Copy copy) {
        for (const iovec &vector : vectors) {
            auto *at = static_cast<uint8_t *>(vector.iov_base);
            for (uint64_t left = std::min<uint64_t>(vector.iov_len, bytes); left > 0;) {
                const uint64_t place = index & (size_ - 1);
                const uint64_t some = std::min(left, size_ - place);
                copy(at, data_ + place, some);
                at += some, index += some, left -= some, bytes -= some;
            }
            if (bytes == 0) return;
        }
    }
    static uint64_t length(std::span<const iovec> vectors) {
        uint64_t bytes = 0;
        for (const iovec &vector : vectors)
            bytes += vector.iov_len;
        return bytes;
    }

    RingShared<Atomic> &shared_;
    uint8_t *const data_;
    const uint64_t size_;
};

template <template <typename> typename Atomic = std::atomic>
class RingWriter : RingEnd<Atomic> {
public:
    using RingEnd<Atomic>::RingEnd;

    // How much there is room for; more than the ring is long: the reader wrote nonsense. Where it
    // was enough when last looked at, the reader's index is not: its line is the reader's.
    uint64_t room(uint64_t wanted = UINT64_MAX) {
        if (this->size_ - (written_ - read_) < wanted) read_ = this->shared_.read.load();
        return this->size_ - (written_ - read_);
    }
    uint64_t room_for(std::span<const iovec> from) { return room(this->length(from)); }
    bool sane(uint64_t room) const { return room <= this->size_; }

    // Copies as much as there is room for, and publishes it.
    uint64_t write(std::span<const iovec> from, uint64_t room) {
        const uint64_t bytes = std::min(room, this->length(from));
        this->pass(from, written_, bytes, [](const uint8_t *at, uint8_t *to, uint64_t some) {
            std::memcpy(to, at, some);
        });
        written_ += bytes;
        this->shared_.written.store(written_);
        return bytes;
    }
    // After a write: whether the reader has to be woken.
    bool must_ring() {
        return this->shared_.reader_sleeps.load() && this->shared_.reader_sleeps.exchange(0);
    }
    // Before this end sleeps for want of room; false: there is some.
    bool wait(uint64_t wanted = 1) {
        this->shared_.writer_waits.store(1);
        if (room() < wanted) return true;
        this->shared_.writer_waits.store(0);
        return false;
    }

private:
    uint64_t written_ = 0, read_ = 0;  // the reader's, as last seen
};

template <template <typename> typename Atomic = std::atomic>
class RingReader : RingEnd<Atomic> {
public:
    using RingEnd<Atomic>::RingEnd;

    // How much there is; more than the ring is long: the writer wrote nonsense.
    uint64_t there() { return this->shared_.written.load() - read_; }
    bool sane(uint64_t there) const { return there <= this->size_; }

    uint64_t read(std::span<const iovec> into, uint64_t there) {
        const uint64_t bytes = std::min(there, this->length(into));
        this->pass(into, read_, bytes, [](uint8_t *to, const uint8_t *at, uint64_t some) {
            std::memcpy(to, at, some);
        });
        read_ += bytes;
        this->shared_.read.store(read_);
        return bytes;
    }
    // After a read: whether the writer has to be woken.
    bool must_ring() {
        return this->shared_.writer_waits.load() && this->shared_.writer_waits.exchange(0);
    }
    // Before this end sleeps; false: there is something.
    bool sleep() {
        this->shared_.reader_sleeps.store(1);
        announced_ = true;
        if (there() == 0) return true;
        awake();
        return false;
    }
    void awake() {
        if (std::exchange(announced_, false)) this->shared_.reader_sleeps.store(0);
    }

private:
    uint64_t read_ = 0;
    bool announced_ = false;  // that it sleeps
};

}  // namespace xfer::shm
