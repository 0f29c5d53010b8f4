// SPDX-License-Identifier: Apache-2.0
// The part of a channel that copies by itself, and lets its neighbour do so. What can't be copied,
// and what is not known yet, goes by the rings.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "transport/shm/channel.h"
#include "util/memory.h"

namespace xfer::shm {

namespace {

constexpr size_t kMaxAsking = 64;  // questions of the neighbour's that wait for an answer
// Between two looks at who copies still: a copy takes some ten microseconds, and one that does not
// end is of a process that is stopped.
constexpr uint64_t kFirstLookNs = 50'000, kLastLookNs = 50 * kNsPerMs;

// Its owner may let it be read only.
Fd open_again(int fd, bool writable) {
    if (writable) return Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    // Without waiting for whoever may hold a lease on it.
    return Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace

// ---- words

void ShmChannel::tell(const Word &word, Fd along) {
    Packet packet;
    const ConstBytes bytes = encode(word);
    packet.bytes.assign(bytes.begin(), bytes.end());
    if (along) packet.fds.push_back(std::move(along));
    words_.push_back(std::move(packet));
    loop_.defer(*this);
}

void ShmChannel::hear(const Word &word, std::vector<Fd> fds) {
    if (stage_ != Stage::frames) return;
    switch (word.kind) {
    case Word::Kind::show:
        return show(word);
    case Word::Kind::shown:
        return imports_->hear(word, std::move(fds));
    case Word::Kind::hide:
        return imports_->hide({word.region});
    case Word::Kind::drop:
        return imports_->drop({word.mapping});
    }
    close({XFER_EPROTO, XFER_ORIGIN_NONE, 0, remote_ + ": a word that nobody says"});
}

void ShmChannel::show(const Word &asked) {
    if (words_.size() > kMaxAsking + kSlots)
        return close({XFER_EPROTO, XFER_ORIGIN_NONE, 0, remote_ + ": asks and does not listen"});
    Word answer;
    answer.kind = Word::Kind::shown;
    answer.region = asked.region;
    Access access;
    access.region = asked.region;
    access.generation = static_cast<uint32_t>(asked.generation);
    access.key = asked.key;
    Reach reach;
    const Status status = path_sink_->on_reach(access, reach);
    const auto place = status == XFER_OK ? exports_->show({asked.region}) : std::nullopt;
    if (!place) {
        answer.status = 1;
        return tell(answer);
    }
    answer.slot = place->slot;
    answer.stamp = place->stamp;
    answer.base = reinterpret_cast<uint64_t>(reach.base);
    answer.length = reach.length;
    answer.access = reach.access;
    Fd along;
    if (reach.fd >= 0 && rendezvous_.pid() != ::getpid()) {
        const bool writable = reach.access & kChanges;
        const MappingId mapping = mapping_of(reach.memory, writable);
        if (!exports_->mappings.contains(mapping)) along = open_again(reach.fd, writable);
        if (along) exports_->mappings.insert(mapping);
        if (exports_->mappings.contains(mapping)) {
            answer.mapping = mapping.value;
            answer.offset = reach.offset;
        }
    }
    tell(answer, std::move(along));
}

// ---- operations

bool ShmChannel::post(Op &op) {
    if (count_ == max_ops_) return false;
    if (copies(op)) {
        op.sent = op.canceled = op.unmapped = false;
        posted_.push_back(op);
    } else if (!give_to_rings(op, false)) {
        return false;
    }
    ++count_;
    return true;
}

// What was noted or copied in part counts as sent, whatever becomes of it there.
bool ShmChannel::give_to_rings(Op &op, bool seen) {
    if (frames_ && frames_->path().post(op)) return op.sent = seen, true;
    if (stage_ != Stage::closing) return false;
    op.sent = seen;
    canceled_.push_back(op);  // it ends with the channel
    loop_.defer(*this);
    return true;
}

bool ShmChannel::copies(Op &op) {
    if (stage_ != Stage::frames) return false;
    const ImportTable::Way way = imports_->way(op);
    if (way == ImportTable::Way::ask) {
        [[maybe_unused]] const bool asked = catch_bad_alloc([&] { tell(imports_->question(op)); });
    }
    return way == ImportTable::Way::copy;
}

void ShmChannel::flush() {
    if (!frames_) return;
    frames_->path().flush();
    if (!posted_.empty()) copy_all();
}

void ShmChannel::copy_all() {
    bool rings = false;
    while (Op *op = posted_.pop_front()) {
        if ((stage_ == Stage::frames && imports_->copy(*op, buffers_.pieces)) || op->unmapped) {
            done_.push_back(*op);
            continue;
        }
        rings = true;
        if (give_to_rings(*op, op->sent)) continue;
        canceled_.push_back(*op);  // the peer allows less than it said: it ends with the channel
        loop_.defer(*this);
        close({XFER_EPROTO, XFER_ORIGIN_NONE, 0, remote_ + ": no room for what it allowed"});
    }
    if (rings) frames_->path().flush();
    if (!done_.empty()) loop_.defer(*this);
}

bool ShmChannel::cancel(Op &op) {
    const auto among = [&](Ops &ops) {
        for (const Op &other : ops)
            if (&other == &op) return true;
        return false;
    };
    if (among(done_)) return true;
    if (!among(posted_)) return frames_->path().cancel(op);
    op.canceled = true;
    op.ListNode<InPath>::unlink();
    canceled_.push_back(op);
    loop_.defer(*this);
    return true;
}

void ShmChannel::told() {
    while (Op *op = canceled_.pop_front())
        on_done(*op, op->canceled ? XFER_ECANCELED : XFER_EPEERLOST);
    while (Op *op = done_.pop_front())
        on_done(*op, op->unmapped ? XFER_EIO : XFER_OK);
}

// ---- the end of a region, and of all of them

bool ShmChannel::retire(Target target, Status why) {
    if (!frames_) return true;
    const bool left = frames_->path().retire(target, why);
    const auto region =
        target.region();  // a message is not shown, and lies in no memory of its own
    return exports_ && region ? take_back(*region, left) : left;
}

bool ShmChannel::take_back(RegionId region, bool left) {
    const bool shown = exports_->has(region);
    const bool quiet = shown ? exports_->retire(region, !left) : left;
    const bool told = catch_bad_alloc([&] {
        if (shown) tell({.kind = Word::Kind::hide, .region = region.value});
        for (const bool writable : {false, true}) {
            const MappingId mapping = mapping_of(memory_of(region), writable);
            if (exports_->mappings.erase(mapping))
                tell({.kind = Word::Kind::drop, .mapping = mapping.value});
        }
    });
    if (!told) close(no_memory());
    if (shown && !quiet) look_again(true);
    return quiet;
}

void ShmChannel::on_quiesced(Target target) {
    const auto region = target.region();
    if (!region || !exports_->has(*region)) return path_sink_->on_quiesced(target);
    exports_->left(*region);
    settle(false);
}

void ShmChannel::settle(bool dead) {
    const bool more =
        exports_->settle(dead, [&](RegionId region) { path_sink_->on_quiesced(region); });
    if (more) look_again(false);
}

void ShmChannel::look_again(bool first) {
    if (first || next_look_ns_ == 0) next_look_ns_ = kFirstLookNs;
    loop_.arm(claims_, loop_.now() + next_look_ns_);
    next_look_ns_ = std::min(2 * next_look_ns_, kLastLookNs);
}

void ShmChannel::on_timer(Timer &timer) {
    if (&timer == &unheard_) return close(gone_);
    if (stage_ == Stage::closing && !rings_) return finish();
    settle(rendezvous_.gone());
}

// Before the end is told, nobody copies any more.
bool ShmChannel::gone_quiet() {
    if (!exports_) return true;
    exports_->clear_all();
    if (exports_->claimed() && !rendezvous_.gone()) {
        look_again(false);
        return false;
    }
    settle(true);
    return true;
}

void ShmChannel::tell_begun() {
    if (exports_)
        exports_->unseen([&](NotificationId number, uint64_t key) {
            [[maybe_unused]] const bool told =
                catch_bad_alloc([&] { path_sink_->on_notification_begun(number, key); });
        });
}

}  // namespace xfer::shm
