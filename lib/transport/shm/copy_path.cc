// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/copy_path.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "util/memory.h"
#include "wire/proof.h"

namespace xfer::shm {

namespace {

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

Failure not_now(const char *why) {
    return {XFER_EAGAIN, XFER_ORIGIN_NONE, 0, why};
}

std::array<uint8_t, 16> make_nonce() {
    std::array<uint8_t, 16> nonce;
    random_bytes(nonce);
    return nonce;
}

}  // namespace

CopyPath::CopyPath(Loop &loop, stream::Buffers &buffers, const RendezvousSocket &rendezvous,
                   Owner &owner, End &mine, End &theirs)
    : loop_(loop),
      buffers_(buffers),
      rendezvous_(rendezvous),
      owner_(owner),
      nonce_(make_nonce()),
      importer_(rendezvous, mine, theirs),
      slots_(mine, theirs) {
    buffers_.pieces.reserve(kMaxPieces);  // so that no copy lacks memory
    mine.nonce = nonce_;
    mine.nonce_at.store(reinterpret_cast<uint64_t>(nonce_.data()));
}

CopyPath::~CopyPath() {
    loop_.disarm(claims_);
}

void CopyPath::start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) {
    sink_ = &sink;
    declined_sink_ = &declined;
    max_ops_ = max_ops;
}

// ---- regions that are exported, and imported

Result<ExportKey> CopyPath::export_region(RegionId region, const ExportedMemory &memory) {
    if (closing_) return not_now("the channel ends");
    const auto place = slots_.give(region);
    if (!place) return Failure{XFER_ENOMEM, XFER_ORIGIN_NONE, 0, "no slot is left"};
    RegionKey key{.slot = place->slot,
                  .stamp = place->stamp,
                  .base = reinterpret_cast<uint64_t>(memory.base),
                  .length = memory.length,
                  .access = memory.access};
    if (memory.fd < 0 || rendezvous_.pid() == ::getpid()) return encode(key);
    const bool writable = memory.access & kChanges;
    const MappingId mapping = mapping_of(memory.memory, writable);
    if (!slots_.mappings.contains(mapping)) {
        const Fd fd = open_again(memory.fd, writable);
        const int error = fd ? owner_.send_descriptor(mapping, fd.get()) : EBADF;
        if (error == EBADF) return encode(key);  // it can't be opened as it may be mapped
        if (error) return not_now("the rendezvous socket takes no descriptor");
        slots_.mappings.insert(mapping);
    }
    key.mapping = mapping.value;
    key.offset = memory.offset;
    return encode(key);
}

void CopyPath::take(MappingId mapping, Fd descriptor) {
    importer_.take(mapping, std::move(descriptor));
}

std::unique_ptr<Import> CopyPath::import(ConstBytes bytes) {
    const auto key = decode_region_key(bytes);
    if (!key || closing_) return nullptr;
    if (key->mapping) owner_.read_descriptors();
    return importer_.import(*key);
}

void CopyPath::drop(std::unique_ptr<Import> import) {
    for (Op &op : posted_)
        if (op.import == import.get()) op.import = nullptr;
}

bool CopyPath::withdrawn(RegionId region) {
    importer_.drop(memory_of(region));
    return true;
}

// ---- operations

std::optional<Moved> CopyPath::copy_now(const Import &import, Dir dir, const Piece &piece) {
    if (closing_) return std::nullopt;
    return importer_.copy_now(import, dir, piece);
}

bool CopyPath::post(Op &op) {
    if (closing_ || count_ == max_ops_) return false;
    ++count_;
    posted_.push_back(op);
    return true;
}

void CopyPath::flush() {
    while (Op *op = posted_.pop_front()) {
        if ((op->import && importer_.copy(*op, buffers_.pieces)) || op->unmapped)
            done_.push_back(*op);
        else
            declined_.push_back(*op);
    }
    loop_.defer(*this);
}

bool CopyPath::cancel(Op &op) {
    for (const Op &other : done_)
        if (&other == &op) return true;
    op.canceled = true;
    op.ListNode<InPath>::unlink();
    ended_.push_back(op);
    loop_.defer(*this);
    return true;
}

void CopyPath::run() {
    if (closing_) ended_.append(declined_);
    while (Op *op = ended_.pop_front()) {
        --count_;
        sink_->on_done(*op, op->canceled ? XFER_ECANCELED : XFER_EPEERLOST);
    }
    while (Op *op = done_.pop_front()) {
        --count_;
        sink_->on_done(*op, op->unmapped ? XFER_EIO : XFER_OK);
    }
    while (Op *op = declined_.pop_front()) {
        --count_;
        declined_sink_->on_declined(*op);
    }
    if (!closing_ || over_ || count_ || !is_quiet()) return;
    report_begun();
    over_ = true;
    if (sink_) sink_->on_down(why_);
    owner_.on_copies_over();
}

// ---- the end of a region, and of all of them

// An allocation that was made with the region ends, too: what is made next has another number.
bool CopyPath::retire(Target target, Status) {
    const auto region = target.region();
    if (!region) return true;  // a message is not exported
    for (const bool writable : {false, true})
        slots_.mappings.erase(mapping_of(memory_of(*region), writable));
    if (!slots_.has(*region) || slots_.retire(*region)) return true;
    look_again(true);
    return false;
}

void CopyPath::settle(bool dead) {
    const bool more = slots_.settle(dead, [&](RegionId region) { sink_->on_quiesced(region); });
    if (more) look_again(false);
}

void CopyPath::look_again(bool first) {
    if (first || next_look_ns_ == 0) next_look_ns_ = kFirstLookNs;
    loop_.arm(claims_, loop_.now() + next_look_ns_);
    next_look_ns_ = std::min(2 * next_look_ns_, kLastLookNs);
}

void CopyPath::on_timer(Timer &) {
    if (closing_) return run();
    settle(rendezvous_.gone());
}

void CopyPath::close(const Failure &why) {
    if (closing_) return;
    closing_ = true;
    why_ = why;
    ended_.append(posted_);
    loop_.defer(*this);
}

// Before the end is told, nobody copies any more.
bool CopyPath::is_quiet() {
    slots_.clear_all();
    if (slots_.claimed() && !rendezvous_.gone()) {
        look_again(false);
        return false;
    }
    settle(true);
    return true;
}

void CopyPath::report_begun() {
    if (!sink_) return;
    slots_.begun_notifications([&](NotificationId number, uint64_t key) {
        [[maybe_unused]] const bool told =
            catch_bad_alloc([&] { sink_->on_notification_begun(number, key); });
    });
}

}  // namespace xfer::shm
