// SPDX-License-Identifier: Apache-2.0
// What a test has the application do in its streams, and how it holds them up.
#include <cstring>
#include <vector>

#include "fake_driver.h"
#include "streams.h"

using namespace fake_cuda;
using std::chrono::milliseconds;

static constexpr milliseconds kPatience{20000};  // far beyond what a stream needs

static void add_write(Stream &stream, void *to, const void *from, size_t size) {
    const auto *const bytes = static_cast<const uint8_t *>(from);
    stream.add([=, content = std::vector<uint8_t>(bytes, bytes + size)] {
        uint8_t *const target = driver().seen_by_kernels(to, size);
        if (target)
            std::memcpy(target, content.data(), size);
        else
            wrong("a stream writes where nothing is");
    });
}

void *fake_cuda_stream(void) {
    const std::lock_guard lock(driver().mutex);
    auto *const made = new Stream;
    const Context *const context = driver().of_application();
    static_cast<Made &>(*made) = {context, context->id};
    driver().streams.insert(made);
    return made;
}

void fake_cuda_end_stream(void *stream) {
    Stream *const ended = static_cast<Stream *>(stream);
    {
        std::unique_lock lock(driver().mutex);
        ended->stopping = true;
        driver().changed.notify_all();
        if (!driver().changed.wait_for(lock, kPatience, [&] { return ended->is_idle(); }))
            die("a stream", "it waits for ever");
        driver().streams.erase(ended);
        if (driver().application == ended) driver().application = nullptr;
    }
    ended->thread.join();
    delete ended;
}

void *fake_cuda_write_later(void *to, const void *from, size_t size, unsigned ms) {
    const std::lock_guard lock(driver().mutex);
    Stream &stream = *application_stream();
    stream.not_before = std::chrono::steady_clock::now() + milliseconds(ms);
    add_write(stream, to, from, size);
    return &stream;
}

void fake_cuda_write_on(void *stream, void *to, const void *from, size_t size) {
    const std::lock_guard lock(driver().mutex);
    add_write(*stream_of(stream), to, from, size);
}

void fake_cuda_copy_on(void *stream, void *to, const void *from, size_t size) {
    const std::lock_guard lock(driver().mutex);
    stream_of(stream)->add([=] {
        uint8_t *const target = driver().seen_by_kernels(to, size);
        const uint8_t *const source = driver().seen_by_kernels(from, size);
        if (target && source)
            std::memcpy(target, source, size);
        else
            wrong("a kernel uses what is not there");
    });
}

int fake_cuda_idle(void *stream, unsigned ms) {
    std::unique_lock lock(driver().mutex);
    const Stream *const waited = stream_of(stream);
    return driver().changed.wait_for(lock, milliseconds(ms), [&] { return waited->is_idle(); });
}

int fake_cuda_waits(void *stream) {
    const std::lock_guard lock(driver().mutex);
    return stream_of(stream)->waits;
}

void fake_cuda_hold(int held) {
    const std::lock_guard lock(driver().mutex);
    driver().held = held;
    driver().changed.notify_all();
}

void fake_cuda_hold_copies(int held) {
    const std::lock_guard lock(driver().mutex);
    driver().copies_held = held;
    driver().changed.notify_all();
}

void fake_cuda_hold_stream(void *stream, int held) {
    const std::lock_guard lock(driver().mutex);
    stream_of(stream)->held = held;
    driver().changed.notify_all();
}

void fake_cuda_share(int shares) {
    const std::lock_guard lock(driver().mutex);
    driver().shares = shares;
    driver().changed.notify_all();
}
