// SPDX-License-Identifier: Apache-2.0
// The copies of one loop between memory of devices and the host's. A thread for each device makes
// them, since a loop calls no driver before its end, and several are under way beside each other.
// Host memory for them comes from here, in slots of kMaxChunk bytes: it is pinned, and what has no
// slot is copied from and to memory that is not, which is slower. Thread: the loop's.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/bounce_memory.h"
#include "device/copy_progress.h"
#include "device/copy_streams.h"
#include "device/device.h"
#include "loop/worker.h"

namespace xfer {

// For the operations of this side, and for what peers ask for: neither waits for the other, so two
// engines whose operations wait for each other's answers have room for those.
constexpr uint32_t kBounceSlots = 64;

// Of a device, by its number: none of its copies has ended for so long; then they go on.
class CopierSink {
public:
    // False: not now. It is called again later, if the device stalls then.
    virtual bool on_stalled(int32_t device, uint64_t ns) = 0;
    virtual void on_moving(int32_t device, uint64_t ns) = 0;

protected:
    ~CopierSink() = default;
};

// What an event has beside XFER_EIO, by the `error` of on_copied(): origin and native code. Memory
// that is another allocation by now is told as memory that is not mapped.
inline std::pair<uint32_t, int32_t> copy_error(int32_t error) {
    using Told = std::pair<uint32_t, int32_t>;
    return error ? Told{XFER_ORIGIN_CUDA, error} : Told{XFER_ORIGIN_OS, EFAULT};
}

class Copier {
    class OfDevice;

public:
    using Way = CopyStreams::Way;
    enum class For : uint8_t { operations, requests };

    // Its user's, who keeps it until on_copied(), or until it was revoked.
    class Copy : Worker::Job {
    public:
        // Never from inside start(). XFER_EIO: `error` is the driver's, or 0 if the memory is not
        // that allocation any more; XFER_ENOMEM: of the host.
        virtual void on_copied(Status status, int32_t error) = 0;
        // True: it had not begun, and on_copied() does not follow.
        bool revoke();

    protected:
        ~Copy() = default;

    private:
        friend class Copier;
        void begin() noexcept override;
        void run() noexcept override;
        void done(Status status) override;
        Status check_memory();
        Status check_range(const DeviceRange &range);
        Status check_byte(uint64_t address, uint64_t id);
        Status open_streams();
        CopyStreams::Begun begin_copies();

        Copier *copier_ = nullptr;
        OfDevice *of_ = nullptr;
        Way way_ = Way::to_host;
        Memory memory_;
        std::vector<DeviceRange> ranges_;
        uint8_t *host_ = nullptr;
        uint32_t mark_ = 0;
        const BounceMemory *bounce_ = nullptr;  // to be pinned
        // ---- of the thread
        std::shared_ptr<CopyStreams> streams_;
        bool begun_ = false, gone_ = false;
        Status status_ = XFER_OK;
        int32_t error_ = 0;
    };

    // `device` is null: there is none. `stall_ns`: after which the sink is told.
    Copier(Loop &loop, const Device *device, uint64_t stall_ns, CopierSink &sink);
    ~Copier();
    void stop();  // with its loop; nothing is under way

    bool open();  // false: memory for slots lacks
    uint32_t free_slots(For whom) const;
    uint8_t *take_slot(For whom);
    void give_slot(uint8_t *slot);
    uint32_t number_of(const uint8_t *slot) const;  // counted from 0 in its own kind

    // Between these ranges of the device of `memory` and as many bytes at `host`. False: host
    // memory lacks.
    bool start(Copy &copy, Way way, const Memory &memory, std::span<const DeviceRange> ranges,
               uint8_t *host);

    // Each device, by its number.
    template <typename Visit>
    void each(Visit visit) const {
        for (const auto &[number, of] : devices_)
            visit(number, of.progress());
    }

private:
    class OfDevice final : TimerSink {
    public:
        OfDevice(Copier &copier, int32_t number)
            : worker(copier.loop_), copier_(copier), number_(number), progress_(copier.stall_ns_) {}
        ~OfDevice() { copier_.loop_.disarm(limit_); }
        void submit(Copy &copy);
        void ended() { moved(progress_.ended(copier_.loop_.now())); }
        void revoked() { moved(progress_.revoked(copier_.loop_.now())); }
        const CopyProgress &progress() const { return progress_; }

        std::shared_ptr<CopyStreams> streams;
        bool pinned = false;  // by these
        Worker worker;        // joined before them

    private:
        void on_timer(Timer &timer) override;
        void moved(std::optional<uint64_t> stalled_ns);
        void watch();

        Copier &copier_;
        const int32_t number_;
        CopyProgress progress_;
        Timer limit_{*this};  // not moved by each copy: they are many
    };

    std::vector<uint8_t *> &free(For whom) { return free_[static_cast<size_t>(whom)]; }
    uint32_t mark_of(const uint8_t *host) const;

    Loop &loop_;
    const Device *const device_;
    const uint64_t stall_ns_;
    CopierSink &sink_;
    BounceMemory memory_;
    std::vector<uint8_t *> free_[2];       // by For; none until a first copy asks
    std::map<int32_t, OfDevice> devices_;  // by its number
};

}  // namespace xfer
