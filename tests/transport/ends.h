// SPDX-License-Identifier: Apache-2.0
// Two ends of a channel that have met, over any transport: `here` puts into and gets from `memory`,
// which lies behind `there`. Those of a loopback are one and the same. Of the paths of the channel
// one is tried: that by which requests go, or the one-sided one, to the keys of which the two help
// each other here.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recording_sink.h"

namespace xfer::test {

constexpr uint64_t kRegion = 7;
constexpr uint8_t kRewritten = 0xee;  // no pattern of ours has two of them in a row

inline bool has_rewritten(const uint8_t *at, size_t bytes) {
    for (size_t i = 0; i + 8 <= bytes; i += 8)
        if (std::all_of(at + i, at + i + 8, [](uint8_t byte) { return byte == kRewritten; }))
            return true;
    return false;
}

class Ends {
public:
    explicit Ends(bool one_sided = false) : one_sided(one_sided) {}
    virtual ~Ends() = default;
    virtual bool until(const std::function<bool()> &condition) = 0;  // in five seconds
    virtual void turn() = 0;
    virtual uint64_t now() = 0;
    virtual RecordingSink &there() { return there_; }
    virtual Channel &back() { return *accepted_; }

    const bool one_sided;
    RecordingSink here;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Import> imported;  // of the region, by a path that is one-sided
    std::vector<uint8_t> memory = std::vector<uint8_t>(8 << 20);
    std::vector<const Op *> declined;

    void fill_memory(const std::vector<uint8_t> &bytes) {  // where it is
        std::copy(bytes.begin(), bytes.end(), memory.begin());
    }
    void pass(int turns) {
        for (int i = 0; i < turns; ++i)
            turn();
    }
    // No call may come from inside a method.
    template <typename Call>
    auto inside(Call call) {
        here.in_method = there().in_method = true;
        auto result = call();
        here.in_method = there().in_method = false;
        return result;
    }

    // ---- the channel
    void get_to_know(bool listens = true);  // strangers end their handshake
    void adopt(DetachedChannel ticket);     // in the place of the accepted one

    // ---- the path that is tried, at either end
    Path &path() { return path_of(*channel); }
    Path &owner() { return path_of(back()); }
    OneSidedPath &side() { return *channel->one_sided(); }
    OneSidedPath &owner_side() { return *back().one_sided(); }
    bool takes(Op &op) {  // false: it is full, or has ended
        op.import = imported.get();
        return path().post(op);
    }
    void post(Op &op) {
        REQUIRE(inside([&] { return takes(op); }));
    }
    void post(Op &op, const Import &import) {
        op.import = &import;
        REQUIRE(inside([&] { return path().post(op); }));
    }
    bool cancel(Op &op) { return path().cancel(op); }
    void flush() {
        inside([&] { return path().flush(), true; });
    }
    ExportKey key_of(uint64_t region);
    std::unique_ptr<Import> import(ConstBytes key) {
        return inside([&] { return side().import(key); });
    }
    void drop(std::unique_ptr<Import> import) {
        inside([&] { return side().drop(std::move(import)), true; });
    }
    // The owner ends the region, and waits until it is quiet.
    void end_region() {
        there().regions.erase(kRegion);
        const bool quiet = inside([&] { return owner().retire(RegionId{kRegion}, XFER_ESTALE); });
        if (!quiet) REQUIRE(until([&] { return !there().quiet.empty(); }));
    }

    // ---- what became of an operation: it has ended, or was declined
    bool all_done(size_t count) {
        return until([&] { return here.done.size() + declined.size() >= count; });
    }
    void forget() {  // what has been: another op may be where one was
        here.done.clear();
        declined.clear();
    }
    bool is_done(const Op &op) const { return times_done(op) != 0; }
    bool is_declined(const Op &op) const {
        return std::find(declined.begin(), declined.end(), &op) != declined.end();
    }
    int times_done(const Op &op) const {
        auto times = std::count(declined.begin(), declined.end(), &op);
        for (const RecordingSink::Done &done : here.done)
            times += done.op == &op;
        return static_cast<int>(times);
    }
    Status status_of(const Op &op) const {
        for (const RecordingSink::Done &done : here.done)
            if (done.op == &op) return done.status;
        return XFER_EINTERNAL;
    }
    // What the owner says to a request, a path that is one-sided leaves to another.
    bool is_refused(const Op &op, Status why) const {
        return one_sided ? is_declined(op) : status_of(op) == why;
    }

protected:
    virtual Transport *transport() { return nullptr; }
    void meet();  // after the dial
    void part();
    void lend();
    RecordingSink there_;
    std::unique_ptr<Channel> accepted_;

private:
    Path &path_of(Channel &end) { return one_sided ? *end.one_sided() : end.path(); }
};

// By XFER_TEST_ENDS, one of the names in ends.cc; tcp if it is not set. Strangers have dialed, and
// said nothing yet.
std::unique_ptr<Ends> make_ends();
std::unique_ptr<Ends> make_strangers();
bool is_loopback();
// Their frames go by queue pairs, on adapters that there is only the table of.
std::unique_ptr<Ends> make_adapter_ends();

}  // namespace xfer::test
