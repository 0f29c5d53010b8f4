// SPDX-License-Identifier: Apache-2.0
// A device of the simulated world. Its memory is buffers of the scenario's operations, which no
// path may touch: only its copies do, a while after they were asked for, and the observer hears of
// each.
#pragma once

#include "device/copy_streams.h"
#include "device/device.h"
#include "device/stream_call.h"
#include "sim_transport.h"

namespace xfer {

class SimDevice final : public Device {
public:
    // What is memory of the device, and where its allocation lies.
    class Memories {
    public:
        virtual bool find(const void *at, uint64_t &base, uint64_t &size) const = 0;

    protected:
        ~Memories() = default;
    };
    SimDevice(SimNet &net, const Memories &memories) : net_(net), memories_(memories) {}

    Status look(const void *address, uint64_t length, Memory &memory, Failure &why) const override;
    bool copies() const override { return true; }
    std::shared_ptr<CopyStreams> open_streams(int32_t number, uint64_t address, uint32_t marks,
                                              int32_t &error) const override;
    std::unique_ptr<StreamEntry> enter_stream(void *) const override { return nullptr; }

private:
    SimNet &net_;
    const Memories &memories_;
};

}  // namespace xfer
