// SPDX-License-Identifier: Apache-2.0
#include "state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "streams.h"

namespace fake_cuda {

thread_local std::vector<Context *> current;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
thread_local bool in_callback = false;

namespace {

// One thread calls all that applications give, so each of them waits for those of the others.
void run_callbacks() {
    Driver &all = driver();
    std::unique_lock lock(all.mutex);
    for (;;) {
        all.changed.wait(lock, [&] { return !all.callbacks.empty(); });
        const Callback next = std::move(all.callbacks.front());
        all.callbacks.pop_front();
        all.calls_back = true;
        if (!next.is_wanted || next.is_wanted()) {
            lock.unlock();
            in_callback = true;
            next.call();
            in_callback = false;
            lock.lock();
        }
        all.calls_back = false;
        if (next.over) *next.over = true;
        all.changed.notify_all();
    }
}

}  // namespace

Driver &driver() {
    static Driver *const driver = new Driver;  // streams outlive statics
    return *driver;
}

void Driver::call_back(Callback callback) {
    static const bool started = (std::thread(run_callbacks).detach(), true);
    (void)started;
    callbacks.push_back(std::move(callback));
    changed.notify_all();
}

bool Driver::is_behind_a_wait() const {
    return shares && std::any_of(streams.begin(), streams.end(),
                                 [](const Stream *each) { return each->has_wait(); });
}

void Driver::break_captures() {
    for (Stream *each : streams)
        each->broken |= each->captured != nullptr;
}

void die(const char *name, const char *why) {
    std::fprintf(stderr, "%s: %s\n", name, why);
    std::abort();
}

CUresult wrong(const char *what, CUresult result) {
    ++driver().calls["wrong"];
    std::fprintf(stderr, "wrong: %s\n", what);
    return result;
}

void check_alive(const Made &made, const char *name) {
    if (made.is_dead()) die(name, "the context of this handle has gone");
}

Made of_current() {
    Made made;
    made.context = current.back(), made.id = current.back()->id;
    return made;
}

CUresult entered(const char *name, bool needs_context) {
    Driver &all = driver();
    ++all.calls[name];
    if (in_callback)
        return wrong("the driver is called by what it calls", CUDA_ERROR_NOT_PERMITTED);
    const bool looks = std::strcmp(name, "cuPointerGetAttributes") == 0;  // it answers all the same
    if (all.fails_for_good && !looks) return static_cast<CUresult>(all.error);
    if (all.failing == name && --all.fails_in == 0) {
        all.fails_for_good = all.sticky;
        all.failures += all.fails_for_good;
        all.failing.clear();
        return static_cast<CUresult>(all.error);
    }
    if (all.refusing == name) return CUDA_ERROR_INVALID_VALUE;
    if (!needs_context) return CUDA_SUCCESS;
    // In another mode it breaks what the application captures, by whatever thread.
    const bool relaxed = capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!relaxed) all.break_captures();
    if (relaxed && !current.empty()) return CUDA_SUCCESS;
    return wrong(name, CUDA_ERROR_INVALID_CONTEXT);
}

CUresult entered_on(CUstream stream, const char *name, Stream *&on) {
    on = stream_of(stream);
    CUresult result = entered(name);
    if (!on) return CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        check_alive(*on, name);
        if (on->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        if (current.back() != on->context)
            result = wrong("another context is current", CUDA_ERROR_INVALID_CONTEXT);
    }
    if (result != CUDA_SUCCESS) on->broken |= on->captured != nullptr;
    return result;
}

}  // namespace fake_cuda
