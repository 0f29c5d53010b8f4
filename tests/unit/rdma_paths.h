// SPDX-License-Identifier: Apache-2.0
// Two ends with a path between them. Each writes down what it is told, and checks that it is told
// in order and once.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rdma_two_ends.h"

namespace xfer::rdma {

using test::TestOp;

class Side final : public AdapterEnd, AttachedPathSink, PathSink, OneSidedSink, FabricSink {
public:
    struct Done {
        Op *op;
        Status status;
        bool operator==(const Done &) const = default;
    };

    Side(const Verbs &verbs, FakeAdapter &of, const std::string &device, SkippingLoop &loop,
         const QueuePairOptions &options)
        : AdapterEnd(verbs, of, device, loop, options) {
        log.callback = [](uint32_t, const char *line, uint64_t user) {
            reinterpret_cast<Side *>(user)->lines.emplace_back(line);
        };
        log.user = reinterpret_cast<uint64_t>(this);
        fabric->set_sink(*this);
    }

    Status open(bool first) {
        REQUIRE_FALSE(path);
        ready = started = down = closed = false, ended.reset(), down_why.reset();
        auto made = fabric->open({.first = first}, *this);
        if (!made) return made.error().status;
        path = std::move(*made);
        return XFER_OK;
    }
    void add_region(uint64_t number, Octets &bytes, uint32_t access = XFER_READ | XFER_WRITE) {
        ExportedMemory memory;
        memory.base = bytes.data(), memory.length = bytes.size(), memory.access = access;
        regions[number] = memory;
        fabric->add_region({number}, memory);
    }
    // A part of a region, which the fabric hears of when its key is asked for.
    void add_grant(uint64_t number, uint64_t whole, uint64_t offset, uint64_t length,
                   uint32_t access = XFER_READ | XFER_WRITE) {
        ExportedMemory memory;
        memory.base = regions.at(whole).base + offset, memory.length = length;
        memory.access = access, memory.whole = {whole};
        regions[number] = memory;
    }
    Result<ExportKey> key_of(uint64_t number) {
        return path->export_region({number}, regions.at(number));
    }
    bool post(TestOp &op) {
        const bool took = queue(op);
        flush();
        return took;
    }
    // It leaves with a flush, or the next task of the loop.
    bool queue(TestOp &op) {
        op.sent = op.canceled = op.unmapped = false;
        op.import = imports.at(op.remote.region).get();
        in_method = true;
        const bool took = path->post(op);
        in_method = false;
        if (took) posted.insert(&op);
        return took;
    }
    void flush() {
        in_method = true;
        path->flush();
        in_method = false;
    }
    bool cancel(TestOp &op) {
        in_method = true;
        const bool quiet = path->cancel(op);
        in_method = false;
        return quiet;
    }
    // As core does it when the peer says so.
    bool withdraw(uint64_t number) {
        in_method = true;
        if (auto node = imports.extract(number)) path->drop(std::move(node.mapped()));
        const bool quiet = path->withdrawn({number});
        in_method = false;
        return quiet;
    }
    void close(Status why = XFER_ECLOSED) {
        closed = true;
        path->close({why, XFER_ORIGIN_NONE, 0, "the test"});
    }
    bool is_over() const { return !path || ended; }
    Status status_of(const Op &op) const {
        for (const Done &each : done)
            if (each.op == &op) return each.status;
        return 1;  // not done
    }
    size_t times_done(const Op &op) const {
        return static_cast<size_t>(std::count_if(done.begin(), done.end(),
                                                 [&](const Done &each) { return each.op == &op; }));
    }

    void hear(const Octets &message) {
        if (path) path->on_signal(message);
    }

