// SPDX-License-Identifier: Apache-2.0
#include "device/copier.h"

#include <utility>

#include "util/memory.h"
#include "wire/limits.h"

namespace xfer {

namespace {

constexpr uint64_t kOneKind = uint64_t{kBounceSlots} * kMaxChunk;
// One for each slot, and one for all other memory: its last copy is waited for.
constexpr uint32_t kMarks = 2 * kBounceSlots + 1;

}  // namespace

// ---- the thread of a device

// Streams of a context that has gone since are opened again.
void Copier::Copy::begin() noexcept {
    begun_ = false;
    const bool known = of_->streams != nullptr;
    CopyStreams::Begun begun = begin_copies();
    if (begun.gone && !begun.any && known) {
        of_->streams.reset();
        begun = begin_copies();
    }
    begun_ = streams_ && (begun.any || !begun.error);
    gone_ = begun.gone;
    error_ = begun.error;
    if (error_) status_ = XFER_EIO;
}

CopyStreams::Begun Copier::Copy::begin_copies() {
    error_ = 0;
    streams_.reset();
    status_ = check_memory();
    if (status_ == XFER_OK && !of_->streams) status_ = open_streams();
    if (status_ != XFER_OK) return {error_, false, false};
    streams_ = of_->streams;
    if (bounce_ && !std::exchange(of_->pinned, true)) bounce_->pin(*streams_);
    return streams_->begin(way_, ranges_, host_, mark_);
}

// An address that was freed may be another allocation's. Each is asked about where it comes first.
Status Copier::Copy::check_memory() {
    uint64_t known = 0;
    for (const DeviceRange &range : ranges_) {
        if (range.id && range.id == known) continue;
        known = range.id;
        if (Status status = check_range(range); status != XFER_OK) return status;
    }
    return XFER_OK;
}

// Of what may lie in many allocations there is no id: both ends have to be there. A copy from or to
// a place where nothing is mapped would break the context for good.
Status Copier::Copy::check_range(const DeviceRange &range) {
    const Status status = check_byte(range.address, range.id);
    if (status != XFER_OK || range.id) return status;
    return check_byte(range.address + range.length - 1, 0);
}

// `id`: of its allocation; 0: any of the device.
Status Copier::Copy::check_byte(uint64_t address, uint64_t id) {
    Memory now;
    Failure why;
    Status status = XFER_ENOMEM;
    const auto *const at = reinterpret_cast<const void *>(address);
    if (!catch_bad_alloc([&] { status = copier_->device_->look(at, 1, now, why); })) return status;
    const bool same = id ? now.id == id : now.kind != XFER_MEM_HOST;
    if (status == XFER_OK) return same ? XFER_OK : XFER_EIO;
    error_ = why.native;
    return XFER_EIO;
}

// XFER_ENOMEM: of the host.
Status Copier::Copy::open_streams() {
    int32_t error = 0;
    std::shared_ptr<CopyStreams> made;
    const uint64_t within = ranges_.empty() ? memory_.base : ranges_.front().address;
    const bool tried = catch_bad_alloc(
        [&] { made = copier_->device_->open_streams(memory_.device, within, kMarks, error); });
    error_ = error;
    if (!made) return tried ? XFER_EIO : XFER_ENOMEM;
    of_->streams = std::move(made);
    of_->pinned = false;
    return XFER_OK;
}

// Behind a copy that failed, none of its chunk goes on.
void Copier::Copy::run() noexcept {
    const auto streams = std::move(streams_);
    if (!begun_) return;
    const int32_t ended = error_ ? streams->wait_all() : streams->wait(mark_);
    if (!error_) error_ = ended;
    if (error_) status_ = XFER_EIO;
    if (gone_ && of_->streams == streams) of_->streams.reset();
}

// ---- the loop's

bool Copier::Copy::revoke() {
    const bool revoked = of_->worker.revoke(*this);
    if (revoked) of_->revoked();
    return revoked;
}

void Copier::Copy::done(Status status) {
    of_->ended();
    const int32_t error = status == XFER_OK ? error_ : 0;
    if (status == XFER_OK) status = status_;
    if (status == XFER_EAGAIN) status = XFER_ENOMEM;  // of the thread: no ROOM follows
    on_copied(status, error);
}

void Copier::OfDevice::submit(Copy &copy) {
    // The turn may have been long already.
    progress_.began(progress_.under_way() ? copier_.loop_.now() : copier_.loop_.clock());
    watch();
    worker.submit_split(copy);
}

void Copier::OfDevice::moved(std::optional<uint64_t> stalled_ns) {
    watch();
    if (stalled_ns) copier_.sink_.on_moving(number_, *stalled_ns);
}

void Copier::OfDevice::watch() {
    const std::optional<uint64_t> due = progress_.due();
    if (due && !limit_.armed()) copier_.loop_.arm(limit_, *due);
}

void Copier::OfDevice::on_timer(Timer &) {
    const uint64_t now = copier_.loop_.now();
    const bool untold = progress_.look(now, worker.has_over()) &&
                        !copier_.sink_.on_stalled(number_, progress_.still_ns(now));
    if (untold) return copier_.loop_.arm(limit_, now + copier_.stall_ns_);
    watch();
}

Copier::Copier(Loop &loop, const Device *device, uint64_t stall_ns, CopierSink &sink)
    : loop_(loop), device_(device), stall_ns_(stall_ns), sink_(sink) {}

Copier::~Copier() {
    stop();
}

void Copier::stop() {
    devices_.clear();
    for (auto &kind : free_)
        kind.clear();
    memory_ = {};
}

bool Copier::open() {
    if (memory_.data()) return true;
    BounceMemory memory = BounceMemory::take(2 * kOneKind);
    if (!memory.data()) return false;
    uint8_t *const end = memory.data() + 2 * kOneKind;
    const bool made = catch_bad_alloc([&] {
        for (auto &kind : free_)
            kind.reserve(kBounceSlots);
    });
    if (!made) return false;
    // The first is the next.
    for (uint32_t i = 1; i <= 2 * kBounceSlots; ++i)
        free_[i <= kBounceSlots].push_back(end - uint64_t{i} * kMaxChunk);
    memory_ = std::move(memory);
    return true;
}

uint32_t Copier::free_slots(For whom) const {
    return static_cast<uint32_t>(free_[static_cast<size_t>(whom)].size());
}

uint8_t *Copier::take_slot(For whom) {
    uint8_t *const slot = free(whom).back();
    free(whom).pop_back();
    return slot;
}

void Copier::give_slot(uint8_t *slot) {
    const bool first = slot < memory_.data() + kOneKind;
    free(first ? For::operations : For::requests).push_back(slot);
}

uint32_t Copier::number_of(const uint8_t *slot) const {
    return mark_of(slot) % kBounceSlots;
}

uint32_t Copier::mark_of(const uint8_t *host) const {
    const auto offset = static_cast<uint64_t>(host - memory_.data());
    if (!memory_.data() || offset >= 2 * kOneKind) return kMarks - 1;
    return static_cast<uint32_t>(offset / kMaxChunk);
}

bool Copier::start(Copy &copy, Way way, const Memory &memory, std::span<const DeviceRange> ranges,
                   uint8_t *host) {
    const bool kept = catch_bad_alloc([&] {
        copy.of_ = &devices_.try_emplace(memory.device, *this, memory.device).first->second;
        copy.ranges_.assign(ranges.begin(), ranges.end());
    });
    if (!kept) return false;
    copy.copier_ = this;
    copy.way_ = way;
    copy.memory_ = memory;
    copy.host_ = host;
    copy.mark_ = mark_of(host);
    copy.bounce_ = memory_.data() ? &memory_ : nullptr;
    copy.of_->submit(copy);
    return true;
}

}  // namespace xfer
