// SPDX-License-Identifier: Apache-2.0
#include "loop/worker.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <csignal>
#include <new>

namespace xfer {

// What the thread of the parent held or waited for at the fork can't be taken apart here.
Worker::~Worker() {
    watch_.reset();
    const bool is_parent = ::getpid() == pid_;
    if (!is_parent) {
        new (&mutex_) std::mutex;
        new (&changed_) std::condition_variable;
        started_ = false;
    }
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (started_) ::pthread_join(thread_, nullptr);
    while (Job *job = is_parent && !started_ ? begun_.pop_front() : nullptr)
        job->run();  // of a simulated thread
    for (Jobs *jobs : {&urgent_, &queued_, &split_, &begun_, &over_})
        while (jobs->pop_front())
            continue;
}

// ---- the loop's side

void Worker::submit(Job &job, Jobs &queue) {
    const Status status = started_ ? XFER_OK : start();
    {
        const std::lock_guard lock(mutex_);
        job.status_ = status;
        job.state_ = status == XFER_OK ? Job::State::queued : Job::State::over;
        (status == XFER_OK ? queue : over_).push_back(job);
    }
    if (status == XFER_OK)
        changed_.notify_all();
    else
        loop_.defer(*this);
}

Status Worker::start() {
    if (loop_.simulate_thread(*this)) return XFER_OK;
    if (!bell_) bell_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_) return status_of_errno(errno);
    if (!watch_) watch_ = loop_.watch(bell_.get(), *this, kReadable);
    return watch_ ? start_thread() : XFER_ENOMEM;
}

// Signals are the application's, and go to threads of its own.
Status Worker::start_thread() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = ::pthread_create(&thread_, nullptr, work_for, this);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    started_ = error == 0;
    if (started_) return XFER_OK;
    return error == EAGAIN ? XFER_EAGAIN : XFER_ENOMEM;
}

bool Worker::revoke(Job &job) {
    const std::lock_guard lock(mutex_);
    if (job.state_ != Job::State::queued) return false;
    job.unlink();
    job.state_ = Job::State::over;
    return true;
}

void Worker::drop(Job &job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return job.state_ != Job::State::running; });
    job.unlink();
    job.state_ = Job::State::over;
}

void Worker::on_ready(uint32_t) {
    uint64_t rung;
    [[maybe_unused]] const ssize_t got = ::read(bell_.get(), &rung, sizeof rung);
    tell();
}

// A step of a simulated thread tells what the one before has run, so that time lies between the
// two. Without either there is nothing in the queues.
void Worker::run() {
    tell();
    std::unique_lock lock(mutex_);
    if (started_ || !has_jobs()) return;
    begin_split(lock);
    run_next(lock);
    loop_.simulate_thread(*this);
}

// What ends from now on rings again.
void Worker::tell() {
    Jobs over;
    {
        const std::lock_guard lock(mutex_);
        over.append(over_);
    }
    while (Job *job = over.pop_front())
        job->done(job->status_);
}

bool Worker::has_over() {
    const std::lock_guard lock(mutex_);
    return !over_.empty();
}

// ---- the thread

void *Worker::work_for(void *self) {
    static_cast<Worker *>(self)->work();
    return nullptr;
}

void Worker::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return stopping_ || has_jobs(); });
        if (!stopping_) begin_split(lock);
        if (stopping_ && begun_.empty()) return;
        run_next(lock);
        changed_.notify_all();
        ring();
    }
}

bool Worker::has_jobs() const {
    return !urgent_.empty() || !queued_.empty() || !split_.empty() || !begun_.empty();
}

void Worker::begin_split(std::unique_lock<std::mutex> &lock) {
    while (Job *job = split_.pop_front()) {
        job->state_ = Job::State::running;
        begun_.push_back(*job);
        lock.unlock();
        job->begin();
        lock.lock();
    }
}

void Worker::run_next(std::unique_lock<std::mutex> &lock) {
    Job &job = *pop_next();
    job.state_ = Job::State::running;
    lock.unlock();
    job.run();
    lock.lock();
    job.state_ = Job::State::over;
    over_.push_back(job);
}

Worker::Job *Worker::pop_next() {
    if (Job *job = begun_.pop_front()) return job;
    return urgent_.empty() ? queued_.pop_front() : urgent_.pop_front();
}

void Worker::ring() const {
    const uint64_t one = 1;
    while (::write(bell_.get(), &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

}  // namespace xfer
