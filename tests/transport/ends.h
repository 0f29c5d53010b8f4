// SPDX-License-Identifier: Apache-2.0
// Two ends of a channel that have met, over any transport: `here` puts into and gets from `memory`,
// which lies behind `there`. Those of a loopback are one and the same.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "recording_sink.h"

namespace xfer::test {

constexpr uint64_t kRegion = 7;

class Ends {
public:
    virtual ~Ends() = default;
    virtual bool until(const std::function<bool()> &condition) = 0;  // in five seconds
    virtual void turn() = 0;
    virtual RecordingSink &there() { return there_; }
    virtual Channel &back() { return *accepted_; }

    RecordingSink here;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<Import> imported;  // of the region, where it is reached without its owner
    std::vector<uint8_t> memory = std::vector<uint8_t>(8 << 20);

    void fill_memory(const std::vector<uint8_t> &bytes) {  // where it is
        std::copy(bytes.begin(), bytes.end(), memory.begin());
    }
    void pass(int turns) {
        for (int i = 0; i < turns; ++i)
            turn();
    }
    void lend() { there().regions[kRegion] = &memory; }
    // No call may come from inside the channel's methods.
    template <typename Call>
    auto inside(Call call) {
        here.in_method = there().in_method = true;
        auto result = call();
        here.in_method = there().in_method = false;
        return result;
    }
    bool takes(Op &op) {  // false: its path is full, or has ended
        op.import = op.remote.region == kRegion && op.remote.key == kKey ? imported.get() : nullptr;
        return path_of(*channel, op).post(op);
    }
    void post(Op &op) {
        REQUIRE(inside([&] { return takes(op); }));
    }
    bool cancel(Op &op) { return path_of(*channel, op).cancel(op); }
    void flush() {
        inside([&] { return test::flush(*channel), true; });
    }
    bool all_done(size_t count) {
        return until([&] { return here.done.size() >= count; });
    }
    bool is_done(const Op &op) const { return times_done(op) != 0; }
    int times_done(const Op &op) const {
        int times = 0;
        for (const RecordingSink::Done &done : here.done)
            times += done.op == &op;
        return times;
    }
    Status status_of(const Op &op) const {
        for (const RecordingSink::Done &done : here.done)
            if (done.op == &op) return done.status;
        return XFER_EINTERNAL;
    }
    // The owner ends the region, and waits until it is quiet.
    void end_region() {
        there().regions.erase(kRegion);
        const bool quiet = inside([&] { return retire(back(), RegionId{kRegion}, XFER_ESTALE); });
        if (!quiet) REQUIRE(until([&] { return !there().quiet.empty(); }));
    }

protected:
    void meet();  // after the dial
    void part();
    RecordingSink there_;
    std::unique_ptr<Channel> accepted_;
};

// By XFER_TEST_TRANSPORT: loopback, tcp, unix, shm, shm-shown (the region is
// imported, and copied without its owner), sim; tcp if it is not set.
std::unique_ptr<Ends> make_ends();
bool is_loopback();

}  // namespace xfer::test
