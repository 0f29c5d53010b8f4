// SPDX-License-Identifier: Apache-2.0
// What the tests of channels share: a sink that writes everything down, memory that it lets the
// peer touch, and operations to post.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "loop/own_loop.h"
#include "transport/transport.h"

namespace xfer::test {

constexpr uint64_t kKey = 0x1122334455667788;

class RecordingSink : public ChannelSink, public PathSink, public OneSidedSink {
public:
    struct Done {
        Op *op;
        Status status;
    };
    struct Control {
        Frame frame;
        std::vector<uint8_t> body;
    };

    void on_up() override {
        note();
        up = true;
    }
    void on_hello(ConstBytes message) override {
        note();
        hellos.emplace_back(message.begin(), message.end());
        if (hello_hook) hello_hook();
    }
    void on_control(const Frame &frame, ConstBytes body) override {
        note();
        controls.push_back({frame, {body.begin(), body.end()}});
        if (control_hook) control_hook();
    }
    void on_done(Op &op, Status status) override {
        note();
        done.push_back({&op, status});
        if (done_hook) done_hook(op, status);
    }
    Status on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                     std::vector<iovec> &out, StagedRequest *&staged) override {
        CHECK(!down);
        ++accesses;
        auto found = regions.find(access.region);
        if (found == regions.end()) return XFER_ESTALE;
        if (access.key != kKey) return XFER_EACCESS;
        std::vector<uint8_t> &memory = *found->second;
        for (const WirePiece &piece : pieces)
            if (piece.offset > memory.size() || piece.length > memory.size() - piece.offset)
                return XFER_ERANGE;
        for (const WirePiece &piece : pieces)
            if (dir == Dir::atomic && piece.offset % kAtomicWidth) return XFER_EINVAL;
        for (const WirePiece &piece : pieces)
            out.push_back({memory.data() + piece.offset, piece.length});
        last_dir = dir;
        if (stage_hook) staged = stage_hook(dir, out);
        return XFER_OK;
    }
    void on_declined(Op &op) override {
        note();
        REQUIRE(declined_hook);
        declined_hook(op);
    }
    void on_dropped(RegionId) override { note(); }
    // What the owner's core would find to be exported.
    ExportedMemory memory_of(uint64_t region) const {
        ExportedMemory memory = lies_in;
        memory.base = regions.at(region)->data();
        memory.length = regions.at(region)->size();
        memory.access = export_access;
        return memory;
    }
    void on_served(Dir dir, uint64_t bytes, NotificationId) override {
        CHECK(!down);
        if (dir != Dir::atomic) (dir == Dir::put ? served_put : served_get) += bytes;
        ++served;
    }
    void on_quiesced(Target target) override {
        note();
        quiet.push_back(target.wire());
    }
    void on_unmapped(Target target) override {
        CHECK(!down);
        unmapped.push_back(target.wire());
    }
    void on_notification_begun(NotificationId notification, uint64_t key) override {
        note();
        unseen.push_back({notification.value, key});
    }
    void on_down(const Failure &) override {
        note();
        ++paths_down;
    }
    void on_closed(const Failure &why) override {
        note();
        down = why;
    }

    bool up = false;
    std::vector<std::vector<uint8_t>> hellos;
    std::vector<Control> controls;
    std::vector<Done> done;
    std::vector<uint64_t> quiet, unmapped;
    std::vector<std::pair<uint64_t, uint64_t>> unseen;
    std::optional<Failure> down;
    int paths_down = 0;
    uint64_t served = 0, served_put = 0, served_get = 0, accesses = 0;
    Dir last_dir = Dir::put;
    std::map<uint64_t, std::vector<uint8_t> *> regions;
    ExportedMemory lies_in;  // but for base, length and access
    uint32_t export_access = XFER_READ | XFER_WRITE | XFER_ATOMIC;
    std::function<void()> hello_hook, control_hook;
    std::function<void(Op &, Status)> done_hook;
    std::function<void(Op &)> declined_hook;
    // Where it answers, the request is of a device.
    std::function<StagedRequest *(Dir, std::vector<iovec> &)> stage_hook;
    bool in_method = false;  // no call may come while this is set

private:
    void note() {
        CHECK(!in_method);
        CHECK(!down);
    }
};

