// SPDX-License-Identifier: Apache-2.0
#include "loop/epoll_set.h"

#include <fcntl.h>

#include <cerrno>

namespace xfer {

class EpollWatch final : public Watch, public ListNode<> {
public:
    EpollWatch(EpollSet &set, int of, WatchSink &to, uint32_t readiness)
        : fd(of), sink(to), wanted(readiness), told(readiness), set_(set) {}
    ~EpollWatch() override {
        if (added) set_.remove(*this);
    }
    void want(uint32_t readiness) override {
        wanted = readiness;
        if (wanted != told && !linked()) set_.changed_.push_back(*this);
    }

    const int fd;
    WatchSink &sink;
    uint32_t wanted;
    uint32_t told;  // to the kernel
    bool added = false;

private:
    EpollSet &set_;
};

namespace {

uint32_t events_of(uint32_t wanted) {
    // Errors and the end are always reported: of a paused one only once, not in every turn.
    if (!wanted) return EPOLLET;
    uint32_t events = 0;
    if (wanted & kReadable) events |= EPOLLIN;
    if (wanted & kWritable) events |= EPOLLOUT;
    return events;
}

uint32_t readiness_of(uint32_t events, uint32_t wanted) {
    constexpr uint32_t kBoth = kReadable | kWritable;
    if (!wanted) return 0;                // paused since
    if (events & EPOLLERR) return kBoth;  // the user's system call finds out what is wrong
    uint32_t ready = 0;
    if (events & EPOLLIN) ready |= kReadable;
    if (events & EPOLLOUT) ready |= kWritable;
    if (events & EPOLLHUP) ready |= kBoth;
    return ready & wanted;
}

}  // namespace

Failure EpollSet::open() {
    set_ = Fd(epoll_create1(EPOLL_CLOEXEC));
    if (!set_) return os_failure(errno, "epoll_create1");
    return {};
}

void EpollSet::forked() {
    forked_ = true;
    count_ = next_ = 0;
    Fd fresh(epoll_create1(EPOLL_CLOEXEC));
    if (fresh) dup3(fresh.get(), set_.get(), O_CLOEXEC);
}

EpollSet::~EpollSet() {
    XFER_CHECK(watching_ == 0);
}

bool EpollSet::control(int operation, EpollWatch &watch) {
    if (forked_) return true;
    epoll_event event{};
    event.events = events_of(watch.wanted);
    event.data.ptr = &watch;
    return epoll_ctl(set_.get(), operation, watch.fd, &event) == 0;
}

std::unique_ptr<Watch> EpollSet::watch(int fd, WatchSink &sink, uint32_t wanted) {
    std::unique_ptr<EpollWatch> watch(new (std::nothrow) EpollWatch(*this, fd, sink, wanted));
    if (!watch || !control(EPOLL_CTL_ADD, *watch)) return nullptr;
    watch->added = true;
    ++watching_;
    return watch;
}

// Its descriptor may be closed and its number come back right after this.
void EpollSet::remove(EpollWatch &watch) {
    --watching_;
    control(EPOLL_CTL_DEL, watch);  // other processes may hold the file open
    for (int i = next_; i < count_; ++i)
        if (ready_[i].data.ptr == &watch) ready_[i].data.ptr = nullptr;
}

void EpollSet::apply_changes() {
    while (EpollWatch *watch = changed_.pop_front()) {
        if (watch->wanted == watch->told) continue;
        watch->told = watch->wanted;
        XFER_CHECK(control(EPOLL_CTL_MOD, *watch));  // asks for no memory
    }
}

void EpollSet::collect() {
    XFER_CHECK(next_ == count_);
    next_ = count_ = 0;
    if (forked_) return;
    const int found = epoll_wait(set_.get(), ready_, kAtOnce, 0);
    if (found > 0) count_ = found;
}

bool EpollSet::deliver() {
    while (next_ < count_) {
        const epoll_event &event = ready_[next_++];
        EpollWatch *watch = static_cast<EpollWatch *>(event.data.ptr);
        if (!watch) continue;
        const uint32_t ready = readiness_of(event.events, watch->wanted);
        if (!ready) continue;
        watch->sink.on_ready(ready);  // may end this watch, and others
        return true;
    }
    return false;
}

}  // namespace xfer
