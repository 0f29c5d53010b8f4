// SPDX-License-Identifier: Apache-2.0
// The part of a channel that copies by itself, and lets its neighbour do so. What can't be copied,
// and what was not imported, goes by the rings.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "transport/shm/channel.h"
#include "util/memory.h"

namespace xfer::shm {

namespace {

constexpr int kMostPackets = 512;  // that are read before a key: more than the socket holds
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

// ---- regions that are exported, and imported

// 0, or errno. Nothing that was to be sent before may wait still.
int ShmChannel::send_descriptor(MappingId mapping, int fd) {
    const uint64_t number = mapping.value;
    const ConstBytes bytes{reinterpret_cast<const uint8_t *>(&number), sizeof number};
    return words_.empty() ? rendezvous_.send(bytes, {&fd, 1}) : EAGAIN;
}

Result<ExportKey> ShmChannel::export_region(RegionId region, const ExportedMemory &memory) {
    if (stage_ != Stage::frames) return Failure{XFER_EAGAIN, XFER_ORIGIN_NONE, 0, "not ready"};
    const auto place = slots_->give(region);
    if (!place) return Failure{XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "no slot"};
    RegionKey key{.slot = place->slot,
                  .stamp = place->stamp,
                  .base = reinterpret_cast<uint64_t>(memory.base),
                  .length = memory.length,
                  .access = memory.access};
    if (memory.fd < 0 || rendezvous_.pid() == ::getpid()) return encode(key);
    const bool writable = memory.access & kChanges;
    const MappingId mapping = mapping_of(memory.memory, writable);
    if (slots_->mappings.insert(mapping).second) {
        const Fd fd = open_again(memory.fd, writable);
        const int error = fd ? send_descriptor(mapping, fd.get()) : EBADF;
        if (error) slots_->mappings.erase(mapping);
        if (error == EAGAIN) return Failure{XFER_EAGAIN, XFER_ORIGIN_NONE, 0, "socket is full"};
        if (error) return encode(key);
    }
    key.mapping = mapping.value;
    key.offset = memory.offset;
    return encode(key);
}

bool ShmChannel::hear_descriptor(Packet &packet) {
    const auto mapping = decode_mapping(packet.bytes);
    if (mapping && packet.fds.size() == 1) importer_->take(*mapping, std::move(packet.fds[0]));
    return mapping.has_value();
}

// A descriptor was sent before the key that names it, and a key is heard in the midst of a read of
// the rings: what else is found here is heard in a turn of its own.
void ShmChannel::read_descriptors() {
    for (int i = 0; i < kMostPackets; ++i) {
        const int error = kept_ ? *kept_ : rendezvous_.receive(heard_packet_);
        if (error == EAGAIN) return;
        const bool woken = !error && heard_packet_.is_bell();
        if (woken || (!error && hear_descriptor(heard_packet_)))
            kept_.reset();
        else
            kept_ = error;
        woken_ |= woken;
        loop_.defer(*this);
        if (kept_) return;
    }
}

std::unique_ptr<Import> ShmChannel::import(ConstBytes bytes) {
    const auto key = decode_region_key(bytes);
    if (!key || stage_ != Stage::frames) return nullptr;
    if (key->mapping) read_descriptors();
    return importer_->import(*key);
}

void ShmChannel::drop(std::unique_ptr<Import> import) {
    for (Op &op : posted_)
        if (op.import == import.get()) op.import = nullptr;
}

void ShmChannel::withdrawn(RegionId region) {
    if (importer_) importer_->drop(memory_of(region));
}

// ---- operations

bool ShmChannel::post(Op &op) {
    if (count_ == max_ops_) return false;
    if (stage_ == Stage::frames && op.import && importer_->can(op)) {
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

void ShmChannel::flush() {
    if (!frames_) return;
    frames_->path().flush();
    if (!posted_.empty()) copy_all();
}

void ShmChannel::copy_all() {
    bool rings = false;
    while (Op *op = posted_.pop_front()) {
        const bool may = stage_ == Stage::frames && op->import;
        if ((may && importer_->copy(*op, buffers_.pieces)) || op->unmapped) {
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
        target.region();  // a message is not exported, and lies in no allocation of its own
    return slots_ && region ? take_back(*region, left) : left;
}

// An allocation that was made with the region ends, too: what is made next has another number.
bool ShmChannel::take_back(RegionId region, bool left) {
    for (const bool writable : {false, true})
        slots_->mappings.erase(mapping_of(memory_of(region), writable));
    if (!slots_->has(region)) return left;
    const bool quiet = slots_->retire(region, !left);
    if (!quiet) look_again(true);
    return quiet;
}

void ShmChannel::on_quiesced(Target target) {
    const auto region = target.region();
    if (!region || !slots_->has(*region)) return path_sink_->on_quiesced(target);
    slots_->left(*region);
    settle(false);
}

void ShmChannel::settle(bool dead) {
    const bool more =
        slots_->settle(dead, [&](RegionId region) { path_sink_->on_quiesced(region); });
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
    if (!slots_) return true;
    slots_->clear_all();
    if (slots_->claimed() && !rendezvous_.gone()) {
        look_again(false);
        return false;
    }
    settle(true);
    return true;
}

void ShmChannel::tell_begun() {
    if (slots_)
        slots_->unseen([&](NotificationId number, uint64_t key) {
            [[maybe_unused]] const bool told =
                catch_bad_alloc([&] { path_sink_->on_notification_begun(number, key); });
        });
}

}  // namespace xfer::shm
