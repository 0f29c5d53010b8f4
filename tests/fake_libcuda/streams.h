// SPDX-License-Identifier: Apache-2.0
// Streams: work in order, each in a thread of its own.
#pragma once

#include <chrono>
#include <thread>

#include "state.h"

namespace fake_cuda {

struct Event : Made {
    unsigned recorded = 0, over = 0;  // how often
};

struct Work {
    enum class Kind {
        device,   // not done once its context has failed
        wait,     // the same, for memory
        host,     // the same, called by the driver's thread
        mark,     // done as long as the context is there
        cleanup,  // done in any case
    };
    Kind kind;
    std::function<bool()> go;  // false: not yet
    unsigned failures = 0;     // of the context, when it came into its stream
};

struct Stream : Made {
    std::chrono::steady_clock::time_point not_before{};  // its work goes on
    std::deque<Work> work;
    bool stopping = false, busy = false, of_library = false;
    bool held = false;
    bool waits = false;         // for memory that is not yet as it should be
    Graph *captured = nullptr;  // what it captures
    bool broken = false;        // that is no graph any more
    std::thread thread{[this] { run(); }};

    void add(std::function<void()> what, Work::Kind kind = Work::Kind::device);
    // Where the stream captures, it is a node of the graph.
    void add(Work what);
    void push(Work what);  // captured or not
    bool is_idle() const { return work.empty() && !busy; }
    bool has_wait() const;  // somewhere in its work

private:
    void run();
    bool is_stuck() const;
    bool may_go(const Work &next) const;
    bool go(const Work &next, std::unique_lock<std::mutex> &lock);
};

bool is_default(CUstream stream);
// Null: none that is known.
Stream *stream_of(CUstream stream);
Stream *stream_of(void *stream);
Stream *application_stream();

}  // namespace fake_cuda
