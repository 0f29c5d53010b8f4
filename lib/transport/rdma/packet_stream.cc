// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/packet_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "util/mapped.h"
#include "util/tsan_ignore.h"

namespace xfer::rdma {

namespace {

constexpr uint64_t kWordCookie = uint64_t{1} << 63;

size_t slot_of(uint64_t number) {
    return number % kPacketWindow;
}

Failure broken_stream() {
    return {XFER_EPROTO, XFER_ORIGIN_PEER, 0, "the peer's byte stream by an adapter is broken"};
}

}  // namespace

PacketStream::PacketStream(AdapterFabric &fabric, Loop &loop, const AttachedChannelRequest &request,
                           Owner &owner, WatchSink &ready)
    : loop_(loop),
      owner_(owner),
      ready_sink_(ready),
      memory_(std::make_unique<PacketMemory>()),
      carrier_(fabric, loop, request, *memory_, held_, *this) {}

PacketStream::~PacketStream() = default;

// ---- what carries packets

void PacketStream::say(const PacketSignal &signal) {
    const PacketSignalBytes bytes = encode(signal);
    owner_.send_signal({bytes.begin(), bytes.size()});
}

void PacketStream::on_carrier_up() {
    ready_ = true;
    loop_.defer(*this);
}

// What it had not brought goes by signals, though it may have come; so does what was taken, since
// the word for that may not have.
void PacketStream::on_carrier_lost(const Failure &why, bool for_good) {
    if (for_good) return lose(why);
    sent_ = sends_.taken();
    send_parts();
    send_word();
}

void PacketStream::on_memory_free(bool kept) {
    in_adapter_.fill(false);
    word_in_adapter_.fill(false);
    loop_.defer(*this);
    if (!kept) return;
    [[maybe_unused]] PacketMemory *const left = memory_.release();
    lose({XFER_EIO, XFER_ORIGIN_VERBS, 0, "the adapter keeps the memory of a byte stream"});
}

void PacketStream::on_signal(ConstBytes message) {
    if (closing_ || lost_ || peer_ended_) return;
    auto signal = decode_packet_signal(message);
    if (!signal) return lose(signal.error());
    if (!hear(*signal)) return lose(broken_stream());
    loop_.defer(*this);
}

bool PacketStream::hear(const PacketSignal &signal) {
    switch (signal.kind) {
    case PacketSignal::Kind::part:
        return ready_ && hear_part(signal);
    case PacketSignal::Kind::word:
        return ready_ && sends_.on_taken(signal.number);
    case PacketSignal::Kind::end:
        return hear_end(), true;
    default:
        return carrier_.hear(signal);
    }
}

// What its queue pair has brought by then is heard while that is drained.
void PacketStream::hear_end() {
    if (std::exchange(peer_ended_, true)) return;
    carrier_.close({XFER_EPEERLOST, XFER_ORIGIN_PEER, 0, "the peer's end has closed"});
}

// ---- packets that come

void PacketStream::on_packet(uint32_t buffer, uint32_t bytes) {
    const auto header = decode_packet({memory_->in[buffer], bytes});
    if (!header || !sends_.on_taken(header->taken) || !hear_packet(buffer, *header))
        return lose(broken_stream());
    if (!held_[buffer]) carrier_.post_receive(buffer);
    flush();
    tell();
}

bool PacketStream::hear_packet(uint32_t buffer, const PacketHeader &header) {
    if (header.kind == PacketHeader::Kind::probe) carrier_.hear_probe();
    if (header.kind != PacketHeader::Kind::data) return true;
    const ReceiveWindow::Heard heard = receives_.on_packet(header.number);
    if (heard == ReceiveWindow::Heard::beyond) return false;
    if (heard == ReceiveWindow::Heard::again) return true;
    Arrived &arrived = arrived_[slot_of(header.number)];
    arrived.length = header.length;
    arrived.buffer = buffer;
    arrived.bytes = memory_->in[buffer] + PacketHeader::kSize;
    arrived.parts = {};
    held_[buffer] = true;
    return true;
}

// The parts of a packet come in order. It may have come whole by then.
bool PacketStream::hear_part(const PacketSignal &part) {
    const ReceiveWindow::Heard heard = receives_.look_at(part.number);
    if (heard == ReceiveWindow::Heard::beyond) return false;
    if (heard == ReceiveWindow::Heard::again) return true;
    Arrived &arrived = arrived_[slot_of(part.number)];
    if (part.offset == 0) {
        arrived.parts.clear();
        arrived.parts.reserve(part.length);
        arrived.length = part.length;
    }
    if (arrived.parts.size() != part.offset || arrived.length != part.length) return false;
    arrived.parts.insert(arrived.parts.end(), part.bytes.begin(), part.bytes.end());
    arrived.bytes = nullptr;
    if (arrived.parts.size() == part.length) receives_.on_packet(part.number);
    return true;
}

ssize_t PacketStream::read(std::span<const iovec> into) {
    if (!receives_.has_first() && has_hung_up()) return 0;
    if (!receives_.has_first() || !are_mapped(into)) {
        errno = receives_.has_first() ? EFAULT : EAGAIN;
        return -1;
    }
    const TsanIgnore copies;
    size_t bytes = 0;
    for (const iovec &vector : into) {
        auto *to = static_cast<uint8_t *>(vector.iov_base);
        for (size_t left = vector.iov_len; left > 0 && receives_.has_first();) {
            const Arrived &first = arrived_[slot_of(receives_.first())];
            const size_t now = std::min<size_t>(left, first.length - read_);
            std::memcpy(to, first.data() + read_, now);
            to += now, left -= now, bytes += now;
            read_ += static_cast<uint32_t>(now);
            if (read_ == first.length) take_first();
        }
    }
    if (receives_.owes_word()) send_word();
    return static_cast<ssize_t>(bytes);
}

void PacketStream::take_first() {
    Arrived &first = arrived_[slot_of(receives_.first())];
    receives_.take_first();
    read_ = 0;
    first.parts = {};
    if (!std::exchange(first.bytes, nullptr)) return;
    held_[first.buffer] = false;
    carrier_.post_receive(first.buffer);
}

// ---- packets that go

bool PacketStream::can_fill() const {
    return is_open() && sends_.has_room() && !in_adapter_[slot_of(sends_.next())];
}

ssize_t PacketStream::write(std::span<const iovec> from) {
    if (!can_fill() || !are_mapped(from)) {
        errno = lost_ || has_hung_up() ? EPIPE : can_fill() ? EFAULT : EAGAIN;
        return -1;
    }
    size_t bytes = 0, vector = 0, offset = 0;
    while (can_fill()) {
        const uint32_t filled = fill(from, vector, offset);
        if (filled == 0) break;
        lengths_[slot_of(sends_.next())] = filled;
        sends_.filled();
        bytes += filled;
    }
    flush();
    return static_cast<ssize_t>(bytes);
}

// The next packet, from there on.
uint32_t PacketStream::fill(std::span<const iovec> from, size_t &vector, size_t &offset) {
    const TsanIgnore copies;
    uint8_t *const to = memory_->out[slot_of(sends_.next())] + PacketHeader::kSize;
    uint32_t filled = 0;
    while (vector < from.size() && filled < kPacketData) {
        const size_t left = from[vector].iov_len - offset;
        const size_t now = std::min<size_t>(left, kPacketData - filled);
        if (now > 0)
            std::memcpy(to + filled, static_cast<uint8_t *>(from[vector].iov_base) + offset, now);
        filled += static_cast<uint32_t>(now);
        offset += now;
        if (now == left) ++vector, offset = 0;
    }
    return filled;
}

void PacketStream::flush() {
    if (carrier_.is_up())
        post_packets();
    else
        send_parts();
}

// The queue pair may break in this: then they have gone by signals.
void PacketStream::post_packets() {
    FixedVector<PacketLink::Outgoing, kPacketWindow> packets;
    const uint64_t first = sent_;
    for (uint64_t number = first; number != sends_.next(); ++number) {
        const size_t slot = slot_of(number);
        uint8_t *const packet = memory_->out[slot];
        encode({.kind = PacketHeader::Kind::data,
                .length = static_cast<uint16_t>(lengths_[slot]),
                .number = number,
                .taken = receives_.first()},
               packet);
        packets.push_back({packet, lengths_[slot] + PacketHeader::kSize, number});
        in_adapter_[slot] = true;
    }
    if (packets.empty()) return;
    const uint32_t posted = carrier_.post({packets.begin(), packets.size()});
    if (posted > 0) receives_.tell();
    sent_ = std::max(sent_, first + posted);
}

void PacketStream::send_parts() {
    while (is_open() && sent_ < sends_.next()) {
        const uint64_t number = sent_++;  // what is said may bring us here again
        const size_t slot = slot_of(number);
        PacketSignal part;
        part.kind = PacketSignal::Kind::part;
        part.number = number;
        part.length = static_cast<uint16_t>(lengths_[slot]);
        for (uint32_t at = 0; at < lengths_[slot]; at += PacketSignal::kPartBytes) {
            const size_t bytes = std::min<size_t>(PacketSignal::kPartBytes, lengths_[slot] - at);
            part.offset = static_cast<uint16_t>(at);
            part.bytes = {memory_->out[slot] + PacketHeader::kSize + at, bytes};
            say(part);
        }
    }
}

// By signals where the queue pair has no room for it, too.
void PacketStream::send_word() {
    if (!is_open() || (carrier_.is_up() && post_word())) return;
    PacketSignal word;
    word.kind = PacketSignal::Kind::word;
    word.number = receives_.tell();
    say(word);
}

bool PacketStream::post_word() {
    const auto free = std::find(word_in_adapter_.begin(), word_in_adapter_.end(), false);
    if (free == word_in_adapter_.end()) return false;
    const auto index = static_cast<size_t>(free - word_in_adapter_.begin());
    uint8_t *const word = memory_->words[index];
    encode({.kind = PacketHeader::Kind::word, .taken = receives_.first()}, word);
    const PacketLink::Outgoing packet{word, PacketHeader::kSize, kWordCookie | index};
    *free = true;
    if (carrier_.post({&packet, 1}) == 0) return *free = false;
    receives_.tell();
    return true;
}

void PacketStream::on_read(uint64_t cookie) {
    if (cookie & kWordCookie)
        word_in_adapter_[cookie & ~kWordCookie] = false;
    else
        in_adapter_[slot_of(cookie)] = false;
    flush();
    tell();
}

bool PacketStream::delivered() const {
    const bool in_adapter =
        std::find(in_adapter_.begin(), in_adapter_.end(), true) != in_adapter_.end();
    return lost_ || (sent_ == sends_.next() && !in_adapter);
}

// ---- who reads and writes is told

void PacketStream::want(uint32_t readiness_wanted) {
    wanted_ = readiness_wanted;
    if (readiness() & wanted_) loop_.defer(*this);
}

uint32_t PacketStream::readiness() const {
    return (receives_.has_first() || has_hung_up() ? uint32_t{kReadable} : 0u) |
           (can_fill() || has_hung_up() ? uint32_t{kWritable} : 0u);
}

void PacketStream::tell() {
    if (const uint32_t now = readiness() & wanted_; now && !closing_) ready_sink_.on_ready(now);
}

// ---- its end

void PacketStream::lose(const Failure &why) {
    if (closing_ || std::exchange(lost_, true)) return;
    why_ = why;
    carrier_.close(why);
    loop_.defer(*this);
}

void PacketStream::close(const Failure &why) {
    if (std::exchange(closing_, true)) return;
    wanted_ = 0;
    if (ready_ && !peer_ended_) {
        PacketSignal last;
        last.kind = PacketSignal::Kind::end;
        say(last);
    }
    carrier_.close(why);
    loop_.defer(*this);
}

void PacketStream::on_carrier_over() {
    over_ = true;
    loop_.defer(*this);
}

void PacketStream::run() {
    if (closing_) {
        if (std::exchange(over_, false)) owner_.on_stream_over();
        return;
    }
    if (is_open() && !std::exchange(told_ready_, true)) owner_.on_stream_ready();
    flush();
    tell();
    if (lost_ && !closing_ && !std::exchange(told_lost_, true)) owner_.on_stream_lost(why_);
}

}  // namespace xfer::rdma
