// SPDX-License-Identifier: Apache-2.0
// What the fake driver knows, and how each of its calls begins. All of it under one lock.
#pragma once

#include <cudaTypedefs.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake_cuda {

struct Stream;
struct Event;
struct Graph;
struct Exec;

struct Context {
    unsigned long long id;  // another one after each reset
    bool is_there;
};

struct Allocation {
    size_t size;
    uint8_t *alias;  // where the driver itself reads and writes it
    uint64_t id;
    Context *context;
    bool managed = false;
    bool mapped = false;  // by cuMemMap: a reservation with two mappings, half of it each
    bool holes[2] = {};   // where there was one

    bool has(uint64_t offset, uint64_t length) const {
        if (offset + length > size) return false;
        return !(holes[0] && offset < size / 2) && !(holes[1] && offset + length > size / 2);
    }
};

// What was made in a context, and is dead when that has gone.
struct Made {
    const Context *context = nullptr;
    unsigned long long id = 0;

    bool is_dead() const { return !context->is_there || context->id != id; }
};

// Host memory that was registered.
struct Pinned : Made {
    size_t size = 0;
    unsigned flags = 0;
};

// What an application gave, to be called by the driver's thread, without its lock.
struct Callback {
    std::function<void()> call;
    std::function<bool()> is_wanted;  // none: always
    bool *over = nullptr;
};

struct Driver {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<uint64_t, Allocation> allocations;  // by address
    std::map<uint64_t, Pinned> pinned;           // by address
    // What nobody destroys went with its context.
    std::set<Stream *> streams;
    std::set<Event *> events;
    std::set<Graph *> graphs;
    std::set<Exec *> execs;
    std::map<std::string, unsigned> calls;
    std::string failing, lacking, refusing;
    int fails_in = 0, error = 0, sticky = 0;
    bool held = false, copies_held = false, fails_for_good = false;
    bool shares = false;    // one queue of the device for all streams
    unsigned failures = 0;  // for good: what was begun before one goes no further
    uint64_t last_id = 0;
    Context primary{1, true}, own{0, false};  // own: that of cuCtxCreate
    unsigned long long last_context = 1;
    int retained = 0;         // by the library
    bool has_primary = true;  // the application
    bool without_context = false;
    Stream *application = nullptr;  // both default streams
    bool concurrent = true;         // the CPU and kernels in managed memory
    std::deque<Callback> callbacks;
    bool calls_back = false;  // now
    // What is never called, as its context failed: whatever that has stays the driver's.
    std::vector<std::function<bool()>> never_called;

    void begin_primary() {
        if (!primary.is_there) primary = {++last_context, true};
    }
    // What the application's memory comes to be of.
    Context *of_application() {
        if (own.is_there) return &own;
        if (has_primary) begin_primary();
        return &primary;
    }
    void end(Context &context) {
        context.is_there = false;
        std::erase_if(allocations, [&](const auto &one) { return one.second.context == &context; });
        changed.notify_all();
    }

    uint8_t *alias_of(uint64_t address, uint64_t length);      // null: not all of it is allocated
    const Pinned *pinned_at(uint64_t address, size_t length);  // null: not all of it is registered
    // What a kernel reads and writes there; null: it would fault.
    uint8_t *seen_by_kernels(const void *memory, size_t length);
    void call_back(Callback callback);
    bool is_behind_a_wait() const;
    void break_captures();
};

Driver &driver();

extern thread_local std::vector<Context *> current;
extern thread_local CUstreamCaptureMode capture_mode;
extern thread_local bool in_callback;

// A driver may crash here, or do it to what is the application's by now.
[[noreturn]] void die(const char *name, const char *why);

// What a driver would not forgive.
CUresult wrong(const char *what, CUresult result = CUDA_ERROR_INVALID_VALUE);

void check_alive(const Made &made, const char *name);
Made of_current();

// Counts the call, and says what a test has it say.
CUresult entered(const char *name, bool needs_context = true);
// The same of one that goes into a stream: what is refused there breaks a capture.
CUresult entered_on(CUstream stream, const char *name, Stream *&on);

#define ENTER(...)                                    \
    std::unique_lock lock(fake_cuda::driver().mutex); \
    if (const CUresult refused = entered(__VA_ARGS__); refused != CUDA_SUCCESS) return refused

#define ENTER_ON(stream, name)                                                          \
    std::unique_lock lock(fake_cuda::driver().mutex);                                   \
    Stream *on = nullptr;                                                               \
    if (const CUresult refused = entered_on(stream, name, on); refused != CUDA_SUCCESS) \
    return refused

}  // namespace fake_cuda