    std::unique_ptr<AttachedPath> path;
    std::map<uint64_t, ExportedMemory> regions;
    std::map<uint64_t, std::unique_ptr<Import>> imports;
    bool starts = true;  // with on_ready
    bool ready = false, started = false, down = false, closed = false;
    std::optional<Failure> ended, down_why;
    std::set<const Op *> posted;
    std::vector<Done> done;
    std::vector<Op *> declined;
    std::vector<uint64_t> dropped, released;
    std::vector<std::pair<uint64_t, uint64_t>> begun;
    std::vector<std::string> lines;   // of the log
    std::function<void(Op &)> on_op;  // done, or declined
    bool in_method = false;

private:
    void send_signal(ConstBytes message) override {
        CHECK_FALSE(ended);
        say(message);
    }
    void on_ready() override {
        CHECK_FALSE(ready);
        CHECK_FALSE(closed);
        ready = true;
        if (!starts) return;
        started = true;
        path->start(*this, *this, 64);
    }
    void on_ended(const Failure &why) override {
        CHECK_FALSE(in_method);
        CHECK_FALSE(ended);
        CHECK(why.status != XFER_OK);
        CHECK(down == started);
        CHECK(posted.empty());
        ended = why;
    }
    void on_done(Op &op, Status status) override {
        note(op);
        done.push_back({&op, status});
        if (on_op) on_op(op);
    }
    void on_declined(Op &op) override {
        note(op);
        declined.push_back(&op);
        if (on_op) on_op(op);
    }
    void note(const Op &op) {
        CHECK_FALSE(in_method);
        CHECK_FALSE(down);
        CHECK(posted.erase(&op) == 1);
    }
    void on_dropped(RegionId region) override {
        CHECK_FALSE(in_method);
        CHECK_FALSE(down);
        dropped.push_back(region.value);
    }
    Status on_access(Dir, const Access &, std::span<const WirePiece>, std::vector<iovec> &,
                     StagedRequest *&) override {
        FAIL_CHECK("nobody asks");
        return XFER_EACCESS;
    }
    void on_served(Dir, uint64_t, NotificationId) override { FAIL_CHECK("nobody is served"); }
    void on_quiesced(Target) override { FAIL_CHECK("nothing is waited for"); }
    void on_unmapped(Target) override { FAIL_CHECK("nothing is looked at"); }
    void on_notification_begun(NotificationId number, uint64_t key) override {
        CHECK_FALSE(down);
        CHECK(posted.empty());
        begun.push_back({number.value, key});
    }
    void on_down(const Failure &why) override {
        CHECK_FALSE(in_method);
        CHECK_FALSE(down);
        CHECK(started);
        CHECK(posted.empty());
        down = true;
        down_why = why;
    }
    void on_released(RegionId region) override { released.push_back(region.value); }
};

struct Paths : TwoEnds<Side> {
    explicit Paths(FakePersonality personality = {}, const FakeAdapterOptions &near_options = {},
                   const FakeAdapterOptions &far_options = {}, const QueuePairOptions &pair = {})
        : TwoEnds(personality, near_options, far_options, pair) {}
    // Whatever was left open is closed.
    ~Paths() {
        let_go();
        close();
        check_nothing_left();
    }

    Status begin(bool far_first = false) {
        EngineLoop::Inside inside(*own);
        const Status one = near->open(!far_first);
        return one == XFER_OK ? far->open(far_first) : one;
    }
    bool both_ready() const { return near->ready && far->ready; }
    void open() {
        REQUIRE(begin() == XFER_OK);
        const bool is_ready = until([&] { return both_ready() || near->ended || far->ended; });
        for (const Side *side : {near.get(), far.get()})
            if (side->ended) MESSAGE(std::string_view(side->ended->message));
        REQUIRE(is_ready);
        REQUIRE(both_ready());
    }
    void close(Side &side) {
        if (side.path && !side.ended) inside([&] { side.close(); });
    }
    // As core does it: when both have ended.
    void close() {
        close(*near);
        close(*far);
        REQUIRE(until_over());
        release();
    }
    bool until_over() {
        return until([&] { return near->is_over() && far->is_over(); });
    }
    void release() {
        EngineLoop::Inside inside(*own);
        for (Side *side : {near.get(), far.get()}) {
            side->path.reset();
            side->to_peer.clear();
            side->imports.clear();
        }
    }
    // A region of `owner` as the other side imports it.
    void share(Side &owner, uint64_t number, Octets &bytes,
               uint32_t access = XFER_READ | XFER_WRITE) {
        inside([&] { owner.add_region(number, bytes, access); });
        import(owner, number);
    }
    void import(Side &owner, uint64_t number) { REQUIRE(try_import(owner, number)); }
    bool try_import(Side &owner, uint64_t number) {
        Side &initiator = &owner == near.get() ? *far : *near;
        std::optional<ExportKey> key;
        REQUIRE(until([&] {
            return inside([&] {
                auto got = owner.key_of(number);
                if (got) key = *got;
                return got || got.error().status != XFER_EAGAIN || owner.is_over();
            });
        }));
        if (!key) return false;
        return inside([&] {
            auto import = initiator.path->import({key->begin(), key->size()});
            if (!import) return false;
            import->region = {number};
            initiator.imports[number] = std::move(import);
            return true;
        });
    }
    bool post(Side &side, TestOp &op) {
        return inside([&] { return side.post(op); });
    }
    // So that bounce buffers or a registration are there for as many bytes.
    void warm_up(Side &side, uint64_t region, Octets &local, uint64_t bytes = 1) {
        for (int i = 0; i < 2'000; ++i) {
            TestOp op(Dir::get, region, {{test::address(local.data()), 0, bytes}});
            REQUIRE(post(side, op));
            REQUIRE(until([&] { return side.posted.empty(); }));
            if (side.times_done(op)) return side.done.clear();
            side.declined.clear();
            own->turn(kNsPerMs);
        }
        FAIL("it stays cold");
    }
};

inline TestOp &make(std::deque<TestOp> &ops, Dir dir, uint64_t region,
                    const std::vector<Piece> &pieces) {
    ops.emplace_back();
    ops.back().make(dir, region, pieces);
    return ops.back();
}

}  // namespace xfer::rdma
