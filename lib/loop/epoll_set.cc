// SPDX-License-Identifier: Apache-2.0
#include "loop/epoll_set.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "util/memory.h"

namespace xfer {

class EpollWatch final : public Watch, public ListNode<> {
public:
    EpollWatch(EpollSet &set, int of, WatchSink &to, uint32_t readiness)
        : fd(of), sink(to), wanted(readiness), told(readiness), set_(set) {}
    ~EpollWatch() override { set_.remove(*this); }
    void want(uint32_t readiness) override {
        wanted = readiness;
        if (wanted != told && !linked()) set_.changed_.push_back(*this);
    }

    const int fd;
    WatchSink &sink;
    uint32_t wanted;
    uint32_t told;    // to the kernel
    uint64_t id = 0;  // its slot, and above that how often the slot was used
    bool added = false;

private:
    EpollSet &set_;
};

namespace {

constexpr uint64_t kNobody = UINT64_MAX;

uint32_t slot_of(uint64_t id) {
    return static_cast<uint32_t>(id);
}

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
    event.data.u64 = watch.id;
    return epoll_ctl(set_.get(), operation, watch.fd, &event) == 0;
}

bool EpollSet::add_edge(int fd) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = kNobody;
    return epoll_ctl(set_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

std::unique_ptr<Watch> EpollSet::watch(int fd, WatchSink &sink, uint32_t wanted) {
    std::unique_ptr<EpollWatch> watch;
    const bool made = catch_bad_alloc([&] {
        if (first_free_ == slots_.size())
            slots_.push_back({nullptr, 0, static_cast<uint32_t>(slots_.size() + 1)});
        watch = std::make_unique<EpollWatch>(*this, fd, sink, wanted);
    });
    if (!made) return nullptr;
    Slot &slot = slots_[first_free_];
    watch->id = uint64_t{++slot.used} << 32 | first_free_;
    slot.watch = watch.get();
    first_free_ = slot.next_free;
    ++watching_;
    watch->added = control(EPOLL_CTL_ADD, *watch);
    if (!watch->added) return nullptr;
    return watch;
}

// Its descriptor may be closed and its number come back right after this.
void EpollSet::remove(EpollWatch &watch) {
    --watching_;
    if (watch.added) control(EPOLL_CTL_DEL, watch);  // other processes may hold the file open
    Slot &slot = slots_[slot_of(watch.id)];
    slot.watch = nullptr;
    slot.next_free = first_free_;
    first_free_ = slot_of(watch.id);
}

EpollWatch *EpollSet::find(uint64_t id) const {
    if (id == kNobody) return nullptr;
    EpollWatch *watch = slots_[slot_of(id)].watch;
    return watch && watch->id == id ? watch : nullptr;
}

void EpollSet::apply_changes() {
    while (EpollWatch *watch = changed_.pop_front()) {
        if (watch->wanted == watch->told) continue;
        watch->told = watch->wanted;
        XFER_CHECK(control(EPOLL_CTL_MOD, *watch));  // asks for no memory
    }
}

bool EpollSet::wait(uint64_t ns) {
    XFER_CHECK(next_ == count_);
    next_ = count_ = 0;
    if (forked_) return false;
    const uint64_t ms = ns / kNsPerMs + (ns % kNsPerMs != 0);  // never too short
    const int limit = ns == kNever ? -1 : static_cast<int>(std::min<uint64_t>(ms, INT_MAX));
    const int found = epoll_wait(set_.get(), ready_, kAtOnce, limit);
    if (found > 0) count_ = found;
    return count_ > 0;
}

bool EpollSet::deliver() {
    while (next_ < count_) {
        const epoll_event &event = ready_[next_++];
        EpollWatch *watch = find(event.data.u64);
        if (!watch) continue;
        const uint32_t ready = readiness_of(event.events, watch->wanted);
        if (!ready) continue;
        watch->sink.on_ready(ready);  // may end this watch, and others
        return true;
    }
    return false;
}

}  // namespace xfer
