// SPDX-License-Identifier: Apache-2.0
// The packets of one direction of a byte stream between two ends, as numbers from 0: which of them
// may be sent, which have come, and which the reader has taken. A packet is sent until the other
// end says that it was taken, by whatever carries packets at the time, so that it may come twice
// and out of order. Pure; tests/unit/rdma_packet_window_test.cc has the table.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace xfer::rdma {

constexpr uint32_t kPacketWindow = 64;  // that are sent and not known to be taken

class SendWindow {
public:
    uint64_t next() const { return next_; }  // to be filled
    // Those before it are known to be taken.
    uint64_t taken() const { return taken_; }
    bool has_room() const { return next_ - taken_ < kPacketWindow; }
    void filled() { ++next_; }
    // The other end says so. False: it can't.
    bool on_taken(uint64_t number) {
        if (number > next_) return false;
        taken_ = std::max(taken_, number);
        return true;
    }

private:
    uint64_t next_ = 0, taken_ = 0;
};

class ReceiveWindow {
public:
    enum class Heard : uint8_t {
        fresh,
        again,
        beyond,  // of what was said to be taken: the other end may not have sent it
    };

    Heard look_at(uint64_t number) const {
        if (number < taken_) return Heard::again;
        if (number - told_ >= kPacketWindow) return Heard::beyond;
        return here_[number % kPacketWindow] ? Heard::again : Heard::fresh;
    }
    Heard on_packet(uint64_t number) {
        const Heard heard = look_at(number);
        if (heard == Heard::fresh) here_[number % kPacketWindow] = true;
        return heard;
    }
    uint64_t first() const { return taken_; }  // that is to be read
    bool has_first() const { return here_[taken_ % kPacketWindow]; }
    void take_first() { here_[taken_++ % kPacketWindow] = false; }
    // To be said without a packet that says it as well.
    bool owes_word() const { return taken_ - told_ >= kPacketWindow / 2; }
    // What is said to the other end now.
    uint64_t tell() { return told_ = taken_; }

private:
    uint64_t taken_ = 0, told_ = 0;
    std::array<bool, kPacketWindow> here_{};
};

}  // namespace xfer::rdma
