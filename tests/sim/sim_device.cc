// SPDX-License-Identifier: Apache-2.0
#include "sim_device.h"

#include <cstring>
#include <deque>
#include <vector>

namespace xfer {

namespace {

// Copies are made when somebody waits for them, in order: as late as may be.
class SimStreams final : public CopyStreams {
public:
    explicit SimStreams(SimNet &net) : net_(net) {}

    Begun begin(Way way, std::span<const DeviceRange> ranges, uint8_t *host,
                uint32_t mark) override {
        copies_.push_back({way, {ranges.begin(), ranges.end()}, host, mark});
        return {0, true, false};
    }
    int32_t wait(uint32_t mark) override {
        for (bool found = false; !found && !copies_.empty(); copies_.pop_front()) {
            found = copies_.front().mark == mark;
            move(copies_.front());
        }
        return 0;
    }
    int32_t wait_all() override {
        for (; !copies_.empty(); copies_.pop_front())
            move(copies_.front());
        return 0;
    }
    bool pin(uint8_t *, uint64_t) override { return true; }

private:
    struct Copy {
        Way way;
        std::vector<DeviceRange> ranges;
        uint8_t *host;
        uint32_t mark;
    };

    void move(const Copy &copy) {
        ++net_.met["copied by a device"];
        uint8_t *host = copy.host;
        const bool put = net_.bounced.contains(copy.host) && copy.way == Way::to_device;
        for (const DeviceRange &range : copy.ranges) {
            auto *const device = reinterpret_cast<uint8_t *>(range.address);
            if (copy.way == Way::to_host) {
                if (net_.observer) net_.observer->reads(device);
                std::memcpy(host, device, range.length);
            } else {
                land(copy.host, device, range.length);
                std::memcpy(device, host, range.length);
            }
            host += range.length;
        }
        if (put) net_.bounced.erase(copy.host);
    }

    void land(const uint8_t *bounce, const uint8_t *device, uint64_t bytes) {
        const auto put = net_.bounced.find(bounce);
        if (!net_.observer) return;
        if (put == net_.bounced.end()) return net_.observer->writes(device);
        const SimNet::Bounced &of = put->second;
        ++net_.met["landed on a device"];
        net_.observer->lands(of.operation, of.owner, of.from, of.generation, device, bytes);
    }

    SimNet &net_;
    std::deque<Copy> copies_;
};

}  // namespace

Status SimDevice::look(const void *address, uint64_t, Memory &memory, Failure &) const {
    memory = {};
    if (!memories_.find(address, memory.base, memory.size)) return XFER_OK;
    memory.kind = XFER_MEM_CUDA;
    memory.origin = Memory::Origin::allocated;
    memory.device = 0;
    return XFER_OK;
}

std::shared_ptr<CopyStreams> SimDevice::open_streams(int32_t, uint64_t, uint32_t, int32_t &) const {
    return std::make_shared<SimStreams>(net_);
}

}  // namespace xfer
