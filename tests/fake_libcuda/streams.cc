// SPDX-License-Identifier: Apache-2.0
#include "streams.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "calls.h"
#include "graphs.h"

namespace fake_cuda {

using std::chrono::microseconds;

void Stream::add(std::function<void()> what, Work::Kind kind) {
    add(Work{kind, [what = std::move(what)] { return what(), true; }});
}

void Stream::add(Work what) {
    if (captured)
        captured->nodes.push_back(std::move(what));
    else
        push(std::move(what));
}

void Stream::push(Work what) {
    what.failures = driver().failures;
    work.push_back(std::move(what));
    driver().changed.notify_all();
}

bool Stream::has_wait() const {
    return !is_dead() && std::any_of(work.begin(), work.end(), [](const Work &each) {
        return each.kind == Work::Kind::wait;
    });
}

bool Stream::is_stuck() const {
    if (driver().held || held) return true;
    return of_library && (driver().copies_held || driver().is_behind_a_wait());
}

bool Stream::may_go(const Work &next) const {
    if (next.kind == Work::Kind::cleanup) return true;
    if (is_dead()) return false;
    return next.kind == Work::Kind::mark || next.failures == driver().failures;
}

bool Stream::go(const Work &next, std::unique_lock<std::mutex> &lock) {
    if (next.kind != Work::Kind::host) return !may_go(next) || next.go();
    bool over = false;
    driver().call_back({[&] { next.go(); },
                        [&] {
                            if (may_go(next)) return true;
                            driver().never_called.push_back(next.go);
                            return false;
                        },
                        &over});
    driver().changed.wait(lock, [&] { return over; });
    return true;
}

// Nobody tells of a word that has changed: a stream that waits looks again and again, less and less
// often.
void Stream::run() {
    Driver &all = driver();
    std::unique_lock lock(all.mutex);
    microseconds pause{50};
    for (;;) {
        all.changed.wait(lock, [&] { return stopping || (!work.empty() && !is_stuck()); });
        if (work.empty()) return;
        if (std::chrono::steady_clock::now() < not_before) {
            all.changed.wait_until(lock, not_before);
            continue;
        }
        busy = true;
        waits = !go(work.front(), lock);
        busy = false;
        if (waits) {
            lock.unlock();
            std::this_thread::sleep_for(pause);
            pause = std::min(pause * 5 / 4, microseconds(1000));
            lock.lock();
            continue;
        }
        pause = microseconds{50};
        work.pop_front();
        all.changed.notify_all();
    }
}

Stream *application_stream() {
    Driver &all = driver();
    if (all.application) return all.application;
    all.application = new Stream;
    static_cast<Made &>(*all.application) = {&all.primary, all.primary.id};
    all.streams.insert(all.application);
    return all.application;
}

Stream *stream_of(void *stream) {
    auto *const found = static_cast<Stream *>(stream);
    return driver().streams.count(found) ? found : nullptr;
}

bool is_default(CUstream stream) {
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

Stream *stream_of(CUstream stream) {
    return is_default(stream) ? application_stream() : stream_of(static_cast<void *>(stream));
}

// ---- the library's calls

CUresult stream_create(CUstream *stream, unsigned flags) {
    ENTER("cuStreamCreate");
    if (flags != CU_STREAM_NON_BLOCKING) wrong("a stream that waits for the default one");
    auto *const made = new Stream;
    static_cast<Made &>(*made) = of_current();
    made->of_library = true;
    driver().streams.insert(made);
    *stream = reinterpret_cast<CUstream>(made);
    return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream stream) {
    auto *const ended = reinterpret_cast<Stream *>(stream);
    {
        ENTER("cuStreamDestroy");
        check_alive(*ended, "cuStreamDestroy");
        if (!ended->is_idle()) wrong("a stream is destroyed with work");
        ended->stopping = true;
        driver().streams.erase(ended);
        driver().changed.notify_all();
    }
    ended->thread.join();
    delete ended;
    return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream stream) {
    ENTER_ON(stream, "cuStreamSynchronize");
    if (on->captured) {
        on->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    driver().changed.wait(lock, [&] { return on->is_dead() || on->is_idle(); });
    return on->is_dead() ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

// Of a default stream it is the current one.
CUresult stream_context(CUstream stream, CUcontext *context) {
    ENTER("cuStreamGetCtx", false);
    const Stream *const asked = stream_of(stream);
    if (!asked) return CUDA_ERROR_INVALID_HANDLE;
    if (is_default(stream) && current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    check_alive(*asked, "cuStreamGetCtx");
    *context = reinterpret_cast<CUcontext>(const_cast<Context *>(asked->context));
    return CUDA_SUCCESS;
}

CUresult launch_host(CUstream stream, CUhostFn function, void *data) {
    ENTER_ON(stream, "cuLaunchHostFunc");
    on->add([=] { function(data); }, Work::Kind::host);
    return CUDA_SUCCESS;
}

namespace {

bool has_come(CUdeviceptr address, cuuint32_t value, unsigned flags) {
    auto *const word = reinterpret_cast<std::atomic<uint32_t> *>(address);
    const uint32_t now = word->load(std::memory_order_acquire);
    switch (flags) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return static_cast<int32_t>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & value) != 0;
    default:
        return ~(now | value) != 0;
    }
}

}  // namespace

// At memory that this driver knows: what was registered, for as long as the context that did it.
CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    ENTER_ON(stream, "cuStreamWaitValue32");
    const Pinned *const page = driver().pinned_at(address, sizeof value);
    if (!page || flags > CU_STREAM_WAIT_VALUE_NOR || address % sizeof value != 0) {
        on->broken |= on->captured != nullptr;
        return wrong("a stream would wait at memory that is not registered");
    }
    on->add({Work::Kind::wait, [=, made = static_cast<const Made &>(*page)] {
                 if (!made.is_dead()) return has_come(address, value, flags);
                 wrong("a stream waits at memory whose registration has gone");
                 return true;
             }});
    return CUDA_SUCCESS;
}

}  // namespace fake_cuda

using namespace fake_cuda;

// Both default streams are its one stream.
CUresult cuStreamSynchronize(CUstream stream) {
    std::unique_lock lock(driver().mutex);
    ++driver().calls["cuStreamSynchronize"];
    if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    const bool is_default = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
    Stream *const waited =
        is_default ? driver().application : stream_of(static_cast<void *>(stream));
    if (!waited) return CUDA_ERROR_INVALID_HANDLE;
    driver().changed.wait(lock, [&] { return waited->is_idle(); });
    return CUDA_SUCCESS;
}
