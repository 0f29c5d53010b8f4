// SPDX-License-Identifier: Apache-2.0
// A loop that forwards all to another: the base of those that change some of it.
#pragma once

#include "loop/own_loop.h"

namespace xfer {

class ForwardingLoop : public Loop {
public:
    explicit ForwardingLoop(OwnLoop &inner) : inner_(inner) {}
    uint64_t now() override { return inner_.now(); }
    uint64_t clock() override { return inner_.clock(); }
    void arm(Timer &timer, uint64_t due) override { inner_.arm(timer, due); }
    void disarm(Timer &timer) override { inner_.disarm(timer); }
    void defer(Task &task) override { inner_.defer(task); }
    void expect(uint64_t until) override { inner_.expect(until); }
    std::unique_ptr<Watch> watch(int fd, WatchSink &sink, uint32_t wanted) override {
        return inner_.watch(fd, sink, wanted);
    }
    void look_at(Poller &poller) override { inner_.look_at(poller); }
    std::unique_ptr<Resolving> resolve(const std::string &host, ResolveSink &sink) override {
        return inner_.resolve(host, sink);
    }
    void set_wake_sink(WakeSink &sink) override { inner_.set_wake_sink(sink); }
    void wake() override { inner_.wake(); }

protected:
    OwnLoop &inner_;
};

}  // namespace xfer