// What the core of an end does with a channel that may have a path without the owner's help.
inline void start(Channel &channel, RecordingSink &sink) {
    channel.start(sink, 64, 64);
    OneSidedPath *path = channel.one_sided();
    if (!path) return;
    path->start(sink, sink, 64);
    sink.declined_hook = [&channel](Op &op) {
        op.import = nullptr;
        REQUIRE(channel.path().post(op));
        channel.path().flush();
    };
}
inline Path &path_of(Channel &channel, const Op &op) {
    return op.import ? *channel.one_sided() : channel.path();
}
inline void flush(Channel &channel) {
    channel.path().flush();
    if (channel.one_sided()) channel.one_sided()->flush();
}
// False: not quiet yet.
inline bool retire(Channel &channel, Target target, Status why) {
    const bool quiet = channel.path().retire(target, why);
    return (!channel.one_sided() || channel.one_sided()->retire(target, why)) && quiet;
}
// What the cores of both ends do for a region: the owner exports it, the initiator imports it.
inline std::unique_ptr<Import> share(Channel &owner, const RecordingSink &sink, Channel &initiator,
                                     uint64_t region) {
    auto key = owner.one_sided()->export_region({region}, sink.memory_of(region));
    REQUIRE(key);
    return initiator.one_sided()->import({(*key).begin(), (*key).size()});
}

// An operation with the list that it moves.
struct TestOp : Op {
    PieceList pieces_list;
    void make(Dir direction, uint64_t region, const std::vector<Piece> &ranges,
              uint64_t key = kKey) {
        dir = direction;
        for (const Piece &range : ranges)
            pieces_list.add(direction, 0, range);
        list = &pieces_list;
        remote = {region, 1, key};
        std::vector<Piece> drawn;
        Cursor at;
        bytes = static_cast<uint32_t>(pieces_list.draw(at, kMaxChunk, kMaxPieces, drawn));
        pieces = static_cast<uint32_t>(drawn.size());
    }
    TestOp() = default;
    TestOp(Dir direction, uint64_t region, const std::vector<Piece> &ranges, uint64_t key = kKey) {
        make(direction, region, ranges, key);
    }
};

// One that is done to the 8 bytes at `offset`.
struct TestAtomic : TestOp {
    TestAtomic(AtomicOp op, uint64_t offset, uint64_t operand, uint64_t compare = 0,
               uint64_t region = 7, uint64_t key = kKey)
        : TestOp(Dir::atomic, region, {{0, offset, kAtomicWidth}}, key) {
        atomic = {op, operand, compare};
        last = true;
    }
};

inline uint64_t address(const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
}

inline std::vector<uint8_t> pattern(size_t size, uint32_t seed) {
    std::vector<uint8_t> bytes(size);
    uint32_t state = seed * 2654435761u + 1;
    for (uint8_t &byte : bytes) {
        state = state * 1664525u + 1013904223u;
        byte = static_cast<uint8_t>(state >> 24);
    }
    return bytes;
}

// Turns the loop until `condition` holds; false after a minute without.
template <typename Condition>
bool turn_until(OwnLoop &loop, Condition condition) {
    const uint64_t limit = 60'000 * kNsPerMs;
    const uint64_t begin = loop.now();
    while (!condition()) {
        if (loop.now() - begin > limit) return false;
        loop.turn(10 * kNsPerMs);
    }
    return true;
}

inline void turn_some(OwnLoop &loop, int turns = 5) {
    for (int i = 0; i < turns; ++i)
        loop.turn(kNsPerMs);
}

}  // namespace xfer::test
