// SPDX-License-Identifier: Apache-2.0
// A thread for calls that would block its loop, as those that pin pages. The first job starts it;
// jobs run one at a time, urgent ones first, each kind in the order in which it was given in. A
// simulated loop has no thread for it, and runs its jobs as steps of its own.
// Thread: the loop's, but for Job::run().
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>

#include "loop/loop.h"
#include "util/fd.h"
#include "util/list.h"
#include "util/status.h"

namespace xfer {

class Worker final : WatchSink, Task {
public:
    // Its user's, who keeps it until it has ended or was dropped.
    class Job : public ListNode<Worker> {
    public:
        // On the worker's thread, both. What submit_split() gave in begins ahead of its run, which
        // waits for what the begin has started: several go on beside each other.
        virtual void begin() noexcept {}
        virtual void run() noexcept = 0;
        // On the loop's, afterwards, and never from inside submit(); it may give in any job.
        // XFER_OK: it has run; else it has not, as there is no thread, and why.
        virtual void done(Status status) = 0;

    protected:
        ~Job() = default;

    private:
        friend class Worker;
        enum class State : uint8_t { queued, running, over };
        State state_ = State::over;
        Status status_ = XFER_OK;
    };

    explicit Worker(Loop &loop) : loop_(loop) {}
    // Waits for the jobs that have begun. Those that have not never will, and nobody is told of
    // any. Not inside done(). In the child of a fork, where there is no such thread, it is
    // forgotten.
    ~Worker();
    Worker(const Worker &) = delete;
    Worker &operator=(const Worker &) = delete;

    // They need no memory once the thread is there.
    void submit(Job &job) { submit(job, queued_); }
    // Ahead of all others that have not begun: what somebody waits for. It depends on none of them.
    void submit_urgent(Job &job) { submit(job, urgent_); }
    // Begins as soon as no other runs, and runs behind those that have begun before it. A worker
    // has either these or others.
    void submit_split(Job &job) { submit(job, split_); }
    // True: it had not begun, never will, and nobody is told. False: done() follows.
    bool revoke(Job &job);
    // As revoke(), but waits for it where it runs; it is not told then, either. One that is not
    // under way is left alone.
    void drop(Job &job);
    bool has_over();  // done() of one follows

private:
    using Jobs = List<Job, Worker>;

    void submit(Job &job, Jobs &queue);
    void begin_split(std::unique_lock<std::mutex> &lock);
    bool has_jobs() const;
    Job *pop_next();
    Status start();
    Status start_thread();
    static void *work_for(void *self);
    void work();
    void run_next(std::unique_lock<std::mutex> &lock);
    void on_ready(uint32_t readiness) override;
    void run() override;
    void tell();
    void ring() const;

    Loop &loop_;
    const pid_t pid_ = ::getpid();
    Fd bell_;  // rung by the thread
    std::unique_ptr<Watch> watch_;
    pthread_t thread_{};
    bool started_ = false;

    std::mutex mutex_;
    std::condition_variable changed_;
    Jobs urgent_, queued_, split_, over_;
    Jobs begun_;  // of split_, and not run yet
    bool stopping_ = false;
};

}  // namespace xfer
