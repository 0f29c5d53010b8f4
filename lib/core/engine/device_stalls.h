// SPDX-License-Identifier: Apache-2.0
// What the application is told of a device whose copies do not go on, of those of one loop:
// STALLED, and with XFER_OK once they do. While the user has the events of the last stall, or has
// not taken them, the next one waits.
#pragma once

#include <atomic>
#include <map>

#include "core/base/event.h"
#include "device/copier.h"

namespace xfer {

class ShardCore;

class DeviceStalls final : public CopierSink {
public:
    explicit DeviceStalls(ShardCore &shard) : shard_(shard) {}

    bool on_stalled(int32_t device, uint64_t ns) override;
    void on_moving(int32_t device, uint64_t ns) override;

private:
    class Word final : public EventNode {
    public:
        void released() override { untaken.store(false, std::memory_order_release); }
        std::atomic<bool> untaken{false};
        Text why;
    };
    struct Words {
        Word stalled, moving;
        bool told = false;
    };

    void tell(Word &word, int32_t device, uint64_t ns, const Failure &why);

    ShardCore &shard_;
    std::map<int32_t, Words> words_;  // by the number of the device
};

}  // namespace xfer
